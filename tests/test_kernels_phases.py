"""Columns of unaligned rows that are read by phases: plans, and kernels against their twin."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins_combine
from period_layouts import layout_of_window
from plans import GPU_LIMITS, run_plan
from reduce_kernels import ELEMENTS, element_bits, run_both, takes

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, SOFTWARE
from vkdml.plan.layout import row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.phase_costs import PhaseWork
from vkdml.plan.reduce.phases import Phases
from vkdml.plan.tuning import PhaseTuning

NAMES = [name for name, element in ELEMENTS.items() if element.nbytes < 8]
ANY_SIZE = tuple(PhaseTuning(nbytes, 0, 1, 1, 0) for nbytes in (1, 2, 4))
# Sizes, strides, axis and base by the elements of a vector; the innermost dimension is kept.
CASES = {
    "each row has another phase": lambda v: ((45, 19 * v), (19 * v + 1, 1), 0, 0),
    "every second row has the same": lambda v: ((41, 15 * v + 3), (15 * v + v // 2, 1), 0, 1),
    "all rows have the same": lambda v: ((37, 21 * v - 5), (22 * v, 1), 0, 3),
    "several blocks of a row": lambda v: ((33, 70 * v + 1), (70 * v + 1, 1), 0, 0),
    "several rows of outputs": lambda v: ((3, 34, 2 * v + 1), (35 * (2 * v + 1), 2 * v + 1, 1), 1, 2),
    "backwards": lambda v: ((39, 17 * v), (-17 * v - 1, 1), 0, 38 * (17 * v + 1)),
    "mirrored": lambda v: ((35, 16 * v + 7), (16 * v + 7, -1), 0, 16 * v + 6),
    "fewer rows than lanes": lambda v: ((3, 40 * v + 1), (40 * v + 1, 1), 0, 0),
    "the last vector ends with the array": lambda v: ((5, 3 * v - 1), (3 * v - 1, 1), 0, 1),
}


def limits_for(device, **changes):
    """Workgroups of 256 invocations: fewer have no room for the phases of bytes."""
    short = replace(DISCRETE.short, from_bytes=1 << 40)
    changes = {"phases": ANY_SIZE, "short": short, "workgroup_size": 256, "across_vectors": 0} | changes
    tuning = replace(device.limits.tuning, is_processor=False, columns_workgroups=2112, **changes)
    return replace(device.limits, tuning=tuning)


def planned(case, name, limits, rules=(False, False, False), **options):
    v = 16 // ELEMENTS[name].nbytes
    sizes, strides, axis, base = CASES[case](v) if isinstance(case, str) else case
    layout = layout_of_window(sizes, strides, (axis,), base, take_last=rules[1])
    last = sum((size - 1) * max(stride, 0) for size, stride in zip(sizes, strides, strict=True))
    options = {"index_bytes": 4, "with_values": False} | options
    return plan_argreduce(layout, Order(name, *rules), base + last + 1, limits, **options), base + last + 1


def planned_for_a_gpu(name, shape, axes):
    layout = layout_of_window(shape, row_major_strides(shape), axes, 0, take_last=False)
    return plan_argreduce(layout, Order(name), math.prod(shape), GPU_LIMITS, index_bytes=4, with_values=False)


def kernel_of(plan):
    (step,) = plan.steps
    return kernels.table()[step.kernel]


def pushed(plan):
    return kernel_of(plan).family.unpack(plan.steps[0].push)


def forced(monkeypatch, workgroup_size, lanes, splits):
    """Plan this division; of so many lanes or more, as many as the phases need."""

    def divisions(self, work):
        of_phases = max(lanes, self._phases)
        yield workgroup_size, min(of_phases, workgroup_size // 16), min(splits, self.layout.reduce_count)

    monkeypatch.setattr(Phases, "_divisions", divisions)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_write_what_their_twin_writes(device, monkeypatch, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rules = list(itertools.product((False, True), repeat=3))
    for number, case in enumerate(CASES):
        options = {"index_bytes": 4 + 4 * (number % 2), "with_values": number % 3 == 0}
        rule = rules[(number + NAMES.index(name)) % 8]
        forced(monkeypatch, 256, 1 << number % 3, 1 + number // 2 % 3)
        plan, count = planned(case, name, limits_for(device), rule, **options)
        assert kernel_of(plan).family.name == "argreduce_phases", case
        if takes(name, number):
            run_both(device, plan, {"input": element_bits(rng, name, count)}, run_twin=twins_combine.run)


@pytest.mark.parametrize("name", ["int8", "float16", "float32"])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("take_last", [False, True])
def test_ties_go_to_the_first_or_the_last_row(device, monkeypatch, name, splits, take_last):
    """Of two values; every lane, block and split has equal ones."""
    v = 16 // ELEMENTS[name].nbytes
    rows, columns = 77, 40 * v + 1
    forced(monkeypatch, 256, v, splits)
    case = (rows, columns), (columns, 1), 0, 0
    plan, count = planned(case, name, limits_for(device), (False, take_last, False))
    assert pushed(plan)["splits"] == splits
    flat = np.random.default_rng(11).integers(0, 2, count).astype(name)
    found = run_plan(device, plan, {"input": flat.view(np.uint8)})["indices"].view(np.uint32)
    x = flat.reshape(rows, columns)
    np.testing.assert_array_equal(found, rows - 1 - x[::-1].argmax(0) if take_last else x.argmax(0))


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("take_last", [False, True])
def test_one_of_equals_wins_even_if_no_element_exceeds_the_least_key(device, monkeypatch, splits, take_last):
    """No key is greater than what an invocation begins with: of zeros, the greatest is at the first place."""
    rows, columns = 50, 93
    forced(monkeypatch, 256, 4, splits)
    case = (rows, columns), (columns, 1), 0, 0
    plan, count = planned(case, "uint32", limits_for(device), (False, take_last, False))
    zeros = np.zeros(count * 4, np.uint8)
    found = run_plan(device, plan, {"input": zeros})["indices"].view(np.uint32)
    np.testing.assert_array_equal(found, np.full(columns, rows - 1 if take_last else 0))


@pytest.mark.parametrize("name", ["uint8", "float16", "float32"])
def test_every_division_finds_the_same(device, monkeypatch, name):
    v = 16 // ELEMENTS[name].nbytes
    rows, columns = 150, 47 * v + 5
    x = np.random.default_rng(5).integers(0, 200, (rows, columns)).astype(name)
    case = (rows, columns), (columns, 1), 0, 0
    sizes = [size for size in (256, 512) if size <= device.limits.max_workgroup_invocations]
    for workgroup_size, lanes, splits in itertools.product(sizes, (v, 2 * v), (1, 2, 5)):
        forced(monkeypatch, workgroup_size, lanes, splits)
        plan, _ = planned(case, name, limits_for(device, workgroup_size=workgroup_size))
        found = run_plan(device, plan, {"input": x.reshape(-1).view(np.uint8)})["indices"].view(np.uint32)
        np.testing.assert_array_equal(found, x.argmax(0), err_msg=f"{workgroup_size}, {lanes}, {splits}")


@pytest.mark.parametrize(
    ("name", "shape", "axis", "is_by_phases"),
    [
        ("float16", (639, 420086), 0, True),
        ("float16", (4, 13125, 5113), 1, True),
        ("float16", (639, 420088), 0, False),  # rows of whole vectors
        ("float16", (100, 420087), 0, False),  # 12 rows of each phase
        ("float16", (300000, 873), 0, False),  # in short rows, periods
        ("float16", (1236, 416, 163), 1, True),  # no periods: too few rows
        ("float16", (1236, 416, 99), 1, False),
        ("float32", (13, 12083, 267), 1, True),
        ("uint8", (12845, 41794), 0, True),
        ("uint8", (800, 41794), 0, False),
        ("uint8", (1200, 41794), 0, False),  # 48 MiB
        ("float32", (6518, 20591), 0, True),
        ("float32", (967, 138685), 0, True),
        ("float32", (500, 138685), 0, False),  # 125 rows of each phase
        ("float32", (1 << 19, 501), 0, False),  # periods take as long
        ("int64", (13521, 4963), 0, False),
        ("float16", (22362, 4001, 3), 0, True),  # two dimensions are one
        ("float16", (22362, 4001, 3), (0, 2), False),
    ],
)
def test_phases_read_long_unaligned_rows_of_outputs(name, shape, axis, is_by_phases):
    plan = planned_for_a_gpu(name, shape, (axis,) if isinstance(axis, int) else axis)
    assert plan.steps[0].kernel.startswith("argreduce_phases") == is_by_phases


@pytest.mark.parametrize(
    ("name", "shape", "workgroup_size", "lanes", "splits"),
    [
        ("float16", (13564, 19789), 512, 16, 3),
        ("float16", (455, 589532), 512, 8, 1),
        ("uint8", (12845, 41794), 512, 8, 6),
        ("float32", (2041, 63689), 512, 8, 1),
    ],
)
def test_workgroups_keep_all_multiprocessors_equally_busy(name, shape, workgroup_size, lanes, splits):
    plan = planned_for_a_gpu(name, shape, (0,))
    constants, push = kernel_of(plan).named(plan.steps[0].constants), pushed(plan)
    assert (constants["workgroup"], push["lanes"], push["splits"]) == (workgroup_size, lanes, splits)


def test_one_workgroup_too_many_takes_longer():
    """The model: 264 workgroups of 512 invocations are two for each of 132 multiprocessors."""
    work = PhaseWork(columns=20000, rows_of_outputs=1, positions=13000, element_bytes=2, tuning=DISCRETE)
    assert work.full_waves(512) == [264, 528, 792, 1056]
    of_bytes = replace(work, element_bytes=1)
    assert [of_bytes.full_waves(size)[0] for size in (256, 512)] == [396, 264]  # more registers in small ones
    assert work._imbalance(264, 512) == 1
    assert work._imbalance(144, 512) > 1.4


def test_software_drivers_have_no_phases():
    assert DISCRETE.phases
    assert not SOFTWARE.phases
