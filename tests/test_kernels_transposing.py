"""Stacks whose outputs lie in another order than the input: their tiles, and kernels against the twin."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from plans import GPU_LIMITS, NONE_FIXED
from reduce_kernels import element_bits
from short_kernels import SMALL, plan_view, rules_of, run_both

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import Dim, ReduceLayout, canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.short_tiles import along_outputs
from vkdml.plan.reduce.transposing import PermutedStack, sides_of

ALL = slice(None)
# Shape of the array in memory, the order in which its dimensions are read, the window of each, and the axis.
CASES = {
    "apart": ((5, 90, 61), (0, 2, 1), (ALL, ALL, ALL), 0),
    "aligned apart": ((4, 40, 64), (0, 2, 1), (ALL, ALL, ALL), 0),
    "two dimensions before": ((3, 70, 8, 15), (3, 2, 1, 0), (ALL, ALL, ALL, ALL), 3),
    "one segment for each position": ((2, 901, 5), (2, 1, 0), (ALL, ALL, ALL), 2),
    "windows apart": ((3, 33, 130), (0, 2, 1), (ALL, slice(3, 128), slice(1, 31)), 0),
    "all positions in a segment": ((60, 9, 13, 3), (3, 1, 2, 0), (ALL, ALL, ALL, ALL), 2),
    "few outputs in a segment": ((90, 18, 4), (2, 1, 0), (ALL, ALL, ALL), 1),
    "rows": ((5, 83, 7), (1, 0, 2), (ALL, ALL, ALL), 2),
}


def plan_case(case: str, name: str, limits, rules):
    return plan_window(case, *CASES[case], Order(name, *rules), limits)


def plan_window(case: str, memory, dims, windows, axis: int, order: Order, limits):
    whole = np.empty(memory, np.int8).transpose(dims)
    view = whole[windows]
    base = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return plan_view(case, view.shape, view.strides, (axis,), base, order, limits)


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", ["uint8", "bfloat16", "int32", "float64"])
def test_kernels_write_what_their_twin_writes(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for number, case in enumerate(CASES):
        tile_bytes = (5120, 8192)[number % 2]
        changes = {"permuted_tile_bytes": tile_bytes, "transposing_tile_bytes": tile_bytes}
        changes |= NONE_FIXED if number % 3 == 0 else {}
        tuning = replace(device.limits.tuning, short=replace(SMALL, **changes))
        plan, count = plan_case(case, name, replace(device.limits, tuning=tuning), rules_of(number))
        assert kernels.table()[plan.steps[0].kernel].family.name == "argreduce_short", case
        run_both(device, plan, element_bits(rng, name, count))


def stack_of(random: Random) -> PermutedStack:
    nbytes = random.choice((1, 2, 4, 8))
    chain, extent = [], 1
    for _ in range(random.randrange(1, 3)):
        chain.append(Dim(random.choice((2, 3, 7, 15, 16, 33, 640, 6632)), extent, 0))
        extent *= chain[-1].size
    fast = Dim(random.choice((2, 5, 17, 64, 1264, 50257)), extent * random.choice((1, 1, 13)), 1)
    positions = Dim(random.randrange(2, 33), fast.input_stride * fast.size + random.randrange(3), 1)
    aligned = extent * nbytes % 32 == 0
    return PermutedStack(
        tuple(chain), fast, positions, nbytes, nbytes < 4, 64 // nbytes, aligned, random.random() < 0.5
    )


def test_sides_fit_and_are_whole_sectors_where_there_is_room():
    random, chosen = Random(5), 0
    for _ in range(150):
        stack = stack_of(random)
        sides = sides_of(stack, 24 << 10, 24 << 10, 128)
        assert sides is not None
        assert sides.shared_bytes <= 24 << 10
        assert sides.along_fast <= stack.fast.size
        for count, dim in zip(sides.along_chain, stack.chain, strict=False):
            assert 1 <= count <= dim.size
        # A dimension follows only where what is inside of it is whole.
        for count, dim in zip(sides.along_chain[:-1], stack.chain, strict=False):
            assert count == dim.size
        if sides.shared_pitch:
            whole = math.prod(dim.size for dim in stack.chain)
            assert sides.segment * stack.nbytes >= 32 or sides.segment == whole
            assert sides.along_fast >= min(8, stack.fast.size)
            chosen += 1
    assert chosen > 50


def discrete_plan(memory, order, axes, name, limits=GPU_LIMITS):
    strides = row_major_strides(memory)
    sizes = tuple(memory[axis] for axis in order)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    layout = canonical_reduce(
        *(sizes, tuple(strides[axis] for axis in order), axes, row_major_strides(kept)), take_last=False
    )
    return plan_argreduce(layout, Order(name), math.prod(memory), limits, index_bytes=4, with_values=False)


def pushed(step):
    return kernels.table()[step.kernel].family.unpack(step.push)


def test_far_rows_written_in_another_order_are_read_and_written_in_sectors():
    (step,) = discrete_plan((4, 689710, 30), (2, 1, 0), (2,), "float32").steps
    p = pushed(step)
    # The first dimension is that of the outputs' memory, the second that of the input's.
    assert p["output_stride_0"] == p["input_stride_1"] == 1
    assert p["tile_0"] >= 8
    assert p["tile_1"] >= 8


FEW_OUTPUTS = {
    "int8": (20, 1310720, 2, 4),
    "float16": (9, 300000, 3, 17),
    "float32": (3, 1165084, 2, 6),
    "int64": (5, 400000, 3, 5),
}


@pytest.mark.parametrize("name", FEW_OUTPUTS)
def test_tiles_with_few_outputs_of_two_dimensions_have_more_of_a_third(name):
    memory = FEW_OUTPUTS[name]
    (step,) = discrete_plan(memory, (1, 3, 2, 0), (3,), name).steps
    p = pushed(step)
    tile = sorted((p["tile_0"], p["tile_1"], p["tile_2"]))
    assert set(memory[2:]) < set(tile)
    near = -(-memory[3] // {"int8": 4, "float16": 2}.get(name, 1))
    assert math.prod(tile) // memory[3] * near >= 48


@pytest.mark.in_turn(any_of=("name", "window"))
@pytest.mark.parametrize("window", [slice(None), slice(1, 4)])
@pytest.mark.parametrize("name", ["uint8", "bfloat16", "int32", "float64"])
def test_tiles_of_three_dimensions_write_what_their_twin_writes(device, name, window):
    short = replace(DISCRETE.short, from_bytes=0, **NONE_FIXED)
    limits = replace(device.limits, tuning=replace(DISCRETE, short=short))
    windows = ALL, ALL, window, ALL
    plan, count = plan_window("tiles", (5, 4000, 5, 4), (1, 3, 2, 0), windows, 3, Order(name), limits)
    p = pushed(plan.steps[0])
    assert min(p["tile_0"], p["tile_1"], p["tile_2"]) > 1
    run_both(device, plan, element_bits(np.random.default_rng(1), name, count))


def test_tiles_with_enough_outputs_of_two_dimensions_have_no_more():
    (step,) = discrete_plan((9, 300000, 5, 12), (1, 3, 2, 0), (3,), "float32").steps
    p = pushed(step)
    assert sorted((p["tile_0"], p["tile_1"], p["tile_2"])) == [1, 5, 12]


def test_tiles_of_wide_stacks_keep_a_workgroup_busy():
    (step,) = discrete_plan((924358, 18, 4), (2, 1, 0), (1,), "int64").steps
    p = pushed(step)
    assert p["tile_0"] * p["tile_1"] * p["tile_2"] >= 64
    assert p["tile_0"] >= 16


def test_short_rows_that_follow_each_other_keep_their_tiles():
    without = replace(DISCRETE, short=replace(DISCRETE.short, permuted_tile_bytes=0))
    case = ((16392835, 2, 2), (2, 0, 1), (2,), "int64")
    assert discrete_plan(*case) == discrete_plan(*case, replace(GPU_LIMITS, tuning=without))


@pytest.mark.parametrize(
    ("memory", "order", "axis", "name"),
    [
        ((901, 132904, 2, 2), (3, 1, 0, 2), 0, "uint8"),
        ((50257, 689, 5, 3), (2, 1, 0, 3), 0, "int8"),
        ((513, 60000, 2, 2), (1, 0, 2, 3), 3, "float32"),
    ],
)
def test_outputs_that_begin_with_a_short_dimension_are_side_by_side_along_the_next(memory, order, axis, name):
    """Else a tile would write a few indices here and there (H100: 0.11 of the read rate)."""
    (step,) = discrete_plan(memory, order, (axis,), name).steps
    p = pushed(step)
    assert p["output_stride_0"] == 1
    assert p["tile_0"] == p["size_0"] == p["output_stride_1"] < 16
    assert p["tile_0"] * p["tile_1"] >= 32
    # They are apart in the input, of which the third dimension has what is side by side.
    assert p["input_stride_1"] > p["input_stride_2"]
    assert p["tile_2"] > 1


@pytest.mark.parametrize(
    ("name", "count", "rows", "row", "across"),
    [
        ("int8", 8, 357, 3, True),
        ("int8", 9, 357, 3, False),
        ("int8", 2, 200, 5, False),
        ("int8", 2, 357, 8, False),
        ("float16", 4, 357, 3, True),
        ("float16", 5, 357, 3, False),
        ("float32", 5, 357, 3, True),
        ("int64", 3, 60, 7, True),
    ],
)
def test_short_rows_far_apart_in_the_output_are_written_across(name, count, rows, row, across):
    """Each sector of indices has several such rows, of which the input has the next far away."""
    nbytes = kernels.elements()[name].nbytes
    outer = (64 << 20) // (count * rows * row * nbytes)
    (step,) = discrete_plan((count, outer, rows, row), (0, 2, 1, 3), (0,), name).steps
    assert "short" in step.kernel
    p = pushed(step)
    along = [p[f"tile_{dim}"] for dim in range(3) if p[f"output_stride_{dim}"] == row]
    assert (max(along, default=1) >= 8) == across


def test_a_short_dimension_that_the_input_has_too_is_followed_only_where_tiles_end():
    layouts = {
        "the input goes on so": (Dim(5000, 6, 3), Dim(3, 2, 1)),
        "a tile has several steps": (Dim(5000, 84, 3), Dim(14, 6, 15000), Dim(3, 2, 1)),
        "it is not short": (Dim(90, 170000, 20), Dim(4000, 40, 1800), Dim(20, 2, 1)),
        "the input has another": (Dim(90, 170000, 1), Dim(4000, 40, 90), Dim(20, 2, 360000)),
        "outputs are apart": (Dim(90, 170000, 8), Dim(4000, 40, 1000), Dim(3, 2, 1)),
        "followed": (Dim(90, 170000, 3), Dim(4000, 40, 270), Dim(3, 2, 1)),
    }
    for what, kept in layouts.items():
        layout = ReduceLayout(kept, (Dim(2, 1, 1),), 0, 0, 0, False)
        innermost = min(kept, key=lambda dim: dim.output_stride)
        assert along_outputs(layout, 8192) == (kept[0] if what == "followed" else innermost), what


def test_small_inputs_are_shared_by_many_workgroups():
    (step,) = discrete_plan((7, 64, 250), (2, 1, 0), (2,), "float32").steps
    assert step.workgroups >= 64
