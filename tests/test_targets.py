"""bench/targets.py: every main case of the full suite has its target, and a record is judged by them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import targets
from bench_records import full_record, record_of, row_of
from targets import Target, target_of, verdicts

from vkdml.bench import cases, record, record_file, suites
from vkdml.bench.cases import Case
from vkdml.bench.record import Times

FULL = suites.suite("full")
NAMES = {case.name for case in FULL}


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ("all axes", {4400, 4450}),
        ("last axis", {4300}),
        ("axis 0", {4300, 4000}),
        ("short rows", {4200, 3800}),
        ("short columns", {4300, 3800}),
        ("middle axis", {4200}),
        ("axes 0 and 2", {4200}),
        ("segmentation", {4100, 4000, 3600}),
        ("150 classes", {4300, 4200, 3800}),
        ("cube", {4450, 4200, 3800}),
        ("stack of 8", {4000, 4200, 3800}),
        ("logits", {6, 7, 8, 10, 14, 24, 42}),
        ("small", {4.5}),
        ("sizes", {7, 8, 10, 22, 66}),
        ("slice1", {4050, 4000, 3900, 3800, 3600, 3400, 3000}),
        ("hard data", {1.10}),
        ("options", {1.05}),
    ],
)
def test_every_case_of_a_row_has_a_target(row: str, values: set[float]) -> None:
    found = [target_of(case) for case in FULL if case.row == row]
    assert None not in found
    assert {target.value for target in found if target} == values


def test_relative_targets_refer_to_other_cases_of_the_suite() -> None:
    relative = [(case, target) for case in FULL if (target := target_of(case)) and target.unit == "of"]
    assert relative
    for case, target in relative:
        assert target.case in NAMES - {case.name}


def test_cases_that_were_made_smaller_have_no_target() -> None:
    assert not any(target_of(cases.fitted(case, 1 << 16)) for case in FULL if case.input_bytes > 1 << 16)


def test_targets_are_judged_by_their_unit() -> None:
    plain = Case("all axes", "argmax", "float32", (1 << 28,))
    equal = replace(plain, row="hard data", data="equal")
    values = replace(plain, row="options", return_values=True)
    small = Case("small", "argmax", "float32", (32, 1024), (1,))
    made = record_of([row_of(plain, 240), row_of(equal, 263), row_of(values, 253), row_of(small, 4.4)])
    found = {verdict.case: verdict for verdict in verdicts(made)}
    assert [verdict.met for verdict in found.values()] == [True, True, False, True]
    assert found[equal.name].reached == pytest.approx(263 / 240)
    assert found[small.name].target == Target("us", 4.5)
    made = record_of([row_of(plain, 245), row_of(small, 4.6)])
    assert [verdict.met for verdict in verdicts(made)] == [False, False]
    made = record_of([row_of(equal, 263)])  # the case that it refers to was not timed
    assert list(verdicts(made)) == []


def test_latencies_are_judged() -> None:
    made = record_of([], with_latency=True)
    (slow,) = [row for row in made.latency if row.kind == "recorded in turn"]
    slow.ours = record.latency_of([26e-6])
    assert {verdict.case: verdict.met for verdict in verdicts(made) if verdict.target.unit == "us"} == {
        "array on the device, 1024 f32": True,
        "row of an array on the device, 1024 f32": True,
        "recorded sequence, 1024 f32": True,
        "host array, 1024 f32": True,
        "100 recorded sequences in turn, 1024 f32": False,
    }


def test_arrays_and_transfers_are_not_behind_torch() -> None:
    made = record_of([], with_latency=True)
    for row in made.latency:
        row.peers["torch"] = record.latency_of([20e-6 if row.kind == "to host" else 10e-6])
    assert {verdict.case: verdict.met for verdict in verdicts(made) if verdict.target.case == "torch's"} == {
        "array on the device, 1024 f32": False,
        "host to device, 1024 f32": False,
        "host to device, 32768 f32": False,
        "device to host, 1024 f32": True,
        "device to host, 32768 f32": True,
    }


def test_calls_and_chains_are_judged_on_any_gpu() -> None:
    made = record_of([row_of(Case("small", "argmax", "float32", (32, 1024), (1,)), 4.4, jax=3.0)])
    made.device["name"] = "NVIDIA H100"
    (row,) = made.rows
    assert list(verdicts(made)) == [], "nothing of the kind was timed"
    row.array_call, row.chain = Times(34.3, 30.0, 40.0, 60), Times(2.9, 2.8, 3.0, 15)
    row.peers["jax"] = replace(row.peers["jax"], chain=Times(3.0, 2.9, 3.1, 15))
    call, chain = verdicts(made)
    assert (call.met, call.reached) == (True, pytest.approx(29.9))
    assert (chain.met, chain.reached) == (True, pytest.approx(2.9 / 3))
    row.array_call, row.chain = Times(34.5, 30.0, 40.0, 60), Times(3.1, 2.8, 3.2, 15)
    assert [verdict.met for verdict in verdicts(made)] == [False, False]


def test_the_script_says_what_was_missed(tmp_path, capsys) -> None:
    made = full_record()
    file = tmp_path / "run.json"
    record_file.save(made, file)
    assert targets.main([str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    missed = sum(line.startswith("missed  ") for line in lines)
    assert missed > 0
    assert lines[-1] == f"{file}: {len(lines) - 1 - missed} of {len(lines) - 1} targets met"
    of_latencies = sum(verdict.case in {row.case for row in made.latency} for verdict in verdicts(made))
    assert len(lines) - 1 == sum(target_of(case) is not None for case in FULL) + of_latencies
    assert of_latencies == 5 + 5


def test_runs_without_targets_are_refused(tmp_path, capsys) -> None:
    assert targets.main([]) == 2
    for change in ({"suite": "quick"}, {"device": {"name": "llvmpipe", "type": "software", "driver": ""}}):
        made = replace(full_record(), **change)
        record_file.save(made, tmp_path / "run.json")
        assert targets.main([str(tmp_path / "run.json")]) == 2
        assert "accepted is the full, slice, real, short or latency suite on a GPU" in capsys.readouterr().err
