"""Reductions of short repeated blocks: both kernels against their NumPy twins, their plans, and results."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins
import twins_combine
from period_layouts import CASES, layout_of, layout_of_window, pattern_case, plan_case, whole_blocks
from plans import GPU_LIMITS, run_plan
from reduce_kernels import ELEMENTS, SMALL, element_bits, limits_with_barriers, run_both

import vkdml
from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, tuning_for
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce import periods
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.period_division import divide_periods
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import Results, workgroups_at_once
from vkdml.plan.reduce.repetition import NARROW_STEPS, best_repetition, partial_repetitions

PROCESSOR = DeviceLimits(tuning_for("software"), 1 << 30, 65535, 1024, 32 << 10, 8)
FAMILIES = {"argreduce_periods", "argreduce_combine"}
PERIOD_KERNELS = {k.name for k in kernels.table().values() if k.family.name in FAMILIES}

# Windows, whose blocks have gaps: sizes, strides, axes, where the window starts, the elements of the array.
WINDOWS = {
    "every second one, out of order": ((33, 70), (2, 71), (0, 1), 0, 70 * 71),
    "backwards inside": ((5, 8, 90), (-1, -35, 280), (0, 1, 2), 4 + 7 * 35, 90 * 280),
    "backwards outside": ((300, 5), (-7, 1), (0, 1), 299 * 7 + 1, 300 * 7 + 1),
    "kept within": ((7, 17, 120), (38, 2, 281), (1, 2), 3, 120 * 281),
    "kept, backwards, in stretches": ((3, 90, 4, 3), (2700, -30, 2, 9), (1, 3), 89 * 30, 3 * 2700),
    "ends within a block": ((61, 9, 3), (40, 4, 1), (0, 2), 0, 60 * 40 + 35),
}


# Windows with wide gaps: as above, and the elements of a part.
PARTS = {
    "rows that are cut": ((300, 21), (64, 1), (0, 1), 5, 300 * 64, 21),
    "ends with the array": ((97, 5), (48, 1), (0, 1), 43, 97 * 48, 5),
    "several parts of a block": ((50, 3, 7), (640, 160, 2), (0, 1, 2), 9, 50 * 640, 13),
    "outputs beside": ((4, 60, 10), (200, 800, 3), (1, 2), 3, 60 * 800 + 30, 28),
    "backwards": ((60, 9, 3), (-320, 2, 64), (0, 1), 59 * 320 + 2, 60 * 320 + 170, 17),
    "two elements": ((90, 3, 2), (64, 6000, 5), (0, 1), 1, 3 * 6000, 6),
    "in stretches far apart": ((2, 40, 11), (9000, 96, 2), (1, 2), 17, 18000, 21),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_kernels_write_what_their_twins_write(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    number = list(ELEMENTS).index(name)
    rules = list(itertools.product((False, True), repeat=3))
    ran = set()
    for what, case in CASES.items():
        small = {**SMALL, "workgroup_size": 8 if what == "many candidates" else 64}
        limits = limits_with_barriers(device, **small)
        plan = plan_case(case, name, limits, rules[number % 8])
        run_both(device, plan, {"input": element_bits(rng, name, case[3] + math.prod(case[0]))},
                 twins_combine.run)  # fmt: skip
        ran |= {(step.kernel, twins.is_split(step)) for step in plan.steps}
    combine = next(kernel for kernel, _ in ran if "combine" in kernel)
    assert {(combine, False), (combine, True)} <= ran


def plan_window(window: str, name: str, rules, limits, *, aligned: bool):
    sizes, strides, axes, base, count = WINDOWS[window]
    layout = layout_of_window(sizes, strides, axes, base, take_last=rules[1])
    element = ELEMENTS[name]
    input_bytes = count * element.nbytes
    assert best_repetition(layout, element, input_bytes) is None
    repetition = whole_blocks(layout, element)
    assert repetition.has_gaps
    assert (repetition.weight < 0) == ("backwards" in window and "inside" not in window)
    if not aligned:
        if repetition.block < 16 // element.nbytes:
            return None
        repetition = replace(repetition, copies=1, is_aligned=False)
    results = Results(4, True, layout.outputs, layout.greatest_index)
    return periods.plan_repetition(
        repetition, Reduction(layout, Order(name, *rules), input_bytes, limits), results
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("aligned", [True, False])
def test_blocks_with_gaps_are_read_whole(device, name, window, aligned):
    """What lies in the gaps belongs to no output, and positions may descend along any dimension."""
    count = WINDOWS[window][-1]
    rng = np.random.default_rng(count)
    limits = replace(device.limits, tuning=replace(device.limits.tuning, **SMALL))
    content = rng.integers(0, 5, count * ELEMENTS[name].nbytes, np.uint8)  # many are equal
    ran = 0
    for rules in itertools.product((False, True), (False, True), (False,)):
        plan = plan_window(window, name, rules, limits, aligned=aligned)
        if plan is None:  # blocks shorter than vectors
            continue
        run_both(device, plan, {"input": content}, twins_combine.run)
        ran += 1
    assert ran == 4 or not aligned


def plan_parts(window: str, name: str, rules, limits, *, aligned: bool):
    sizes, strides, axes, base, count, part = PARTS[window]
    layout = layout_of_window(sizes, strides, axes, base, take_last=rules[1])
    element = ELEMENTS[name]
    ways = [way for way in partial_repetitions(layout, 16 // element.nbytes) if way.part == part]
    repetition = max(ways, key=lambda way: way.size)
    assert repetition.has_gaps
    assert repetition.columns == part * repetition.stretches
    assert (repetition.weight < 0) == (window == "backwards")
    repetition = replace(repetition, is_aligned=aligned)
    results = Results(4, True, layout.outputs, layout.greatest_index)
    plan = periods.plan_repetition(
        repetition, Reduction(layout, Order(name, *rules), count * element.nbytes, limits), results
    )
    pushed = kernels.family("argreduce_periods").unpack(plan.steps[0].push)
    assert (pushed["width"], pushed["run"]) == (part, repetition.block)
    return plan


@pytest.mark.parametrize("window", PARTS)
@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("aligned", [True, False])
def test_only_parts_of_blocks_are_read(device, name, window, aligned):
    """What lies beside them in their first and last vectors would win, and takes no part."""
    sizes, strides, _, base, count, _ = PARTS[window]
    rng = np.random.default_rng(count)
    element = ELEMENTS[name]
    content = np.full(count, 7, f"<u{element.nbytes}")
    places = np.array(base)
    for size, stride in zip(sizes, strides, strict=True):
        places = np.add.outer(places, np.arange(size) * stride)
    content[places] = rng.integers(0, 5, places.shape)  # many are equal
    limits = replace(device.limits, tuning=replace(device.limits.tuning, **SMALL))
    for rules in itertools.product((False, True), (False, True), (False,)):
        plan = plan_parts(window, name, rules, limits, aligned=aligned)
        run_both(device, plan, {"input": content.view(np.uint8)}, twins_combine.run)


@pytest.mark.parametrize(
    ("name", "sizes", "strides", "axes", "part", "stretches"),
    [
        # Rows that are cut, several parts of a block, parts that are themselves short rows.
        ("float32", (208356, 70), (268, 1), (0, 1), 70, 1),
        ("uint8", (58124, 15, 171), (8000, 513, 1), (0, 1, 2), 171, 15),
        ("float16", (16000, 256, 27), (16384, 64, 1), (1, 2), 27, 16000),
        ("int64", (765, 359, 4, 4), (34464, 48, 4, 1), (0, 1, 2, 3), 16, 359),
        # Outputs lie nearest, with one reduced dimension or several.
        ("uint8", (267040, 280), (1024, 1), (0,), 280, 1),
        ("bfloat16", (50257, 15, 10, 13), (5120, 320, 16, 1), (0,), 157, 15),
        # Read otherwise: few positions for each column, single elements, outputs apart, nothing left out.
        ("int8", (1039, 230, 475), (352944, 1539, 1), (1,), 0, 0),
        ("int64", (20983170,), (2,), (0,), 0, 0),
        ("float16", (270055, 497), (994, 2), (0,), 0, 0),
        ("uint8", (94623, 280), (280, 1), (0,), 0, 0),
    ],
)
def test_parts_of_blocks_are_read_where_that_is_faster(name, sizes, strides, axes, part, stretches):
    layout = layout_of_window(sizes, strides, axes, 0, take_last=False)
    count = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    plan = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
    family = kernels.table()[plan.steps[0].kernel].family
    pushed = family.unpack(plan.steps[0].push)
    in_parts = family.name == "argreduce_periods" and pushed["width"] < pushed["run"]
    assert in_parts == (part > 0)
    if in_parts:
        assert (pushed["width"], pushed["outputs"]) == (part, part * stretches)
    assert plan.bytes_of("workspace") <= count * ELEMENTS[name].nbytes // 100 + (1 << 20)


@pytest.mark.parametrize("take_last", [False, True])
@pytest.mark.parametrize(("name", "row"), [("int8", 513), ("float16", 517)])
def test_narrow_rows_out_of_order_are_read_in_unaligned_periods_where_nothing_else_reads_in_order(
    device, name, row, take_last
):
    """The first of the reduced axes lies innermost; of aligned periods there would be too many columns."""
    periods = replace(DISCRETE.periods, from_bytes=0, elements_from_bytes=0, out_of_order_from_bytes=0)
    limits = replace(
        device.limits,
        tuning=replace(DISCRETE, periods=periods, joined_from_bytes=1 << 40, joined_dims_from_bytes=1 << 40),
    )
    inner, outer = 101, 64
    order = Order(name, take_last=take_last)
    layout = canonical_reduce(
        (inner, outer, row), (row, inner * row, 1), (0, 1), (row, row, 1), take_last=take_last
    )
    count = inner * outer * row
    plan = plan_argreduce(layout, order, count, limits, index_bytes=4, with_values=True)
    assert "periods_unaligned" in plan.steps[0].kernel
    assert plan.bytes_of("workspace") <= count * ELEMENTS[name].nbytes // 100 + (1 << 20)
    rng = np.random.default_rng(row)
    run_both(device, plan, {"input": element_bits(rng, name, count)}, twins_combine.run)


@pytest.mark.parametrize(
    ("name", "shape", "permutation", "axes", "in_periods"),
    [
        ("int8", (917, 6146, 95), (1, 2, 0), (0, 2), True),
        ("uint8", (132, 7911, 513), (2, 1, 0), (1, 2), True),
        # Long rows are read as fast in columns.
        ("bfloat16", (121, 11, 50257), (1, 0, 2), (0, 1), False),
    ],
)
def test_unaligned_periods_are_the_last_way_to_read_memory_in_order(
    name, shape, permutation, axes, in_periods
):
    strides = row_major_strides(shape)
    sizes = [shape[axis] for axis in permutation]
    kept = [1 if axis in axes else size for axis, size in enumerate(sizes)]
    layout = canonical_reduce(
        sizes, [strides[axis] for axis in permutation], axes, row_major_strides(kept), take_last=False
    )
    plan = plan_argreduce(layout, Order(name), math.prod(shape), GPU_LIMITS, index_bytes=4, with_values=False)
    assert ("periods" in plan.steps[0].kernel) == in_periods


def test_every_kernel_is_tested_here():
    limits = DeviceLimits(DISCRETE, 1 << 30, 1 << 16, 256)
    tested = {step.kernel for name in ELEMENTS for step in plan_case(CASES["vectors"], name, limits).steps}
    tested |= {
        plan_window("kept within", name, (False, False, False), limits, aligned=False).steps[0].kernel
        for name in ELEMENTS
    }
    assert tested == PERIOD_KERNELS


# Memory patterns, the innermost first, as (kept or reduced, size); whether the reduced axes are out of order.
PATTERNS = [
    ("float16", "R2 K64 R981186 K2", False),
    ("bfloat16", "R4 K100 R668778", False),
    ("float32", "R2 K2 R50257 K513", False),
    ("float32", "R8 K4 K5 R753247", False),
    ("float32", "R9 K447 R26616", False),
    ("uint8", "K5 R120840 R888", True),
    ("bfloat16", "K3 R7948 R911 K12", True),
    ("bfloat16", "K2 R11 R7368 R1656", True),
    ("int8", "K11 R911 R50257", True),
    ("float32", "R3 K8915 R4167", True),
    ("bfloat16", "K13 R3 R5880069", True),
    ("float16", "K28 R10 R947114", True),
    ("float16", "K6 R4079 R727 K15", False),
    ("uint16", "K2 R134217728", False),
    ("float32", "K2 R11596 K5787", False),
]


@pytest.mark.parametrize(("name", "pattern", "permuted"), PATTERNS)
def test_short_blocks_of_large_arrays_are_read_in_vectors(name, pattern, permuted):
    """And the scratch memory stays within its limit."""
    layout, count = layout_of(pattern_case(pattern, permuted), (False, False, False))
    for order in (Order(name), Order(name, take_last=True)):
        plan = plan_argreduce(layout, order, count, GPU_LIMITS, index_bytes=4, with_values=False)
        first, second = (kernels.table()[step.kernel].family for step in plan.steps)
        assert (first.name, second.name) == ("argreduce_periods", "argreduce_combine")
        assert plan.bytes_of("workspace") <= count * ELEMENTS[name].nbytes // 100 + (1 << 20)
        pushed = first.unpack(plan.steps[0].push)
        assert plan.steps[0].workgroups >= 0.7 * workgroups_at_once(ELEMENTS[name], GPU_LIMITS.tuning)
        assert pushed["lanes"] * pushed["groups_per_block"] > GPU_LIMITS.workgroup_size * 3 // 4


@pytest.mark.parametrize(
    ("name", "rows", "columns", "times"),
    [
        ("float16", 18_699, 9696, 2),
        ("int8", 3000, 90_000, 2),
        ("int8", 3000, 150_000, 4),
        ("int64", 2000, 40_000, 2),
        ("int64", 2000, 62_000, 4),
        # They run at once as they are, or would be too few.
        ("float16", 30_000, 9000, 1),
        ("float32", 40_000, 3600, 1),
        ("int64", 2000, 120_000, 1),
    ],
)
def test_blocks_are_wider_if_all_workgroups_run_at_once_then(name, rows, columns, times):
    """No workgroups start when others are done; and no block is wider than a workgroup."""
    layout, count = layout_of(((rows, columns), (0, 1), (0,), 0), (False, False, False))
    element = ELEMENTS[name]
    nbytes, usual = count * element.nbytes, 16 if element.nbytes < 4 else 32
    repetition = best_repetition(layout, element, nbytes)
    division = divide_periods(repetition, element, nbytes, GPU_LIMITS)
    assert division.groups_per_block == times * usual
    at_once, workgroups = workgroups_at_once(element, GPU_LIMITS.tuning), division.blocks * division.splits
    assert workgroups >= 0.7 * at_once
    assert workgroups <= at_once or times == 1
    small = divide_periods(repetition, element, nbytes, GPU_LIMITS.with_workgroup_size(usual))
    assert small.groups_per_block == usual


@pytest.mark.parametrize(
    ("name", "matrices", "rows", "columns", "is_periodic"),
    [
        ("float32", 1, 28339, 37, True),
        ("float32", 7, 9000, 37, True),
        ("float64", 1, 14169, 37, True),
        ("float32", 1, 14000, 36, False),  # aligned rows
        ("float32", 1, 64339, 36, False),
        ("float32", 1, 5000, 37, False),  # a small array
        ("float32", 1, 2000, 501, False),  # a candidate for each kibibyte or two
        ("float32", 1, 3200, 501, True),  # 6 MiB and more
        ("int64", 1, 2500, 251, False),
        ("int64", 1, 3200, 251, True),
        ("float32", 1, 500000, 5, True),  # a workgroup reads whole periods
        ("float32", 1, 453438, 37, True),  # several do
    ],
)
def test_processors_read_unaligned_rows_of_wide_elements_as_periods(
    name, matrices, rows, columns, is_periodic
):
    layout, count = layout_of(((matrices, rows, columns), (0, 1, 2), (1,), 0), (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, PROCESSOR, index_bytes=4, with_values=False)
    first = kernels.table()[plan.steps[0].kernel].family
    assert (first.name == "argreduce_periods") == is_periodic


@pytest.mark.parametrize(
    ("rows", "columns", "least"),
    [
        (1 << 18, 13, 1),  # a small array
        (1 << 20, 13, 13),
        (5 << 20, 13, 65),
        (5 << 20, 5, 1),  # of these a workgroup reads a whole period, without others
        (1 << 15, 250, 7),
        (1 << 15, 3992, 62),  # 63 workgroups of half of `Tuning.split_bytes`
        (1 << 15, 5001, 1),  # long periods, which many workgroups share
    ],
)
def test_splits_of_short_periods_fit_a_processors_cache(rows, columns, least):
    layout, count = layout_of(((rows, columns), (0, 1), (0,), 0), (False, False, False))
    plan = plan_argreduce(layout, Order("int8"), count, PROCESSOR, index_bytes=4, with_values=False)
    family = kernels.table()[plan.steps[0].kernel].family
    assert family.name == "argreduce_periods"
    pushed, tuning = family.unpack(plan.steps[0].push), PROCESSOR.tuning
    splits, blocks = pushed["splits"], -(-pushed["run"] // 16 // pushed["groups_per_block"])
    assert splits >= least
    if least > 1:
        assert count / splits <= max(tuning.periods.split_bytes, blocks * tuning.split_bytes / 2)
        assert count / splits / blocks >= 0.9 * tuning.split_bytes / 2
    else:
        assert splits < 13


@pytest.mark.parametrize(
    ("columns", "vectors"),
    [
        (64, 4),  # a whole period
        (144, 8),
        (320, 8),
        (4000, 8),
    ],
)
def test_processors_read_two_lines_of_periods_side_by_side(columns, vectors):
    layout, count = layout_of((((8 << 20) // columns, columns), (1, 0), (0, 1), 0), (False, False, False))
    plan = plan_argreduce(layout, Order("int8"), count, PROCESSOR, index_bytes=4, with_values=False)
    family = kernels.table()[plan.steps[0].kernel].family
    assert family.name == "argreduce_periods"
    assert family.unpack(plan.steps[0].push)["groups_per_block"] == vectors


@pytest.mark.parametrize(("name", "columns", "stretches", "times"), [
    ("uint8", 727, 1, 8), ("float16", 330, 1, 8), ("float32", 769, 2, 8), ("int8", 1000, 1, 8),
    ("int64", 511, 1, 8), ("uint8", 800, 1, 4),
    ("uint8", 768, 1, 1),  # whole lines
    ("uint8", 37, 1, 1),  # short: side by side
    ("uint8", 2001, 1, 1),  # long: too many candidates
    ("float32", 769, 40, 1),  # stretches start within lines
])  # fmt: skip
def test_periods_of_a_gpu_have_whole_lines(name, columns, stretches, times):
    nbytes = ELEMENTS[name].nbytes
    rows = (1 << 29) // (columns * nbytes * stretches)
    layout, count = layout_of(((stretches, rows, columns), (1, 0, 2), (0,), 0), (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
    family = kernels.table()[plan.steps[0].kernel].family
    assert family.name == "argreduce_periods"
    per_vector = 16 // nbytes
    least = columns * per_vector // math.gcd(columns, per_vector)
    assert family.unpack(plan.steps[0].push)["run"] == times * least
    assert plan.bytes_of("workspace") <= count * nbytes // 100 + (1 << 20)


def test_small_arrays_take_one_kernel():
    layout, count = layout_of(((40, 3, 5), (0, 1, 2), (0, 2), 0), (False, False, False))
    plan = plan_argreduce(layout, Order("float32"), count, GPU_LIMITS, index_bytes=4, with_values=False)
    assert len(plan.steps) == 1


@pytest.mark.parametrize("take_last", [False, True])
def test_repetitions_beyond_sixteen_bits_are_split(device, take_last):
    """Ranks of narrow elements have 16 bits; periods here have 16 elements, of 2 columns."""
    periods = NARROW_STEPS + 3
    x = np.zeros((8 * periods, 2), np.uint8)
    limits = replace(device.limits, tuning=replace(device.limits.tuning, columns_workgroups=1))
    for place in (0, 8 * NARROW_STEPS - 1, 8 * NARROW_STEPS, 8 * periods - 1):
        x[place, 1] = 7
        plan = plan_case((x.shape, (0, 1), (0,), 0), "uint8", limits, (False, take_last, False))
        index = np.uint64 if x.size % 5 in (1, 2) else np.uint32
        found = run_plan(device, plan, {"input": x})["indices"].view(index)
        marked = np.flatnonzero(x[:, 1])
        want = [len(x) - 1, marked[-1]] if take_last else [0, marked[0]]
        assert found[:2].tolist() == want
        if not take_last:
            x[place, 1] = 0


@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize(("shape", "order", "axes"), [
    ((20000, 3, 5), (0, 1, 2), (0, 2)),
    ((37, 4001, 5), (1, 0, 2), (0, 1)),
    ((3, 30011, 7), (0, 1, 2), (1,)),
    ((300, 1001, 2), (1, 2, 0), (0, 2)),
    ((65537 * 16 + 5,), (0,), (0,)),
])  # fmt: skip
def test_results_are_numpys(device, shape, order, axes, direction):
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(0, 200, shape).astype(np.uint8).transpose(order)
    assert x.nbytes < 4 << 20
    rows = np.moveaxis(x, axes, range(-len(axes), 0))
    rows = rows.reshape(*rows.shape[: -len(axes)], -1)
    want = rows.argmax(-1) if direction == "increasing" else rows.shape[-1] - 1 - rows[..., ::-1].argmax(-1)
    on_device = vkdml.asarray(np.ascontiguousarray(x.transpose(np.argsort(order)))).transpose(order)
    found, values = vkdml.argmax(on_device, axes, direction=direction, return_values=True)
    np.testing.assert_array_equal(found.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), rows.max(-1))


@pytest.mark.parametrize(
    ("name", "sizes", "strides", "axes", "on_gpus", "on_processors"),
    [
        # Positions lie in another order than memory: every second element, rows, all but some of each block.
        ("uint8", (4644, 5560), (2, 9471), (0, 1), True, True),
        ("int8", (8, 102, 58118), (115, 1, 920), (0, 1, 2), True, True),
        ("float32", (3, 7774, 256), (5 * 10**6, 2, 16384), (1, 2), True, True),
        # In their order, but with few elements beside each other, or in short rows.
        ("float16", (7327499, 8), (30, 1), (0, 1), True, True),
        ("uint8", (29611386, 5), (12, 2), (0, 1), True, True),
        ("float16", (1 << 18, 5), (8, 1), (0, 1), False, True),
        # Outputs lie nearest, and little is read in vain.
        ("uint8", (65, 8262, 116, 3), (2, 63568, 548, 137), (1, 2, 3), True, True),
        # One reduced dimension: a processor reads up to three bytes for each that is needed.
        ("uint8", (1 << 22,), (2,), (0,), False, True),
        ("uint8", (1 << 22,), (3,), (0,), False, True),
        ("float16", (1 << 22,), (3,), (0,), False, False),
        ("float32", (12481240,), (3,), (0,), False, False),
        ("uint8", (4096, 1000), (3000, 2), (0,), False, False),
        # Long rows in order, few elements, wide elements in order.
        ("uint8", (65640, 6094), (8179, 1), (0, 1), False, False),
        ("uint8", (464, 556), (2, 947), (0, 1), False, False),
        ("int64", (9000, 3, 203), (5130, 1710, 2), (0, 1, 2), False, False),
        # Nothing is left out.
        ("uint8", (9471, 4096), (1, 9471), (0, 1), False, True),
    ],
)
def test_windows_are_read_whole_where_that_is_faster(name, sizes, strides, axes, on_gpus, on_processors):
    layout = layout_of_window(sizes, strides, axes, 0, take_last=False)
    count = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    for limits, periods_expected in ((GPU_LIMITS, on_gpus), (PROCESSOR, on_processors)):
        plan = plan_argreduce(layout, Order(name), count, limits, index_bytes=4, with_values=False)
        assert plan.steps[0].kernel.startswith("argreduce_periods") == periods_expected
        assert plan.bytes_of("workspace") <= count * ELEMENTS[name].nbytes // 100 + (1 << 20)


def groups_ahead(plan) -> tuple[int, int]:
    """Return the vectors that are read ahead, and those of a period or of the part of it that is read."""
    family = kernels.table()[plan.steps[0].kernel].family
    assert family.name == "argreduce_periods"
    pushed = family.unpack(plan.steps[0].push)
    return pushed["groups_ahead"], pushed["width"]


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_what_is_read_ahead_changes_no_result(device, name):
    """Whole splits and parts of periods, of one stretch and of several, whole blocks and parts of them."""
    nbytes, rng, seen = ELEMENTS[name].nbytes, np.random.default_rng(5), set()
    cases = [
        ((60, 500), (0, 1), (0,), 0),
        ((71, 497), (0, 1), (0,), 3),
        ((900, 44), (0, 1), (0,), 0),
        ((900, 84), (0, 1), (0,), 0),
        ((5, 90, 331), (1, 0, 2), (0, 1), 1),
        ((3, 90, 170, 2), (0, 1, 3, 2), (1, 2), 5),
    ]
    for split_bytes, segment_bytes in ((1 << 12, 32), (1 << 15, 16)):
        ahead = replace(
            device.limits.tuning.periods,
            split_bytes=split_bytes,
            segment_bytes=segment_bytes,
            ahead_from_bytes=0,
        )
        changed = {**SMALL, "periods": ahead, "reads_ahead": 1}
        limits = limits_with_barriers(device, **changed)
        plans = [(plan_case(case, name, limits), math.prod(case[0]) + case[3]) for case in cases]
        plans += [
            (plan_parts(window, name, (False, False, False), limits, aligned=True), PARTS[window][4])
            for window in ("rows that are cut", "in stretches far apart")
        ]
        for plan, count in plans:
            vectors, width = groups_ahead(plan)
            seen.add("nothing" if not vectors else "all" if vectors * 16 >= width * nbytes else "some")
            run_both(device, plan, {"input": element_bits(rng, name, count)}, twins_combine.run)
    assert seen == {"nothing", "all", "some"}


@pytest.mark.parametrize(
    ("name", "shape", "kernel"),
    [
        # Vectors if there are enough positions.
        ("float32", (128, 8192), "columns_vectors"),
        ("float32", (28, 8192), "columns_vectors"),
        ("float32", (27, 8192), "short_single"),
        ("float32", (256, 512, 32), "columns_vectors"),
        ("float16", (72, 8192), "columns_vectors"),
        ("float16", (71, 8192), "short_walked"),
        ("int8", (100, 8192), "columns_vectors"),
        ("int8", (99, 8192), "short_walked"),
        ("float16", (256, 512, 64), "columns_vectors"),
        ("float16", (256, 512, 72), "columns_vectors"),
        ("int8", (1024, 512, 128), "columns_vectors"),
        ("int8", (64, 40000, 128), "columns_vectors"),
        ("int64", (32, 65536), "columns_vectors"),
        ("float32", (599, 8192), "columns_vectors"),
        ("float32", (600, 8192), "columns_vectors"),
        ("float32", (600, 8191), "periods_vectors"),  # unaligned rows
        ("float16", (64, 131072), "short_walked"),
        ("int64", (512, 2048), "columns_vectors"),
    ],
)
def test_processors_read_columns_as_was_fastest(name, shape, kernel):
    case = (shape, tuple(range(len(shape))), (len(shape) - 2,), 0)
    layout, count = layout_of(case, (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, PROCESSOR, index_bytes=4, with_values=False)
    assert plan.steps[0].kernel.startswith(f"argreduce_{kernel}")


def test_processors_read_words_out_of_memory_order_in_periods():
    """From 128 bytes of a column on, as they do narrow elements."""
    for shape, family in (((513, 511), "argreduce_periods"), ((31, 30, 31, 10), "argreduce_rows")):
        axes = tuple(range(len(shape)))
        layout, count = layout_of((shape, axes[::-1], axes, 0), (False, False, False))
        plan = plan_argreduce(layout, Order("float32"), count, PROCESSOR, index_bytes=4, with_values=False)
        assert plan.steps[0].kernel.startswith(family)


@pytest.mark.parametrize(
    ("name", "shape", "vectors"),
    [
        ("float32", (20000, 201), 201),  # whole periods
        ("float32", (3000, 4001), 64),  # of long ones a part
        ("int8", (4, 9000, 200), 25),
        ("float32", (700000, 5), 0),  # a workgroup has whole periods
    ],
)
def test_processors_read_ahead_what_a_cache_holds(name, shape, vectors):
    case = (shape, tuple(range(len(shape))), (len(shape) - 2,), 0)
    layout, count = layout_of(case, (False, False, False))
    plan = plan_argreduce(layout, Order(name), count, PROCESSOR, index_bytes=4, with_values=False)
    assert groups_ahead(plan)[0] == vectors
    pushed = kernels.family("argreduce_periods").unpack(plan.steps[0].push)
    tuning = PROCESSOR.tuning.periods
    assert vectors * 16 * pushed["positions_per_split"] <= 2 * tuning.split_bytes
    gpu = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
    assert "argreduce_periods" not in gpu.steps[0].kernel or groups_ahead(gpu)[0] == 0
