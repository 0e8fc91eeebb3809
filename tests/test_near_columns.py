"""Columns in short rows: which lanes of a GPU read which positions, and what is left to other kernels."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import GPU_LIMITS

from vkdml.plan import kernels
from vkdml.plan.calls import Operand, ReduceCall
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce.columns import column_division
from vkdml.plan.reduce.reduction import Reduction

NAMES = {1: "int8", 2: "float16", 4: "float32", 8: "int64"}


def call(name: str, order: str, **sizes: int) -> ReduceCall:
    """Of an array reduced along A and P, whose dimensions lie in memory as the sizes are given.

    In it lie A, N, P, C, of which C are the columns side by side.
    """
    strides, step = {}, 1
    for dim, size in reversed(sizes.items()):
        strides[dim], step = step, step * size
    shape = tuple(sizes[dim] for dim in order)
    axes = tuple(axis for axis, dim in enumerate(order) if dim in "AP")
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    operand = Operand(shape, tuple(strides[dim] for dim in order), 0, math.prod(shape))
    return ReduceCall(operand, axes, Order(name), Operand.compact(kept), 4, False)


def division(name: str, order: str, limits: DeviceLimits = GPU_LIMITS, **sizes: int):
    """How such a reduction is divided if it is read in columns."""
    made = call(name, order, **sizes)
    nbytes = made.input.span * kernels.elements()[name].nbytes
    return column_division(Reduction(made.layout, made.order, nbytes, limits), with_values=False)


@pytest.mark.parametrize(
    ("nbytes", "sizes", "lanes", "adjacent"),
    [
        # All of these took 0.3 to 0.8 of the time that lanes took which read position after position (H200).
        (4, {"A": 3, "N": 174000, "P": 24, "C": 4}, 8, True),
        (4, {"A": 7, "N": 200000, "P": 11, "C": 4}, 4, False),
        (4, {"A": 4, "N": 500000, "P": 8, "C": 4}, 4, False),
        (4, {"A": 6, "N": 600000, "P": 4, "C": 4}, 2, False),
        (8, {"A": 4, "N": 209000, "P": 20, "C": 2}, 4, True),
        (2, {"A": 9, "N": 71000, "P": 26, "C": 8}, 8, True),
        (1, {"A": 8, "N": 131000, "P": 16, "C": 16}, 4, False),
        (4, {"A": 6, "N": 93000, "P": 15, "C": 8}, 4, False),  # two vectors in a row
        (4, {"A": 4, "N": 524000, "P": 16, "C": 2}, 2, True),  # single elements
        (8, {"A": 6, "N": 233000, "P": 8, "C": 3}, 4, False),  # vectors that are not aligned
    ],
)
@pytest.mark.parametrize("order", ["PANC", "CPAN", "PCAN"])
def test_lanes_take_a_far_innermost_dimension_whole_and_read_together_what_is_near(
    nbytes, sizes, lanes, adjacent, order
):
    found = division(NAMES[nbytes], order, **sizes)
    assert found.variant["whole_segments"]
    assert found.lanes >= lanes
    assert found.positions_adjacent == adjacent


@pytest.mark.parametrize(
    ("nbytes", "sizes"),
    [
        (4, {"A": 2, "N": 1677000, "P": 5, "C": 4}),  # few positions
        (4, {"A": 2, "N": 233000, "P": 6, "C": 24}),  # the same, for such rows
        (1, {"A": 7, "N": 266000, "P": 3, "C": 48}),
        (2, {"A": 3, "N": 279000, "P": 5, "C": 32}),
        (4, {"A": 2, "N": 279000, "P": 15, "C": 2}),
        (4, {"A": 2, "N": 364000, "P": 46, "C": 2}),
    ],
)
def test_few_positions_are_read_as_they_come(nbytes, sizes):
    found = division(NAMES[nbytes], "CPAN", **sizes)
    assert found.lanes == 1 or found.variant["loads"] == "elements"
    assert not found.positions_adjacent
    assert not found.variant["whole_segments"]


@pytest.mark.parametrize(
    ("nbytes", "sizes", "adjacent"),
    [
        (4, {"A": 4, "N": 65000, "P": 64, "C": 4}, True),
        (8, {"A": 1, "N": 99000, "P": 169, "C": 2}, True),
        (4, {"A": 1, "N": 2300, "P": 1800, "C": 16}, True),
        (2, {"A": 4, "N": 32000, "P": 64, "C": 16}, True),
        (4, {"A": 1, "N": 2000, "P": 2000, "C": 32}, False),  # a whole line
        (2, {"A": 1, "N": 21000, "P": 128, "C": 48}, False),
        (1, {"A": 3, "N": 37000, "P": 151, "C": 16}, False),
        (1, {"A": 1, "N": 58000, "P": 144, "C": 32}, False),
        (8, {"A": 1, "N": 141, "P": 7425, "C": 2}, False),  # few groups of many lanes
        (4, {"A": 2, "N": 560000, "P": 5, "C": 4}, False),  # fewer than lanes could share
    ],
)
def test_neighbouring_lanes_read_neighbouring_positions_of_words_in_short_rows(nbytes, sizes, adjacent):
    assert division(NAMES[nbytes], "APNC", **sizes).positions_adjacent == adjacent


@pytest.mark.parametrize("name", ["int8", "float32"])
@pytest.mark.parametrize("sizes", [(1000000, 1, 24), (256, 3, 30), (3, 20, 12), (5, 300, 17), (4, 17, 13)])
def test_few_lanes_are_left_without_a_dimension_to_take(name, sizes):
    """Where splits are shorter than that, or there are more lanes than positions beside it."""
    far, groups, near = sizes
    per_vector = 16 // kernels.elements()[name].nbytes
    found = division(name, "PANC", A=far, N=groups, P=near, C=per_vector)
    assert found.variant["loads"] == "vectors"
    if found.variant["whole_segments"]:
        assert 2 * found.positions_per_split > far * found.lanes
    else:
        assert not found.positions_adjacent


def test_a_processor_reads_columns_in_the_order_of_positions():
    limits = replace(GPU_LIMITS, tuning=replace(GPU_LIMITS.tuning, is_processor=True))
    sizes = {"A": 3, "N": 1000, "P": 24, "C": 4}
    for order in ("CPAN", "APNC"):
        found = division("float32", order, limits, **sizes)
        assert not found.positions_adjacent
        assert not found.variant["whole_segments"]


@given(
    st.sampled_from([4, 64, 256]),
    st.sampled_from(sorted(NAMES)),
    st.sampled_from(["PANC", "CPAN", "PCAN", "APNC", "CAPN", "ANPC"]),
    st.tuples(st.integers(1, 70), st.integers(1, 5000), st.integers(2, 3000), st.integers(1, 200)),
)
def test_every_division_is_one_that_the_kernel_can_do(workgroup_size, nbytes, order, sizes):
    """Lanes are a power of two of a workgroup's invocations, and none is without a position."""
    limits = GPU_LIMITS.with_workgroup_size(workgroup_size)
    found = division(NAMES[nbytes], order, limits, **dict(zip("ANPC", sizes, strict=True)))
    assert found.lanes & (found.lanes - 1) == 0
    assert found.lanes <= workgroup_size
    positions = sizes[0] * sizes[2]
    assert found.lanes < 2 * positions
    assert (found.splits - 1) * found.positions_per_split < positions
    assert found.splits * found.positions_per_split >= positions


@pytest.mark.parametrize(
    ("nbytes", "order", "sizes", "family"),
    [
        # In periods these took 1.2 to 1.9 times as long (H200).
        (4, "CPAN", {"A": 9, "N": 2632, "P": 177, "C": 4}, "columns"),
        (2, "CPAN", {"A": 55, "N": 2047, "P": 149, "C": 8}, "columns"),
        (4, "APNC", {"A": 2, "N": 8388, "P": 500, "C": 8}, "columns"),
        (4, "APNC", {"A": 1, "N": 14351, "P": 1169, "C": 4}, "columns"),
        (8, "NPC", {"N": 10652, "P": 1575, "C": 2}, "columns"),
        (2, "NPC", {"N": 9404, "P": 446, "C": 8}, "columns"),
        # And these less.
        (4, "CPAN", {"A": 33, "N": 794, "P": 640, "C": 4}, "periods"),
        (4, "CPAN", {"A": 1000, "N": 5000, "P": 6, "C": 4}, "periods"),
        (4, "PANC", {"A": 52, "N": 710, "P": 454, "C": 4}, "periods"),
        (4, "PANC", {"A": 23, "N": 824, "P": 885, "C": 4}, "periods"),
        (2, "NPC", {"N": 1230, "P": 13638, "C": 8}, "periods"),
    ],
)
def test_short_rows_are_read_in_columns_unless_there_are_many_positions(nbytes, order, sizes, family):
    step, *_ = call(NAMES[nbytes], order, **sizes).plan(GPU_LIMITS).steps
    assert kernels.table()[step.kernel].family.name == f"argreduce_{family}"
