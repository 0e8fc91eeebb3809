"""`vkdml bench` as a user runs it: small real runs, wrong results, interruptions, mistakes."""

from __future__ import annotations

import errno
import io
import json
import re
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bench_runs import be_hasty
from rich.console import Console

import vkdml
from vkdml import measuring
from vkdml.bench import check, files, measure, record, record_file, session, suites, timing
from vkdml.bench.cases import (
    MOVED_ELEMENTS,
    REDUCE_ELEMENTS,
    Case,
    fitted_suite,
    plan_of,
    windows_of_rank,
)
from vkdml.bench.libraries import by_name as libraries
from vkdml.bench.libraries import cub_library, peers
from vkdml.cli import bench, bench_progress, main
from vkdml.plan.device_classes import TUNING
from vkdml.plan.fixed_parameters import with_fixed_parameters
from vkdml.runtime.execution_cache import ExecutionCache

SMALL = ["bench", "--shape", "40x300", "--peers", "none", "--readings", "3"]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    be_hasty(monkeypatch)


def faults_of(said: str) -> list[str]:
    """The lines on standard error that are not the progress of the run."""
    return [line for line in said.splitlines() if not line.startswith("[")]


# ---- timing -------------------------------------------------------------------------------------


def test_a_plan_is_timed_and_its_outputs_come_back(device):
    case = Case("", "argmax", "int16", (70, 90), (0,), return_values=True)
    content = np.random.default_rng(0).integers(0, 256, case.input_bytes, np.uint8)
    plan = plan_of(case, device.limits)
    reading = measuring.time_plan(
        device, plan, {"input": measuring.filled(device, content)}, readings=12, warm_seconds=0
    )
    assert 0 < reading.low_ns <= reading.median_ns <= reading.high_ns
    assert reading.readings == 12
    assert set(reading.steps) == {step.kernel for step in plan.steps}
    assert sum(reading.steps.values()) == pytest.approx(reading.median_ns, rel=0.5)
    array = content.view(np.int16).reshape(70, 90)
    assert np.array_equal(reading.outputs["indices"].view(np.int32), array.argmax(axis=0))
    assert np.array_equal(reading.outputs["values"].view(np.int16), array.max(axis=0))


def test_without_patience_nine_readings_are_taken(device):
    plan = plan_of(Case("", "argmax", "uint8", (100,)), device.limits)
    bound = {"input": measuring.poisoned(device, 112)}
    reading = measuring.time_plan(device, plan, bound, readings=1000, warm_seconds=0, patience_seconds=0)
    assert reading.readings == measuring.FEWEST_READINGS
    fewer = measuring.time_plan(device, plan, bound, readings=2, warm_seconds=0).readings
    assert 2 <= fewer < 2 + measuring.REPEATS, "one evaluation takes some together"


def test_a_kernel_that_writes_nothing_does_not_find_an_old_result(device, monkeypatch):
    case = Case("", "argmax", "uint8", (100,), return_values=True)
    plan = plan_of(case, device.limits)
    bound = {"input": measuring.filled(device, np.arange(112, dtype=np.uint8))}
    measuring.time_plan(device, plan, bound, readings=1, warm_seconds=0)
    monkeypatch.setattr(measuring.RecordedPlan, "run", lambda recorded: None)
    monkeypatch.setattr(measuring.RecordedPlan, "timings", lambda recorded: [1.0] * measuring.REPEATS)
    reading = measuring.time_plan(device, plan, bound, readings=1, warm_seconds=0)
    assert {role: set(content.tolist()) for role, content in reading.outputs.items()} == {
        "indices": {measuring.POISON}, "values": {measuring.POISON}
    }  # fmt: skip


@pytest.mark.parametrize("chunk", [16, 1000, 1 << 20])
def test_memory_is_poisoned_to_its_end_in_pieces(device, monkeypatch, chunk):
    monkeypatch.setattr(measuring, "CHUNK_BYTES", chunk)
    for nbytes in (4096, 4001):
        assert set(measuring.content_of(measuring.poisoned(device, nbytes), nbytes)) == {measuring.POISON}


# ---- runs ---------------------------------------------------------------------------------------


def test_a_small_run_leaves_numbers_and_plots(tmp_path, capsys):
    file, plot = tmp_path / "run.json", tmp_path / "run.png"
    words = ["--dtype", "f16,int8", "--axis", "0", "--json", str(file), "--plot", str(plot)]
    assert main([*SMALL[:3], "--readings", "3", *words, "--peers", "numpy"]) == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 or line.startswith("written to ") for line in said.splitlines())
    made = record_file.load(file)
    assert [row.case for row in made.rows] == ["f16 40x300 ax 0", "i8 40x300 ax 0"]
    for row in made.rows:
        assert 0 < row.low_us <= row.us <= row.high_us
        assert row.peers["numpy"].us > 0
        assert set(row.kernels) == {
            step.kernel for step in plan_of(row.as_case(), vkdml.default_device().limits).steps
        }
        assert row.case in said
    assert made.suite == "own"
    assert made.device["name"] == vkdml.default_device().name
    assert made.peers["numpy"].version == np.__version__
    assert set(made.versions) == {"vkdml", "python", "numpy"}
    assert {"kernels", "ceiling", "own suite", "numpy"} == set(made.seconds)
    assert (tmp_path / "run-dtypes.png").exists()

    assert main([*SMALL, "--dtype", "f16,int8", "--axis", "0", "--baseline", str(file)]) in (0, 1)
    assert "against the baseline" in capsys.readouterr().out
    assert main(["bench", "--compare-only", "--json", str(file), "--baseline", str(file)]) == 0
    assert "0 slower, 0 faster, 2 the same" in capsys.readouterr().out


def test_a_baseline_without_the_cases_is_refused_before_anything_runs(tmp_path, capsys):
    file = tmp_path / "run.json"
    own = ["bench", "--peers", "none", "--readings", "3", "--json", str(file)]
    assert main([*own, "--shape", "10x20"]) == 0
    before = file.read_bytes()
    capsys.readouterr()
    assert main([*own, "--shape", "10x10", "--baseline", str(file)]) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"--baseline {file}: the baseline and the run have no case in common" in said
    assert file.read_bytes() == before


def test_slices_and_64_bit_indices_are_measured(tmp_path):
    file = tmp_path / "run.json"
    assert main([*SMALL, "--op", "slice1", "--dtype", "i8", "--json", str(file)]) == 0
    assert {row.window for row in record_file.load(file).rows} >= {"copy", "flip", "transposed"}
    assert main([*SMALL, "--index-dtype", "int64", "--json", str(file)]) == 0
    (row,) = record_file.load(file).rows
    assert row.written_bytes == 8


def test_the_latency_suite_measures_and_merges_a_peer(tmp_path, monkeypatch, capsys):
    few = [
        session.latency.LatencyCase("array", 4096, 2, 5),
        session.latency.LatencyCase("recorded", 4096, 1, 5),
        session.latency.LatencyCase("host", 4096, 1, 5),
        session.latency.LatencyCase("recorded in turn", 4096, 3, 5),
        session.latency.LatencyCase("view", 4096, 3, 5),
        session.latency.LatencyCase("to device", 4096, 2, 5),
        session.latency.LatencyCase("to host", 4096, 2, 5),
    ]
    monkeypatch.setattr(session.latency, "latency_cases", lambda most: few)
    file = tmp_path / "latency.json"
    assert main(["bench", "--suite", "latency", "--peers", "none", "--json", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "recorded sequence: vkdml runs again what was recorded before" in said
    assert "int(a.argmax())" in said
    assert "int(a[i].argmax())" in said
    assert "asarray(x) and a.numpy()" in said
    assert "resident" not in said
    made = record_file.load(file)
    assert [row.case for row in made.latency] == [case.name for case in few]
    assert all(0 < row.ours.p50_us <= row.ours.p99_us and row.ours.calls == 5 for row in made.latency)
    assert main(["bench", "--merge", str(file), "--peers", "numpy"]) == 0
    merged = record_file.load(file)
    assert [row.ours for row in merged.latency] == [row.ours for row in made.latency]
    assert [row.peers["numpy"].why for row in merged.latency] == [
        "has no device arrays",
        "has no device arrays",
        "",
        "has no device arrays",
        "has no device arrays",
        "has no device arrays",
        "has no device arrays",
    ]
    assert merged.latency[2].peers["numpy"].p50_us > 0


def test_the_quick_suite_is_right_on_this_device(device):
    fitted = fitted_suite(measure_cases(), measure.most_input_bytes(device, 1))
    rows = measure.measure(device, fitted, readings=1)
    assert all(row.us > 0 for row in rows)
    assert len(rows) == len(fitted)


def measure_cases() -> list[Case]:

    return [replaced for replaced in suites.suite("quick") if replaced.row != "segmentation"]


# ---- the user's own shapes ----------------------------------------------------------------------


def test_a_shape_of_the_users_own_is_run_as_it_is(tmp_path, capsys, device):
    small = measure.most_input_bytes(device, None) <= 1 << 20
    assert small == (device.info.type == "software")
    file = tmp_path / "run.json"
    words = ["--shape", "700x1000", "--axis", "0", "--peers", "none", "--readings", "1", "--json", str(file)]
    assert main(["bench", *words]) == 0
    (row,) = record_file.load(file).rows
    assert (row.shape, row.scaled_from, row.read_bytes) == ([700, 1000], None, 2_800_000)
    assert "made smaller" not in capsys.readouterr().out


def test_copies_of_a_shape_of_the_users_own_are_of_any_type_that_slice1_takes(tmp_path):
    file = tmp_path / "run.json"
    words = ["--op", "slice1", "--shape", "3x4x5", "--peers", "none", "--readings", "1", "--json", str(file)]
    assert main(["bench", *words, "--dtype", ",".join(MOVED_ELEMENTS)]) == 0
    rows = record_file.load(file).rows
    assert {row.element: row.as_case().input_bytes for row in rows} == {
        element: 60 * nbytes for element, nbytes in MOVED_ELEMENTS.items()
    }
    assert set(MOVED_ELEMENTS) >= {*REDUCE_ELEMENTS, "uint8", "complex128"}


@pytest.mark.parametrize("shape", ["70x100", "7x10x3"])
def test_copies_of_a_shape_of_the_users_own_are_all_windows_of_such_arrays(tmp_path, shape):
    file = tmp_path / "run.json"
    words = ["--op", "slice1", "--shape", shape, "--peers", "none", "--readings", "1", "--json", str(file)]
    assert main(["bench", *words]) == 0
    assert [row.window for row in record_file.load(file).rows] == windows_of_rank(shape.count("x") + 1)


def test_a_case_of_a_suite_that_was_made_smaller_says_what_it_was(tmp_path, capsys, device, monkeypatch):
    monkeypatch.setattr(measure, "ceiling_cases", lambda most: [])
    file = tmp_path / "run.json"
    words = ["--dtype", "f32", "--axis", "0", "--mib", "1", "--peers", "none", "--json", str(file)]
    assert main(["bench", *words]) == 0
    (row,) = record_file.load(file).rows
    assert (row.shape, row.scaled_from) == ([1024, 256], [4096, 16384])
    table, progress = capsys.readouterr()
    assert "f32 1024x256 ax 0: " in progress
    assert "from 4096x16384" in table
    assert "1 of 1 cases was made smaller" in table
    assert "inputs have at most 1 MiB" in " ".join(table.split())


def limited(device, **limits):
    """A stand-in for a device with other limits."""
    heap = limits.pop("heap", 1 << 40)
    info = SimpleNamespace(type=limits.pop("type", "software"), largest_heap_bytes=heap)
    return SimpleNamespace(name="a device", info=info, limits=replace(device.limits, **limits))


@pytest.mark.parametrize(
    ("case", "limits", "said"),
    [
        (("argmax", "float32", (1 << 20,)), {}, None),
        (
            ("argmax", "float32", (1 << 20,)),
            {"max_storage_buffer_range": 4 << 20},
            None,
        ),
        (
            ("argmax", "float32", ((1 << 20) + 1,)),
            {"max_storage_buffer_range": 4 << 20},
            "is more than one buffer of a device can hold; accepted are at most 4 MiB",
        ),
        (
            ("argmax", "int8", (1 << 20, 4), (1,)),
            {"max_storage_buffer_range": (4 << 20) - 1},
            "accepted are at most",
        ),
        # The input fits; the indices do not.
        (("argmax", "int8", (1 << 20, 3), (1,)), {"max_storage_buffer_range": (4 << 20) - 1}, ""),
        (
            ("argmax", "float32", (1 << 20,)),
            {"type": "discrete", "heap": 1 << 20},
            "are more than the memory of a device; accepted are at most 1 MiB",
        ),
        (
            ("argmax", "int8", ((1 << 31) + 1,)),
            {"max_storage_buffer_range": 1 << 32},
            "indices up to 2147483648 do not fit int32; accepted is --index-dtype int64",
        ),
    ],
)
def test_a_shape_beyond_a_limit_is_refused_with_the_limit(device, case, limits, said):
    refused = measure.refusal(limited(device, **limits), Case("own", *case), 4)
    assert (refused is None) == (said is None)
    assert (said or "") in (refused or "")


def test_a_shape_beyond_the_hosts_memory_is_refused(device, monkeypatch):
    monkeypatch.setattr(measure.host_memory, "available", lambda: 8 << 20)
    refused = measure.refusal(limited(device), Case("own", "argmax", "float32", (1 << 20,)), 4)
    assert "of host memory, and 8 MiB are free" in refused


# ---- times that mean what they say --------------------------------------------------------------


# The larger one is read where it lies by a driver that can.
@pytest.mark.parametrize("shape", [(300, 700), (600, 700)])
def test_no_call_is_shorter_than_the_kernels_within_it(device, shape):
    array = np.random.default_rng(0).random(shape, np.float32)
    reading = timing.time_call(device, lambda: vkdml.argmax(array, 0, device=device), readings=20)
    assert 0 < reading.kernels_us < reading.call_us
    assert reading.low_us <= reading.kernels_us <= reading.high_us
    assert reading.readings == 20
    assert sum(reading.steps.values()) == pytest.approx(reading.kernels_us, rel=0.5)
    assert np.array_equal(reading.result, array.argmax(axis=0))


def test_kernels_of_tiles_are_added_up(device):
    array = np.random.default_rng(0).random((64, 70_000), np.float32)
    once = timing.time_call(device, lambda: vkdml.argmax(array, 1, device=device), readings=9)
    assert once.steps
    tiled = timing.time_call(
        device, lambda: vkdml.argmax(array, 1, device=device, progress=lambda *_: None), readings=9
    )
    assert tiled.steps
    assert 0 < tiled.kernels_us < tiled.call_us
    assert tiled.kernels_us > once.kernels_us / 10


def test_a_call_that_needs_no_kernel_has_no_kernel_time(device):
    array = np.zeros((50, 1), np.float32)
    reading = timing.time_call(device, lambda: vkdml.argmax(array, 1, device=device), readings=3)
    assert (reading.kernels_us, reading.steps) == (0, {})
    assert reading.call_us > 0


def test_timing_calls_leaves_no_timestamps_behind(device):
    array = np.random.default_rng(0).random((30, 70), np.float32)
    before = device.executions

    def fail_after_a_call():
        vkdml.argmax(array, 0, device=device)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        timing.time_call(device, fail_after_a_call)
    assert device.executions is before
    with timing._kernels_timed(device):
        assert device.executions is not before
        vkdml.argmax(array, 0, device=device)
    assert device.executions is before
    assert not device.executions.clear(), "the timed executions are not kept"


def test_the_times_of_a_row_do_not_depend_on_the_driver_keeping_its_speed(device, monkeypatch):
    """Drivers run at half their speed for a while: times taken one after the other do not compare."""
    if device.info.type != "software":
        pytest.skip("only software devices' calls are timed")
    real = measuring.time_plan

    def at_another_speed(*arguments, **options):
        reading = real(*arguments, **options)
        return replace(reading, median_ns=1e9, low_ns=1e9, high_ns=1e9)

    monkeypatch.setattr(measure, "time_plan", at_another_speed)
    cases = [
        Case("own", "argmax", "float32", (40, 300), (0,)),
        Case("own", "argmin", "int8", (64, 300), (1,), alternate=True),
        Case("own", "slice1", "float16", (100, 120), window="narrow"),
    ]
    rows = measure.measure(device, cases, readings=3)
    assert all(0 < row.us <= row.call_us for row in rows)
    assert all(row.low_us <= row.us <= row.high_us for row in rows)
    record.require_possible(rows)


def test_a_wrong_answer_of_a_timed_call_is_seen(device, monkeypatch):
    if device.info.type != "software":
        pytest.skip("only software devices' calls are timed")
    real = vkdml.argmax
    monkeypatch.setattr(vkdml, "argmax", lambda *words, **options: real(*words, **options) ^ 1)
    with pytest.raises(check.WrongResult, match="40x300 ax 0: index of output 0"):
        measure.measure(device, [Case("own", "argmax", "float32", (40, 300), (0,))], readings=1)


def test_a_call_shorter_than_its_kernel_fails_the_run_and_leaves_no_file(tmp_path, monkeypatch, capsys):
    real = measure.measure

    def impossible(*arguments, **options):
        rows = real(*arguments, **options)
        for row in rows:
            row.us, row.call_us = 300.0, 200.0
        return rows

    monkeypatch.setattr(session.measure, "measure", impossible)
    file = tmp_path / "run.json"
    assert main([*SMALL, "--json", str(file)]) == 1
    (line,) = faults_of(capsys.readouterr().err)
    assert "f32 40x300 all: the whole call took 200.0 us, its kernels 300.0 us" in line
    assert not file.exists()


def test_the_drivers_own_copy_is_timed_beside_the_ceiling(tmp_path, capsys):
    file = tmp_path / "run.json"
    assert main([*SMALL, "--json", str(file)]) == 0
    made = record_file.load(file)
    assert made.copy_gb_per_s > 0
    assert made.copy_bytes == json.loads(file.read_text())["copy_bytes"] > 0
    said = " ".join(capsys.readouterr().out.split())
    fastest = re.search(r"Fastest read in this run: ([\d.]+) GB/s", said)
    # The record rounds it, too, so the last digit may differ.
    assert fastest is not None
    assert float(fastest[1]) == pytest.approx(made.ceiling_gb_per_s, rel=1e-3)
    assert "the driver's vkCmdCopyBuffer of " in said


@pytest.mark.parametrize("unified", [False, True])
def test_copies_are_timed_in_either_kind_of_memory(device, unified):
    lies_in = SimpleNamespace(
        info=SimpleNamespace(unified_memory=unified),
        native=device.native,
        executions=ExecutionCache(device.native, unified, device.limits.tuning),
        limits=device.limits,
        require_usable=device.require_usable,
    )
    assert timing.time_copy(lies_in, 1 << 20, readings=5, warm_seconds=0) > 0


# ---- what must not pass -------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["argmax", "slice1"])
def test_a_wrong_result_fails_the_run_and_leaves_no_file(op, tmp_path, monkeypatch, capsys):
    real = measuring.content_of

    def wrong(*arguments):
        content = real(*arguments)
        content[5] ^= 1
        return content

    monkeypatch.setattr(measuring, "content_of", wrong)
    monkeypatch.setattr(measure, "ceiling_cases", lambda most: [])
    file = tmp_path / "run.json"
    words = [] if op == "slice1" else ["--axis", "1"]
    assert main([*SMALL, "--op", op, "--dtype", "i8", *words, "--json", str(file)]) == 1
    (line,) = faults_of(capsys.readouterr().err)
    assert "40x300" in line
    assert "expected" in line
    assert ("output 1 is" in line) or ("element (0, 5)" in line)
    assert not file.exists()


def test_a_wrong_answer_of_a_call_is_seen(device, monkeypatch):
    case = session.latency.LatencyCase("host", 4096, 2, 3)
    content = measure.contents.content("numbers float32", 8192)
    real = vkdml.argmax
    monkeypatch.setattr(vkdml, "argmax", lambda x, device: real(x, device=device) ^ 1)
    with pytest.raises(check.WrongResult, match="array 0: index is"):
        measure.latency.measure(device, case, content, 0.0)


@pytest.mark.parametrize("kind", ["view", "to device", "to host"])
def test_a_wrong_view_or_transfer_is_seen(device, monkeypatch, kind):
    case = session.latency.LatencyCase(kind, 4096, 2, 3)
    content = measure.contents.content("numbers float32", 8192)
    monkeypatch.setattr(vkdml.Array, "argmax", lambda array: 7)
    monkeypatch.setattr(vkdml.Array, "numpy", lambda array: np.zeros(array.shape, np.float32))
    monkeypatch.setattr(vkdml.Array, "__array__", lambda array, *others, **options: array.numpy())
    with pytest.raises(check.WrongResult, match="expected is"):
        measure.latency.measure(device, case, content, 0.0)


def test_an_interrupted_run_leaves_no_file(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(session.measure, "time_plan", interrupted)
    file = tmp_path / "run.json"
    for words in ([], ["--json", str(file)]):
        assert main([*SMALL, *words]) == 130
        assert list(tmp_path.iterdir()) == []
        assert faults_of(capsys.readouterr().err) == ["vkdml: stopped; nothing was written"]


def test_a_long_run_that_is_interrupted_leaves_the_cases_that_are_done(tmp_path, monkeypatch, capsys):
    real = measure.time_plan

    def interrupted(device, plan, *arguments, **options):
        if plan.bytes_of("input") == 40 * 300:
            raise KeyboardInterrupt
        return real(device, plan, *arguments, **options)

    monkeypatch.setattr(session.measure, "time_plan", interrupted)
    file = tmp_path / "run.json"
    words = [*SMALL, "--dtype", "f32,f16,int8", "--json", str(file)]
    assert main(words) == 130
    assert faults_of(capsys.readouterr().err) == [f"vkdml: stopped; {file} has 2 cases"]
    kept = record_file.load(file)
    assert [row.case for row in kept.rows] == ["f32 40x300 all", "f16 40x300 all"]
    assert kept.ceiling_gb_per_s > 0
    assert kept.ceiling_case


def test_what_was_measured_is_kept_when_a_peer_is_interrupted(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "time_peer", interrupted)
    file = tmp_path / "run.json"
    assert main([*SMALL[:3], "--peers", "numpy", "--json", str(file)]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    (row,) = record_file.load(file).rows
    assert row.us > 0


def test_a_slower_run_is_said_by_the_exit_status(tmp_path, capsys):
    file, old = tmp_path / "new.json", tmp_path / "old.json"
    assert main([*SMALL, "--json", str(file)]) == 0
    made = record_file.load(file)
    for row in made.rows:
        row.us, row.low_us, row.high_us = row.us / 100, row.low_us / 100, row.low_us / 99
    record_file.save(made, old)
    capsys.readouterr()
    assert main(["bench", "--compare-only", "--json", str(file), "--baseline", str(old)]) == 1
    assert "1 slower" in capsys.readouterr().out


# ---- peers --------------------------------------------------------------------------------------


def one_row_record(device: vkdml.Device) -> record.Record:
    made = measure.new_record(device, "own", {})
    made.rows = measure.measure(device, [Case("own", "argmax", "float32", (50, 60), (1,))], readings=1)
    return made


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os, sys; sys.stdin.read(); os.abort()", "its process ended: SIGABRT"),
        ("import sys; sys.stdin.read(); sys.exit('no luck')", "its process ended: no luck"),
        ("import sys, time; sys.stdin.read(); time.sleep(60)", "out of time"),
    ],
)
def test_a_peer_that_crashes_or_hangs_loses_its_own_numbers_only(device, monkeypatch, tmp_path, program, why):
    stub = tmp_path / "python"
    about = '{"version": "1", "runs_on": "processor", "method": "none"}'
    stub.write_text(f"#!{sys.executable}\nprint('''{about}''', flush=True)\n{program}\n")
    stub.chmod(0o755)
    made = one_row_record(device)
    monkeypatch.setattr(peers.sys, "executable", str(stub))
    monkeypatch.setattr(peers, "_GRACE_SECONDS", 0.5)
    start = time.monotonic()
    peers.time_peer("numpy", device, made, made.rows, [], named=True, seconds=0.5)
    assert time.monotonic() - start < 20  # the one that hangs is killed
    assert made.rows[0].peers["numpy"].why == why
    assert made.peers["numpy"].note


def test_what_a_library_lacks_is_a_reason_not_a_failure():
    request = {
        "peer": "numpy", "cuda": False, "seconds": 60, "most_bytes": 10_000, "latency": [],
        "cases": [
            peers._plain(case)
            for case in (
                Case("", "argmax", "float32", (4, 5, 6), (0, 2)),
                Case("", "argmax", "bfloat16", (40, 6), (1,)),
                Case("", "argmin", "bool", (400,)),
                Case("", "argmax", "float32", (100, 100), (1,)),
                Case("", "slice1", "complex128", (8, 8), window="transposed"),
            )
        ],
    }  # fmt: skip
    request = json.loads(json.dumps(request))
    about, *said = libraries.answers(request)
    assert about["runs_on"] == "processor"
    assert [answer.get("why") for answer in said] == [
        "reduces one axis at a time", None, None, "too large for the processor", None
    ]  # fmt: skip
    assert all(answer["us"] > 0 for answer in said if "us" in answer)
    assert list(libraries.answers({**request, "seconds": -1}))[1] == {"case": 0, "why": "out of time"}
    missing = next(iter(libraries.answers({**request, "peer": "cub"})))
    assert missing == {"missing": "needs nvcc and a CUDA device"}


def compiler(folder, fails_on: str) -> str:
    """A stand-in for nvcc that writes a program which answers each line, or fails with a message."""
    made = folder / "nvcc"
    made.write_text(
        f"""#!{sys.executable}
import os, sys
if {fails_on!r} == "all" or {fails_on!r} == "halves" and "-DWITHOUT_HALVES" not in sys.argv:
    sys.exit("cub.cuh: no such file\\nand more")
path = sys.argv[sys.argv.index("-o") + 1]
with open(path, "w") as file:
    file.write("#!/bin/sh\\nwhile read -r element rest; do\\n")
    file.write('if [ $element = int8 ]; then echo \\'{{"why": "has no int8"}}\\'; ')
    file.write("else echo '{{\\"us\\": [3, 2, 4]}}'; fi\\ndone\\n")
os.chmod(path, 0o755)
"""
    )
    made.chmod(0o755)
    return str(made)


@pytest.mark.parametrize("fails_on", ["none", "halves"])
def test_cubs_program_is_built_once_and_asked(tmp_path, monkeypatch, fails_on):
    monkeypatch.setenv("VKDML_CACHE_DIR", str(tmp_path / "cache"))
    nvcc = compiler(tmp_path, fails_on)
    monkeypatch.setattr(cub_library, "nvcc", lambda: nvcc)
    cub = cub_library.Cub(True, 0)
    assert cub.time(Case("", "argmax", "float32", (100,))) == [3, 2, 4]
    with pytest.raises(libraries.Unsupported, match="has no int8"):
        cub.time(Case("", "argmax", "int8", (100,)))
    with pytest.raises(libraries.Unsupported, match="reduces whole arrays"):
        cub.time(Case("", "argmax", "float32", (10, 10), (1,)))
    built = list((tmp_path / "cache" / "bench").iterdir())
    assert len(built) == 1
    (tmp_path / "nvcc").write_text("")
    assert cub_library.build_cub(nvcc) == str(built[0])
    cub._program.stdin.close()
    cub._program.wait()
    cub._program.stdout.close()


def test_a_compiler_that_refuses_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("VKDML_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(libraries.Unsupported, match=r"nvcc: cub.cuh: no such file$"):
        cub_library.build_cub(compiler(tmp_path, "all"))


def test_absent_peers_are_left_out_of_auto_and_refused_by_name(device, monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None if name == "jax" else object())
    chosen, left_out = peers.chosen("auto", device)
    assert "jax" not in chosen
    assert "numpy" in chosen
    assert left_out["jax"] == "jax is not installed"
    with pytest.raises(peers.PeerFault, match="--peers jax: jax is not installed"):
        peers.chosen("numpy,jax", device)
    if not peers.on_cuda(device):
        assert "needs an NVIDIA GPU" in left_out["cub"]


# ---- mistakes of the user's ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        (["--suite", "fast"], "accepted are quick, full, latency, slice, real"),
        (["--op", "topk"], "accepted are argmax, argmin, slice1"),
        (["--dtype", "float33"], "accepted are float32, float16"),
        (["--dtype", "float33"], "float8_e4m3fn, float8_e5m2, complex128"),
        (["--op", "argmin", "--dtype", "float33"], "float8_e5m2; with --op slice1 also complex128"),
        (["--op", "slice1", "--dtype", "complex64"], "float8_e4m3fn, float8_e5m2, complex128"),
        (["--op", "slice1", "--dtype", "uint16"], "--dtype uint16: the suite quick has no such case; its"),
        (["--shape", "4by4"], "accepted are sizes of at least 1 such as 4096x65536"),
        (["--shape", "0x4"], "accepted are sizes of at least 1"),
        (["--axis", "first"], "accepted are all, or distinct axes"),
        (["--axis", "-1"], "negative ones are accepted with --shape only"),
        (["--shape", "4x4", "--axis", "2"], "accepted are -2 to 1"),
        (["--shape", "4x4", "--axis", "1,-1"], "accepted are all, or distinct axes"),
        (["--shape", "4", "--op", "slice1"], "accepted is a --shape of two or three sizes"),
        (["--suite", "real", "--dtype", "int64"], "--dtype int64: the suite real has no such case; its"),
        (["--axis", "7", "--op", "argmin"], "--op argmin --axis 7: the suite quick has no such case"),
        (["--dtype", "uint8"], "have --op argmax, slice1, --dtype float32"),
        (["--axis", "1.5"], "accepted are all, or distinct axes"),
        (["--shape", "4x4", "--axis", "-3"], "accepted are -2 to 1"),
        (["--dtype", "float32,"], "--dtype '': accepted are float32"),
        (["--shape", "4x4", "--dtype", "complex128"], "with --op slice1 also complex128"),
        (["--shape", "4x4", "--mib", "8"], "--mib, which makes suites smaller, is not accepted"),
        (["--shape", "4x4", "--suite", "full"], "--suite is not accepted beside it"),
        (["--suite", "latency", "--dtype", "float16"], "--op, --dtype and --axis are not accepted"),
        (["--merge", "any.json", "--shape", "4x4"], "--merge times the file's cases"),
        (["--shape", "4194304x65536"], "is more than one buffer of"),
        (["--shape", "4194304x65536", "--op", "slice1"], "accepted are at most"),
        (["--peers", "tensorflow"], "accepted are auto, none, or of numpy,torch"),
        (["--peers", "none,numpy"], "none is accepted alone only"),
        (["--suite", "real", "--axis", "7"], "and --axis 1 or 3 or 1,2 or 0 or 2; a"),
        (["--mib", "0"], "at least 1 is accepted"),
        (["--readings", "99999999999"], "at most 100000 are accepted"),
        (["--readings", "0"], "at least 1 is accepted"),
        (["--peer-seconds", "0"], "more than 0 is accepted"),
        (["--index-dtype", "int16"], "accepted are int32, int64"),
        (
            ["--json", "/nonexistent/run.json"],
            "--json /nonexistent/run.json: cannot be written: there is no folder /nonexistent",
        ),
        (["--resume", "/nonexistent/run.json"], "--resume /nonexistent/run.json: cannot be written"),
        (["--plot", "/nonexistent/run.svg"], "--plot /nonexistent/run-dtypes.svg: cannot be written"),
        (["--plot", "run.gif"], "accepted are names that end in .svg, .png, .pdf"),
        (["--baseline", "/nonexistent/run.json"], "--baseline /nonexistent/run.json: No such file"),
        (["--resume", "/tmp"], "--resume /tmp: Is a directory"),
        (["--json", "-"], "'--json': '-': accepted is the name of a file"),
        (["--suite", ""], "'--suite': '': accepted: quick, full"),
        (["--dtype", ""], "'--dtype': '': accepted: float32, float16"),
        (["--mib", "x"], "'--mib': 'x': accepted is a whole number"),
        (["--readings", "1.5"], "'--readings': '1.5': accepted is a whole number"),
        (["--peer-seconds", "x"], "'--peer-seconds': 'x': accepted is a number"),
        (["--json"], "requires an argument. (vkdml bench --help lists what is accepted)"),
        (["--json", ""], "'--json': '': accepted is the name of a file"),
        (["--resume", ""], "'--resume': '': accepted is the name of a file"),
        (["--compare-only"], "takes two files: --json NEW --baseline OLD"),
        *(
            (["--compare-only", "--json", "a", "--baseline", "b", *besides], "other options are not accepted")
            for besides in (["--suite", "full"], ["--op", "argmax"], ["--device", "0"], ["--plot", "a.svg"])
        ),
        (["--merge", "/nonexistent/run.json"], "--merge /nonexistent/run.json: No such file"),
    ],
)
def test_mistakes_are_one_line_that_says_what_is_accepted(words, accepted, capsys, monkeypatch):
    monkeypatch.setattr(session, "run", lambda *arguments: pytest.fail("nothing may run"))
    assert main(["bench", *words]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("vkdml: ")
    assert accepted in line
    assert said.out == ""


def test_a_merge_without_peers_and_of_another_device_is_refused(device, tmp_path, capsys):
    file = tmp_path / "run.json"
    made = one_row_record(device)
    record_file.save(made, file)
    assert main(["bench", "--merge", str(file), "--peers", "none"]) == 2
    assert "--merge adds peers" in capsys.readouterr().err
    made.device["name"] = "another"
    record_file.save(made, file)
    assert main(["bench", "--merge", str(file), "--peers", "numpy"]) == 2
    assert "accepted is a record of the same device" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "tune"])
@pytest.mark.parametrize("selector", ["nosuch", "", " ", "99", "\udcff"])
def test_an_unknown_device_is_refused_before_anything_runs(capsys, monkeypatch, command, selector):
    monkeypatch.setattr(session, "run", lambda *arguments: pytest.fail("nothing may run"))
    assert main([command, "--device", selector]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--device: " in line
    assert vkdml.devices()[0].name in line, "what would be accepted is listed"


@pytest.mark.parametrize("command", ["bench", "tune"])
@pytest.mark.parametrize("selector", ["nosuch", "99", "\udcff"])
def test_an_unknown_device_in_the_environment_is_a_fault(capsys, monkeypatch, command, selector):
    monkeypatch.setenv("VKDML_DEVICE", selector)
    monkeypatch.setattr(session, "run", lambda *arguments: pytest.fail("nothing may run"))
    assert main([command]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "VKDML_DEVICE" in line
    assert vkdml.devices()[0].name in line


@pytest.mark.parametrize("fault", [ValueError, TypeError, vkdml.NoDeviceError])
@pytest.mark.parametrize(("words", "status"), [([], 1), (["--device", "e"], 2)])
def test_whatever_a_selector_is_refused_with_is_one_line(capsys, monkeypatch, fault, words, status):
    def refuse(selector):
        raise fault("two devices match 'e'")

    monkeypatch.setattr(vkdml, "Device", refuse)
    assert main(["bench", *words]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert "two devices match 'e'" in line


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_bar_and_the_count_stay_whole_beside_a_long_case(columns):
    console = Console(file=io.StringIO(), width=columns, force_terminal=True, color_system=None)
    bar = bench_progress.Bar(console)
    bar.phase("quick suite", 120)
    bar.step("f32 1024x1048576 ax 0, options and hard data [::-1, ::2]: 12345.6 us, 4321 GB/s")
    console.print(bar._bars.get_renderable())
    (line,) = console.file.getvalue().rstrip("\n").splitlines()
    assert "  1/120 0:00" in line
    if columns >= 80:
        assert line.startswith(
            f"quick suite {' ':20}   1/120 0:00:00 f32 1024x1048576"
        )  # no bar without colours
    assert ("GB/s" in line) == (columns == 200)
    assert ("…" in line) == (columns == 80)


def test_types_without_host_arrays_are_said(capsys, monkeypatch):
    def find_spec(name):
        return None if name == "ml_dtypes" else object()

    monkeypatch.setattr(bench.importlib.util, "find_spec", find_spec)
    bench._say_which_lack_numpy([Case("own", "argmax", name, (8,)) for name in ("float32", "bfloat16")])
    assert capsys.readouterr().err == (
        "vkdml: bfloat16 is timed by its kernels only: ml_dtypes is not installed (pip install ml_dtypes)\n"
    )
    monkeypatch.undo()
    bench._say_which_lack_numpy([Case("own", "argmax", "float32", (8,))])
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_said_with_the_files_name(tmp_path, capsys, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    file = tmp_path / "run.json"
    assert main([*SMALL, "--dtype", "f16", "--json", str(file)]) == 1
    said = faults_of(capsys.readouterr().err)
    assert said == [f"vkdml: {file} cannot be written: No space left on device"]
    assert list(tmp_path.iterdir()) == []


def test_no_terminal_means_a_line_for_each_step_beside_the_report(capsys):
    assert main([*SMALL, "--dtype", "f16"]) == 0
    said = capsys.readouterr()
    assert any(line.startswith("[") and "1/1 f16 40x300" in line for line in said.err.splitlines())
    assert " s] " not in said.out
    assert "f16 40x300" in said.out


@pytest.mark.parametrize("device_type", ["discrete", "software"])
def test_kernels_of_a_gpu_are_built_before_any_case_is_timed(device_type):
    device = vkdml.Device()
    plan = plan_of(Case("own", "argmax", "int8", (1 << 16,)), device.limits)
    built = []
    fake = SimpleNamespace(
        info=SimpleNamespace(type=device_type),
        limits=SimpleNamespace(tuning=TUNING[device_type]),
        executions=SimpleNamespace(pipelines=SimpleNamespace(of=built.append)),
    )

    def refused():
        raise MemoryError("too large")

    measure.build_ahead(fake, [refused, lambda: plan])
    timed = with_fixed_parameters(plan, TUNING["discrete"]).steps
    assert [step.fixed_parameters for step in timed] == [True]
    assert built == (list(timed) if device_type == "discrete" else [])
