"""The search of tuning settings, on made-up objectives and on the device, and the command that runs it."""

from __future__ import annotations

import io
import json
import math
import random
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console
from separate import forget_open_devices

import vkdml
from vkdml import tune
from vkdml.cli import main
from vkdml.cli import tune as command
from vkdml.measuring import build_kernels
from vkdml.plan import device_classes, kernels, tuning
from vkdml.plan.plans import DeviceLimits, Plan, Step
from vkdml.runtime import device as devices
from vkdml.runtime import profile
from vkdml.tune import Case, CaseTimes, Found, Measured, ResultsDifferError, search

A, B, C = list(tuning.SEARCH)[:3]
VALUES = (1, 2, 4, 8, 16, 32, 64)
CANDIDATES = {A: VALUES, B: VALUES, C: VALUES}
LIMITS = DeviceLimits(replace(device_classes.DISCRETE, **{A: 8, B: 8, C: 8}), 1 << 30, 1 << 16, 1 << 10)


def case(name, *used):
    """A case whose plan depends on the given fields, and which the plan names."""
    return Case(
        name,
        lambda limits: Plan((Step(name, tuple(getattr(limits.tuning, f) for f in used), b"", 1),), (), ()),
    )


class Bench:
    """A made-up device: nanoseconds by case name and constants; remembers which plans it was given."""

    def __init__(self, nanoseconds, results=lambda name, values: b"right"):
        self.nanoseconds, self.results, self.ran = nanoseconds, results, []

    def __call__(self, plan):
        (step,) = plan.steps
        self.ran.append((step.kernel, step.constants))
        return Measured(
            self.nanoseconds(step.kernel, step.constants), self.results(step.kernel, step.constants)
        )


def away(value, best):
    """A factor that grows with the distance from the best value."""
    return 1 + 0.1 * abs(math.log2(value / best))


# ---- the search ----------------------------------------------------------------------------------


def test_it_finds_the_optimum_and_says_what_it_gained():
    bench = Bench(lambda name, v: 1000 * away(v[0], 64) * (away(v[1], 1) if name == "y" else 1))
    found = search([case("x", A), case("y", A, B)], LIMITS, bench, candidates=CANDIDATES)
    assert found.values == {A: 64, B: 1}
    assert found.default == LIMITS.tuning
    assert found.complete
    assert found.cases == (CaseTimes("x", 1300, 1000), CaseTimes("y", 1300 * 1.3, 1000))
    assert found.speed_up == pytest.approx(1.3 * math.sqrt(1.3))


def test_it_counts_the_candidates_and_plans_that_it_measured():
    bench = Bench(lambda *_: 1000)
    found = search([case("x", A), case("y", A, B)], LIMITS, bench, candidates=CANDIDATES)
    assert found.candidates == 3 * (len(VALUES) - 1), "C changes no plan, but is a candidate all the same"
    assert found.plans == len(set(bench.ran)) == len(VALUES) + 2 * len(VALUES) - 1


def test_plans_are_prepared_once_before_they_are_measured():
    bench = Bench(lambda *_: 1000)
    prepared = []

    def prepare(plans, is_time_left):
        assert is_time_left()
        prepared.extend((plan.steps[0].kernel, plan.steps[0].constants) for plan in plans)
        assert not set(prepared[-len(plans) :] if plans else ()) & set(bench.ran)

    search([case("x", A), case("y", A, B)], LIMITS, bench, candidates=CANDIDATES, prepare=prepare)
    assert len(prepared) == len(set(prepared)) == len(set(bench.ran))


def test_fields_that_depend_on_each_other_take_a_second_pass():
    # B matters only with A at 64, and A comes after B.
    bench = Bench(lambda _, v: 1000 * away(v[0], 64) * (away(v[1], 1) / 2 if v[0] == 64 else 1))
    found = search([case("x", A, B)], LIMITS, bench, candidates={B: VALUES, A: VALUES})
    assert found.values == {A: 64, B: 1}


def test_noise_is_not_kept():
    for seed in range(20):
        noise = random.Random(seed)
        bench = Bench(lambda *_, noise=noise: noise.uniform(990, 1010))
        found = search([case(str(i), A, B, C) for i in range(3)], LIMITS, bench, candidates=CANDIDATES)
        assert found.values == {}
        assert found.speed_up == 1


def test_one_lucky_reading_is_not_kept():
    lucky = {}

    def nanoseconds(_, values):
        lucky[values] = lucky.get(values, 0) + 1
        return 500 if lucky[values] == 1 and values != (8,) else 1000

    bench = Bench(nanoseconds)
    assert search([case("x", A)], LIMITS, bench, candidates={A: VALUES}).values == {}
    assert lucky[(16,)] == 2


def test_what_does_not_hold_in_the_last_comparison_is_not_kept():
    readings = {}

    def nanoseconds(_, values):
        readings[values] = readings.get(values, 0) + 1
        return 1500 if values == (16,) and readings[values] == 3 else 500 if values == (16,) else 1000

    found = search([case("x", A)], LIMITS, Bench(nanoseconds), candidates={A: (8, 16)})
    assert readings[(16,)] == 3
    assert (found.values, found.speed_up) == ({}, 1)


def test_a_gain_in_one_of_many_cases_counts():
    bench = Bench(lambda name, v: 1000 * (away(v[0], 16) if name == "b" else 1))
    cases = [case("b", B), *(case(f"a{i}", A) for i in range(30))]
    assert search(cases, LIMITS, bench, candidates=CANDIDATES).values == {B: 16}


def test_what_changes_no_plan_is_not_measured():
    bench = Bench(lambda *_: 1000)
    search([case("x", A)], LIMITS, bench, candidates=CANDIDATES)
    assert sorted(bench.ran) == [("x", (value,)) for value in VALUES]


def test_a_candidate_that_changes_a_result_fails_the_search_and_is_named():
    bench = Bench(
        lambda _, v: v[0], lambda name, v: b"wrong" if name == "second" and v[0] == 32 else b"right"
    )
    with pytest.raises(ResultsDifferError, match=f"^{A} = 32 changes the result of 'second'"):
        search([case("first", A), case("second", A)], LIMITS, bench, candidates={A: VALUES})


@pytest.mark.parametrize(("seconds", "values"), [(6, {}), (14, {A: 64}), (1000, {A: 64, B: 1})])
def test_what_was_found_when_the_time_ran_out_counts(seconds, values):
    bench = Bench(lambda _, v: 1000 * away(v[0], 64) * away(v[1], 1))
    # Every reading takes a second: 1 of the defaults, 6 of A's other values and 2 to confirm, then B's.
    found = search(
        [case("x", A, B)],
        LIMITS,
        bench,
        candidates={A: VALUES, B: VALUES},
        seconds=seconds,
        clock=lambda: len(bench.ran),
    )
    assert (found.values, found.complete) == (values, seconds == 1000)
    assert len(found.cases) == 1


def test_no_time_for_the_defaults_finds_nothing():
    bench = Bench(lambda *_: 1000)
    found = search(
        [case("x", A), case("y", A)],
        LIMITS,
        bench,
        candidates={A: VALUES},
        seconds=1,
        clock=lambda: len(bench.ran),
    )
    assert found == Found(LIMITS.tuning, {}, (), complete=False)


def test_every_trial_is_reported():
    steps = []
    bench = Bench(lambda _, v: 1000 * away(v[0], 64))
    search([case("x", A)], LIMITS, bench, candidates={A: VALUES, B: VALUES}, report=steps.append)
    first = [step for step in steps if step.pass_number == 1]
    assert [step.done for step in first] == [*range(8), *range(7, 15)]
    assert [(step.field, step.value) for step in first[:8]] == [(A, value) for value in (*VALUES, None)]
    assert [step.kept for step in first if step.value is None] == [64, 8]
    assert {step.total for step in steps} == {14}
    assert steps[-1].pass_number == 2


# ---- on a device ---------------------------------------------------------------------------------


def test_candidates_beyond_the_limits_of_the_device_are_plans_that_were_measured_before():
    limits = replace(LIMITS, tuning=device_classes.DISCRETE, max_workgroup_invocations=256)
    cases = tune.representative_cases(2 << 20)

    def plans(workgroup_size):
        numbers = replace(limits.tuning, workgroup_size=workgroup_size)
        return [case.plan(replace(limits, tuning=numbers)) for case in cases]

    assert plans(128) != plans(256) == plans(512) == plans(1024)


def test_inputs_fit_the_device():
    info = vkdml.devices()[0]

    def nbytes(kind, heap=80 << 30, largest_range=1 << 32):
        limits = info.limits | {"max_storage_buffer_range": largest_range, "max_allocation_size": 1 << 40}
        return tune.input_bytes_for(replace(info, type=kind, heaps=[{"size": heap}], limits=limits))

    assert [nbytes(kind) >> 20 for kind in ("discrete", "integrated", "other", "software")] == [
        256,
        64,
        64,
        16,
    ]
    assert nbytes("discrete", heap=1 << 30) == 128 << 20
    assert nbytes("discrete", largest_range=(128 << 20) - 1) == 64 << 20


@pytest.mark.parametrize("input_bytes", [2 << 20, 8 << 20, 256 << 20])
def test_cases_are_planned_differently_and_within_the_input(input_bytes):
    limits = vkdml.devices()[0].plan_limits
    limits = replace(limits, max_storage_buffer_range=1 << 30)
    cases = tune.representative_cases(input_bytes)
    plans = [case.plan(limits) for case in cases]
    assert len(set(plans)) == len({case.name for case in cases}) == len(cases)
    assert all(0 < plan.bytes_of("input") <= input_bytes for plan in plans)
    used = {kernels.table()[step.kernel].name for plan in plans for step in plan.steps}
    assert len(used) > 2


def test_every_searched_field_changes_the_plan_of_some_case():
    in_vain = set(tuning.SEARCH)
    for device_class, numbers in device_classes.TUNING.items():
        cases = tune.representative_cases((16 if device_class == "software" else 256) << 20)
        limits = replace(vkdml.devices()[0].plan_limits, max_storage_buffer_range=1 << 30)
        for field, values in tuning.SEARCH.items():
            trials = [replace(limits, tuning=replace(numbers, **{field: value})) for value in values]
            if len({tuple(case.plan(trial) for case in cases) for trial in trials}) > 1:
                in_vain.discard(field)
    assert not in_vain


ALL_CASES = tune.representative_cases(2 << 20)


def few_cases(_):
    """A reduction and a copy, small."""
    return [case for case in ALL_CASES if case.name in ("argmax few rows float32", "slice1 flip 1 B")]


def test_a_device_is_searched_and_opens_with_what_was_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VKDML_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("VKDML_PROFILE", raising=False)
    forget_open_devices(monkeypatch)
    monkeypatch.setattr(tune, "representative_cases", few_cases)
    monkeypatch.setattr(tune, "SEARCH", {A: tuning.SEARCH[A][:2]})
    assert main(["tune", "--seconds", "60"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"pass 1: {A} = " in said.out
    info = vkdml.Device().info
    stored = profile.load(info)
    # Of two values one is the default; it becomes a candidate where the other was faster.
    assert 1 <= stored.candidates <= 2
    assert f"tried {stored.candidates} candidate" in said.out
    assert f"stored {profile.path_of(info)}" in said.out
    vkdml.Device().close()  # one that is open keeps its numbers
    assert vkdml.Device().limits.tuning == stored.apply(info.plan_limits.tuning)


def test_a_reading_stands_for_time_and_results(monkeypatch):
    device = vkdml.Device()
    measure = tune.measure_on(device, 2 << 20)
    limits = device.info.plan_limits
    plans = [case.plan(limits) for case in few_cases(None)]
    first, again = ([measure(plan) for plan in plans] for _ in range(2))
    assert [m.results for m in first] == [m.results for m in again]
    assert len({m.results for m in first}) == len(plans)
    assert all(m.nanoseconds >= 1 for m in first)

    real = tune.time_plan

    def one_bit_off(*arguments, **options):
        reading = real(*arguments, **options)
        next(iter(reading.outputs.values()))[-1] ^= 1
        return reading

    monkeypatch.setattr(tune, "time_plan", one_bit_off)
    assert all(measure(plan).results != m.results for plan, m in zip(plans, first, strict=True))


@pytest.mark.parametrize("is_time_left", [True, False])
def test_kernels_are_built_ahead_while_there_is_time(is_time_left, monkeypatch):
    device = vkdml.Device()
    built = []
    monkeypatch.setattr(type(device.executions.pipelines), "of", lambda _, step: built.append(step.kernel))
    plan = few_cases(None)[0].plan(device.info.plan_limits)
    build_kernels(device, [plan, plan], lambda: is_time_left)
    assert built == [step.kernel for step in plan.steps] * is_time_left


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache directory, no device open, and 80 columns."""
    monkeypatch.setenv("VKDML_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("VKDML_PROFILE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(devices, "_said_of_profiles", set())
    forget_open_devices(monkeypatch)
    return tmp_path


def found_on(device, **values):
    cases = (CaseTimes("argmax all axes float32", 2e6, 1e6), CaseTimes("slice1 flip 1 B", 8e9, 1e9))
    return Found(device.info.plan_limits.tuning, values, cases, complete=True, candidates=41, plans=99)


@pytest.fixture
def finding(monkeypatch):
    """Make the search find the given values at once."""

    def find(**values):
        monkeypatch.setattr(command, "search", lambda device, seconds, report: found_on(device, **values))

    return find


def other_value(field=A):
    default = getattr(vkdml.Device().info.plan_limits.tuning, field)
    return next(value for value in tuning.SEARCH[field] if value != default)


def files(cache):
    return [path for path in Path(cache).rglob("*") if path.is_file()]


def one_line(text):
    (line,) = text.splitlines()
    assert line.startswith("vkdml: ")
    return line


def test_it_shows_tables_of_80_columns_and_stores_the_profile(cache, finding, capsys):
    value = other_value()
    finding(**{A: value})
    assert main(["tune"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    (file,) = files(cache)
    lines = [line for line in out.splitlines() if str(file) not in line]
    assert f"stored {file}" in out
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert [A, str(getattr(vkdml.Device().info.plan_limits.tuning, A)), str(value)] in rows
    assert sum(row[-1:] == ["same"] for row in rows) == len(tuning.SEARCH) - 1
    assert ["slice1", "flip", "1", "B", "8000000.0", "1000000.0", "8.00"] in rows
    assert ["geometric", "mean", "4.00"] in rows
    assert "tried 41 candidates beside the defaults, 99 different plans in all" in " ".join(out.split())
    vkdml.Device().close()  # one that is open keeps its numbers
    assert vkdml.Device().limits.tuning == replace(vkdml.Device().info.plan_limits.tuning, **{A: value})


def test_show_and_reset(cache, finding, capsys, monkeypatch):
    for words in (["tune", "--show"], ["tune", "--reset"]):
        assert main(words) == 0
        assert "no profile is stored for" in capsys.readouterr().out
    finding(**{A: other_value()})
    assert main(["tune"]) == 0
    (file,) = files(cache)
    capsys.readouterr()
    assert main(["tune", "--show"]) == 0
    out = capsys.readouterr().out
    assert "of 41 candidates" in out
    assert str(file) in out
    assert [A, str(other_value())] in [line.split()[::2] for line in out.splitlines()]
    assert "not used" not in out
    monkeypatch.setenv("VKDML_PROFILE", "off")
    assert main(["tune", "--show"]) == 0
    assert "not used while VKDML_PROFILE is off" in capsys.readouterr().out
    assert main(["tune", "--reset"]) == 0
    assert capsys.readouterr().out == f"deleted {file}\n"
    assert files(cache) == []


def test_a_damaged_profile_is_shown_as_such_and_replaced_without_a_warning(cache, finding, capsys):
    finding()
    assert main(["tune"]) == 0
    (file,) = files(cache)
    file.write_text("{")
    capsys.readouterr()
    assert main(["tune", "--show"]) == 1
    assert f"{file} is ignored: damaged: not JSON" in one_line(capsys.readouterr().err)
    assert main(["tune"]) == 0
    assert capsys.readouterr().err == ""
    assert profile.load(vkdml.Device().info).values == {}


def test_a_dry_run_stores_nothing_and_needs_no_directory(cache, finding, capsys, monkeypatch):
    finding(**{A: other_value()})
    monkeypatch.setenv("VKDML_CACHE_DIR", "/dev/null")
    assert main(["tune", "--dry-run"]) == 0
    assert "nothing was stored (--dry-run)" in capsys.readouterr().out
    assert files(cache) == []


def test_a_directory_that_cannot_be_written_is_found_before_the_search(cache, monkeypatch, capsys):
    monkeypatch.setenv("VKDML_CACHE_DIR", "/dev/null")
    monkeypatch.setattr(command, "search", lambda *_: pytest.fail("searched"))
    assert main(["tune"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        "profiles cannot be stored in /dev/null/profiles: Not a directory; set VKDML_CACHE_DIR"
        in one_line(err)
    )
    assert main(["tune", "--reset"]) == 0


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped; nothing was stored"),
        (ResultsDifferError("a = 1 changes the result of 'b'"), 1, "a = 1 changes the result of 'b'"),
        (MemoryError("4 bytes"), 1, "not enough memory for tuning: 4 bytes"),
        (vkdml.DeviceLostError("gone"), 1, "gone"),
    ],
)
def test_a_search_that_fails_stores_nothing(cache, monkeypatch, capsys, fault, status, said):
    def fail(*_):
        raise fault

    monkeypatch.setattr(command, "search", fail)
    assert main(["tune"]) == status
    assert one_line(capsys.readouterr().err) == f"vkdml: {said}"
    assert files(cache) == []


def test_too_little_time_is_said(cache, monkeypatch, capsys):
    monkeypatch.setattr(
        command, "search", lambda device, *_: Found(device.info.plan_limits.tuning, {}, (), complete=False)
    )
    assert main(["tune", "--seconds", "1"]) == 1
    assert "1 s is too short" in one_line(capsys.readouterr().err)
    assert files(cache) == []
    monkeypatch.setattr(command, "search", lambda device, *_: replace(found_on(device), complete=False))
    assert main(["tune", "--seconds", "7"]) == 0
    assert "did not finish in 7 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--seconds", "0"], "seconds"),
        (["--seconds", "nan"], "--seconds"),
        (["--seconds", "long"], "--seconds"),
        (["--device", "nosuch"], "--device: "),
        (["--show", "--reset"], "accepted: one of them"),
        (["--dry-run", "--show"], "accepted: one of them"),
        (["now"], "now"),
        (["--fast"], "--fast"),
    ],
)
def test_bad_arguments_are_one_line(cache, capsys, words, named):
    assert main(["tune", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert named in one_line(err)
    assert files(cache) == []


def test_a_selector_in_the_environment_that_names_no_device_is_a_fault(cache, monkeypatch, capsys):
    monkeypatch.setenv("VKDML_DEVICE", "nosuch")
    assert main(["tune", "--show"]) == 1
    said = one_line(capsys.readouterr().err)
    assert "VKDML_DEVICE" in said
    assert "'nosuch'" in said


def test_a_terminal_shows_a_bar_and_the_outcome_of_each_field():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with command._reporting(console) as report:
        report(tune.Step(1, A, 64, 8, 3, 14))
        report(tune.Step(1, A, None, 32, 7, 14))
    said = console.file.getvalue()
    assert f"pass 1: {A} = 64" in said
    assert f"pass 1: {A} = 32 (7 of 14)" in said


def test_fields_of_tuning_are_plain_numbers():
    """Or tuples of them, and structs of both: records hold them as JSON."""

    def are_plain(struct) -> bool:
        values = [getattr(struct, field.name) for field in fields(struct)]
        return all(isinstance(v, int | float | tuple) or (is_dataclass(v) and are_plain(v)) for v in values)

    for each in device_classes.TUNING.values():
        assert are_plain(each)
        json.dumps(asdict(each))
