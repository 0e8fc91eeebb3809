"""Columns whose outputs lie in another order than the input: plans, and kernels against their twins."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import twins_combine
from period_layouts import layout_of
from plans import GPU_LIMITS, run_plan
from reduce_kernels import ELEMENTS, element_bits, run_both, takes

from vkdml.plan import kernels
from vkdml.plan.layout import canonical_reduce
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce

# The shape of the array in memory, by the elements of 16 bytes (of 64 where they have 8); the order in which
# its dimensions are read, the axes, and where it starts.
CASES = {
    "whole tiles": (lambda v: (3, 16, 16 * v), (2, 1, 0), (2,), 0),
    "a vector ends with its row": (lambda v: (3, 9, 21 * v - 1), (2, 1, 0), (2,), 0),
    "the last piece has one column": (lambda v: (2, 9, 16 * v + 1), (0, 2, 1), (0,), 3),
    "rows between positions": (lambda v: (13, 5, 9 * v), (1, 2, 0), (0,), 0),
    "several positions in turn": (lambda v: (2, 8, 4, 9 * v + 1), (3, 1, 0, 2), (2, 3), 1),
    "rows of two dimensions": (lambda v: (4, 2, 11, 8 * v), (3, 0, 2, 1), (3,), 0),
    "others are outside": (lambda v: (3, 2, 9, 10 * v), (0, 3, 2, 1), (3,), 0),
}


def planned(case, name, limits, rules=(False, False, False), **options):
    memory, order, axes, base = CASES[case] if isinstance(case, str) else case
    if callable(memory):
        nbytes = kernels.elements()[name].nbytes
        memory = memory((64 if nbytes == 8 else 16) // nbytes)
    layout, count = layout_of((memory, order, axes, base), rules)
    options = {"index_bytes": 4, "with_values": False} | options
    return plan_argreduce(layout, Order(name, *rules), count, limits, **options), count


def kernel_of(plan):
    return kernels.table()[plan.steps[0].kernel]


def pushed(plan):
    (step,) = plan.steps
    return kernel_of(plan).family.unpack(step.push)


def small_limits(device, **changes):
    short = replace(device.limits.tuning.short, from_bytes=0)
    changes = {"across_vectors": 8, "across_tiles": 0, "workgroup_size": 64, "short": short} | changes
    return replace(device.limits, tuning=replace(device.limits.tuning, **changes))


@pytest.mark.parametrize("name", ELEMENTS)
def test_kernels_write_what_their_twin_writes(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rules = list(itertools.product((False, True), repeat=3))
    seen = set()
    for number, case in enumerate(CASES):
        options = {"index_bytes": 4 + 4 * (number % 2), "with_values": number % 3 == 0}
        limits = small_limits(device, across_vectors=4 + 3 * (number % 3))
        rule = rules[(number + list(ELEMENTS).index(name)) % 8]
        plan, count = planned(case, name, limits, rule, **options)
        assert kernel_of(plan).family.name == "argreduce_across", case
        seen.add(kernel_of(plan).variant["loads"])
        if takes(name, number):
            run_both(device, plan, {"input": element_bits(rng, name, count)}, run_twin=twins_combine.run)
    assert seen == {"vectors", "unaligned"}


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("take_last", [False, True])
def test_ties_go_to_the_first_or_the_last_position(device, name, take_last):
    """Of two values; many outputs have the same one at every position."""
    memory, order = (5, 40, 200), (2, 1, 0)
    limits = small_limits(device)
    plan, count = planned((memory, order, (2,), 0), name, limits, (False, take_last, False))
    assert kernel_of(plan).family.name == "argreduce_across"
    flat = np.random.default_rng(7).integers(0, 2, count).astype(name)
    found = run_plan(device, plan, {"input": flat.view(np.uint8)})["indices"].view(np.uint32)
    x = flat.reshape(memory).transpose(order)
    want = 4 - x[..., ::-1].argmax(axis=2) if take_last else x.argmax(axis=2)
    np.testing.assert_array_equal(found, want.reshape(-1))


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
def test_rows_that_start_with_a_vector_may_end_within_one(device, name):
    memory, columns = (3, 9, 160), 149
    flat = np.random.default_rng(3).integers(0, 100, math.prod(memory)).astype(name)
    view = flat.reshape(memory)[:, :, :columns].T
    strides = tuple(stride // flat.itemsize for stride in view.strides)
    layout = canonical_reduce(view.shape, strides, (2,), (9, 1, 1), take_last=False)
    options = {"index_bytes": 4, "with_values": False}
    plan = plan_argreduce(layout, Order(name), flat.size, small_limits(device), **options)
    assert kernel_of(plan).family.name == "argreduce_across"
    found = run_plan(device, plan, {"input": flat.view(np.uint8)})["indices"].view(np.uint32)
    np.testing.assert_array_equal(found, view.argmax(axis=2).reshape(-1))


def test_rows_come_in_the_order_of_their_outputs():
    """The dimensions between one column's output and the next are the innermost of the rows."""
    plan, _ = planned(((5, 128, 6, 43, 9663), (4, 3, 2, 1, 0), (1,), 0), "float16", GPU_LIMITS)
    p = pushed(plan)
    words = plan.layout or p["layout_words"]
    assert [words[3 * i : 3 * i + 3] for i in range(p["kept_dims"])] == [
        (6, 43 * 9663, 640),
        (128, 6 * 43 * 9663, 5),
        (5, 128 * 6 * 43 * 9663, 1),
        (9663, 1, 3840),
    ]


@pytest.mark.parametrize(
    ("name", "positions", "columns", "vectors", "rows"),
    [
        ("float32", 5, 6632, 8, 32),  # few bytes compete: more indices are side by side
        ("float32", 16, 6632, 16, 16),
        ("float16", 13, 410, 8, 32),
        ("float16", 43, 9663, 16, 16),
        ("uint8", 9, 304, 7, 36),  # pieces of a row are about as long
        ("int64", 17, 945, 16, 16),
    ],
)
def test_tiles_have_whole_sectors_both_ways(name, positions, columns, vectors, rows):
    others = (1 << 29) // (positions * columns * ELEMENTS[name].nbytes)
    plan, _ = planned(((positions, others, columns), (2, 1, 0), (2,), 0), name, GPU_LIMITS)
    assert kernel_of(plan).family.name == "argreduce_across"
    p = pushed(plan)
    assert (p["tile_vectors"], p["tile_rows"]) == (vectors, rows)


@pytest.mark.parametrize(
    ("name", "positions", "rows", "vectors", "tile_rows"),
    [
        ("float16", 10, 9, 28, 9),  # of 256 invocations, 8 vectors of 32 rows would keep 72 busy
        ("uint8", 21, 11, 23, 11),
        ("float32", 40, 8, 32, 8),
        ("float32", 29, 12, 16, 16),  # three of four are busy
        ("float32", 29, 120, 16, 16),
    ],
)
def test_few_rows_have_longer_pieces(name, positions, rows, vectors, tile_rows):
    columns = (1 << 28) // (positions * rows * ELEMENTS[name].nbytes)
    plan, _ = planned(((positions, rows, columns), (2, 1, 0), (2,), 0), name, GPU_LIMITS)
    assert kernel_of(plan).family.name == "argreduce_across"
    p = pushed(plan)
    assert (p["tile_vectors"], p["tile_rows"]) == (vectors, tile_rows)


@pytest.mark.parametrize(
    ("name", "memory", "order", "axis"),
    [
        ("float32", (5, 4096, 512), (1, 2, 0), 2),  # outputs lie as the input does
        ("float32", (50, 4096, 512), (2, 1, 0), 2),  # many bytes compete
        ("float32", (5, 1 << 18, 24), (2, 1, 0), 2),  # short rows
        ("int64", (5, 1 << 18, 48), (2, 1, 0), 2),
        ("uint8", (15, 2, 65536, 128), (2, 3, 1, 0), 3),  # two outputs side by side
        ("float32", (5, 40, 512), (2, 1, 0), 2),  # few tiles
        ("float16", (4096, 4096, 3), (1, 0, 2), 2),  # rows of elements, not of columns
    ],
)
def test_others_are_not_planned_so(name, memory, order, axis):
    plan, _ = planned((memory, order, (axis,), 0), name, GPU_LIMITS)
    assert kernel_of(plan).family.name != "argreduce_across"


def test_a_device_with_little_shared_memory_has_smaller_workgroups():
    plan_of = partial(planned, ((9, 16384, 304), (2, 1, 0), (2,), 0), "uint8")
    for shared, workgroup in ((48 << 10, 256), (32 << 10, 128), (16 << 10, 64)):
        plan, _ = plan_of(replace(GPU_LIMITS, max_shared_memory=shared))
        (step,) = plan.steps
        constants = kernel_of(plan).named(step.constants)
        assert constants["workgroup"] == workgroup
        assert 4 * constants["found_words"] <= shared // 2
