"""Columns whose outputs lie in another order, in strips: layouts, plans, and kernels against their twins."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from test_kernels import element_bits, run_both

import vkdml
from vkdml.plan import kernels
from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.layout import Dim, ReduceLayout, canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.transposed_columns import in_strips
from vkdml.plan.tuning import DISCRETE

LIMITS = DeviceLimits(DISCRETE, (1 << 32) - 1, (1 << 31) - 1, 1024, 48 << 10, 32, max_subgroups=32)

STRIP_BYTES = 32
# Of a strip with nine positions, by the bytes of an element: the strip has two or four times as many bytes.
STRIP_ELEMENTS = {1: 64, 2: 32, 4: 16, 8: 16}

# The shape of the array in memory, by the elements of a strip; the order in which its dimensions are read,
# the axis, where it starts, and the steps of the plan.
CASES = {
    "whole strips": (lambda strip: (9, 9, 40 * strip), (2, 1, 0), 2, 0, 1),
    "some columns are left": (lambda strip: (9, 8, 42 * strip - 1), (2, 1, 0), 2, 0, 2),
    "one column is left": (lambda strip: (9, 9, 40 * strip + 1), (0, 2, 1), 0, 3, 2),
    "a strip is a dimension": (lambda strip: (9, 150, strip), (2, 1, 0), 2, 0, 1),
    "a dimension more": (lambda strip: (9, 2, 8, 40 * strip), (3, 1, 2, 0), 3, 1, 1),
}


@pytest.fixture(scope="module")
def device():
    return vkdml.default_device()


def planned(case, name, limits, rules=(False, False, False), **options):
    memory, order, axis, base, _ = CASES[case] if isinstance(case, str) else case
    if callable(memory):
        memory = memory(STRIP_ELEMENTS[kernels.elements()[name].nbytes])
    strides = row_major_strides(memory)
    sizes = tuple(memory[each] for each in order)
    kept = tuple(1 if i == axis else size for i, size in enumerate(sizes))
    layout = canonical_reduce(
        *(sizes, tuple(strides[each] for each in order), (axis,), row_major_strides(kept)),
        take_last=rules[1],
        input_base=base,
    )
    options = {"index_bytes": 4, "with_values": False} | options
    count = base + math.prod(memory)
    return plan_argreduce(layout, Order(name, *rules), count, limits, **options), count


def family_of(step):
    return kernels.table()[step.kernel].family


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_kernels_write_what_their_twin_writes(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    short = replace(device.limits.tuning.short, from_bytes=0, walked_runs=0)
    tuning = replace(device.limits.tuning, strip_bytes=STRIP_BYTES, short=short, columns_workgroups=4)
    limits = replace(device.limits, tuning=tuning)
    for number, case in enumerate(CASES):
        rules = (number % 2 > 0, number % 3 > 0, number % 4 > 1)
        options = {"index_bytes": 4 + 4 * (number % 2), "with_values": number % 3 == 0}
        plan, count = planned(case, name, limits, rules, **options)
        assert {family_of(step).name for step in plan.steps} == {"argreduce_columns"}
        assert len(plan.steps) == CASES[case][-1], case
        run_both(device, plan, {"input": element_bits(rng, name, count)})


def offsets(layout: ReduceLayout) -> set[tuple[int, int]]:
    """Where each output's first element lies, and the output."""
    places = itertools.product(*(range(dim.size) for dim in layout.kept))
    return {
        (
            layout.input_base + sum(p * dim.input_stride for p, dim in zip(place, layout.kept, strict=True)),
            layout.output_base
            + sum(p * dim.output_stride for p, dim in zip(place, layout.kept, strict=True)),
        )
        for place in places
    }


@pytest.mark.parametrize("near", [4, 8, 320, 329, 327])
def test_strips_have_every_output_once(near):
    kept = (Dim(3, 50000, 11 * near), Dim(11, near, 1), Dim(near, 1, 11))
    layout = ReduceLayout(kept, (Dim(5, 200000, 1),), 7, 2, 0, False)
    parts = in_strips(layout, 4, 32)
    assert len(parts) == 1 + (near % 8 > 0 and near > 8)
    found = [pair for part in parts for pair in offsets(part)]
    assert len(found) == layout.outputs
    assert set(found) == offsets(layout)


@pytest.mark.parametrize(
    ("fast", "near", "positions", "nbytes"),
    [
        (7, 640, 5, 4),  # few outputs side by side
        (64, 319, 5, 4),  # few strips
        (64, 6, 5, 4),  # no whole vectors
    ],
)
def test_others_have_no_strips(fast, near, positions, nbytes):
    kept = (Dim(fast, near, 1), Dim(near, 1, fast))
    assert in_strips(ReduceLayout(kept, (Dim(positions, 1 << 20, 1),), 0, 0, 0, False), nbytes, 32) == ()


def test_stacks_whose_positions_are_near_are_read_in_tiles():
    plan, _ = planned(((1 << 20, 18, 8), (2, 0, 1), 2, 0, 0), "float32", LIMITS)
    assert [family_of(step).name for step in plan.steps] == ["argreduce_short"]


def test_a_subgroup_reads_and_writes_sectors():
    """Neighbours of an invocation have the next vectors of a strip, and then the next outputs."""
    # With more to read for each output strips of wide elements are wider, and of all if there are enough.
    for name, positions, near, strip in (
        ("float32", 5, 6632, 32),
        ("float32", 5, 1000, 16),
        ("float32", 16, 1999, 32),
        ("float32", 16, 6632, 64),
        ("int64", 3, 6632, 16),
        ("float16", 11, 6632, 64),
        ("float16", 12, 2000, 32),
        ("uint8", 3, 6632, 128),
    ):
        plan, _ = planned(((positions, 1264, near), (2, 1, 0), 2, 0, 0), name, LIMITS)
        p = family_of(plan.steps[0]).unpack(plan.steps[0].push)
        assert p["run"] == strip
        assert len(plan.steps) == 1 + (near % strip > 0)
        words = p["layout_words"]
        assert words[3:6] == (1264, near, 1)
        assert words[6:9] == (strip, 1, 1264)
