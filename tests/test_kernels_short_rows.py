"""The kernels of short rows and short stacks against their NumPy twin: all bytes written, and no others."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from plans import NONE_FIXED, as_of_a_processor, run_plan
from reduce_kernels import alike_elements, element_bits, of_width
from short_kernels import SMALL, check_ties_and_extremes, plan_view, rules_of, run_both

from vkdml.plan import kernels, tuning
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.loop_steps import LAVAPIPE_LOOP_STEPS as LIMIT
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce

ELEMENTS = kernels.elements()
FAMILY = kernels.family("argreduce_short")

# Shape of the array in memory, the order in which its dimensions are read, the window of each, and the axis.
ALL = slice(None)
CASES = {
    "pairs": ((1400, 2), (0, 1), (ALL, ALL), 1),
    "rgb": ((900, 3), (0, 1), (ALL, ALL), 1),
    "aligned pixels": ((1501, 3), (0, 1), (ALL, ALL), 1),
    "aligned sevens": ((703, 7), (0, 1), (ALL, ALL), 1),
    "words": ((700, 4), (0, 1), (ALL, ALL), 1),
    "seven": ((431, 7), (0, 1), (ALL, ALL), 1),
    "backwards": ((431, 7), (0, 1), (slice(None, None, -1), slice(None, None, -1)), 1),
    "window": ((301, 9), (0, 1), (slice(3, 299), slice(2, 7)), 1),
    "windows": ((20, 17, 9), (0, 1, 2), (ALL, slice(1, 15), slice(1, 6)), 2),
    "far windows": ((60, 90, 5), (0, 1, 2), (ALL, slice(1, 4), slice(1, 4)), 2),
    "permuted": ((33, 70, 5), (1, 0, 2), (ALL, ALL, ALL), 2),
    "permuted short": ((50, 5, 4, 3), (1, 0, 2, 3), (ALL, ALL, ALL, ALL), 3),
    "permuted all": ((40, 6, 3, 3), (2, 0, 1, 3), (ALL, ALL, ALL, ALL), 3),
    "many dims": ((3, 4, 3, 2, 3, 2, 3, 3), (4, 1, 6, 0, 5, 2, 3, 7), (ALL,) * 8, 7),
    "stacks": ((37, 5, 10), (0, 1, 2), (ALL, ALL, ALL), 1),
    "aligned stacks": ((37, 3, 16), (0, 1, 2), (ALL, ALL, ALL), 1),
    "permuted stacks": ((21, 13, 4, 6), (0, 3, 1, 2), (ALL, ALL, ALL, ALL), 3),
    "permuted blocks of stacks": ((40, 3, 6, 13), (2, 0, 3, 1), (ALL, ALL, ALL, ALL), 0),
    "stacks of windows": ((11, 5, 40), (0, 1, 2), (ALL, slice(1, 4), slice(3, 20)), 1),
    "apart": ((5, 8, 1001), (0, 1, 2), (ALL, ALL, ALL), 1),
    "aligned apart": ((2, 8192), (0, 1), (ALL, ALL), 0),
    "permuted apart": ((5, 700, 12), (0, 2, 1), (ALL, ALL, ALL), 0),
    "rows apart": ((3, 30, 601), (0, 2, 1), (ALL, ALL, slice(1, 599)), 0),
    "stacks apart": ((7, 2, 2003), (2, 0, 1), (ALL, ALL, ALL), 2),
    "repeated": ((1, 200, 3), (0, 1, 2), (ALL, ALL, ALL), 2),
}


def limits_of(device, **changes):
    limits = as_of_a_processor(device.limits)
    return replace(limits, tuning=replace(limits.tuning, short=replace(SMALL, **changes)))


def plan_case(case: str, name: str, limits, rules=(False, False, False)):
    """The plan of a case, and how many elements its input has."""
    memory, dims, windows, axis = CASES[case]
    whole = np.empty(memory, np.int8).transpose(dims)
    # Half-open intervals of elements: NumPy's views of bytes have the same strides.
    view = whole[windows]
    base = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0] + 5
    sizes, strides = view.shape, view.strides
    if case == "repeated":
        sizes, strides = (7, *sizes[1:]), (0, *strides[1:])
    if "aligned" in case or case in ("words", "pairs"):
        base -= 5
    return plan_view(case, sizes, strides, (axis,), base, Order(name, *rules), limits)


@pytest.mark.parametrize("name", ELEMENTS)
def test_kernels_write_what_their_twin_writes(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    alike = of_width(ELEMENTS[name].nbytes)
    turn, ran = alike.index(name), set()
    for number, case in enumerate(CASES):
        # Elements of one width share the cases: they lie in memory alike.
        if case not in ("rgb", "aligned pixels", "stacks") and number % len(alike) != turn:
            continue
        # Software drivers compile a pipeline for each rule: opposite rules in turn say the same.
        # Tiles with positions far apart are for shared memory; of single bytes, or if outputs are permuted.
        direct = number % 3 == 0 and "apart" not in case
        limits = limits_of(device, direct=direct, **NONE_FIXED if number % 2 else {})
        plan, count = plan_case(case, name, limits, rules_of(turn ^ 7 * (number % 2)))
        if ELEMENTS[name].nbytes > 1 and case in ("apart", "aligned apart"):
            assert kernels.table()[plan.steps[0].kernel].family.name == "argreduce_columns"
            continue
        run_both(device, plan, element_bits(rng, name, count))
        ran.add(plan.steps[0].kernel)
    assert ran == kernels_for(name)


@pytest.mark.parametrize(
    ("name", "positions", "row", "pitch", "is_stack"),
    [
        ("float16", 90, 2, 2, True), ("bfloat16", 44, 3, 3, True), ("float32", 42, 3, 3, True),
        ("float16", 91, 2, 2, False), ("float16", 45, 3, 3, False), ("float32", 43, 3, 3, False),
        # Rows of a vector, rows that lie apart, single bytes.
        ("float16", 33, 8, 8, False), ("float16", 33, 2, 4, False), ("uint8", 33, 3, 3, False),
    ],
)  # fmt: skip
def test_stacks_of_rows_shorter_than_a_vector_have_more_positions(
    device, name, positions, row, pitch, is_stack
):
    """GPUs would load them one by one. Else stacks have up to 32 positions."""
    sizes, strides = (70, positions, row), (positions * pitch, pitch, 1)
    plan, count = plan_view("very short", sizes, strides, (1,), 0, Order(name), limits_of(device))
    kernel = kernels.table()[plan.steps[0].kernel]
    assert (kernel.family is FAMILY and kernel.variant["columns"] in ("packed", "single")) == is_stack
    if is_stack:
        run_both(device, plan, element_bits(np.random.default_rng(positions), name, count))


@pytest.mark.in_turn(any_of=("name", "memory"))
@pytest.mark.parametrize("name", ["uint8", "float32"])
@pytest.mark.parametrize("memory", [(49, 900, 7), (1500, 30, 7), (3, 900, 30, 7), (5, 70, 400, 7)])
def test_tiles_follow_each_other_along_the_dimension_that_has_fewer(device, name, memory):
    """The outputs' innermost dimension or another one; then those outside the tile."""
    limits = limits_of(device)
    outer, (rows, columns, positions) = memory[:-3], memory[-3:]
    strides = row_major_strides(memory)
    sizes = (*outer, columns, rows, positions)
    view = sizes, (*strides[:-3], positions, columns * positions, 1), (len(sizes) - 1,)
    plan, count = plan_view("tiles", *view, 0, Order(name), limits)
    (step,) = plan.steps
    pushed = kernels.table()[step.kernel].family.unpack(step.push)
    assert pushed["tiles_0"] > 1
    assert pushed["tiles_1"] > 1
    assert (pushed["tiles_0"] < pushed["tiles_1"]) == (rows < columns)
    assert pushed["kept_dims"] == len(outer)
    run_both(device, plan, element_bits(np.random.default_rng(rows), name, count))


@pytest.mark.in_turn(any_of=("name", "positions", "rows", "side_by_side"))
@pytest.mark.parametrize(
    ("name", "positions", "rows", "side_by_side"),
    [
        ("uint8", 6, 96, 96), ("uint8", 2, 97, 56), ("uint8", 2, 300, 80), ("uint8", 3, 300, 64),
        ("uint8", 4, 296, 32), ("uint8", 5, 97, 32), ("float16", 3, 95, 95), ("float16", 2, 97, 56),
        ("float16", 4, 95, 32), ("float32", 2, 65, 32),
    ],
)  # fmt: skip
def test_tiles_of_very_short_rows_write_all_outputs_side_by_side_or_even_shares(
    device, name, positions, rows, side_by_side
):
    """All of up to 96; of more, unaligned ones of rows of up to 4 bytes in shares of up to 64 or 96."""
    limits = limits_of(device, workgroup_size=128, tile_bytes=8192, permuted_tile_bytes=16384)
    columns = 16384 // positions
    view = (columns, rows, positions), (positions, columns * positions, 1), (2,)
    plan, count = plan_view("even shares", *view, 0, Order(name), limits)
    (step,) = plan.steps
    pushed = kernels.table()[step.kernel].family.unpack(step.push)
    assert pushed["output_stride_0"] == 1
    assert pushed["tile_0"] == side_by_side
    run_both(device, plan, element_bits(np.random.default_rng(rows), name, count))


def kernels_for(name: str) -> set[str]:
    element = ELEMENTS[name].specialization
    return {
        kernel.name
        for kernel in FAMILY.kernels.values()
        if not kernel.variant["columns"].startswith("walked")  # test_kernels_walks.py
        and kernel.variant["keys"] == element["keys"]
        and FAMILY.axes["element_bytes"][kernel.variant["element_bytes"]] == element["element_bytes"]
    }


def test_every_kernel_of_the_family_is_tested_here():
    tested = set().union(*map(kernels_for, ELEMENTS))
    assert tested == {kernel.name for kernel in FAMILY.kernels.values() if "walked" not in kernel.name}


@pytest.mark.parametrize("name", [name for name in ELEMENTS if ELEMENTS[name].nbytes < 4])
@pytest.mark.parametrize("direct", [False, True])
def test_four_rows_at_once(device, name, direct):
    """All numbers of positions, outputs that start and end within a vector, wide indices, and values."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    limits = limits_of(device, direct=direct)
    alike = alike_elements(name)
    for place, number in itertools.product(range(4), range(2)):
        # Two elements that share their kernels take turns.
        if len(alike) > 1 and (place + alike.index(name)) % 2 != number:
            continue
        positions = (2, 3, 5, 7)[place]
        rows, base, turn = 1 + 61 * (number + positions), (0, 5)[number], positions + number
        order = Order(name, *rules_of(turn))
        layout = canonical_reduce(
            *((rows, positions), (positions, 1), (1,), (1, 1)),
            take_last=order.take_last,
            input_base=4 * number,
            output_base=base,
        )
        plan = plan_argreduce(
            *(layout, order, 4 * number + rows * positions, limits),
            index_bytes=(4, 8)[turn // 2 % 2],
            with_values=turn % 4 == 0,
            output_elements=rows + base + 2,
        )
        assert kernels.table()[plan.steps[0].kernel].variant["columns"] == "fours"
        run_both(device, plan, element_bits(rng, name, 4 * number + rows * positions))


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_all_rules_hold_for_ties_and_extremes(device, name):
    """Few values, the least and greatest keys among them, in rows that end within a word and in stacks."""
    limits = limits_of(device, **NONE_FIXED, direct=name == "float16")

    def plan_of(case, rules):
        return plan_case(case, name, limits, rules)

    check_ties_and_extremes(device, name, plan_of, "seven", "stacks")


def test_the_cases_have_tiles_of_every_kind(device):
    """One dimension to three, with segments and without, whole words or not, clipped or complete."""
    seen = {}
    for case in CASES:
        for name in ("uint8", "float32"):
            (step,) = plan_case(case, name, limits_of(device))[0].steps
            kernel = kernels.table()[step.kernel]
            if kernel.family is not FAMILY:
                continue
            pushed = kernel.family.unpack(step.push)
            for constant, value in kernel.named(step.constants).items():
                seen.setdefault(constant, set()).add(value)
            constants = kernel.named(step.constants)
            both = constants["segments_along"], constants["positions_apart"]
            seen.setdefault("segments_along and positions_apart", set()).add(both)
            clipped = any(pushed[f"size_{i}"] % pushed[f"tile_{i}"] for i in range(3))
            seen.setdefault("clipped", set()).add(clipped)
            seen.setdefault("kept_dims", set()).add(min(pushed["kept_dims"], 2))
            seen.setdefault("layout_in_push", set()).add(pushed["layout_in_push"])
    assert seen["dims"] == {1, 2, 3}
    assert seen["segments_along"] >= {0, 1, 3}
    assert seen["segments_along and positions_apart"] >= {(0, True), (1, False), (3, True)}
    assert seen["near"] >= {0, 1}
    assert seen["kept_dims"] == {0, 1, 2}
    for either in ("evenly_apart", "word_aligned", "padded", "clipped", "layout_in_push"):
        assert seen[either] == {False, True}, either


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", ["uint8", "bool", "float8_e5m2", "int16"])
def test_rows_with_as_many_positions_as_there_are_ranks(device, name):
    """Profiles may let rows of up to 1024 bytes be short; ranks of single bytes are bytes."""
    rng = np.random.default_rng(1)
    width, longest = ELEMENTS[name].nbytes, tuning.SEARCH["shortest_row_bytes"][-1]
    for count, take_last, values in itertools.product(
        (252, 255, 256, 257, 505, 1009), (False, True), (1, 2, 120)
    ):
        limits = limits_of(device, **NONE_FIXED)
        limits = replace(limits, tuning=replace(limits.tuning, shortest_row_bytes=longest))
        layout = canonical_reduce((9, count), (count, 1), (1,), (1, 1), take_last=take_last)
        order = Order(name, take_last=take_last)
        plan = plan_argreduce(layout, order, 9 * count, limits, index_bytes=4, with_values=False)
        x = rng.integers(0, min(values, 2) if name == "bool" else values, (9, count)).astype(f"<u{width}")
        found = run_plan(device, plan, {"input": x.reshape(-1).view(np.uint8)})["indices"].view(np.uint32)
        want = count - 1 - x[:, ::-1].argmax(axis=1) if take_last else x.argmax(axis=1)
        np.testing.assert_array_equal(found, want, err_msg=f"{count} {take_last} {values} {plan.steps}")


@pytest.mark.parametrize("inner", [(3,), (7, 10)])
def test_loops_finish_at_the_limit_of_steps(device, inner):
    """One workgroup takes all tiles, about as many as lavapipe finishes."""
    limits = replace(limits_of(device, workgroup_size=8), max_workgroup_count=1, max_loop_steps=LIMIT)

    def planned(count: int):
        sizes, kept = (count, *inner), (count, 1, *inner[1:])
        layout = canonical_reduce(
            sizes, row_major_strides(sizes), (1,), row_major_strides(kept), take_last=True
        )
        order = Order("uint8", take_last=True)
        return plan_argreduce(layout, order, math.prod(sizes), limits, index_bytes=4, with_values=False)

    count = 1000
    while planned(count * 9 // 8).steps[0].loop_steps < LIMIT * 8 // 10:
        count = count * 9 // 8
    with pytest.raises(ValueError, match="loop steps"):
        planned(2 * count)
    x = np.random.default_rng(count).integers(0, 2, (count, *inner), np.uint8)
    found = run_plan(device, planned(count), {"input": x.reshape(-1)})["indices"].view(np.uint32)
    want = inner[0] - 1 - x[:, ::-1].argmax(axis=1)
    np.testing.assert_array_equal(found, want.reshape(-1))


@pytest.mark.parametrize(
    ("memory", "order", "tile"),
    [
        # 64 indices side by side, which may be all of two dimensions; then 64 elements, if there is room.
        # Those of a dimension are nearly alike, and if they follow each other in the input, in its order.
        ((7, 10, 113, 2), (2, 1, 0, 3), [7, 10, 24]),
        ((3, 70, 129, 2), (2, 0, 1, 3), [64, 28, 1]),
        ((3, 40, 9, 11, 2), (3, 2, 0, 1, 4), [64, 2, 11]),
        ((4000, 5, 2), (1, 0, 2), [5, 400, 1]),
    ],
)
def test_tiles_that_are_read_in_place_have_lines_of_the_input_and_of_the_output(device, memory, order, tile):
    sizes = tuple(memory[axis] for axis in order)
    strides = tuple(row_major_strides(memory)[axis] for axis in order)
    kept = (*sizes[:-1], 1)
    layout = canonical_reduce(sizes, strides, (len(sizes) - 1,), row_major_strides(kept), take_last=False)
    limits = limits_of(device, direct=True, workgroup_size=8)
    limits = replace(limits, tuning=replace(limits.tuning, target_workgroups=4))
    plan = plan_argreduce(layout, Order("uint8"), math.prod(memory), limits, index_bytes=4, with_values=False)
    (step,) = plan.steps
    pushed = FAMILY.unpack(step.push)
    assert [pushed[f"tile_{i}"] for i in range(3)] == tile
    run_both(device, plan, element_bits(np.random.default_rng(3), "uint8", math.prod(memory)))


def test_a_tile_has_the_innermost_and_two_more_of_many_permuted_dimensions(device):
    rng = np.random.default_rng(11)
    limits = limits_of(device, direct=True, workgroup_size=8)
    limits = replace(limits, tuning=replace(limits.tuning, target_workgroups=4))
    tiled = 0
    for _ in range(25):
        outer = int(rng.integers(1, 4))
        memory = (*map(int, rng.integers(2, 5, outer + 1)), *map(int, rng.integers(2, 7, 4)))
        order = (*range(1, outer + 1), *range(outer + 4, outer, -1), 0)
        sizes = tuple(memory[axis] for axis in order)
        strides = tuple(row_major_strides(memory)[axis] for axis in order)
        kept = (*sizes[:-1], 1)
        layout = canonical_reduce(sizes, strides, (len(sizes) - 1,), row_major_strides(kept), take_last=False)
        count = math.prod(memory)
        plan = plan_argreduce(layout, Order("int32"), count, limits, index_bytes=4, with_values=False)
        tiled += plan.steps[0].kernel.startswith(FAMILY.name) and len(layout.kept) > 3
        run_both(device, plan, element_bits(rng, "int32", count))
    assert tiled > 3


def test_tiles_go_on_after_the_short_innermost_dimension_of_the_outputs(device):
    """Planes of pixels whose channels are outermost, to pixels: one tile has many."""
    limits = replace(device.limits, tuning=DISCRETE, max_storage_buffer_range=1 << 30)
    plan, _ = plan_view(
        "", (16, 500_000, 13, 3), (13, 624, 1, 208), (0,), 0, Order("int8", False, False, False), limits
    )
    push = FAMILY.unpack(plan.steps[0].push)
    tile = [push[f"tile_{dim}"] for dim in range(3)]
    assert {3, 13} < set(tile)
    assert math.prod(tile) >= 8 * 3 * 13


def test_more_tiles_than_workgroups_are_looped_over(device):
    few = replace(limits_of(device), max_workgroup_count=3)
    rng = np.random.default_rng(0)
    for case in ("rgb", "permuted", "stacks"):
        plan, count = plan_case(case, "int16", few)
        assert all(step.workgroups <= 3 for step in plan.steps)
        run_both(device, plan, element_bits(rng, "int16", count))


@pytest.mark.parametrize("name", ["float64", "int64"])
@pytest.mark.parametrize(("sizes", "workgroup"), [((90, 17, 8), 128), ((60, 3, 8, 5), 64)])
def test_stacks_of_wide_elements_with_few_outputs_in_a_tile_have_larger_ones(device, name, sizes, workgroup):
    """Where most invocations would be idle; the second case has enough outputs."""
    few = replace(
        DISCRETE,
        target_workgroups=2,
        target_workgroup_bytes=0,
        split_workgroups=2,
        joined_from_bytes=1 << 40,
        joined_dims_from_bytes=1 << 40,
    )
    limits = replace(device.limits, tuning=replace(few, short=replace(DISCRETE.short, from_bytes=0)))
    kept = tuple(1 if axis == 1 else size for axis, size in enumerate(sizes))
    layout = canonical_reduce(sizes, row_major_strides(sizes), (1,), row_major_strides(kept), take_last=False)
    count = math.prod(sizes)
    plan = plan_argreduce(layout, Order(name), count, limits, index_bytes=4, with_values=True)
    (step,) = plan.steps
    kernel = kernels.table()[step.kernel]
    assert kernel.family is FAMILY
    assert kernel.named(step.constants)["workgroup"] == workgroup
    run_both(device, plan, element_bits(np.random.default_rng(count), name, count))
