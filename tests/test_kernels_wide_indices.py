"""Indices of two words: kernels against their twins, and which plans ask for high words."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from reduce_kernels import ELEMENTS, element_bits, limits_for, limits_of_columns, run_both
from reduce_kernels import small_limits as small_limits
from short_kernels import run_both as run_short_rows

from vkdml.plan import kernels
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.tuning import ShortTuning

WORDS = 1 << 32
# The shape, by the elements of a vector; the axes; and the order of the outputs in memory.
COLUMNS = {
    "one row": (lambda v: (5, 70 * v), (0,), (0, 1)),
    "an unaligned row": (lambda v: (5, 70 * v + 5), (0,), (0, 1)),
    "a row shorter than a workgroup's": (lambda v: (3, 2 * v + 1), (0,), (0, 1)),
    "rows that follow each other": (lambda v: (9, 3, 4 * v), (1,), (0, 1, 2)),
    "long unaligned rows": (lambda v: (3, 4, 66 * v + 3), (1,), (0, 1, 2)),
    "rows whose outputs are permuted": (lambda v: (3, 5, 4, 3 * v), (2,), (1, 0, 2, 3)),
    "two dimensions": (lambda v: (17, 3, 3 * v, 3), (0, 1), (0, 1, 2, 3)),
    "many positions": (lambda v: (300, 2 * v), (0,), (0, 1)),
}
SHORT = ShortTuning(workgroup_size=32, tile_bytes=2048, direct=False)


def planned(shape, axes, output_order, name, limits, *, index_weights=None, take_last=False, apart=1):
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    in_order = row_major_strides(tuple(kept[axis] for axis in output_order))
    output_strides = [0] * len(shape)
    for axis, stride in zip(output_order, in_order, strict=True):
        output_strides[axis] = apart * stride
    layout = canonical_reduce(
        shape,
        row_major_strides(shape),
        axes,
        tuple(output_strides),
        take_last=take_last,
        index_weights=index_weights,
    )
    order = Order(name, take_last=take_last)
    return plan_argreduce(
        *(layout, order, math.prod(shape), limits),
        index_bytes=8,
        with_values=False,
        output_elements=apart * math.prod(kept),
    )


def of_plan(plan):
    kernel = kernels.table()[plan.steps[0].kernel]
    return kernel, kernel.family.unpack(plan.steps[0].push)


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", ["int8", "bool", "float8_e5m2", "float16", "uint16", "float32", "int64"])
@pytest.mark.parametrize("high", [False, True])
def test_columns(device, small_limits, name, high):
    """Those of narrow elements are exchanged within a workgroup, whose groups may belong to several rows."""
    limits = limits_for(small_limits, fast=False)
    limits = replace(limits, tuning=replace(limits.tuning, columns_workgroups=1))
    rng = np.random.default_rng(zlib.crc32(name.encode()) + high)
    loads = set()
    for number, (case, (shape_of, axes, output_order)) in enumerate(COLUMNS.items()):
        shape = shape_of(16 // ELEMENTS[name].nbytes)
        weights = tuple(WORDS // 2 * (axis + 1) for axis in range(len(shape))) if high else None
        # Two of three in turn: compilers take longer than all else.
        every = ((False, 1), (True, 1), (False, 2))
        left_out = (number + high) % 3
        for take_last, apart in (*every[:left_out], *every[left_out + 1 :]):
            options = {"index_weights": weights, "take_last": take_last, "apart": apart}
            plan = planned(shape, axes, output_order, name, limits, **options)
            kernel, push = of_plan(plan)
            assert (kernel.family.name, push["high_words"]) == ("argreduce_columns", high), case
            loads.add(kernel.variant["loads"])
            run_both(device, plan, {"input": element_bits(rng, name, math.prod(shape))})
    assert {"vectors", "unaligned"} <= loads


@pytest.mark.parametrize("high", [False, True])
def test_columns_whose_neighbouring_lanes_read_neighbouring_positions(device, small_limits, high):
    rng = np.random.default_rng(high)
    limits = limits_of_columns(small_limits, 2)
    for stacks, rows in ((9, 300), (70, 130)):
        shape = (stacks, rows, 16)
        weights = (0, WORDS // 2, 0) if high else None
        plan = planned(shape, (1,), (0, 1, 2), "float16", limits, index_weights=weights, take_last=rows > 200)
        kernel, push = of_plan(plan)
        assert (kernel.family.name, push["high_words"]) == ("argreduce_columns", high)
        assert push["positions_adjacent"]
        run_both(device, plan, {"input": element_bits(rng, "float16", math.prod(shape))})


@pytest.mark.parametrize("name", ["int8", "bool", "float16", "bfloat16"])
@pytest.mark.parametrize("positions", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("rows", [1200, 1203])
def test_short_rows_two_at_a_time(device, name, positions, rows):
    short = replace(SHORT, from_bytes=0)
    limits = replace(device.limits, tuning=replace(device.limits.tuning, workgroup_size=64, short=short))
    rng = np.random.default_rng(positions * rows)
    for weights, take_last in ((None, False), (None, True), ((1, WORDS), False)):
        options = {"index_weights": weights, "take_last": take_last}
        plan = planned((rows, positions), (1,), (0, 1), name, limits, **options)
        kernel, push = of_plan(plan)
        assert (kernel.family.name, kernel.variant["columns"]) == ("argreduce_short", "fours")
        assert push["high_words"] == (weights is not None)
        run_short_rows(device, plan, element_bits(rng, name, rows * positions))


def test_high_words_are_asked_for_where_an_index_has_one(small_limits):
    def asked(weight, index_bytes=8):
        layout = canonical_reduce((9, 64), (64, 1), (0,), (0, 1), take_last=False, index_weights=(weight, 1))
        plan = plan_argreduce(
            layout, Order("int8"), 9 * 64, small_limits, index_bytes=index_bytes, with_values=False
        )
        return of_plan(plan)[1]["high_words"]

    assert not asked(1)
    assert not asked((WORDS - 1) // 8)
    assert asked(WORDS // 8)
    assert not asked(WORDS // 8, index_bytes=4)


def test_a_repeated_elements_last_index_may_have_a_high_word(small_limits):
    layout = canonical_reduce((WORDS + 1, 3), (0, 1), (0, 1), (0, 0), take_last=True)
    order = Order("int8", take_last=True)
    plan = plan_argreduce(layout, order, 3, small_limits, index_bytes=8, with_values=False)
    assert of_plan(plan)[1]["high_words"]
