"""Reductions of several columns to one output: the kernel against its NumPy twin, its plans, and results."""

from __future__ import annotations

import itertools
import math
import zlib

import numpy as np
import pytest
import twins
import twins_combine
from period_layouts import layout_of, pattern_case
from plans import GPU_LIMITS, run_plan
from reduce_kernels import ELEMENTS, SMALL, element_bits, limits_with_barriers, run_both, takes

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.joined import plan_divided
from vkdml.plan.reduce.joined_columns import joined_columns
from vkdml.plan.reduce.joined_division import divide_joined, most_vectors
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import NARROW_SHARE, Results

JOINED_KERNELS = {k.name for k in kernels.table().values() if k.family.name == "argreduce_joined"}

# The array in memory, its order of axes as it is reduced, the axes, and where it starts.
CASES = {
    "reduced inside of kept": ((40, 37, 3), (0, 1, 2), (0, 2), 1),
    "the same, in vectors": ((18, 64, 16), (0, 1, 2), (0, 2), 0),
    "inner positions first": ((40, 37, 3), (2, 1, 0), (0, 2), 2),
    "kept inside of reduced": ((9, 346, 3), (0, 1, 2), (1,), 0),
    "rows of pairs": ((6, 120, 2), (0, 1, 2), (1,), 3),
    "a part that does not divide": ((5, 361, 1, 3), (0, 1, 2, 3), (1,), 1),
    "several segments": ((7, 2, 61, 3), (0, 1, 2, 3), (0, 2), 0),
    "segments of a part that divides": ((3, 4, 64, 1, 3), (2, 0, 1, 3, 4), (0, 1, 3), 0),
    "whole dimension in the middle": ((20, 11, 4, 3), (0, 1, 2, 3), (0, 2), 0),
    "joined between folded": ((5, 13, 3, 7), (0, 3, 2, 1), (0, 1, 3), 0),
    "short runs": ((50, 16, 8, 4), (0, 1, 2, 3), (1, 3), 0),
    "short rows of outputs": ((45, 6, 5, 11), (0, 1, 2, 3), (0, 2), 0),
    "the same, unaligned": ((45, 5, 4, 7), (0, 1, 3, 2), (0, 3), 3),
    "kept out of order": ((17, 30, 5, 4), (2, 0, 1, 3), (1, 3), 5),
    "blocks of two reduced dimensions": ((3, 46, 3, 2), (0, 1, 2, 3), (1, 3), 0),
    "the same, out of order": ((3, 46, 2, 3), (0, 3, 1, 2), (1, 2), 1),
    "two inside of kept, inner positions first": ((21, 40, 3, 2), (0, 3, 2, 1), (0, 1, 2), 0),
    "two, all others between them": ((21, 40, 3, 2), (3, 0, 2, 1), (0, 1, 2), 3),
    "two, all others within the outer one": ((21, 40, 4, 5), (2, 0, 3, 1), (0, 1, 2), 1),
    "two and a part": ((200, 2, 3, 2), (3, 0, 2, 1), (0, 1, 2), 2),
    "split": ((9000, 7, 3), (0, 1, 2), (0, 2), 0),
}


def small_limits(device, **changes):
    return limits_with_barriers(device, **{**SMALL, "workgroup_size": 64, **changes})


def joined_in(layout, name, limits):
    return joined_columns(layout, 16 // ELEMENTS[name].nbytes, most_vectors(limits))


def plan_case(case, name, limits, rules=(False, False, False)):
    layout, count = layout_of(case, rules)
    results = Results(
        8 if count % 5 in (1, 2) else 4, count % 2 == 0, layout.outputs + 1, layout.greatest_index
    )
    joined = joined_in(layout, name, limits)
    if joined is None:
        return None
    input_bytes = count * ELEMENTS[name].nbytes
    division = divide_joined(joined, layout, ELEMENTS[name], input_bytes, limits)
    if division is None:
        return None
    return plan_divided(
        joined, division, Reduction(layout, Order(name, *rules), input_bytes, limits), results
    )


@pytest.mark.parametrize("name", ELEMENTS)
def test_kernels_write_what_their_twins_write(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rules = list(itertools.product((False, True), repeat=3))
    planned = set()
    for number, (what, case) in enumerate(CASES.items()):
        # Split columns fill a large device.
        limits = small_limits(device, **({"columns_workgroups": 2112} if what == "split" else {}))
        plan = plan_case(case, name, limits, rules[list(ELEMENTS).index(name) % 8])
        if plan is None:  # too few columns for a vector of this element
            continue
        (step,) = plan.steps
        planned.add((kernels.table()[step.kernel].variant["loads"], twins.is_split(step)))
        if takes(name, number):
            run_both(device, plan, {"input": element_bits(rng, name, case[3] + math.prod(case[0]))},
                     twins_combine.run)  # fmt: skip
    assert planned >= {("vectors", False), ("unaligned", False), ("unaligned", True)}, planned


@pytest.mark.parametrize("name", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("apart", [6, 16])
def test_runs_that_overlap_start_where_they_do(device, name, apart):
    """Windows of a picture, some of which start within a vector of another."""
    sizes, strides = (9, 20, 16, 4), (apart, 256, 4, 1)
    count = 8 * apart + 19 * 256 + 64
    kept = (9, 1, 16, 1)
    layout = canonical_reduce(sizes, strides, (1, 3), row_major_strides(kept), take_last=False)
    limits = small_limits(device)
    joined = joined_in(layout, name, limits)
    assert joined is not None
    assert (joined.run, joined.joined) == (64, 4)
    input_bytes = count * ELEMENTS[name].nbytes
    division = divide_joined(joined, layout, ELEMENTS[name], input_bytes, limits)
    assert division is not None
    plan = plan_divided(
        joined,
        division,
        Reduction(layout, Order(name), input_bytes, limits),
        Results(4, False, layout.outputs, layout.greatest_index),
    )
    assert kernels.table()[plan.steps[0].kernel].variant["loads"] == (
        "vectors" if apart == 16 else "unaligned"
    )
    content = element_bits(np.random.default_rng(apart), name, count)
    run_both(device, plan, {"input": content}, twins_combine.run)


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("vectors", [41, 64, 65, 128, 131])
def test_a_whole_dimension_is_joined_where_a_workgroup_holds_its_columns(device, name, vectors):
    """With as many positions, and as many busy invocations, as make it faster than to join parts of it."""
    size = vectors * (16 // ELEMENTS[name].nbytes) // 5
    limits = small_limits(device, workgroup_size=256)
    rng = np.random.default_rng(vectors)
    for positions in (40, 15):
        case = (positions, 3, size, 5), (0, 1, 2, 3), (0, 2), 1
        layout, count = layout_of(case, (False, True, False))
        joined = joined_in(layout, name, limits)
        is_whole = joined is not None and (joined.copies, joined.joined) == (1, size)
        assert is_whole == (positions == 40 and vectors <= 128)
        if is_whole:
            plan = plan_case(case, name, limits, (False, True, False))
            run_both(device, plan, {"input": element_bits(rng, name, count)}, twins_combine.run)


def test_every_kernel_is_tested_here():
    limits = DeviceLimits(DISCRETE, 1 << 30, 1 << 16, 256)
    tested = {
        step.kernel
        for name in ELEMENTS
        for what in ("short runs", "split")
        for step in plan_case(CASES[what], name, limits).steps
    }
    assert tested == JOINED_KERNELS


# Memory patterns, the innermost first, as (kept or reduced, size); whether the reduced axes are out of order.
PATTERNS = [
    ("int8", "R3 K279758 R513", False),
    ("float16", "R5 K50257 R2 R513", True),
    ("uint8", "R55 K50257 R192", False),
    ("float32", "R2 K397176 R168", True),
    ("int8", "R12 K9 R1081 K4596", False),
    ("uint8", "R81 K8721 R758", True),
    ("int8", "K8 R178 K376369", False),
    ("uint8", "K2 R1155 K219163", False),
    ("uint8", "K2 R385 R3 K219163", True),
    ("float16", "K6 R96 K465487", False),
    ("float32", "K7 R64 K3000 R100", False),
    ("float16", "R16 K795798 R16", True),
    # Rows of outputs of which vectors would be loaded partly in vain.
    ("float16", "K11 R28 K7678 R113", False),
    ("uint8", "K29 R12 K5000 R300", False),
    ("float32", "K6 R7 K30000 R100", True),
    ("uint8", "R6 K2 R632 K50257", False),
    ("int64", "R3 K400000 R100", False),
    # More than a vector of them is still loaded partly in vain.
    ("float16", "K27 R28 K4000 R80", False),
    ("float32", "K9 R500 K29826", False),
    ("int64", "K17 R64 K61680", False),
    ("uint8", "K20 R513 K52326", True),
    # Vectors are full, but those that follow each other are of other positions, and of other outputs.
    ("float32", "K4 R13 K50257 R51", False),
    ("uint8", "K16 R66 K2604 R194", True),
    ("float16", "K16 R28 K7678 R75", False),
    # Few elements, of which columns would load each twice.
    ("float32", "K5 R64 K410479", False),
]


@pytest.mark.parametrize(("name", "pattern", "permuted"), PATTERNS)
def test_few_elements_side_by_side_are_read_in_vectors(name, pattern, permuted):
    """And enough workgroups are busy, and scratch memory stays within its limit."""
    layout, count = layout_of(pattern_case(pattern, permuted), (False, False, False))
    for order in (Order(name), Order(name, take_last=True)):
        plan = plan_argreduce(layout, order, count, GPU_LIMITS, index_bytes=4, with_values=False)
        (step,) = plan.steps
        family = kernels.table()[step.kernel].family
        assert family.name == "argreduce_joined"
        assert plan.bytes_of("workspace") <= count * ELEMENTS[name].nbytes // 100 + (1 << 20)
        pushed = family.unpack(step.push)
        assert step.workgroups >= 400
        vectors_of_piece = -(-pushed["piece_columns"] * ELEMENTS[name].nbytes // 16)
        busy = pushed["lanes"] * vectors_of_piece * pushed["pieces_per_block"]
        assert GPU_LIMITS.workgroup_size // 2 < busy <= GPU_LIMITS.workgroup_size
        # So that the columns of all groups have room in shared memory.
        assert pushed["lanes"] >= 2


@pytest.mark.parametrize(("name", "pattern", "permuted"), [
    ("int8", "R4 K2040 R128 R513", True), ("int8", "K3 R7 K2853 R7634", False),
    ("float16", "K15 R17 K523 R2012", False),
])  # fmt: skip
def test_long_runs_of_few_outputs_are_read_in_long_pieces(name, pattern, permuted):
    """Splits fill the device, not lanes, each of which would read a vector here and there."""
    layout, count = layout_of(pattern_case(pattern, permuted), (False, False, False))
    (step,) = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False).steps
    family = kernels.table()[step.kernel].family
    assert family.name == "argreduce_joined"
    pushed = family.unpack(step.push)
    assert pushed["piece_columns"] * ELEMENTS[name].nbytes >= 500
    assert step.workgroups >= 400


def test_small_inputs_are_divided_among_fewer_workgroups():
    """Each has enough to read for what it costs to start it, and to join its columns."""
    workgroups = []
    for outputs in (2000, 20_000, 200_000):
        layout, count = layout_of(pattern_case(f"R3 K{outputs} R513", False), (False, False, False))
        (step,) = plan_argreduce(
            layout, Order("int8"), count, GPU_LIMITS, index_bytes=4, with_values=False
        ).steps
        assert kernels.table()[step.kernel].family.name == "argreduce_joined"
        workgroups.append(step.workgroups)
    assert workgroups[0] < workgroups[1] < workgroups[2]
    assert workgroups[0] < 200


@pytest.mark.parametrize(("name", "pattern", "kernel"), [
    ("int64", "R2 K7640 R68", "argreduce_joined"),  # no splits
    ("float16", "K2 R838 K2048", "argreduce_joined"),
    ("int64", "R2 K7640 R680", "argreduce_joined"),  # the same, but large
    ("int64", "R2 K7640 R3000", "argreduce_periods"),  # larger
    ("float16", "R16 K4 R65536", "argreduce_joined"),  # splits, whole dimensions in aligned vectors
    ("float16", "R14 K7 R70000", "argreduce_periods"),  # unaligned
    ("float16", "K2 R2000000", "argreduce_periods"),  # a part of a dimension
    ("float16", "K2 R32000000", "argreduce_joined"),  # the same, but large
    ("float16", "K2 R128000000", "argreduce_periods"),  # larger
    ("uint8", "K2 R256000000", "argreduce_joined"),  # single bytes
])  # fmt: skip
def test_small_inputs_are_joined_where_that_takes_less_time_than_the_two_kernels_of_periods(
    name, pattern, kernel
):
    layout, count = layout_of(pattern_case(pattern, False), (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
    assert kernels.table()[plan.steps[0].kernel].family.name == kernel


@pytest.mark.parametrize(("name", "pattern"), [
    ("float32", "R8 K4621 R4 K767"), ("uint8", "R5 K11263312 R4"), ("float64", "R5 K1476590 R9"),
    ("uint8", "K2 R140 K1917396"), ("float16", "K40 R28 K7678 R75"), ("float16", "K53 R28 K4000 R80"),
    ("float16", "R483 K9050 R56"), ("uint8", "R38 R43 K50257"),
])  # fmt: skip
def test_few_positions_or_long_rows_take_other_kernels(name, pattern):
    layout, count = layout_of(pattern_case(pattern, False), (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
    assert "joined" not in plan.steps[0].kernel


@pytest.mark.parametrize("take_last", [False, True])
def test_columns_beyond_sixteen_bits_are_split(device, take_last):
    """Ranks of narrow elements have 16 bits."""
    x = np.zeros((NARROW_SHARE + 3, 8, 2), np.uint8)
    limits = small_limits(device, columns_workgroups=1)
    marked = []
    for place in (0, NARROW_SHARE - 1, NARROW_SHARE, NARROW_SHARE + 2):
        if not take_last:
            x[:] = 0
            marked.clear()
        x[place, 5, 1] = 7
        marked.append(2 * place + 1)
        plan = plan_case((x.shape, (0, 1, 2), (0, 2), 0), "uint8", limits, (False, take_last, False))
        index = np.uint64 if x.size % 5 in (1, 2) else np.uint32
        found = run_plan(device, plan, {"input": x.reshape(-1)})["indices"].view(index)
        rest = 2 * len(x) - 1 if take_last else 0
        assert found[:8].tolist() == [rest] * 5 + [marked[-1] if take_last else marked[0]] + [rest] * 2


def test_few_outputs_that_only_memory_has_side_by_side_are_loaded_in_vectors():
    """Of a narrow kept dimension whose neighbour in memory is the outermost one of the results."""
    layout, count = layout_of(((513, 52466, 7), (2, 0, 1), (1,), 0), (False, False, False))
    plan = plan_argreduce(layout, Order("float16"), count, GPU_LIMITS, index_bytes=4, with_values=False)
    assert plan.steps[0].kernel.startswith("argreduce_columns_unaligned")
