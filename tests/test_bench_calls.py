"""Public calls and chains of the benchmark's cases: timed, checked, written to files and shown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from bench_records import CASE, full_record, printed, record_of, row_of

import vkdml
from vkdml.bench import calls, chains, check, clocks, host_clock, measure, record_file, report
from vkdml.bench.cases import Case, plan_of
from vkdml.bench.record import Record, Times
from vkdml.bench.suites import suite
from vkdml.common.read_only import fix
from vkdml.measuring import OUTPUT_ROLES

SMALL = Case("small", "argmax", "float32", (20, 64), (1,))
CASES = [
    SMALL,
    Case("", "argmin", "int16", (6, 7, 40), (0, 2), return_values=True),
    Case("", "argmax", "float16", (30, 44), None, alternate=True, direction="decreasing"),
    Case("", "argmax", "uint8", (30, 44), (0,), transposed=True, nan_policy="omit"),
    Case("", "slice1", "complex128", (32, 48), window="narrow"),
    Case("", "slice1", "int8", (32, 48), window="transposed"),
    Case("", "slice1", "float32", (32, 48), window="[::-2, ::-2]"),
]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(measure, "SOFTWARE_WARM_SECONDS", 0.0)
    monkeypatch.setattr(measure, "SOFTWARE_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(host_clock, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(host_clock, "PATIENCE_SECONDS", 0.0)


# ---- calls --------------------------------------------------------------------------------------


def test_calls_are_timed_with_their_spread():
    ran = []
    times = host_clock.time_calls(lambda: ran.append(1), readings=7)
    assert times.readings == host_clock.FEWEST == len(ran) - 1
    assert 0 <= times.low_us <= times.us <= times.high_us


def test_the_time_of_a_call_is_divided_by_its_operations(monkeypatch):
    seconds = iter(range(1000))
    monkeypatch.setattr(host_clock.time, "perf_counter", lambda: float(next(seconds)))
    assert host_clock.time_calls(lambda: None, readings=3, operations=4).us == 250_000.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_the_time_of_its_public_call_on_an_array(device, case):
    (row,) = measure.measure(device, [replace(case, row="")], readings=1)
    assert row.array_call is not None
    assert 0 < row.array_call.low_us <= row.array_call.us <= row.array_call.high_us
    assert row.over_kernel_us == row.array_call.us - row.us
    assert row.chain is row.independent is None
    (plain,) = measure.measure(device, [case], readings=1, kernels_only=True)
    assert plain.array_call is plain.over_kernel_us is plain.chain is None


@pytest.fixture
def shown_as_a_gpu(device, monkeypatch):
    """The device, for the benchmark, as if it were discrete."""
    for seconds in ("FIRST_SECONDS", "WARM_SECONDS", "PATIENCE_SECONDS"):
        monkeypatch.setattr(clocks, seconds, 0.0)
    monkeypatch.setattr(clocks, "_REFERENCE", SMALL)
    real = device.info
    fix(device, "info", replace(real, type="discrete"))
    yield device
    fix(device, "info", real)


def test_beside_a_gpu_small_host_arrays_are_timed_too(shown_as_a_gpu, monkeypatch):
    (row,) = measure.measure(shown_as_a_gpu, [replace(SMALL, row="")], readings=1)
    assert row.call_us is None
    assert row.compared_us == row.us
    assert row.array_call.us > 0
    assert row.host_call.us > 0
    monkeypatch.setattr(measure, "HOST_CALL_BYTES", SMALL.input_bytes - 1)
    (row,) = measure.measure(shown_as_a_gpu, [replace(SMALL, row="")], readings=1)
    assert row.array_call is not None
    assert row.host_call is None


def test_a_wrong_call_on_an_array_is_seen(device, monkeypatch):
    real = vkdml.argmax

    def wrong(x, *arguments, **options):
        indices = real(x, *arguments, **options)
        return np.asarray(indices) ^ 1 if isinstance(x, vkdml.Array) else indices

    monkeypatch.setattr(vkdml, "argmax", wrong)
    with pytest.raises(check.WrongResult, match=r"f32 20x64 ax 1: the public call on an Array: byte 0 of"):
        measure.measure(device, [SMALL], readings=1)


def test_a_call_that_returns_too_little_is_wrong():
    right = {"indices": np.arange(8, dtype=np.uint8)}
    calls.require_same("a call", SMALL, right, right)
    with pytest.raises(check.WrongResult, match="4 bytes of the indices, expected are 8"):
        calls.require_same("a call", SMALL, {"indices": right["indices"][:4]}, right)


def test_elements_that_numpy_lacks_have_no_public_call(device, monkeypatch):
    def lacks(element):
        raise measure.Unsupported("no such type")

    monkeypatch.setattr(calls, "numpy_dtype", lacks)
    (row,) = measure.measure(device, [replace(SMALL, row="")], readings=1)
    assert row.array_call is None
    assert row.us > 0


# ---- chains -------------------------------------------------------------------------------------


def test_the_short_rows_have_chains(monkeypatch):
    assert {case.row for case in suite("full") if case.is_chained} == {"small", "logits", "sizes"}
    assert [case for case in suite("full") if case.is_chained] == suite("short")


@pytest.mark.parametrize("case", [SMALL, replace(SMALL, return_values=True)], ids=lambda case: case.name)
def test_a_chain_and_independent_operations_are_timed(device, monkeypatch, case):
    monkeypatch.setattr(chains, "LONGEST_CHAIN_SECONDS", 3600.0)
    monkeypatch.setattr(chains, "CHAIN", 5)
    (row,) = measure.measure(device, [case], readings=1)
    assert row.chain is not None
    assert row.independent is not None
    assert row.chain.us > 0
    assert row.independent.us > 0


@pytest.mark.parametrize("independent", [False, True])
def test_dependent_operations_write_the_same_memory_and_independent_ones_their_own(device, independent):
    case = Case("sizes", "argmax", "float32", (1 << 18,))
    plan = plan_of(case, device.limits)
    assert plan.bytes_of("workspace"), "the case is to have one"
    made: list[int] = []
    recorded = chains.record_steps

    def record_steps(sequence, steps, workspace, regions):
        made.append(id(regions["indices"][0]))
        workspaces.add(id(workspace))
        recorded(sequence, steps, workspace, regions)

    workspaces: set[int] = set()
    memory = measure.filled(device, np.zeros(1 << 20, np.uint8))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chains, "record_steps", record_steps)
        chain = chains._Chain(device, plan, memory, independent=independent)
    assert len(made) == chains.CHAIN
    assert len(set(made)) == len(workspaces) == len(chain.outputs) == (chains.CHAIN if independent else 1)


def test_an_operation_of_a_chain_that_writes_nothing_is_seen(device, monkeypatch):
    recorded = chains.record_steps
    numbers = iter(range(chains.CHAIN))
    monkeypatch.setattr(
        chains, "record_steps", lambda *arguments: next(numbers) == 200 or recorded(*arguments)
    )
    plan = plan_of(SMALL, device.limits)
    content = measure.contents.content(SMALL.content, SMALL.input_bytes)
    memory = measure.filled(device, content)
    right = measure.time_plan(device, plan, {"input": memory}, readings=1, warm_seconds=0).outputs
    with pytest.raises(check.WrongResult, match=r"operation 200 of a chain: byte 0 of the indices is 165"):
        chains.time_chain(device, SMALL, plan, memory, right, 1.0, independent=True)


def test_long_operations_have_no_chain(device):
    plan = plan_of(SMALL, device.limits)
    assert set(OUTPUT_ROLES) & {role for role, _ in plan.buffer_bytes}
    too_long = chains.LONGEST_CHAIN_SECONDS * 1e6 / chains.CHAIN + 1
    assert chains.time_chain(device, SMALL, plan, None, {}, too_long, independent=False) is None


# ---- files and tables ---------------------------------------------------------------------------


def timed_record() -> Record:
    made = full_record()
    for number, row in enumerate(made.rows):
        row.array_call = Times(row.us + 10 + number / 100, row.us, row.us + 20, 60)
        if row.as_case().is_chained:
            row.host_call = Times(row.us + 25, row.us, row.us + 40, 60)
            row.chain, row.independent = Times(2.5, 2.4, 2.6, 15), Times(0.75, 0.7, 0.8, 15)
            for name in ("torch", "jax"):
                row.peers[name] = replace(
                    row.peers[name], call=Times(17.5, 17, 18, 60), chain=Times(3.25, 3, 4, 15)
                )
    return made


def test_calls_and_chains_come_back_from_their_file(tmp_path):
    path = tmp_path / "run.json"
    made = timed_record()
    record_file.save(made, path)
    back = record_file.load(path)
    (row,) = [row for row in back.rows if row.case == "f32 32x1024 ax 1"]
    assert row.chain == Times(2.5, 2.4, 2.6, 15)
    assert row.independent == Times(0.75, 0.7, 0.8, 15)
    assert row.peers["torch"].call == Times(17.5, 17, 18, 60)
    assert row.peers["jax"].chain == Times(3.25, 3, 4, 15)
    assert row.peers["cupy"].call is None
    assert row.over_kernel_us == pytest.approx(10, abs=5)


def test_a_record_of_format_3_has_no_calls_on_arrays(tmp_path):
    path = tmp_path / "old.json"
    record_file.save(timed_record(), path)
    old = json.loads(path.read_text())
    old["format"] = 3
    for row in old["rows"]:
        for name in ("array_call", "host_call", "chain", "independent"):
            del row[name]
        for peer in row["peers"].values():
            del peer["call"], peer["chain"]
    path.write_text(json.dumps(old))
    assert all(row.array_call is row.chain is None for row in record_file.load(path).rows)


def test_the_report_shows_calls_and_chains_beside_other_libraries():
    said = printed(timed_record())
    assert all(len(line) <= 80 for line in said.splitlines())
    words = " ".join(said.split())
    assert "public call to result, us kernels Array over host torch JAX" in words
    assert "256 operations, us each kernels chain independent torch JAX" in words
    (line,) = [line for line in said.splitlines() if line.split()[:4] == ["f16", "32x1024", "ax", "1"]
               and line.split()[-2:] == ["3.25", "3.25"]]  # fmt: skip
    assert line.split()[-4:-2] == ["2.50", "0.75"]
    assert "longer than its kernels (median of" in words
    assert "JAX: one compiled program" in words
    assert "call us: of the public call on an Array" in words


def test_a_report_without_calls_and_chains_says_nothing_of_them():
    said = printed(full_record())
    assert "public call to result" not in said
    assert "256 operations" not in said
    assert report.over_kernels(full_record()) == ""


def test_how_much_longer_calls_take_than_kernels_is_said_of_gpus_only():
    row = row_of(CASE, 100.0)
    row.array_call = Times(112.34, 110, 120, 60)
    assert report.over_kernels(record_of([row])) == (
        "The public call on an Array takes 12.3 us longer than its kernels (median of 1 case), and at most "
        f"12.3 us longer ({CASE.name})."
    )
    assert report.over_kernels(record_of([row], "software")) == ""
