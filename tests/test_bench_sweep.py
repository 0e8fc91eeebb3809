"""The sweep: its random cases, how bytes are counted, results checked and reported, and its command."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import oracle
import pytest
from bench_records import printed
from plans import LIMITS

import vkdml
from vkdml import measuring
from vkdml.bench import (
    baseline,
    contents,
    measure,
    plots,
    record_file,
    session,
    sweep_check,
    sweep_report,
    sweep_run,
    view_indices,
)
from vkdml.bench.cases import MIB, Case
from vkdml.bench.check import WrongResult
from vkdml.bench.libraries import by_name as libraries
from vkdml.bench.libraries import peers
from vkdml.bench.record import Peer, PeerTime, Record
from vkdml.bench.sweep import (
    ELEMENTS,
    STEPS,
    SweepCase,
    SweepWindow,
    command,
    sector_bytes,
    sweep_case,
    sweep_cases,
)  # fmt: skip
from vkdml.bench.sweep_torch import SEVERAL_AXES, torch_refusal
from vkdml.bench.sweep_views import repeated_case
from vkdml.cli import main
from vkdml.plan.calls import CopyCall, Operand, ReduceCall

MANY = sweep_cases(11, 2000, 512 * MIB)
SMALL = sweep_cases(11, 150, 1 << 13)
SMALL_WINDOWS = sweep_cases(11, 150, 1 << 13, windows=True)
SMALL_VIEWS = [repeated_case(11, number, 1 << 13) for number in range(60)]
CONTENT = contents.content("bits", 1 << 14)


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(measure, "SOFTWARE_WARM_SECONDS", 0.0)
    monkeypatch.setattr(measure, "SOFTWARE_PATIENCE_SECONDS", 0.0)


# ---- the cases ----------------------------------------------------------------------------------


def share_of(cases, wanted) -> float:
    return sum(map(bool, map(wanted, cases))) / len(cases)


def near(share):
    return pytest.approx(share, abs=0.04)


def test_cases_are_drawn_as_the_documentation_says():
    reductions = [case for case in MANY if case.window is None]
    windows = [case for case in MANY if case.window is not None]
    for rank in (1, 2, 3, 4):
        assert share_of(MANY, lambda case, rank=rank: len(case.memory_shape) == rank) == near(1 / 4)
    for element in ELEMENTS:
        assert share_of(MANY, lambda case, element=element: case.element == element) == near(1 / 6)
    assert share_of(MANY, lambda case: case.is_permuted) == near(0.4)
    assert share_of(MANY, lambda case: case.op == "slice1") == near(0.5)
    assert share_of(reductions, lambda case: case.op == "argmin") == near(0.5)
    assert {case.op for case in windows} == {"slice1"}
    several = [case for case in reductions if len(case.memory_shape) > 1]
    assert share_of(several, lambda case: case.axis is None) == near(0.15)
    assert all(0 < len(case.axis) < len(case.memory_shape) for case in several if case.axis is not None)
    steps = Counter(step for case in windows for step in case.window.steps)
    assert set(steps) == set(STEPS)
    assert steps[1] / steps.total() == near(0.5)
    assert steps[-2] / steps.total() == near(0.125)


def test_sizes_are_of_every_kind():
    sizes = Counter(size for case in MANY if len(case.memory_shape) > 1 for size in case.memory_shape)
    kinds = [
        (lambda size: size & (size - 1) == 0),
        (lambda size: 2 <= size <= 17),
        (lambda size: 100 <= size < 1000),
        (lambda size: 1000 <= size < 10_000),
        (lambda size: 100_000 <= size < 1_000_000),
        (lambda size: size == 513),
        (lambda size: size == 50257),
    ]
    for kind in kinds:
        assert sum(count for size, count in sizes.items() if kind(size)) > sizes.total() / 40


def test_arrays_are_nearly_as_large_as_asked_for():
    assert all(256 * MIB < case.input_bytes <= 512 * MIB for case in MANY)
    assert all(case.read_bytes >= case.input_bytes / 16 for case in MANY)
    assert all(2 << 20 < case.input_bytes <= 4 << 20 for case in sweep_cases(1, 200, 4 * MIB))


def test_a_case_comes_from_seed_number_and_size_alone():
    assert sweep_case(11, 1234, 512 * MIB) == MANY[1234]
    assert sweep_cases(11, 30, 512 * MIB) == MANY[:30]
    names = [[case.name for case in sweep_cases(seed, 30, 512 * MIB)] for seed in (0, 1)]
    assert names[0] != names[1]
    smaller = sweep_cases(11, 30, 4 * MIB)
    assert [(case.op, case.element) for case in smaller] == [(case.op, case.element) for case in MANY[:30]]


def test_cases_are_the_same_with_every_version_of_python():
    # A record names a case by its number: a change here needs another seed text, or records lie.
    assert [sweep_case(3, number, 4 * MIB).name for number in (1, 5, 8)] == [
        "argmin u8 128544x2x2x8 perm 0,3,1,2 ax 1,2,3",
        "slice1 i8 4194304 [0:4194304:3]",
        "slice1 i64 2x317x256x3 perm 3,0,2,1 [1::-2,7:166,0:256:2,0:3]",
    ]


@pytest.mark.parametrize("name", sorted(LIMITS))
@pytest.mark.parametrize("mib", [4, 512])
def test_every_case_has_a_plan_or_a_reason(name, mib):
    limits = LIMITS[name]
    cases, reasons = sweep_cases(5, 150, mib * MIB), []
    for case in cases:
        try:
            plan = case.plan(limits)
        except (MemoryError, ValueError) as error:
            reasons.append(str(error))
            continue
        assert plan.bytes_of("input") >= case.input_bytes
        result = plan.bytes_of("output") if case.window else plan.bytes_of("indices")
        assert case.written_bytes() - 32 < result
    assert all(any(letter.isdigit() for letter in reason) for reason in reasons)
    if mib == 4 or name == "h200":
        assert not reasons
    elif limits.max_storage_buffer_range < min(case.input_bytes for case in cases):
        assert len(reasons) == len(cases)


@pytest.mark.parametrize("seed", [1010, 1019, 70707])
def test_no_large_case_leaves_most_of_a_gpu_idle(seed):
    """The kernel that reads has two workgroups or more for each of 132 multiprocessors, or nearly."""
    for number in range(250):
        case = sweep_case(seed, number, 512 * MIB)
        if case.read_bytes < 64 * MIB:
            continue
        first, *_ = case.plan(LIMITS["h200"]).steps
        assert first.workgroups >= 200, (case.name, first.kernel)


def test_windows_are_reduced_instead_of_copied():
    """Whole arrays stay as they are, and so does what takes part of the others."""
    windows = sweep_cases(11, 400, 512 * MIB, windows=True)
    assert not any(case.is_copy for case in windows)
    axes = set()
    for case, other in zip(MANY, windows, strict=False):
        assert (case == other) == (not case.is_copy)
        assert (case.window, case.element, case.read_bytes) == (other.window, other.element, other.read_bytes)
        if case.is_copy:
            axes.add((other.op, other.axis))
            assert other.outputs * 4 <= other.written_bytes() < other.outputs * 4 + 32
            assert other.outputs <= case.outputs
    assert {op for op, _ in axes} == {"argmax", "argmin"}
    assert {axis for _, axis in axes} > {None, (0,), (1,), (0, 1), (0, 2, 3)}


def test_a_reduced_window_is_the_planners_own_call():
    case = SweepCase(
        0, 0, "argmin", "float16", (7, 5), (1, 0), (1,), window=SweepWindow((1, 0), (4, 7), (-2, 3))
    )
    call = case.call(8)
    assert isinstance(call, ReduceCall)
    assert call.input == Operand((2, 3), (-2, 15), 4, 35)
    assert call.output.sizes == (2, 1)
    assert case.name == "argmin f16 5x7 perm 1,0 [4:0:-2,0:7:3] ax 1"


def test_torch_reduces_windows_without_negative_steps():
    window = SweepWindow((1, 0), (4, 7), (2, 3))
    case = SweepCase(0, 0, "argmax", "float16", (7, 5), (1, 0), (1,), window=window)
    assert not torch_refusal(case)
    backwards = replace(case, window=replace(window, steps=(2, -3)))
    assert "negative steps" in torch_refusal(backwards)
    assert not torch_refusal(replace(backwards, op="slice1", axis=None))


def test_repeated_cases_read_all_of_an_array_several_times():
    kinds = Counter()
    for number in range(300):
        case = repeated_case(11, number, 64 * MIB)
        assert case.is_copy
        assert case.window is None
        assert not case.is_permuted
        sizes, strides = case.view.sizes, case.view.strides
        assert 32 * MIB < math.prod(sizes) * case.element_bytes <= 64 * MIB
        reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        assert reach == case.elements - 1
        assert case.elements <= math.prod(sizes)
        assert case.read_bytes == -(-case.input_bytes // 32) * 32
        kinds[case.view.kind] += 1
    assert min(kinds[kind] for kind in ("repeats", "windows", "patches")) > 60


def test_repeated_cases_are_the_same_with_every_version_of_python():
    # As above: a record names a case by its number.
    assert [repeated_case(7, number, MIB).name for number in (0, 2, 9)] == [
        "slice1 f16 patches 5x3x2x2x63x127 of 5x3x64x128 strides 24576,8192,128,1,128,1",
        "slice1 i64 repeats 4x16x2048 of 16x2048 strides 0,2048,1",
        "slice1 i8 repeats 149796x7 of 149796 strides 1,0",
    ]


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_every_repeated_case_has_a_plan(name):
    for number in range(150):
        case = repeated_case(5, number, 16 * MIB)
        call = case.call()
        assert isinstance(call, CopyCall)
        assert call.output == Operand.compact(case.view.sizes)
        assert case.plan(LIMITS[name]).bytes_of("output") >= math.prod(case.view.sizes) * case.element_bytes


def test_indices_that_do_not_fit_are_refused():
    case = SweepCase(0, 0, "argmax", "int8", (1 << 31, 2), (0, 1))
    with pytest.raises(ValueError, match=rf"indices up to {(1 << 32) - 1} do not fit int32"):
        case.plan(LIMITS["h200"])


def test_the_calls_are_the_planners_own():
    reduction = SweepCase(0, 0, "argmin", "float16", (5, 7, 3), (2, 0, 1), (0, 2))
    assert reduction.sizes == (3, 5, 7)
    call = reduction.call(8)
    assert isinstance(call, ReduceCall)
    assert call.input == Operand((3, 5, 7), (1, 21, 3), 0, 105)
    assert call.output.sizes == (1, 5, 1)
    assert call.order.take_min
    window = SweepWindow((1, 0), (4, 7), (-2, 3))
    copied = SweepCase(0, 0, "slice1", "int64", (7, 5), (1, 0), window=window)
    call = copied.call()
    assert isinstance(call, CopyCall)
    assert call.input == Operand((2, 3), (-2, 15), 4, 35)
    assert copied.name == "slice1 i64 5x7 perm 1,0 [4:0:-2,0:7:3]"


# ---- bytes --------------------------------------------------------------------------------------


def touched(operand: Operand, element_bytes: int) -> int:
    positions = np.full((1,), operand.base, np.int64)
    for size, stride in zip(operand.sizes, operand.strides, strict=True):
        positions = (positions[:, None] + np.arange(size) * stride).reshape(-1)
    return 32 * np.unique(positions * element_bytes // 32).size


def test_sectors_are_counted_as_they_are_touched():
    for case in [*SMALL, *SMALL_WINDOWS, *sweep_cases(4, 150, 1 << 15)]:
        assert case.read_bytes == touched(case.source, case.element_bytes), case


@pytest.mark.parametrize(
    ("sizes", "strides", "base", "element_bytes", "expected"),
    [
        ((64,), (1,), 0, 4, 256),
        ((64,), (2,), 0, 4, 512),
        ((4,), (1,), 7, 4, 64),
        ((10,), (9,), 0, 4, 320),
        ((10,), (-9,), 81, 4, 320),
        ((8, 1), (8, 1), 0, 1, 64),
        ((2, 3, 40), (5 * 40, 80, 1), 0, 1, None),  # a block ends where the next begins
    ],
)
def test_sectors_of_single_layouts(sizes, strides, base, element_bytes, expected):
    operand = Operand(sizes, strides, base, 1 << 20)
    assert sector_bytes(operand, element_bytes) == touched(operand, element_bytes)
    assert expected in (None, touched(operand, element_bytes))


# ---- checking -----------------------------------------------------------------------------------


def view_of(case: SweepCase, dtype) -> np.ndarray:
    return CONTENT[: case.input_bytes].view(dtype).reshape(case.memory_shape).transpose(case.permutation)


def right(case: SweepCase) -> np.ndarray:
    """What a case writes, by the oracle."""
    view = view_of(case, oracle.dtype_named(case.element))
    if case.view is not None:
        bits = view.view(f"u{case.element_bytes}")
        byte_strides = [stride * case.element_bytes for stride in case.view.strides]
        return np.array(np.lib.stride_tricks.as_strided(bits, case.view.sizes, byte_strides), order="C")
    if case.window is not None:
        window = case.window
        view = oracle.slice1(view, window.offsets, window.sizes, window.steps)
    if case.is_copy:
        return np.array(view.view(f"u{case.element_bytes}"), order="C")
    return np.array(oracle.argreduce(view, case.axis, case.op)[0], np.int32, order="C")


def checked(case: SweepCase, result: np.ndarray) -> None:
    outputs = {"output" if case.is_copy else "indices": result.reshape(-1).view(np.uint8)}
    sweep_check.check(case, CONTENT, outputs, 4)


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
@pytest.mark.parametrize("core_count", [1, 5])
def test_right_results_pass_and_one_wrong_element_does_not(monkeypatch, block_bytes, core_count):
    monkeypatch.setattr(sweep_check, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(view_indices, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(view_indices, "cores", lambda: core_count)
    random = np.random.default_rng(0)
    for case in [*SMALL[:60], *(case for case in SMALL_WINDOWS[:60] if case.window), *SMALL_VIEWS]:
        result = right(case)
        checked(case, result)
        at = tuple(map(int, np.unravel_index(random.integers(result.size), result.shape)))
        result[at] = result[at] ^ result.dtype.type(1)
        with pytest.raises(WrongResult) as wrong:
            checked(case, result)
        assert str(at) in str(wrong.value), case


def test_ties_are_decided_by_the_logical_index():
    equal = np.zeros(6 * 5 * 4, np.uint8)
    case = SweepCase(0, 0, "argmax", "uint8", (6, 5, 4), (2, 1, 0), None)
    equal[[7, 21, 60]] = 9  # in the view: (3, 1, 0), (1, 0, 1), (0, 0, 3)
    view = equal.reshape(6, 5, 4).transpose(2, 1, 0)
    order = Case("", case.op, case.element, (1,))
    assert int(view_indices.right_indices(view, case.axes, order)) == 3 == int(view.argmax())
    last = Case("", case.op, case.element, (1,), direction="decreasing")
    right = view.size - 1 - int(view.reshape(-1)[::-1].argmax())
    assert int(view_indices.right_indices(view, case.axes, last)) == right


# ---- runs ---------------------------------------------------------------------------------------


class Silent:
    def phase(self, name, steps):
        pass

    def step(self, said):
        pass


def test_twelve_cases_take_seconds(tmp_path, capsys, monkeypatch):
    file, plot = tmp_path / "sweep.json", tmp_path / "sweep.svg"
    start = time.process_time()
    words = ["--seed", "3", "--cases", "12", "--mib", "1", "--peers", "none", "--readings", "3"]
    assert main(["bench", "--suite", "sweep", *words, "--json", str(file), "--plot", str(plot)]) == 0
    assert time.process_time() - start < 60
    said = capsys.readouterr().err
    made = record_file.load(file)
    assert [row.number for row in made.sweep] == list(range(12))
    assert [row.case for row in made.sweep] == [case.name for case in sweep_cases(3, 12, MIB)]
    for row in made.sweep:
        assert not row.wrong
        assert not row.refused
        assert 0 < row.low_us <= row.us <= row.high_us
        assert row.gb_per_s == pytest.approx((row.read_bytes + row.written_bytes) / row.us / 1e3, rel=1e-3)
        assert row.kernels
        assert row.case in said
    assert made.suite == "sweep"
    assert made.settings["seed"] == 3
    assert made.settings["mib"] == 1
    reads = [row.input_bytes / row.us / 1e3 for row in made.sweep if row.op != "slice1"]
    assert made.ceiling_gb_per_s >= max(reads) * (1 - 1e-3)
    assert (tmp_path / "sweep-sweep.svg").stat().st_size > 1000

    assert (
        main(["bench", "--suite", "sweep", "--seed", "3", "--case", "7", *words[4:], "--json", str(file)])
        == 0
    )
    (alone,) = record_file.load(file).sweep
    assert (alone.number, alone.case) == (7, made.sweep[7].case)


def test_a_wrong_result_fails_the_run_and_says_how_to_run_it_alone(monkeypatch, capsys, tmp_path):
    file = tmp_path / "sweep.json"
    time_plan = measuring.time_plan
    broken = next(number for number, case in enumerate(sweep_cases(6, 5, MIB)) if case.window is None)
    calls = Counter()

    def breaks_one(device, plan, bound, **options):
        reading = time_plan(device, plan, bound, **options)
        calls["all"] += 1
        if calls["all"] == 4 + broken:  # after the three plain reads
            reading.outputs["indices"][0] ^= 1
        return reading

    monkeypatch.setattr(sweep_run, "time_plan", breaks_one)
    words = ["--seed", "6", "--cases", "5", "--mib", "1", "--peers", "none", "--readings", "1"]
    assert main(["bench", "--suite", "sweep", *words, "--json", str(file)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"it runs alone with {command(6, broken, 1)}" in said
    assert "expected is" in said
    rows = record_file.load(file).sweep
    assert [row.number for row in rows if row.wrong] == [broken]
    assert len(rows) == 5


@pytest.mark.parametrize("data", ["bits", "flags", "constant"])
def test_the_arrays_hold_what_was_asked_for(data, monkeypatch, tmp_path, capsys):
    seen = []
    check = sweep_check.check

    def noted(case, content, outputs, index_bytes):
        seen.append((case.data, len(np.unique(content[: case.input_bytes]))))
        check(case, content, outputs, index_bytes)

    monkeypatch.setattr(sweep_check, "check", noted)
    written = tmp_path / "sweep.json"
    words = ["--cases", "6", "--mib", "1", "--readings", "1", "--peers", "none", "--json", str(written)]
    assert main(["bench", "--suite", "sweep", "--data", data, *words]) == 0
    assert seen == [(data, {"bits": 256, "flags": 2, "constant": 1}[data])] * 6
    assert json.loads(written.read_text())["settings"]["data"] == data
    said = " ".join(capsys.readouterr().out.split())
    assert f"of up to 1 MiB of {sweep_report.SAID_OF_DATA[data]};" in said
    assert " --data" not in command(3, 5, 1)
    assert command(3, 5, 1, data="flags").endswith(" --data flags --seed 3 --case 5 --mib 1")


def test_a_wrong_result_does_not_end_the_cases_after_it(monkeypatch):
    cases = sweep_cases(6, 5, MIB)
    run = sweep_run._Bench(vkdml.default_device(), sweep_run.SweepOptions(readings=1), cases)
    check, said = sweep_check.check, []

    def finds(case, content, outputs, index_bytes):
        check(case, content, outputs, index_bytes)
        if case.number in (1, 4):
            raise WrongResult(f"of {case.number}")

    monkeypatch.setattr(sweep_check, "check", finds)
    rows = list(run.run(cases, said.append))
    assert [row.number for row in rows] == [row.number for row in said] == [0, 1, 2, 3, 4]
    assert [row.wrong for row in rows] == ["", "of 1", "", "", "of 4"]


def test_kernels_that_write_nothing_are_found(monkeypatch):
    monkeypatch.setattr(measuring.RecordedPlan, "run", lambda recorded: None)
    monkeypatch.setattr(measuring.RecordedPlan, "timings", lambda recorded: [1.0] * measuring.REPEATS)
    options = sweep_run.SweepOptions(seed=2, numbers=range(6), mib=1, readings=1)
    made = sweep_run.run(vkdml.default_device(), options, Silent())
    assert all(row.wrong for row in made.sweep)


def test_a_sweep_that_is_interrupted_leaves_the_cases_that_are_done(tmp_path, monkeypatch, capsys):
    real, timed = measuring.time_plan, []

    def interrupted(*arguments, **options):
        if len(timed) == 3 + 2:  # the plain reads, and two cases
            raise KeyboardInterrupt
        timed.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(sweep_run, "time_plan", interrupted)
    monkeypatch.setattr(session, "KEEP_SECONDS", 0.0)
    file = tmp_path / "sweep.json"
    words = ["--seed", "6", "--cases", "5", "--mib", "1", "--peers", "none", "--readings", "1"]
    assert main(["bench", "--suite", "sweep", *words, "--json", str(file)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"vkdml: stopped; {file} has 2 cases"
    kept = record_file.load(file)
    assert [row.number for row in kept.sweep] == [0, 1]
    assert kept.ceiling_gb_per_s > 0
    assert printed(kept)


def test_a_fault_of_the_device_names_the_case(monkeypatch):
    def fails(*arguments, **options):
        raise vkdml.DeviceLostError("the driver lost the device")

    options = sweep_run.SweepOptions(seed=2, numbers=[9], mib=1, readings=1)
    device = vkdml.default_device()
    monkeypatch.setattr(sweep_run, "_plain_reads", lambda device, most: [])
    monkeypatch.setattr(sweep_run, "time_plan", fails)
    with pytest.raises(
        vkdml.DeviceLostError, match=r"lost the device; it runs alone with .* --case 9 --mib 1"
    ):
        sweep_run.run(device, options, Silent())


def test_what_a_device_cannot_hold_is_refused_and_fails_alone(capsys, monkeypatch):
    device = vkdml.default_device()
    if device.info.type != "software":
        pytest.skip("for limits of software devices")
    monkeypatch.setattr(sweep_run, "_plain_reads", lambda device, most: [])
    mib = 2 * device.limits.max_storage_buffer_range // MIB
    words = ["--seed", "6", "--case", "1", "--mib", str(mib), "--peers", "none"]
    assert main(["bench", "--suite", "sweep", *words]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"more than one buffer of this device can hold ({device.limits.max_storage_buffer_range} bytes)"
        in said
    )


def test_a_sweep_of_repeated_reads(tmp_path, monkeypatch, capsys):
    file = tmp_path / "repeated.json"
    words = ["--suite", "sweep", "--repeated", "--seed", "3", "--mib", "1", "--peers", "none"]
    assert main(["bench", *words, "--cases", "8", "--readings", "3", "--json", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "8 cases, copies that read memory several times, of up to 1 MiB" in said
    made = record_file.load(file)
    cases = [repeated_case(3, number, MIB) for number in range(8)]
    assert [row.case for row in made.sweep] == [case.name for case in cases]
    for row, case in zip(made.sweep, cases, strict=True):
        assert not row.wrong
        assert not row.refused
        assert (row.sizes, row.strides) == (list(case.view.sizes), list(case.view.strides))
    assert made.ceiling_case not in [case.name for case in cases]

    def spoilt(case, content, outputs, index_bytes):
        raise WrongResult("spoilt")

    monkeypatch.setattr(sweep_check, "check", spoilt)
    assert main(["bench", *words, "--case", "5", "--readings", "1"]) == 1
    alone = "vkdml bench --suite sweep --repeated --seed 3 --case 5 --mib 1"
    assert alone in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--suite", "sweep", "--op", "argmax"],
            "--op: not accepted beside --suite sweep; accepted are --seed, --cases",
        ),
        (["--suite", "sweep", "--shape", "3x4"], "--shape: not accepted beside --suite sweep"),
        (["--suite", "sweep", "--compare-only"], "--compare-only: not accepted beside"),
        (["--suite", "quick", "--seed", "0"], "--seed 0: accepted beside --suite sweep only"),
        (["--cases", "3"], "--cases 3: accepted beside --suite sweep only"),
        (["--case", "3"], "--case 3: accepted beside --suite sweep only"),
        (["--suite", "sweep", "--cases", "0"], "--cases 0: at least 1 is accepted"),
        (["--suite", "sweep", "--case", "-1"], "--case -1: at least 0 is accepted"),
        (
            ["--suite", "sweep", "--case", "1", "--cases", "2"],
            "--case 1 is one case; --cases is not accepted",
        ),
        (["--shape", "8x8", "--peer-seconds", "inf"], "--peer-seconds inf: more than 0 is accepted, up to"),
        (["--suite", "sweep", "--mib", "0"], "--mib 0: at least 1 is accepted"),
        (["--suite", "quick", "--repeated"], "--repeated: accepted beside --suite sweep only"),
        (["--suite", "sweep", "--repeated", "--windows"], "are sweeps of their own: accepted is one of them"),
        (["--suite", "sweep", "--data", "zeros"], "--data zeros: accepted are bits, flags, constant"),
        (["--suite", "quick", "--data", "bits"], "--data bits: accepted beside --suite sweep only"),
        (["--suite", "sweep", "--peers", "numpy"], "accepted beside --suite sweep are auto, none or torch"),
    ],
)
def test_mistakes_are_named(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


# ---- reports ------------------------------------------------------------------------------------


def swept(shares, ratios=(), kind="discrete") -> Record:
    """A record of a sweep that was never run: shares of a fastest read of 1000 GB/s."""
    rows = []
    for number, share in enumerate(shares):
        row = sweep_run.row_of(sweep_case(1, number, 512 * MIB), 4)
        row.gb_per_s = 1000 * share
        row.us = row.low_us = row.high_us = 100.0
        if number < len(ratios):
            row.peers = {"torch": PeerTime(100 * ratios[number], 1.0, 1.0)}
        rows.append(row)
    return Record(
        date="2026-01-31", suite="sweep",
        versions={"vkdml": "0.1.0", "python": "3.12.3", "numpy": "2.5.2"},
        machine={"processor": "A processor of a long name, Platinum 8480C", "cores": 16, "system": "Linux"},
        device={"name": "NVIDIA H200", "type": kind, "driver": "NVIDIA 580 Vulkan 1.4", "subgroup": 32},
        settings={"seed": 1, "mib": 512}, ceiling_gb_per_s=1000.0, ceiling_case="argmax f32 134217728 all",
        rows=[], latency=[], sweep=rows,
        peers={"torch": Peer("2.11.0", "device", "events")} if ratios else {},
    )  # fmt: skip


def test_quantiles_are_values_that_occurred():
    ascending = [float(value) for value in range(1, 501)]
    assert [sweep_report.quantile(ascending, at) for _, at in sweep_report.QUANTILES] == [1, 5, 50]
    assert sweep_report.quantile([7.0], 0.1) == 7.0
    assert measuring.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)


def test_the_report_has_quantiles_and_the_worst_in_80_columns():
    shares = [(number + 1) / 100 for number in range(100)]
    ratios = [4.0] * 50 + [0.25] + [4.0] * 49
    made = swept(shares, ratios)
    made.sweep[99].refused = "the input spans 9 bytes"
    made.sweep[98].wrong = "the index of output (0,) is 1, expected is 2"
    said = printed(made)
    assert max(map(len, said.splitlines())) <= 80
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "lowest 1% 10% median mean cases" in lines
    assert "share of the fastest read, all 0.010 0.010 0.10 0.49 98" in lines
    mean = math.exp((97 * math.log(4) + math.log(0.25)) / 98)
    assert f"times as fast as torch, all 0.25 0.25 4.00 4.00 {mean:.2f} 98" in lines
    together = " ".join(lines)
    assert "the 20 worst by share of the fastest read" in together
    assert "the 20 worst by ratio to torch" in together
    assert "it is faster in 1 case" in together
    assert "refused: 99:" in together
    assert f"it runs alone with {command(1, 98, 512)}" in together
    first, second = together.split("the 20 worst by ratio to torch")
    first = first.split("the 20 worst by share")[1]
    assert re.findall(r" (\d+) 100\.0 ", first) == [str(number) for number in range(20)]
    assert re.findall(r" (\d+) 100\.0 ", second)[:2] == ["50", "0"]


def test_the_report_has_no_column_for_torch_without_its_times():
    lines = [" ".join(line.split()) for line in printed(swept([0.5], [])).splitlines()]
    assert "the worst by share of the fastest read" in " ".join(lines)
    assert "lowest 1% 10% median cases" in lines
    assert "share of the fastest read, all 0.50 0.50 0.50 0.50 1" in lines
    assert not [line for line in lines if "torch" in line or "mean" in line]


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle():
    said = " ".join(printed(swept([0.1, 0.2, 0.6, 0.9], [1.0, 2.0, 3.0, 8.0])).split())
    assert "share of the fastest read, all 0.10 0.10 0.10 0.40 4" in said
    assert "times as fast as torch, all 1.00 1.00 1.00 2.50 2.63 4" in said


@pytest.mark.parametrize(("count", "said"), [(1, "seed 1: 1 case of up to"), (2, "seed 1: 2 cases of up to")])
def test_the_report_says_how_many_cases_there_are(count, said):
    assert said in printed(swept([0.5] * count))
    made = swept([0.5] * count)
    made.settings["windows"] = True
    with_windows = said.replace(" of up", ", windows reduced instead of copied, of up")
    assert with_windows in " ".join(printed(made).split())


def test_a_sweep_comes_back_from_its_file_and_is_drawn(tmp_path):
    made = swept([0.5, 0.9, 1.0, 0.2], [2.0, 0.5])
    made.sweep[3].peers["torch"] = PeerTime(why=SEVERAL_AXES)
    path = tmp_path / "sweep.json"
    record_file.save(made, path)
    assert record_file.load(path) == made
    assert json.loads(path.read_text())["format"] == record_file.FORMAT
    assert plots.write(made, tmp_path / "s.svg") == [tmp_path / "s-sweep.svg"]
    text = (tmp_path / "s-sweep.svg").read_text()
    plots.write(made, tmp_path / "t.svg")
    assert (tmp_path / "t-sweep.svg").read_text() == text


def test_sweeps_are_compared_too():
    old, new = (swept([0.5, 0.9]) for _ in range(2))
    for case in new.sweep:
        case.us = case.low_us = case.high_us = 200.0
    assert {change.verdict for change in baseline.compare(new, old)} == {"slower"}
    assert {change.verdict for change in baseline.compare(old, old)} == {"same"}


def test_peers_are_not_merged_into_a_sweep(tmp_path, capsys):
    record_file.save(swept([0.5]), tmp_path / "sweep.json")
    before = (tmp_path / "sweep.json").read_text()
    assert main(["bench", "--merge", str(tmp_path / "sweep.json"), "--peers", "numpy"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is of the suite sweep; accepted are records of the other suites" in said
    assert (tmp_path / "sweep.json").read_text() == before


def test_names_are_printed_as_they_are(tmp_path, capsys):
    name = tmp_path / "[bold]q[/x.json"
    name.parent.mkdir()
    assert main(["bench", "--shape", "8x8", "--peers", "none", "--readings", "1", "--json", str(name)]) == 0
    assert f"written to {name}" in capsys.readouterr().out


def test_a_record_without_a_sweep_has_none(tmp_path):
    path = tmp_path / "old.json"
    record_file.save(swept([0.5]), path)
    old = json.loads(path.read_text()) | {"format": 2}
    del old["sweep"]
    path.write_text(json.dumps(old))
    assert record_file.load(path).sweep == []


# ---- torch --------------------------------------------------------------------------------------


def test_torch_is_asked_for_what_it_has():
    for case in MANY[:300]:
        several = case.axis is not None and len(case.axis) > 1
        assert torch_refusal(case) == (SEVERAL_AXES if several else "")


def test_cases_cross_to_the_librarys_process_and_its_times_come_back(monkeypatch):
    cases = [*SMALL[:6], *SMALL_VIEWS[:2]]
    made = swept([0.5] * 8)
    made.sweep[2].wrong = "wrong"
    asked = []

    class Pretended(libraries.NumPy):
        def time_sweep(self, case):
            asked.append(case)
            if case.window is not None:
                raise libraries.Unsupported("no windows")
            return [10.0, 20.0, 30.0]

    def answer(request, device, patience):
        return libraries.answers(json.loads(json.dumps(request)))

    monkeypatch.setitem(libraries.LIBRARIES, "numpy", Pretended)
    monkeypatch.setattr(peers, "_ask", answer)
    peers.time_sweep("numpy", vkdml.default_device(), made, cases, named=True)
    assert asked == cases[:2] + cases[3:]
    for case, row in zip(cases, made.sweep, strict=True):
        time = row.peers.get("numpy")
        if row.wrong:
            assert time is None
        elif case.window is None:
            assert time.us == 20.0
        else:
            assert time.why == "no windows"


def test_a_library_that_has_no_sweep_says_so():
    with pytest.raises(libraries.Unsupported, match="not timed beside a sweep"):
        libraries.NumPy(False, 16).time_sweep(SMALL[0])


def test_torch_computes_the_same():
    torch = pytest.importorskip("torch")
    from vkdml.bench.sweep_torch import torch_call

    windows = [case for case in SMALL_WINDOWS if case.window]
    for case in [case for case in [*SMALL, *windows, *SMALL_VIEWS] if not torch_refusal(case)]:
        flat = torch.from_numpy(CONTENT[: case.input_bytes])
        result = torch_call(torch, flat, case)().contiguous()
        if not case.is_copy:
            checked(case, result.numpy().astype(np.int32))
        else:
            checked(case, result.reshape(-1).view(torch.uint8).numpy())
