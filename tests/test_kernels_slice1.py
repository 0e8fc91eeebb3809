"""Every slice1 kernel of the table against its NumPy twin: all bytes that it writes, and no others."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import twins_slice1
from plans import GPU_LIMITS
from slice1_kernels import (
    ACROSS,
    DOWN,
    NO_TILES,
    PLAN_SLICE1,
    SMALL,
    WIDTHS,
    base_of,
    check,
    constants_of,
    kernel_for,
    use,
)

from vkdml.plan import divisions, kernels
from vkdml.plan.calls import CopyCall, Operand, plan_for
from vkdml.plan.device_classes import DISCRETE, SOFTWARE
from vkdml.plan.layout import CopyLayout, Dim, canonical_copy
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.slice import slice1 as plan_slice1
from vkdml.plan.slice import tile_copies
from vkdml.plan.slice.box_copies import box_copy, boxes_of
from vkdml.plan.slice.matrices import transposed
from vkdml.plan.slice.sector_sharing import Sharing
from vkdml.plan.slice.tile_shapes import shared_bytes, tile_shape

NARROW = (1, 2)
STEPPED = (1, 2, 4, 8)
IN_ROWS = kernels.family("slice1_rows").numbers_of("element_bytes")
RUNS = kernels.family("slice1_runs")
WORDS = kernels.family("slice1_words")
STEPS = (1, -1, 2, -2, 3, -5, 0)
# Vectors of a row.
WIDE = 12
WIDE_TILES = tuple((width, (DOWN, WIDE * 16 // max(width, 4))) for width in WIDTHS)
BY_WORDS = {**NO_TILES, "box_near_bytes": 1 << 40, "word_workgroup_size": 8}
BY_ROWS = {**NO_TILES, "row_workgroup_size": 8}
BOXES = {**NO_TILES, "box_bytes": 2048, "narrow_box_bytes": 2560}


@pytest.fixture(autouse=True)
def small_tuning(monkeypatch):
    use(monkeypatch)


def discrete(device, **changes):
    """The device's limits, with the numbers by which a discrete GPU copies."""
    return replace(device.limits, tuning=replace(device.limits.tuning, slice1=DISCRETE.slice1), **changes)


def without_pixels(limits: DeviceLimits) -> DeviceLimits:
    """For the rules of what has no planes, nor tiles of pixels: small outputs, short rows."""
    slice1 = replace(limits.tuning.slice1, plane_pixels=(), pixel_tile_bytes=0)
    return replace(limits, tuning=replace(limits.tuning, slice1=slice1))


def runs(width: int, step: int) -> str:
    """The module that copies runs of this innermost stride."""
    has_kernel = step in RUNS.numbers_of("step", element_bytes=width)
    return kernel_for("slice1_runs", width, whole_vectors=1, parted=0, step=step if has_kernel else 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_step_at_every_alignment_of_input_and_output(device, width):
    """Rows at odd distances start at every place of a vector, in the input and in the output."""
    per_vector = 16 // width
    for step in STEPS:
        for length in sorted({per_vector, per_vector + 1, 2 * per_vector + 3, 4 * per_vector - 1}):
            ran = set()
            for shift in (0, 1, 2, 3):
                inner = Dim(length, step, 1)
                input_apart = (length * max(abs(step), 1) // per_vector + 1) * per_vector + 1
                apart = (length // per_vector + 1) * per_vector + 3
                dims = (Dim(max(per_vector, 4), input_apart, apart), inner)
                ran.add(
                    check(device, CopyLayout(dims, base_of(dims) + shift, shift // 2), width, spare=shift)
                )
            assert ran == {runs(width, step)}, (step, length)


@pytest.mark.parametrize("width", WIDTHS)
def test_compact_outputs_whose_vectors_straddle_rows(device, width):
    per_vector = 16 // width
    for length, step in itertools.product(
        (1, 2, 3, per_vector - 1, per_vector, per_vector + 1, 37), (1, -1, 2, -2, 3)
    ):
        if length < 1:
            continue
        inner = Dim(length, step, 1)
        for rows in (1, 2, 5):
            dims = (Dim(3, -7 * length * rows - 1, rows * length), Dim(rows, 3 * length + 2, length), inner)
            dims = tuple(dim for dim in dims if dim.size > 1) or (inner,)
            for output_base in (0, 1, 5):
                layout = CopyLayout(dims, base_of(dims) + 1, output_base)
                ran = check(device, layout, width, spare=3)
                if length > 1 and plan_slice1.widened(layout, width)[1] == width:
                    elements = kernels.table()[ran].variant["whole_vectors"] == "elements"
                    assert elements == (length < per_vector)


@pytest.mark.parametrize("width", WIDTHS)
def test_vectors_at_boundaries_are_written_by_a_step_of_their_own(device, monkeypatch, width):
    """Rows shorter and longer than a vector, and long ones, whose boundaries are left to that step, too."""
    use(monkeypatch, boundaries_from_bytes=0)
    per_vector, steps = 16 // width, set()
    for length, step in itertools.product(
        (3, per_vector + 1, 4 * per_vector, 5 * per_vector - 1), (1, -2, 3)
    ):
        dims = (Dim(7, -7 * length - 1, length), Dim(length, step, 1))
        for output_base in (0, 1, per_vector):
            layout = CopyLayout(dims, base_of(dims) + 1, output_base)
            check(device, layout, width, spare=3)
            plan = plan_slice1.plan_slice1(layout, width, 1 << 12, device.limits)
            steps.add(tuple(written_by(each) for each in plan.steps))
    if width == 16:
        assert steps == {("all",)}
    else:
        main = {first for first, *_ in steps}
        assert main == ({"whole", "inside_rows"} if width in NARROW else {"whole"})
        assert steps > {(first, "at_boundaries") for first in main}


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_that_lie_backwards_are_taken_last_first(device, monkeypatch, width):
    """Rows that end within a vector, in one or several dimensions; more than are compiled in, too."""
    row = 5 * 16 // width - (1 if width < 16 else 0)
    bounds = {"rows_last_first_from_bytes": 0, "rows_last_first_bytes": (row * width, 3 * row * width - 1)}
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, **bounds})
    for sizes, sign, step in itertools.product(((7,), (3, 4), (2, 1, 3, 2, 2)), (1, -1), (1, -1, -2, 3)):
        dims, pitch, apart = [Dim(row, step, 1)], row * abs(step) + 2, row
        for size in reversed(sizes):
            dims.insert(0, Dim(size, sign * pitch, apart))
            sign, pitch, apart = -sign, pitch * (size + 1), apart * size
        layout = CopyLayout(tuple(dims), base_of(dims) + 1, 1)
        check(device, layout, width)
        main = plan_slice1.plan_slice1(layout, width, 1 << 14, device.limits).steps[0]
        taken = kernels.table()[main.kernel].named(main.constants)["rows_last_first"]
        assert taken == (dims[-2].input_stride * step < 0 and abs(step) < 3), (sizes, step)


@pytest.mark.parametrize("width", [width for width in WIDTHS if width < 16])
def test_vectors_in_strips(device, monkeypatch, width):
    """Rows are shared along the outermost dimension, one in the middle, or the one beside the innermost."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "held_sectors": (1, 1)})
    row, widths = 9 * 16 // width + 3, set()
    # At the second pitch, lines meet in few sets of a cache.
    for pitch, order in itertools.product((35, 4096 // width), ((0, 1, 2), (1, 0, 2), (1, 2, 0))):
        for sign, parts in ((1, 1), (-1, 3)):
            sizes, strides = (6, 3, 2), (sign, 2 * row * pitch, row * pitch)
            dims, apart = [Dim(row // parts, sign * pitch * parts, parts), Dim(parts, pitch, 1)], row
            del dims[parts:]
            for place in reversed(order):
                dims.insert(0, Dim(sizes[place], strides[place], apart))
                apart *= sizes[place]
            layout = CopyLayout(tuple(dims), base_of(dims), 3)
            check(device, layout, width)
            first, second = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits).steps
            assert (written_by(first), written_by(second)) == ("in_strips", "at_boundaries")
            family = kernels.table()[first.kernel].family
            widths.add(family.unpack(first.push)["boundary_step"])
    assert len(widths) == 2


def written_by(step) -> str:
    """Which vectors a step writes."""
    return twins_slice1.WRITTEN[kernels.table()[step.kernel].named(step.constants).get("written", 0)]


def test_short_rows_of_bytes_are_read_by_words(device, monkeypatch):
    """Forwards and backwards, wherever they start, through any number of dimensions; others by element."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0})
    told = set()
    outer_sizes = (40,), (3, 40), (5, 3, 9), (2, 3, 2, 11), (2, 3, 2, 5, 3), (9, 2, 2), (30, 2)
    for row, step, base, outer in itertools.product(
        (3, 4, 5, 7, 8, 13, 15), (1, -1, 2), (0, 1, 5), outer_sizes
    ):
        layout = compact((*outer, row), step, base)
        assert check(device, layout, 1, spare=base) == "slice1_runs_elements_parted_1_bytes"
        constants = [
            kernels.table()[other.kernel].named(other.constants)
            for other in plan_slice1.plan_slice1(layout, 1, 1 << 20, device.limits).steps
        ]
        assert constants[0]["row_words"] == (0 if row < 4 else {1: 1, -1: 2, 2: 0}[step])
        assert not any(other["row_words"] for other in constants[1:])
        told.add((constants[0]["row_words"], constants[0]["run_dims"]))
    assert told >= {(1, 2), (2, 3), (1, 4), (2, 0), (1, kernels.number("run_of_long_planes"))}


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("width", NARROW)
def test_blocks_transposed_in_registers(device, monkeypatch, width):
    """Rows in words or not, forwards and backwards, at every alignment; the rest is left to boundaries."""
    row, seen, at_once, more = 144 // width, set(), set(), set()
    for block_bytes, rows, extra, step, base in itertools.product(
        (32, 128), (2, 3, 4, 7, 8, 48), (0, 1), (1, -1, 2, -2), (0, 1)
    ):
        use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": block_bytes})
        pitch, length = -(-rows // 4) * 4 * abs(step) + extra, row + extra
        dims = (Dim(3, pitch * length, rows * length), Dim(rows, step, length), Dim(length, pitch, 1))
        layout = CopyLayout(dims, base_of(dims) + base, 4 * base + extra * base)
        assert check(device, layout, width, spare=base) == kernel_for("slice1_blocks", width)
        first, *others = plan_slice1.plan_slice1(layout, width, 1 << 16, device.limits).steps
        assert all(written_by(other) == "at_boundaries" for other in others)
        constants = kernels.table()[first.kernel].named(first.constants)
        seen.add((constants["input_aligned"], constants["output_aligned"], constants["every_second_row"]))
        at_once.add((constants["at_once"], constants["input_aligned"], constants["every_second_row"]))
        more.add(bool(others))
        # Rows that start with words share none.
        assert not (constants["output_aligned"] and others)
    assert more == {False, True}
    assert {1, 2, 4} <= {number for number, *_ in at_once}
    assert seen >= {(False, False, False), (True, True, False), (False, False, True), (True, True, True)}
    assert {(4, False, False), (4, False, True), (4, True, False)} <= at_once


def test_blocks_of_three_rows_whose_columns_follow_each_other(device, monkeypatch):
    """Channels of a picture: four columns are three words of the input."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 32})
    cases = itertools.product((67, 96, 131), (3, 4, -3), range(4), (1, 3))
    for row, pitch, base, matrices in cases:
        dims = (Dim(matrices, row * 3 + 1, 3 * row), Dim(3, 1, row), Dim(row, pitch, 1))[matrices == 1 :]
        layout = CopyLayout(dims, base_of(dims) + base, 0)
        assert check(device, layout, 1) == "slice1_blocks_1_bytes"
        step = plan_slice1.plan_slice1(layout, 1, 1 << 12, device.limits).steps[0]
        constants = kernels.table()[step.kernel].named(step.constants)
        assert constants["columns_of_three"] == (pitch == 3)
        assert constants["few_rows"] == 3


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("width", NARROW)
def test_blocks_of_short_rows_write_the_words_that_rows_share(device, monkeypatch, width):
    """Wherever a matrix starts in a word; only what several matrices share is left to boundaries."""
    rows, joined, aligned = 80 // width, set(), set()
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 128})
    rows_of = 2, 3, 4, 5, 6, 7, 9, 31, 128 // width - 1
    for row, step, extra, base in itertools.product(rows_of, (1, 2), range(4 // width), (0, 4 // width)):
        pitch, count = step * rows + extra, rows + extra
        dims = (Dim(3, pitch * (row + 2), count * row), Dim(count, step, row), Dim(row, pitch + extra, 1))
        layout = CopyLayout(dims, extra, base)
        assert check(device, layout, width, spare=base) == kernel_for("slice1_blocks", width), layout
        first, *others = plan_slice1.plan_slice1(layout, width, 1 << 16, device.limits).steps
        constants = kernels.table()[first.kernel].named(first.constants)
        assert constants["joined"] != constants["output_aligned"]
        (joined if constants["joined"] else aligned).add(row)
        starts = (base + count * row * matrix for matrix in range(4))
        assert bool(others) >= any(start * width % 4 for start in starts)
    assert joined >= {3, 5, 7, 9, 31}
    assert aligned >= {4}


def test_blocks_that_are_joined_begin_with_rows_of_whole_words(device, monkeypatch):
    """In chunks, from dimensions that make a row together."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 128})
    for count, columns in ((200, 3), (201, 5), (67, 7), (130, 1)):
        dims = (
            Dim(2, 9000, count * columns * 3),
            Dim(count, 1, columns * 3),
            Dim(columns, -900, 3),
            Dim(3, 250, 1),
        )
        layout = CopyLayout(dims if columns > 1 else (*dims[:2], dims[3]), base_of(dims), 4)
        assert check(device, layout, 1) == "slice1_blocks_1_bytes"


def test_rows_beside_too_few_others_are_those_of_the_next_dimension(device, monkeypatch):
    """Of two dimensions that are near each other in the input, one has rows enough."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 128})
    for row in (6, 80):
        layout = CopyLayout((Dim(90, 2, 2 * row), Dim(2, 1, row), Dim(row, 200, 1)), 1, 0)
        assert check(device, layout, 1) == "slice1_blocks_1_bytes"
        step = plan_slice1.plan_slice1(layout, 1, 1 << 14, device.limits).steps[0]
        assert kernels.table()[step.kernel].named(step.constants)["every_second_row"]


@pytest.mark.parametrize("width", NARROW)
def test_blocks_of_columns_that_several_dimensions_make(device, monkeypatch, width):
    """Two dimensions are a row; what is outside of them, or of the rows, are other matrices."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 64})
    rows, name = 9, kernel_for("slice1_blocks", width)
    for sizes, order in itertools.product(((5, 31), (2, 5, 31), (40, 3, 31)), (1, -1)):
        columns, pitch = [], rows
        for size in sizes[::order]:
            columns.append((size, -pitch if size == 5 else pitch))
            pitch *= size + 1
        columns = columns[::order]
        dims, apart = [], 1
        for size, stride in reversed(
            [*columns[:1], (rows, 1), *columns[1:]] if order < 0 else [(rows, 1), *columns]
        ):
            dims.insert(0, Dim(size, stride, apart))
            apart *= size
        layout = CopyLayout(tuple(dims), base_of(dims), 1)
        wanted = sizes[-1] * (sizes[-2] if len(sizes) > 2 or order > 0 else 1) * width >= 64
        assert (check(device, layout, width) == name) == wanted


def test_blocks_of_many_matrices_have_their_layout_in_the_workspace(device, monkeypatch):
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 32})
    sizes, strides = (2, 2, 2, 2, 5, 70), (40000, 1100, 9001, 3000, 1, 7)
    dims, apart = [], 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        dims.insert(0, Dim(size, stride, apart))
        apart *= size
    layout = CopyLayout(tuple(dims), 3, 2)
    assert check(device, layout, 1) == "slice1_blocks_1_bytes"
    plan = plan_slice1.plan_slice1(layout, 1, 1 << 20, device.limits)
    constants = kernels.table()["slice1_blocks_1_bytes"].named(plan.steps[0].constants)
    assert plan.layout
    assert not constants["layout_in_push"]


def test_rows_that_blocks_are_not_for(device, monkeypatch):
    """A single row, short rows, steps, and wide elements."""
    use(monkeypatch, **{**NO_TILES, "boundaries_from_bytes": 0, "block_bytes": 64})
    cases = ((1, 1, 1, 99), (2, 1, 1, 99), (1, 7, 1, 63), (1, 64, 3, 99), (4, 8, 1, 99))
    for width, rows, step, row in cases:
        layout = CopyLayout((Dim(rows, step, row), Dim(row, 200, 1)), 1, 0)
        assert check(device, layout, width) != f"slice1_blocks_{width}_bytes"


def test_outputs_with_gaps_have_one_step(device, monkeypatch):
    """Their runs start anywhere in a vector."""
    use(monkeypatch, boundaries_from_bytes=0)
    layout = CopyLayout((Dim(5, 40, 41), Dim(33, 1, 1)), 0, 0)
    (step,) = plan_slice1.plan_slice1(layout, 1, 1 << 12, device.limits).steps
    assert written_by(step) == "all"


# Shape, and the steps of views taken of larger arrays: of the input (0: broadcast) and of the output.
VIEWS = {
    "plain": ((1000,), (1,), (1,)),
    "rows": ((7, 11), (1, 1), (1, 1)),
    "mirrored": ((5, 9, 7), (-1, 2, -3), (1, 1, 1)),
    "scattered": ((6, 10), (1, 1), (2, 3)),
    "gaps_between_rows": ((9, 5), (1, 1), (2, 1)),
    "backwards_out": ((9, 5), (1, 1), (1, -1)),
    "repeated_input": ((4, 6), (0, 1), (1, 1)),
    "many_dims": ((2, 3, 2, 3, 2, 3, 2, 2, 2), (2,) * 9, (2,) * 9),
}


def compact(sizes, step: int, base: int = 0) -> CopyLayout:
    """Rows with gaps, forwards and backwards in turn, into a compact output."""
    dims, pitch, apart = [], step, 1
    for number, size in enumerate(reversed(sizes)):
        dims.insert(0, Dim(size, pitch, apart))
        pitch = (abs(pitch) * size + 3) * (-1 if number % 2 else 1)
        apart *= size
    return CopyLayout(tuple(dims), base_of(dims), base)


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("width", [*NARROW, 4])
def test_words_gathered_where_their_elements_lie(device, monkeypatch, width):
    """Rows of any length and step, in any number of dimensions, from any place of a word of the output on."""
    use(monkeypatch, **BY_WORDS)
    told = set()
    for row, step, base, outer in itertools.product(
        (2, 3, 4, 5, 7, 8, 33), (1, -1, 2, 3, 9, 0), (0, 1, 2, 3), ((), (11,), (3, 7), (2, 3, 5))
    ):
        layout = compact((*outer, row), step, base)
        if plan_slice1.widened(layout, width)[1] != width:
            continue
        name = kernel_for("slice1_words", width)
        # Of several long rows words are for halves, and for bytes with steps of up to 3; else for long steps.
        by_words = (width == 2 or (width == 1 and step in (0, 2, 3))) and len(layout.dims) > 1
        long_row = row * width >= 16 and step != 9 and not by_words
        pairs_apart = width == 1 and row == 2 and base % 2
        if long_row or pairs_apart or layout.count * width < 4:
            assert check(device, layout, width, spare=base) != name, layout
            continue
        assert check(device, layout, width, spare=base) == name, layout
        step_of_plan = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits).steps[0]
        constants = kernels.table()[name].named(step_of_plan.constants)
        assert constants["dims"] == len(layout.dims)
        told.add((constants["rows_of_words"], step_of_plan.workgroups > 1))
    assert told == set(itertools.product((0, 1) if width < 4 else (1,), (False, True)))


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("width", [*NARROW, 4])
def test_words_from_plane_to_plane(device, monkeypatch, width):
    """Planes end within workgroups and words; a place takes one division or more, or none."""
    use(monkeypatch, **BY_WORDS)
    told = set()
    for sizes, step, base in itertools.product(
        ((3, 5, 301), (7, 3, 101, 3), (3, 75, 2, 3), (2, 2, 3, 51, 4), (4, 27, 2, 2, 3)), (1, 9), (0, 1)
    ):
        layout = compact(sizes, step, base)
        if sizes[-1] * width < 16 or (step == 9 and width < 4):
            assert check(device, layout, width, spare=base) == kernel_for("slice1_words", width)
            step_of_plan = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits).steps[0]
            constants = kernels.table()[step_of_plan.kernel].named(step_of_plan.constants)
            told.add((constants["near_dims"], constants["at_once"]))
    assert {near for near, _ in told} >= ({0, 1, 2, 3} if width < 4 else {1, 2})
    assert {at_once for _, at_once in told} == {SMALL.invocation_words, SMALL.sparse_invocation_words}


@pytest.mark.parametrize("width", [*NARROW, 4])
def test_words_of_many_dimensions_and_more_rounds(device, monkeypatch, width):
    use(monkeypatch, **BY_WORDS)
    layout = compact((2,) * 8 + (3,), 1)
    assert len(layout.dims) * kernels.number("run_dim_words") > WORDS.layout_room
    assert check(device, layout, width) == kernel_for("slice1_words", width)
    few = replace(device.limits, max_workgroup_count=3)
    assert check(device, compact((2000, 3), 1, 1), width, few, spare=1) == kernel_for("slice1_words", width)
    # Of many more elements for each workgroup quotients would not be exact.
    large = CopyLayout((Dim(3, 200_001, 200_001), Dim(66_667, 3, 3), Dim(3, 1, 1)), 0, 0)
    for limits in (device.limits, replace(few, max_loop_steps=1 << 62)):
        step = plan_slice1.plan_slice1(large, width, 10**6, limits).steps[0]
        assert (kernels.table()[step.kernel].family == WORDS) == (limits == device.limits)


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("width", [*NARROW, 4])
def test_words_of_parts_that_are_made_of_the_same_memory(device, monkeypatch, width):
    """Parts end within words, and their shares within workgroups; others lie outside of them, or none."""
    beside = {**BY_WORDS, "box_near_bytes": 32, "beside_bytes": 7 * width, "beside_parts_bytes": 5 * width}
    use(monkeypatch, **beside)
    told = set()
    for parts, row, sign, base, outer in itertools.product(
        (2, 3, 5), (40 if width < 4 else 30, 301, 1024), (1, -1), (0, 1), ((), (1,), (3,))
    ):
        step = parts + 1
        dims = (Dim(parts, -sign, row), Dim(row, sign * step, 1))
        dims = (*(Dim(size, row * step + 5, parts * row) for size in outer), *dims)
        layout = CopyLayout(dims, base_of(dims), base)
        assert check(device, layout, width, spare=base) == kernel_for("slice1_words", width)
        plan = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits)
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        assert constants["parts"] == parts
        assert constants["workgroup"] == 8
        told.add(WORDS.unpack(plan.steps[0].push)["shares_of_part"] > 1)
    assert told == {False, True}

    def is_gathered_in_one_part(parts: int, step: int) -> bool:
        layout = CopyLayout((Dim(parts, 1, 300), Dim(300, step, 1)), 0, 0)
        by_words = width == 2 or (width == 1 and step in (2, 3)) or (step == 8 and parts == 2)
        if check(device, layout, width) == runs(width, step):
            return not by_words
        (words,) = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits).steps
        return by_words and kernels.table()[words.kernel].named(words.constants)["parts"] == 1

    assert is_gathered_in_one_part(2, 8)  # far from each other
    assert is_gathered_in_one_part(6, 6)  # too many
    use(monkeypatch, **{**beside, "box_cache_bytes": 1 << 20})
    assert is_gathered_in_one_part(2, 2)  # a cache holds them


def test_transposed_pixels_are_no_words_of_so_many_parts(device):
    """Of thousands of rows a workgroup would copy one after the other (H100: 0.015 of the read rate)."""
    limits = without_pixels(discrete(device, max_storage_buffer_range=(1 << 32) - 1))
    layout = CopyLayout((Dim(8355, 5, 4085), Dim(817, 41775, 5), Dim(5, -1, 1)), 4, 0)
    plan = PLAN_SLICE1(layout, 4, 817 * 41775, limits, output_elements=layout.count)
    assert "boxes" in plan.steps[0].kernel
    planes = CopyLayout((Dim(3, 1, 1 << 23), Dim(1 << 23, 3, 1)), 0, 0)
    plan = PLAN_SLICE1(planes, 4, 3 << 23, limits, output_elements=planes.count)
    assert "words" in plan.steps[0].kernel


@pytest.mark.parametrize(
    ("width", "channels", "plane", "parts"),
    [
        (1, 4, 999, 1),
        (1, 4, 32767, 1),
        (1, 4, 32768, 4),
        (1, 3, 3999, None),
        (1, 3, 4000, 3),
        (1, 2, 50176, None),
        (2, 3, 3999, 1),
        (2, 3, 4000, 3),
        (2, 2, 4000, 2),
    ],
)
def test_planes_of_many_small_images_are_words_where_they_are_long(device, width, channels, plane, parts):
    """A cache could hold the pixels of an image; whole planes of it are read at once all the same."""
    limits = without_pixels(discrete(device, max_storage_buffer_range=(1 << 32) - 1))
    images = 1000
    pixels = plane * channels
    dims = (Dim(images, pixels, pixels), Dim(channels, 1, plane), Dim(plane, channels, 1))
    plan = PLAN_SLICE1(CopyLayout(dims, 0, 0), width, images * pixels, limits)
    (step,) = plan.steps
    kernel = kernels.table()[step.kernel]
    assert kernel.family.name == ("slice1_rows" if parts is None else "slice1_words")
    if parts is not None:
        assert kernel.named(step.constants)["parts"] == parts


def rows(width: int, step: int) -> str:
    """The module that copies rows of this innermost stride."""
    has_kernel = step in kernels.family("slice1_rows").numbers_of("step", element_bytes=width)
    return kernel_for("slice1_rows", width, step=step if has_kernel else 0)


@pytest.mark.in_turn(any_of=("step", "width"))
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("width", IN_ROWS)
def test_rows_that_are_no_shorter_than_a_vector(device, monkeypatch, width, step):
    """Rows end within vectors and with them, planes within workgroups; runs start anywhere in a vector."""
    use(monkeypatch, **BY_ROWS)
    vector = 16 // width
    told = set()
    sizes = {vector, vector + 1, 2 * vector - 1, 5 * vector, 8 * vector + 3, 19 * vector + 1}
    for row, base, outer in itertools.product(
        sorted(sizes - {1}),  # no dimension of a layout has one element
        sorted({0, 1, vector - 1}),
        ((3,), (5,), (37,), (3, 7), (2, 1, 3, 5), (2, 3, 2, 3)),
    ):
        layout = compact((*outer, row), step, base)
        if plan_slice1.widened(layout, width)[1] != width:
            continue
        assert check(device, layout, width, spare=base) == rows(width, step), layout
        plan = plan_slice1.plan_slice1(layout, width, 1 << 20, device.limits)
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        told.add((constants["near_dims"], plan.steps[0].workgroups > 1))
    assert {near for near, _ in told} >= {0, 1, 2}
    assert {several for _, several in told} == {False, True}


@pytest.mark.parametrize("width", IN_ROWS)
def test_rows_of_many_dimensions_and_more_rounds(device, monkeypatch, width):
    use(monkeypatch, **BY_ROWS)
    family = kernels.family("slice1_rows")
    layout = compact((2,) * 8 + (33,), 1)
    assert len(layout.dims) * kernels.number("run_dim_words") > family.layout_room
    assert check(device, layout, width) == rows(width, 1)
    few = replace(device.limits, max_workgroup_count=3)
    assert check(device, compact((400, 33), -1, 1), width, few, spare=1) == rows(width, -1)
    # Of many more elements for each workgroup quotients would not be exact.
    large = CopyLayout((Dim(3, 2_000_031, 2_000_031), Dim(60_607, 33, 33), Dim(33, 1, 1)), 0, 0)
    for limits in (device.limits, replace(few, max_loop_steps=1 << 62)):
        step = plan_slice1.plan_slice1(large, width, 1 << 23, limits).steps[0]
        assert (kernels.table()[step.kernel].family == family) == (limits == device.limits)


@pytest.mark.parametrize("width", IN_ROWS)
def test_rows_are_not_for_one_row_short_ones_and_outputs_with_gaps(device, monkeypatch, width):
    use(monkeypatch, **BY_ROWS)
    gaps = CopyLayout((Dim(9, 80, 40), Dim(33, 2, 1)), 0, 0)
    one, short = compact((301,), 2), compact((9, 16 // width - 1), 2)
    for layout in (gaps, one, *([short] if width < 8 else [])):
        assert kernels.table()[check(device, layout, width)].family == RUNS


@pytest.mark.parametrize("width", NARROW)
def test_words_are_not_for_outputs_with_gaps_and_wide_elements(device, monkeypatch, width):
    use(monkeypatch, **BY_WORDS)
    gaps = CopyLayout((Dim(9, 8, 4), Dim(3, 2, 1)), 0, 0)
    assert check(device, gaps, width) == kernel_for(RUNS.name, width, whole_vectors=0, parted=0, step=0)
    assert check(device, compact((9, 3), 2), 8) == kernel_for(RUNS.name, 8, whole_vectors=1, parted=0, step=0)


def view_strides(shape, steps) -> tuple[tuple[int, ...], int]:
    """Element strides and base of a stepped view of a contiguous array."""
    strides, base, stride = [], 0, 1
    for size, step in reversed(list(zip(shape, steps, strict=True))):
        strides.insert(0, stride * step)
        base += (size - 1) * stride * max(-step, 0)
        stride *= size * abs(step) + 1 if step else 1
    return tuple(strides), base + 1


@pytest.mark.parametrize("width", WIDTHS)
def test_views_of_larger_arrays(device, width):
    for shape, input_steps, output_steps in VIEWS.values():
        input_strides, input_base = view_strides(shape, input_steps)
        output_strides, output_base = view_strides(shape, output_steps)
        layout = canonical_copy(
            shape, input_strides, output_strides, input_base=input_base, output_base=output_base
        )
        check(device, layout, width, spare=1)


@pytest.mark.parametrize("width", WIDTHS)
def test_elements_apart_in_the_output(device, width):
    for dims in (
        (Dim(50, 1, 2),),
        (Dim(9, -3, 20), Dim(6, 2, 3)),
        (Dim(4, 0, 100), Dim(7, 5, 10), Dim(2, 1, 3)),
        (),
    ):
        for output_base in range(4):
            ran = check(device, CopyLayout(dims, base_of(dims) + 1, output_base), width, spare=2)
            assert ran == kernel_for(RUNS.name, width, whole_vectors=int(width == 16), parted=0, step=0)


@pytest.mark.parametrize("width", WIDTHS)
def test_contiguous_copies_move_vectors(device, width):
    per_vector = 16 // width
    for vectors in (1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000):
        plan = plan_slice1.plan_slice1(
            canonical_copy((vectors * per_vector,), (1,), (1,)), width, vectors * per_vector, device.limits
        )
        assert plan.steps[0].kernel == runs(16, 1)
        check(device, canonical_copy((vectors * per_vector,), (1,), (1,)), width)
        check(device, CopyLayout((Dim(vectors * per_vector + 1, 1, 1),), 0, 0), width, spare=2)


def tiles(width: int, step: int = 1) -> str:
    """The module that copies tiles whose columns have this step in the input."""
    return kernel_for("slice1_tiles", width, row_step=step)


def tile_sides(width: int) -> tuple[int, int]:
    """Elements down and across a tile."""
    return DOWN * 16 // width, ACROSS * max(4 // width, 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_of_every_size(device, width):
    block = max(4 // width, 1)
    tall, wide = tile_sides(width)
    for rows in (2, max(tall - 1, 2), tall, tall + 1, 2 * tall):
        for columns in (2, wide - block, wide - block + 1, wide - 1, wide, wide + 1, 2 * wide, 3 * wide - 2):
            dims = (Dim(rows, 1, columns), Dim(columns, rows, 1))
            assert check(device, CopyLayout(dims, 0, 0), width) == tiles(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_at_every_alignment(device, width):
    block = max(4 // width, 1)
    tall, wide = tile_sides(width)
    rows, columns = tall + 3, 2 * wide + 1
    for input_more, output_more, sign in itertools.product(range(block + 1), range(block + 1), (1, -1)):
        for across_sign in (1, -1):
            input_apart = (rows + block) // block * block + input_more
            output_apart = (columns + block) // block * block + output_more
            dims = (Dim(rows, sign, output_apart), Dim(columns, across_sign * input_apart, 1))
            for shift in range(block):
                layout = CopyLayout(dims, base_of(dims) + shift, (shift + 1) % block)
                assert check(device, layout, width, spare=block) == tiles(width)


@pytest.mark.parametrize("width", STEPPED)
def test_tiles_of_whole_vectors(device, width):
    """Columns, rows or both start with vectors; the last of them are cut anywhere."""
    per_vector = 16 // width
    tall, wide = tile_sides(width)
    for rows, columns in itertools.product((tall - 1, tall, tall + 1), (wide - 1, wide, 2 * wide + 1)):
        for input_shift, output_shift in itertools.product((0, 1, per_vector // 2), repeat=2):
            input_apart, output_apart = (
                -(-size // per_vector) * per_vector + shift
                for size, shift in ((rows, input_shift), (columns, output_shift))
            )
            dims = (Dim(rows, 1, output_apart), Dim(columns, input_apart, 1))
            layout = CopyLayout(dims, input_shift, output_shift)
            assert check(device, layout, width, spare=per_vector) == tiles(width)
            plan = plan_slice1.plan_slice1(layout, width, 1 << 16, device.limits, output_elements=1 << 16)
            constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
            assert constants["input_unaligned"] == bool(input_shift)
            assert constants["output_unaligned"] == bool(output_shift)


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_store_whole_sectors_of_rows_that_begin_anywhere(device, monkeypatch, width):
    """Rows that follow each other share sectors, too; of others the ends are stored by themselves."""
    use(monkeypatch, tile_shapes=WIDE_TILES)
    per_sector, seen = 32 // width, set()
    tile, tall = (WIDE - 2) * 16 // width, DOWN * 16 // width
    begins = sorted({place for place in (0, 1, 3, 8, 16, 17, 31) if place < per_sector})
    # Of the longest, the last tile of some rows has nothing left to store.
    lengths = tile + per_sector + 1, 2 * tile + 5, 4 * tile + per_sector // 2 + 1
    for begin, more, columns in itertools.product(begins, begins, lengths):
        for rows, gap, sign in ((2, False, 1), (tall + 1, False, -1), (tall, True, 1)):
            row = columns if gap else columns + more
            pitch = -(-row // per_sector) * per_sector + more if gap else row
            # Aligned columns of bytes have narrower tiles.
            dims = (Dim(rows, sign, pitch), Dim(row, (rows + more) | (width == 1), 1))
            layout = CopyLayout(dims, base_of(dims) + more, begin)
            assert check(device, layout, width, spare=per_sector) == tiles(width)
            plan = plan_slice1.plan_slice1(layout, width, 1 << 16, device.limits, output_elements=1 << 16)
            constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
            # So have rows of bytes that begin with vectors: they may fit in one.
            if width > 1 or constants["output_unaligned"]:
                assert constants["whole_sectors"] == bool(begin or pitch % per_sector)
            seen.add((constants["whole_sectors"], constants["continued"], constants["output_unaligned"]))
    assert (True, False, False) in seen
    if width < 16:
        assert {(True, True, True), (True, False, True), (False, False, False)} <= seen


def columns_at_once(device, width: int, down: int, step: int = 1) -> set[int]:
    """Copy matrices of several widths, and return the columns that an invocation loads at once."""
    seen = set()
    for apart, columns in itertools.product((3, 0), (27, 64, 50, 9, 150)):
        rows = 2 * down * 16 // width + 5
        dims = (Dim(rows, step, columns), Dim(columns, rows * step + apart, 1))
        layout = CopyLayout(dims, apart, apart)
        assert check(device, layout, width, spare=step) == tiles(width, step)
        constants = constants_of(device, layout, width)
        assert constants["across"] * max(4 // width, 1) % constants["columns_at_once"] == 0
        seen.add(constants["columns_at_once"])
    return seen


def test_invocations_load_up_to_16_columns_of_words_at_once(device, monkeypatch):
    use(monkeypatch, tile_shapes=((4, (4, 64)),), full_workgroups=1)
    assert {10, 16} <= columns_at_once(device, 4, 4)


def test_invocations_load_two_words_of_halves_at_once(device, monkeypatch):
    use(monkeypatch, tile_shapes=((2, (4, 64)),), full_workgroups=1)
    assert columns_at_once(device, 2, 4) == {4}


def test_invocations_load_a_word_of_halves_where_few_vectors_are_below_each_other(device, monkeypatch):
    use(monkeypatch, tile_shapes=((2, (2, 64)),), full_workgroups=1)
    assert 2 in columns_at_once(device, 2, 2)


@pytest.mark.parametrize("width", STEPPED)
def test_invocations_load_few_columns_at_once_of_small_copies_and_with_steps(device, monkeypatch, width):
    for full_workgroups, step in ((1 << 20, 1), (1, 2), (1, 3)):
        use(monkeypatch, tile_shapes=((width, (4, 64)),), full_workgroups=full_workgroups)
        assert columns_at_once(device, width, 4, step) == {2 if width == 2 else 4}


@pytest.mark.parametrize("width", STEPPED)
def test_tiles_that_load_more_than_they_copy_store_vectors_of_any_place(device, monkeypatch, width):
    """Columns with steps, and rows in groups, would take longer to load twice; so would few columns."""
    use(monkeypatch, tile_shapes=WIDE_TILES)
    columns = 600 // width + 1
    for dims in (
        (Dim(7, 2, columns), Dim(columns, 15, 1)),
        (Dim(3, 1, 3 * columns), Dim(3, 4, columns), Dim(columns, 20, 1)),
        (Dim(7, 1, 60 // width + 1), Dim(60 // width + 1, 9, 1)),
    ):
        plan = plan_slice1.plan_slice1(CopyLayout(dims, 0, 1), width, 1 << 16, device.limits)
        assert plan.steps[0].kernel in [tiles(width, step) for step in (1, 2)]
        assert not kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)["whole_sectors"]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("width", STEPPED)
def test_vectors_have_the_end_of_a_row_and_the_next_ones_begin(device, width, step):
    per_vector = 16 // width
    tall, wide = tile_sides(width)
    for rows, columns in itertools.product((2, tall, 2 * tall + 1), (per_vector + 1, wide - 1, 2 * wide + 1)):
        for sign, base in itertools.product((1, -1), (0, 1)):
            # With base 0 the next row of the first begins before the input.
            dims = (
                Dim(2, step * rows * columns + 64, rows * columns + 1),
                Dim(rows, sign * step, columns),
                Dim(columns, step * rows, 1),
            )
            layout = CopyLayout(dims, base_of(dims) + base, base)
            assert check(device, layout, width) == tiles(width, step)
            plan = plan_slice1.plan_slice1(layout, width, 1 << 14, device.limits, output_elements=1 << 14)
            assert kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)["continued"]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("width", STEPPED)
def test_rows_at_one_place_of_all_groups_follow_each_other(device, width, step):
    """A vector has the end of a row and the begin of the next group's; two tiles may have the last group."""
    tall, wide = tile_sides(width)
    for rows, gap, groups in itertools.product({2, min(3, tall - 1)} - {1, tall}, (0, 1), (16, 22)):
        if gap * step * width >= 32:
            continue  # a sector between groups
        long = -(-128 // width)
        for columns, base in itertools.product((long + 1, long + wide - 1, long + 2 * wide + 3), (0, 1)):
            for row, group in itertools.product((1, -1), (1, -1)):
                per_group = (rows + gap) * step
                plane = groups * per_group + 1
                dims = (
                    Dim(2, plane * columns + 5, rows * groups * columns + 1),
                    Dim(rows, row * step, groups * columns),
                    Dim(groups, group * per_group, columns),
                    Dim(columns, plane, 1),
                )
                # With base 0 the next row of the first begins before the input.
                layout = CopyLayout(dims, base_of(dims) + base, base)
                assert check(device, layout, width) == tiles(width, step)
                plan = plan_slice1.plan_slice1(layout, width, 1 << 18, device.limits, output_elements=1 << 18)
                constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
                assert (constants["row_groups"], constants["continued"]) == (1, 1)


def test_rows_of_few_groups_or_many_columns_are_stored_by_themselves():
    """As are those that follow each other in the output within a group."""
    for groups, columns, apart, is_continued in (
        (16, 133, 133, True), (15, 133, 133, False), (16, 1023, 1023, True), (16, 1025, 1025, False),
        (16, 133, 134, False), (16, 144, 144, False),
    ):  # fmt: skip
        dims = (Dim(3, 1, groups * apart), Dim(groups, 3, apart), Dim(columns, 3 * groups + 1, 1))
        found = tile_copies.matrices_of(CopyLayout(dims, 0, 0), 1, 1, DISCRETE.slice1)
        assert found.rows.groups is not None
        assert tile_copies.continued(found, 1) == is_continued
    # Columns with rows left out are loaded in whole vectors while they can be.
    for apart, columns, is_continued in ((2, 255, True), (2, 257, False), (1, 257, True)):
        dims = (Dim(3, apart, 16 * columns), Dim(16, 3 * apart + 1, columns), Dim(columns, 160, 1))
        found = tile_copies.matrices_of(CopyLayout(dims, 0, 0), 1, 1, DISCRETE.slice1)
        assert (found.rows.apart, tile_copies.continued(found, 1)) == (apart, is_continued)
    # Of each group one row.
    found = tile_copies.matrices_of(
        CopyLayout((Dim(40, 5, 133), Dim(133, 201, 1)), 0, 0), 1, 1, DISCRETE.slice1
    )
    assert found.rows.dim.size == 1
    assert not tile_copies.continued(found, 1)
    dims = (Dim(20, 9, 3 * 133), Dim(3, 1, 133), Dim(133, 9 * 20 + 1, 1))
    found = tile_copies.matrices_of(CopyLayout(dims, 0, 0), 1, 1, DISCRETE.slice1)
    assert found.rows.groups is not None
    assert not tile_copies.continued(found, 1)


@pytest.mark.parametrize(
    ("width", "rows", "apart", "columns", "are_rows"),
    [
        # Columns of 8 bytes, and shorter ones, are loaded in longer pieces wherever rows have a vector.
        (1, 8, 8, 17, True), (1, 8, 8, 16, False), (1, 5, 5, 99, True), (2, 4, 4, 9, True),
        (2, 4, 6, 50, True),
        # Longer ones where there are more columns for each of their elements, and fewer left out.
        (1, 24, 24, 66, False), (1, 24, 24, 67, True), (1, 24, 30, 100, False), (1, 24, 30, 104, True),
        (2, 8, 8, 22, False), (2, 8, 8, 23, True), (1, 40, 40, 127, True), (1, 60, 60, 127, False),
        (1, 60, 60, 128, True), (4, 16, 16, 23, False), (4, 16, 16, 24, True), (8, 8, 8, 15, False),
        (8, 8, 8, 16, True),
        # Fewer columns than rows.
        (1, 63, 63, 62, False),
    ],
)  # fmt: skip
def test_a_dimension_continues_rows_or_columns(width, rows, apart, columns, are_rows):
    """The input is (columns, 1000, apart), of which rows are copied; the output has its axes backwards."""
    dims = (Dim(rows, 1, 1000 * columns), Dim(1000, apart, columns), Dim(columns, 1000 * apart, 1))
    found = tile_copies.matrices_of(CopyLayout(dims, 0, 0), width, 1, DISCRETE.slice1)
    assert (found.rows.groups is not None, found.columns.groups is not None) == (are_rows, not are_rows)
    few = (Dim(rows, 1, 15 * columns), Dim(15, apart, columns), Dim(columns, 15 * apart, 1))
    found = tile_copies.matrices_of(CopyLayout(few, 0, 0), width, 1, DISCRETE.slice1)
    if columns * width < (96 if width == 4 else 128):
        assert found.rows.groups is None, "few groups continue columns"


@pytest.mark.parametrize(
    ("columns", "apart", "of_tiles"),
    [
        *((40, 40, True), (40, 41, False), (17, 17, True), (16, 17, False)),
        # Whole vectors, and rows that only start with one.
        *((48, 64, True), (16, 32, True), (47, 64, False), (32, 40, False)),
    ],
)
def test_short_rows_in_groups_are_copied_in_tiles_if_they_follow_each_other_or_are_vectors(
    columns, apart, of_tiles
):
    dims = (Dim(8, 1, 100_000 * apart), Dim(100_000, 8, apart), Dim(columns, 800_000, 1))
    plan = PLAN_SLICE1(CopyLayout(dims, 0, 0), 1, columns * 800_000, GPU_LIMITS)
    (step,) = plan.steps
    is_tiles = step.kernel.startswith("slice1_tiles")
    assert (is_tiles and kernels.table()[step.kernel].named(step.constants)["row_groups"]) == of_tiles


def test_groups_of_bytes_that_follow_each_other_have_wide_tiles():
    """Tiles are narrower where all rows start with a vector."""
    for rows, columns, down, across in ((8, 333, 4, 48), (16, 333, 4, 48), (16, 336, 8, 28)):
        dims = (
            Dim(rows, 1, 5000 * columns),
            Dim(5000, rows, columns),
            Dim(columns, 5000 * rows, 1),
        )
        found = tile_copies.matrices_of(CopyLayout(dims, 0, 0), 1, 1, DISCRETE.slice1)
        shape = tile_copies.tile_shape(found, 1, GPU_LIMITS)
        assert found.rows.groups is not None
        assert (shape.down, shape.across) == (down, across)


@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("width", STEPPED)
def test_tiles_of_columns_with_steps(device, width, step):
    tall, wide = tile_sides(width)
    for rows, columns in itertools.product(
        (2, tall - 1, tall, tall + 1, 2 * tall + 3), (2, wide - 1, wide + 2)
    ):
        for shift, sign in itertools.product(range(4 // width), (1, -1)):
            # The input ends with the last element that is copied.
            dims = (Dim(rows, sign * step, columns + shift), Dim(columns, step * (rows - 1) + 1 + shift, 1))
            layout = CopyLayout(dims, base_of(dims) + shift, shift)
            assert check(device, layout, width) == tiles(width, step)


@pytest.mark.parametrize("width", STEPPED)
def test_rows_and_columns_in_groups(device, width):
    tall, wide = tile_sides(width)
    sizes = {rows for rows in (2, 5, tall // 2 + 1) if rows < tall}
    for rows, gap, step, sign in itertools.product(sizes, (0, 1, 2), (1, 2, 3), (1, -1)):
        for columns, groups in ((3, 7), (5, 2), (wide - 1, 3)):
            if gap * step * width >= 32:
                continue  # a sector between groups, which would be loaded for nothing
            per_group = min(rows + gap, 2 * rows)
            plane = 9 * per_group * step + 1
            dims = (
                Dim(rows, sign * step, 9 * groups * columns + 1),
                Dim(9, -sign * per_group * step, groups * columns),
                Dim(groups, plane * columns, columns),
                Dim(columns, -plane, 1),
            )
            layout = CopyLayout(dims, base_of(dims), 1)
            assert check(device, layout, width) == tiles(width, step)
            found = tile_copies.matrices_of(layout, width, 1, SMALL)
            assert found.rows.count == 8 * per_group + rows
            assert found.columns.count == groups * columns


@pytest.mark.parametrize("width", [*NARROW, 4])
@pytest.mark.parametrize("outside", [0, 3])
def test_groups_of_rows_in_blocks(device, width, outside):
    """Few rows in a few groups: a tile has those of a third dimension, too; ``outside``: of more matrices."""
    below = tile_sides(width)[0]
    told = set()
    for rows, groups, gap, step in itertools.product((2, 3), (2, 3), (0, 1), (1, 2)):
        per_group, per_block = rows + gap, (rows + gap) * (groups + gap)
        if per_group * (groups - 1) + rows >= below or gap * per_group * step * width >= 32:
            continue  # as many rows as a tile has, or a sector between blocks
        long = -(-128 // width)  # fewer columns would be continued as groups, rather than rows
        for columns, signs in itertools.product((long, long + 5), ((1, 1, 1), (-1, 1, -1), (1, -1, 1))):
            row, group, block = signs
            plane = 11 * per_block * step + 1
            apart = groups * rows * columns + 2
            dims = (
                *((Dim(outside, columns * plane, 12 * apart),) if outside else ()),
                Dim(11, block * per_block * step, apart),
                Dim(rows, row * step, groups * columns),
                Dim(groups, group * per_group * step, columns),
                Dim(columns, plane, 1),
            )
            layout = CopyLayout(dims, base_of(dims), 1)
            assert check(device, layout, width) == tiles(width, step)
            found = tile_copies.matrices_of(layout, width, 1, SMALL)
            told.add((found.rows.blocks is not None, len(found.outer)))
            assert found.rows.count == 10 * per_block + (groups - 1) * per_group + rows
    assert told == {(True, int(outside > 0))}


@pytest.mark.parametrize("width", STEPPED)
@pytest.mark.parametrize("outside", [0, 3])
def test_groups_of_columns_in_blocks(device, width, outside):
    """Where groups of columns end, a row goes on along a third dimension; ``outside``: of more matrices."""
    tall, blocks = tile_sides(width)[0], 7
    told = set()
    for columns, groups, rows_in_blocks in itertools.product((3, 8, 64 // width), (2, 5), (False, True)):
        wide = columns * groups * blocks
        # Of the second, pairs of pairs of rows are side by side.
        sizes, strides = ((11, 2, 2), (4, 1, 2)) if rows_in_blocks else ((tall + 3,), (1,))
        rows = math.prod(sizes)
        for signs, shift in itertools.product(((1, 1, 1), (-1, 1, -1), (1, -1, 1)), (0, 1)):
            column, group, block = signs
            plane = rows + shift
            dims = [
                # In memory, the blocks lie within the groups.
                Dim(blocks, block * columns * plane, columns * groups),
                Dim(groups, group * blocks * columns * plane, columns),
                Dim(columns, column * plane, 1),
            ]
            apart = wide
            for size, stride in reversed(list(zip(sizes, strides, strict=True))):
                dims.insert(0, Dim(size, stride, apart))
                apart *= size
            if outside:
                dims.insert(0, Dim(outside, wide * plane, apart + 1))
            layout = CopyLayout(tuple(dims), base_of(dims) + shift, 0)
            assert check(device, layout, width) == tiles(width)
            found = tile_copies.matrices_of(layout, width, 1, SMALL)
            assert found.columns.blocks is not None
            assert found.columns.count == wide
            told.add((found.rows.blocks is not None, len(found.outer) == bool(outside)))
    # A tile of 8 bytes has as many rows as two groups.
    assert ({(False, True)} | ({(True, True)} if width < 8 else set())) <= told


@pytest.mark.parametrize("width", STEPPED)
@pytest.mark.parametrize(
    ("step", "per_group", "of_kernel"), [(2, 5, 1), (3, 8, 1), (3, 10, 1), (2, 6, 2), (3, 9, 3)]
)
def test_rows_left_out_within_groups(device, width, step, per_group, of_kernel):
    """Rows lie further apart than the rows that are loaded, whose step is that of the groups, too."""
    rows = -(-per_group // step)
    columns = -(-128 // width) + 3
    for blocks, outside, sign in itertools.product((1, 2), (0, 3), (1, -1)):
        groups = 2 if blocks > 1 else 7
        per_block = groups * per_group + 1  # no multiple of a group
        plane = blocks * per_block + 1
        apart = blocks * groups * rows * columns + 1
        dims = (
            *((Dim(outside, (columns + 1) * plane, apart),) if outside else ()),
            *((Dim(blocks, per_block, rows * groups * columns),) if blocks > 1 else ()),
            Dim(rows, sign * step, groups * columns),
            Dim(groups, -sign * per_group, columns),
            Dim(columns, plane, 1),
        )
        layout = CopyLayout(dims, base_of(dims), 1)
        assert check(device, layout, width)
        found = tile_copies.matrices_of(layout, width, 1, SMALL).rows
        assert (found.groups is not None) == (rows < tile_sides(width)[0])
        if found.groups is None:
            continue
        assert check(device, layout, width) == tiles(width, found.step)
        assert found.apart == step // found.step
        if found.blocks is None:
            assert found.step == of_kernel


@pytest.mark.parametrize(
    ("rows", "per_group", "is_grouped"),
    [(2, 24, True), (2, 25, False), (5, 5, True), (5, 4, False)],
    ids=["sparse", "too sparse", "dense", "windows that overlap"],
)
def test_rows_are_no_groups_if_too_few_are_copied_or_they_overlap(device, rows, per_group, is_grouped):
    dims = (Dim(rows, 1, 9 * 150), Dim(9, per_group, 150), Dim(150, 300, 1))
    layout = CopyLayout(dims, 0, 0)
    found = tile_copies.matrices_of(layout, 1, 1, SMALL).rows
    assert (found.groups is not None) == is_grouped
    check(device, layout, 1)


@pytest.mark.parametrize("width", [*NARROW, 4])
def test_short_groups_of_rows_may_lie_further_apart(device, width):
    columns = -(-128 // width) + 1
    for row_bytes, gap_bytes, is_grouped in ((8, 32, True), (8, 56, True), (8, 64, False), (28, 32, False)):
        rows, per_group = row_bytes // width, (row_bytes + gap_bytes) // width
        dims = (Dim(rows, 1, 9 * columns), Dim(9, per_group, columns), Dim(columns, 10 * per_group, 1))
        layout = CopyLayout(dims, 0, 0)
        near, far = (tile_copies.matrices_of(layout, width, 1, SMALL, far=far) for far in (False, True))
        assert (near.rows.groups is not None) == is_grouped
        assert (far.rows.groups is not None) == (gap_bytes < 64)
        check(device, layout, width)


@pytest.mark.parametrize("width", [*NARROW, 4])
@pytest.mark.parametrize(("step", "of_kernel"), [(4, 2), (5, 1), (6, 3), (7, 1), (9, 3)])
def test_columns_with_larger_steps_are_tiles_with_rows_left_out(device, width, step, of_kernel):
    tall, wide = tile_sides(width)
    for rows, columns, sign in itertools.product(
        (2, max(tall // step + 1, 2), tall + 1), (3, wide + 1), (1, -1)
    ):
        dims = (Dim(rows, sign * step, columns), Dim(columns, step * (rows - 1) + 2, 1))
        layout = CopyLayout(dims, base_of(dims) + 1, 1)
        assert check(device, layout, width) == tiles(width, of_kernel)


@pytest.mark.parametrize("width", NARROW)
def test_what_tiles_are_not_for(device, width):
    """Elements so far apart that a tile would load sectors for nothing, and a few side by side."""
    far_apart = (Dim(40, 40, 50), Dim(50, 1600, 1))
    few_between = (Dim(2, 1, 2000), Dim(40, 50, 50), Dim(50, 2000, 1))
    for dims in (far_apart, few_between):
        layout = CopyLayout(dims, 0, 0)
        assert tile_copies.matrices_of(layout, width, 4, SMALL) is None
        check(device, layout, width)


@pytest.mark.parametrize("width", NARROW)
def test_rows_within_one_word(device, width):
    for rows, columns, apart, output_base in itertools.product((2, 9), (2, 3), (4, 5, 7), range(4)):
        layout = CopyLayout((Dim(rows, 1, apart), Dim(columns, rows + 1, 1)), 1, output_base)
        assert check(device, layout, width, spare=4) == tiles(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_stacks_of_tiles(device, width):
    dims = (Dim(2, 2000, 1500), Dim(3, -500, 450), Dim(19, 1, 23), Dim(21, 20, 1))
    assert check(device, CopyLayout(dims, base_of(dims), 0), width) == tiles(width)
    dims = (Dim(19, 1, 80), Dim(3, 800, 26), Dim(21, -20, 1))
    assert check(device, CopyLayout(dims, base_of(dims), 1), width) == tiles(width)


@pytest.mark.parametrize("width", NARROW)
def test_small_matrices_have_small_tiles(device, width, monkeypatch):
    use(monkeypatch, tile_shapes=DISCRETE.slice1.tile_shapes)
    for rows, columns, down, across in (
        (3, 5, 1, 8),
        (16, 40, 1 if width == 1 else 2, 16 if width == 1 else 20),
    ):
        layout = CopyLayout((Dim(rows, 1, columns), Dim(columns, rows + 1, 1)), 0, 0)
        assert check(device, layout, width) == tiles(width)
        plan = plan_slice1.plan_slice1(layout, width, 1 << 12, device.limits, output_elements=1 << 12)
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        assert (constants["down"], constants["across"]) == (down, across)
    dims = (Dim(300, 2, 150), Dim(150, 601, 1))
    assert check(device, CopyLayout(dims, 0, 0), width) == tiles(width, 2)


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize(
    ("tiles_down", "unaligned", "step", "band"),
    [
        (1, True, 1, 4), (9, True, 1, 16), (16, True, 1, 16), (17, True, 1, 32),
        (33, True, 1, {1: 64, 2: 4}), (65, True, 1, 4), (200, True, 1, 4), (16, False, 1, 16),
        (17, False, 1, 4), (16, True, 2, 16), (17, True, 2, 4),
    ],
)  # fmt: skip
def test_all_tiles_below_each_other_are_a_band_where_there_are_few(
    device, width, tiles_down, unaligned, step, band
):
    """Rows of the input are read once then, those at the ends of bands included."""
    limits = discrete(device, max_shared_memory=48 << 10)
    is_tall = width == 1 and (step == 2 or not unaligned)  # the tile
    rows, columns = tiles_down * (128 if is_tall else 64) - 3, 1007
    pitch = rows * step if unaligned else rows + 3
    layout = CopyLayout((Dim(rows, step, columns), Dim(columns, pitch, 1)), 0, 0)
    count = pitch * columns
    (tiles,) = PLAN_SLICE1(layout, width, count, limits, output_elements=rows * columns).steps
    kernel = kernels.table()[tiles.kernel]
    assert kernel.family.unpack(tiles.push)["tiles_down"] == tiles_down
    assert kernel.named(tiles.constants)["band"] == (band if isinstance(band, int) else band[width])


@pytest.mark.parametrize("width", NARROW)
def test_short_rows_in_groups_are_no_tiles(device, width):
    """Their ends would be most of what tiles store. Tiles have longer rows, and short ones without groups."""
    limits = discrete(device, max_shared_memory=48 << 10)

    def is_tile(columns: int, groups: int) -> bool:
        rows, pitch = 8, 8 + 24 // width
        dims = (Dim(groups, pitch, rows * columns), Dim(rows, 1, columns), Dim(columns, groups * pitch, 1))
        layout = CopyLayout(dims[1:] if groups == 1 else dims, 0, 0)
        count = groups * pitch * columns
        (step,) = PLAN_SLICE1(layout, width, count, limits, output_elements=count).steps
        return "tiles" in step.kernel

    assert is_tile(64 // width, 50000)
    assert not is_tile(60 // width, 50000)


@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_fit_the_least_shared_memory(device, width):
    limits = discrete(device, max_shared_memory=16 << 10)
    for rows, columns in itertools.product((3, 20, 40, 100, 400, 9999), (9, 30, 64, 100, 257, 9999)):
        for apart in (0, 1, 40):
            layout = CopyLayout((Dim(rows, 1, columns), Dim(columns, rows + apart, 1)), 0, 1)
            shape = tile_shape(transposed(layout, 1), width, limits)
            assert shared_bytes(shape.down, shape.across, width) <= 16 << 10


@pytest.mark.parametrize("width", WIDTHS)
def test_layouts_too_long_for_push_constants(device, width):
    def stacked(count: int, inner: tuple[Dim, ...], room: int, output_room: int) -> tuple[Dim, ...]:
        outer = []
        for number in range(count):
            outer.insert(0, Dim(2, (-1) ** number * room, output_room))
            room, output_room = 2 * room + 1, 2 * output_room + number % 2
        return (*outer, *inner)

    dims = stacked(8, (Dim(19, 2, 1),), 50, 19)
    assert check(device, CopyLayout(dims, base_of(dims), 1), width).startswith(RUNS.name)
    dims = stacked(8, (Dim(3, 2, 2),), 10, 7)
    check(device, CopyLayout(dims, base_of(dims), 1), width)
    dims = stacked(8, (Dim(3, 1, 5), Dim(4, 3, 1)), 13, 16)
    assert check(device, CopyLayout(dims, base_of(dims), 1), width) == tiles(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_more_workgroups_than_the_device_allows_are_looped_over(device, width):
    few = replace(device.limits, max_workgroup_count=3)
    for dims in (
        (Dim(5000, -1, 1),),
        (Dim(40, 99, 60), Dim(33, 2, 1)),
        (Dim(900, 1, 3),),
        (Dim(60, 1, 71), Dim(70, 61, 1)),
    ):
        check(device, CopyLayout(dims, base_of(dims), 0), width, few)
        plan = plan_slice1.plan_slice1(
            CopyLayout(dims, base_of(dims), 0), width, 6000, few, output_elements=6000
        )
        assert plan.steps[0].workgroups <= 3


def use_boxes(monkeypatch, **changes):
    """Plan with boxes wherever there are any, though rows that are gathered would be faster."""
    use(monkeypatch, **{**BOXES, **changes})
    monkeypatch.setattr(Sharing, "gathers_well", False)
    monkeypatch.setattr(Sharing, "are_whole_rows", False)


def boxes(width: int) -> str:
    """The module that copies boxes; wider elements are words to it."""
    return kernel_for("slice1_boxes", min(width, 4))


@pytest.mark.parametrize("width", WIDTHS)
def test_boxes_in_every_order_of_dimensions(device, width, monkeypatch):
    use_boxes(monkeypatch)
    sizes, steps = (5, 3, 19), (-1, 2, 1)
    for order in itertools.permutations(range(3)):
        strides, base, stride = [0, 0, 0], 2, 1
        for axis in reversed(order):
            strides[axis] = stride * steps[axis]
            base += (sizes[axis] - 1) * stride * max(-steps[axis], 0)
            stride *= sizes[axis] * abs(steps[axis]) + 1
        for output_base in (0, 3):
            layout = canonical_copy(sizes, strides, (57, 19, 1), input_base=base, output_base=output_base)
            assert check(device, layout, width, spare=2) == boxes(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_boxes_at_every_alignment(device, width, monkeypatch):
    """Columns and rows at odd distances start anywhere in a word; both are longer than a box."""
    use_boxes(monkeypatch)
    per_word = max(4 // width, 1)
    rows, columns = 40 * per_word + 3, 37 * per_word + 1
    for input_more, output_more, sign in itertools.product(range(per_word), range(per_word), (1, -1)):
        input_apart = (rows + 3) // 4 * 4 + input_more
        output_apart = (columns + 3) // 4 * 4 + output_more
        dims = (Dim(rows, sign, output_apart), Dim(columns, -sign * input_apart, 1))
        layout = CopyLayout(dims, base_of(dims) + input_more, output_more)
        assert check(device, layout, width, spare=4) == boxes(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_boxes_of_short_runs_and_steps(device, width, monkeypatch):
    use_boxes(monkeypatch)
    for length, step, apart in itertools.product((2, 3, 7, 25), (1, -1, 2, 3, -5), (1, 40)):
        inner = Dim(length, step, 1)
        dims = (Dim(70, length * abs(step) + apart, length), inner)
        layout = CopyLayout(dims, base_of(dims) + 1, 1)
        if plan_slice1.widened(layout, width)[0].dims:
            assert check(device, layout, width, spare=3) == boxes(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_boxes_with_gaps_repetitions_and_many_dimensions(device, width, monkeypatch):
    use_boxes(monkeypatch)
    for dims in (
        (Dim(500, 3, 1),),
        (Dim(9, 5, 40), Dim(17, -2, 2), Dim(2, 60, 1)),
        (Dim(4, 0, 18), Dim(6, 1, 3), Dim(3, 0, 1)),
        (Dim(3, 90, 400), Dim(20, 4, 20), Dim(4, 1, 5), Dim(5, -300, 1)),
        (Dim(11, 1, 2000), Dim(13, 11, 150), Dim(150, 11 * 13, 1)),
        tuple(Dim(2, 3**place, 2 ** (7 - place)) for place in range(8)),
        (Dim(2, 1, 6000), Dim(3000, 2, 2), Dim(2, 6000, 1)),
    ):
        for output_base in range(3):
            layout = CopyLayout(dims, base_of(dims) + 1, output_base)
            assert check(device, layout, width, spare=3) == boxes(width)


def test_rows_of_the_output_narrower_than_a_word_are_not_copied_in_boxes(device, monkeypatch):
    use(monkeypatch, **BOXES, box_rows=4)
    dims = (Dim(3, 1000, 15), Dim(3, 3000, 5), Dim(5, 100, 1))
    assert check(device, CopyLayout(dims, 0, 1), 1).startswith(RUNS.name)


def test_random_boxes(device, monkeypatch):
    rng = np.random.default_rng(11)
    ran = set()
    for _ in range(100):
        nbytes = int(rng.choice([1024, 4096]))
        use_boxes(monkeypatch, box_bytes=nbytes, narrow_box_bytes=nbytes)
        rank = int(rng.integers(1, 5))
        sizes = [int(size) for size in rng.choice([2, 3, 4, 5, 7, 16, 33, 65], rank)]
        while np.prod(sizes) > 5000:
            sizes[int(np.argmax(sizes))] //= 2
        steps = [int(step) for step in rng.choice([1, 1, 1, -1, 2, 3, -2], rank)]
        strides, base, stride = [0] * rank, int(rng.integers(0, 5)), 1
        for axis in rng.permutation(rank):
            strides[axis] = stride * steps[axis]
            base += (sizes[axis] - 1) * stride * max(-steps[axis], 0)
            stride *= sizes[axis] * abs(steps[axis]) + int(rng.integers(0, 2))
        output_strides, apart = [0] * rank, 1
        for axis in reversed(range(rank)):
            output_strides[axis] = apart
            apart = apart * sizes[axis] + int(rng.integers(0, 3) == 2)
        layout = canonical_copy(
            sizes, strides, output_strides, input_base=base, output_base=int(rng.integers(0, 5))
        )
        ran.add(check(device, layout, int(rng.choice(WIDTHS)), spare=3))
    assert {boxes(width) for width in WIDTHS} <= ran


@pytest.mark.parametrize("count", [999999, 1000001, 2000001])
@pytest.mark.parametrize("invocations", [256, 1024])
def test_tiles_of_three_long_rows_have_an_invocation_for_each_vector(count, invocations):
    """Of ``x[:, :3].transpose(1, 0, 2)``, few parts are loaded, and long rows stored."""
    gpu = DeviceLimits(DISCRETE, (1 << 32) - 1, (1 << 31) - 1, invocations, 48 << 10, 32)
    source = Operand((3, count, 16), (16, 64, 1), 0, 64 * count)
    (step,) = plan_for(CopyCall(source, Operand.compact((3, count, 16)), 1), gpu).steps
    kernel = kernels.table()[step.kernel]
    assert kernel.family.name == "slice1_tiles"
    vectors = kernel.family.unpack(step.push)["tile_vectors"]
    assert vectors <= kernel.named(step.constants)["workgroup"]


def test_small_matrices_are_gathered(device, monkeypatch):
    use(monkeypatch, narrow_tile_least_bytes=64, tile_least_bytes=64)
    in_tiles, gathered = tiles(1), runs(1, 65)
    for rows, columns, kernel in ((64, 64, in_tiles), (64, 63, gathered), (63, 64, gathered)):
        layout = CopyLayout((Dim(rows, 1, columns + 1), Dim(columns, rows + 1, 1)), 0, 0)
        assert check(device, layout, 1) == kernel


@pytest.mark.parametrize(("width", "least"), DISCRETE.slice1.gathered_tile_least_bytes)
def test_wide_matrices_with_a_short_side_that_a_cache_holds_are_gathered(device, width, least):
    """A side of a few sectors, by the width of the elements: gathering them was measured to be faster."""
    limits = replace(device.limits, tuning=DISCRETE)
    for columns in (least // width - 1, least // width):
        layout = CopyLayout((Dim(4000, 1, columns), Dim(columns, 4001, 1)), 0, 0)
        (step,) = PLAN_SLICE1(layout, width, 1 << 19, limits, output_elements=1 << 19).steps
        in_tiles = kernels.table()[step.kernel].family.name == "slice1_tiles"
        assert in_tiles == (columns * width >= least)


@pytest.mark.parametrize(("width", "least"), DISCRETE.slice1.far_tile_least_bytes)
def test_few_rows_far_apart_in_the_output_are_copied_in_tiles(device, width, least):
    """A row that goes on reads again what a cache would have to hold for the rows beside it."""
    limits = replace(device.limits, tuning=DISCRETE)
    for rows in (least // width - 1, least // width):
        layout = CopyLayout((Dim(9, 4001 * 2000, 2000 * rows), Dim(rows, 1, 2000), Dim(2000, 4001, 1)), 0, 0)
        (step,) = PLAN_SLICE1(layout, width, 1 << 19, limits, output_elements=1 << 19).steps
        in_tiles = kernels.table()[step.kernel].family.name == "slice1_tiles"
        assert in_tiles == (rows * width >= least)


@pytest.mark.parametrize(("columns", "rows"), [(513, 4096), (130, 18), (60, 18)])
def test_rows_go_on_in_blocks_where_columns_could_go_on_in_groups(device, columns, rows):
    """Tiles would load few of the rows that lie side by side, unless rows of the output are short."""
    limits = discrete(device, max_storage_buffer_range=(1 << 32) - 1)
    # Of each 20 bytes of many, 4 and 4; one output row goes on where the one before ends.
    dims = (
        Dim(4, 1, 2 * rows * columns),
        Dim(2, 12, rows * columns),
        Dim(rows, 20, columns),
        Dim(columns, rows * 20, 1),
    )
    plan = PLAN_SLICE1(
        CopyLayout(dims, 0, 0), 1, rows * columns * 20, limits, output_elements=8 * rows * columns
    )
    (step,) = plan.steps
    named = kernels.table()[step.kernel].named(step.constants)
    assert bool(named["row_blocks"]) == (columns > 128)
    assert bool(named["column_groups"]) == (columns < 128)


def test_elements_are_as_wide_as_the_layout_allows():
    def width_of(layout: CopyLayout, width: int) -> int:
        return plan_slice1.widened(layout, width)[1]

    assert width_of(CopyLayout((Dim(64, 1, 1),), 0, 0), 1) == 16
    assert width_of(CopyLayout((Dim(64, 1, 1),), 4, 0), 1) == 4
    assert width_of(CopyLayout((Dim(64, 1, 1),), 0, 2), 1) == 2
    assert width_of(CopyLayout((Dim(65, 1, 1),), 0, 0), 1) == 1
    assert width_of(CopyLayout((Dim(64, -1, 1),), 63, 0), 1) == 1
    assert width_of(CopyLayout((Dim(9, 10, 8), Dim(8, 1, 1)), 0, 0), 2) == 4
    assert width_of(CopyLayout((Dim(5, 4, 4), Dim(4, 1, 1)), 0, 0), 1) == 4
    # What is left of pairs is the next dimension.
    assert plan_slice1.widened(CopyLayout((Dim(9, 2, 14), Dim(7, 18, 2), Dim(2, 1, 1)), 0, 0), 4) == (
        CopyLayout((Dim(9, 1, 7), Dim(7, 9, 1)), 0, 0),
        8,
    )


def test_quotients_by_multiplication():
    rng = np.random.default_rng(1)
    numbers = np.arange(1 << 16, dtype=np.uint64)
    for size in (1, 2, 3, 7, 255, 4097, 65535, *map(int, rng.integers(1, 1 << 16, 50))):
        factor = divisions.exact_reciprocal(size)
        assert np.array_equal(
            numbers * np.uint64(factor) >> np.uint64(32) if factor else numbers, numbers // size
        )
    numbers = np.concatenate([numbers, rng.integers(0, 1 << 32, 10000), (1 << 32) - 1 - numbers]).astype(
        np.uint64
    )
    for size in (1, 2, 3, 65537, (1 << 32) - 1, *map(int, rng.integers(1, 1 << 32, 50))):
        for factor in (divisions.reciprocal(size), divisions.reciprocal_below(size)):
            low = numbers * np.uint64(factor) >> np.uint64(32)
            assert np.isin(numbers // size - low, (0, 1)).all()


# Planes, bytes from pixel to pixel, and the kernel.
PLANES_OF_PIXELS = (7, 39, "tiles"), (2, 39, "words"), (7, 18, "words"), (7, 19, "boxes")


def planned_family(limits, dims: tuple[Dim, ...], width: int) -> str:
    """The kernels that copy these dimensions first, of elements of so many bytes."""
    plan = PLAN_SLICE1(CopyLayout(dims, base_of(dims), 0), width, 1 << 20, limits, output_elements=1 << 20)
    return kernels.table()[plan.steps[0].kernel].family.name


def test_what_a_processor_copies_row_by_row(device):
    """Rows of a vector and more, unless places take several divisions or parts of the run are faster."""
    family_of = partial(planned_family, replace(device.limits, tuning=SOFTWARE))

    short, long = (Dim(999, 40, 3), Dim(3, 2, 1)), (Dim(99, 40000, 9999), Dim(9999, 3, 1))
    adjacent = (Dim(99, 40000, 9999), Dim(9999, 1, 1))
    few_adjacent = (Dim(9, 40000, 999), Dim(999, 1, 1))
    matrix = (Dim(999, 1, 999), Dim(999, 999, 1))
    beside = (Dim(7, 1, 10**6), Dim(10**6, 511, 1))
    last_first = (Dim(20000, 300, 300), Dim(300, -1, 1))
    for width, narrow in ((1, True), (4, False), (8, False), (16, False)):
        assert family_of(short, width) == ("slice1_rows" if width >= 8 else "slice1_runs")
        assert family_of(long, width) == "slice1_rows"
        assert family_of(adjacent, width) == ("slice1_runs" if narrow else "slice1_rows")
        assert family_of(few_adjacent, width) == "slice1_rows"
        assert family_of(matrix, width) == ("slice1_blocks" if narrow else "slice1_rows")
        assert family_of(beside, width) == ("slice1_blocks" if narrow else "slice1_rows")
        # Lines of a row that meet in few places of a cache are read again soon.
        at_pages = (Dim(7, 1, 10**6), Dim(10**6, 4096 // width, 1))
        in_strips = "slice1_rows" if width == 16 else "slice1_runs"
        assert family_of(at_pages, width) == ("slice1_blocks" if narrow else in_strips)
        assert family_of(last_first, width) == ("slice1_rows" if width >= 8 else "slice1_runs")
        assert family_of((Dim(9999, 90, 60), Dim(6, 12, 10), Dim(10, 1, 1)), width) == "slice1_runs"
    assert family_of((Dim(9, 80000, 40000), Dim(40000, 2, 1)), 1) == "slice1_runs"
    assert family_of(long, 2) == "slice1_runs"


def test_what_is_copied_in_boxes(device):
    """On GPUs permutations that caches do not hold. Words are for narrow short rows."""
    family_of = partial(planned_family, without_pixels(replace(device.limits, tuning=DISCRETE)))

    short, long = (Dim(999, 40, 7), Dim(7, 2, 1)), (Dim(99, 4000, 999), Dim(999, -3, 1))
    one = (Dim(99999, -3, 1),)
    columns, rows = (Dim(10**7, 7, 7), Dim(7, 1, 1)), (Dim(7, 1, 10**7), Dim(10**7, 7, 1))
    few_rows, apart = (Dim(3, 1, 3000), Dim(3000, 3, 1)), (Dim(3, 3, 10**7), Dim(10**7, 9, 1))
    far_apart = (Dim(3, 3, 10**7), Dim(10**7, 79, 1))
    matrix, narrow_matrix = (Dim(999, 1, 999), Dim(999, 999, 1)), (Dim(6, 1, 10**6), Dim(10**6, 6, 1))
    for width in WIDTHS:
        narrow = width < 4
        of_rows = {2: "slice1_words", 16: "slice1_runs"}.get(width, "slice1_rows")
        assert family_of(short, width) == ("slice1_words" if narrow else of_rows)
        assert family_of((Dim(999, 40, 3), Dim(3, 2, 1)), width) == (
            "slice1_words" if width <= 4 else of_rows
        )
        assert family_of(columns, width) == ("slice1_words" if narrow else of_rows)
        assert family_of(long, width) == of_rows
        assert family_of(one, width) == "slice1_runs"
        assert family_of(rows, width) == ("slice1_words" if width == 1 else "slice1_tiles")
        assert not narrow or family_of(apart, width) == "slice1_words"
        assert not narrow or family_of(far_apart, width) == "slice1_boxes"
        assert family_of(matrix, width) == "slice1_tiles"
    assert family_of(few_rows, 1) == "slice1_rows"
    assert family_of((Dim(10**6, 2, 2), Dim(2, -1, 1)), 1) == "slice1_words"
    # Five rows share a sector, and are read far from each other; of three a cache holds it.
    assert family_of((Dim(5, 3, 600), Dim(200, 999, 3), Dim(3, 1, 1)), 1) == "slice1_boxes"
    assert family_of((Dim(3, 3, 600), Dim(200, 999, 3), Dim(3, 1, 1)), 1) == "slice1_words"
    # Three rows share one, of 16 places; of three places, or of longer rows, the nearest cache holds it.
    scraps = Dim(16, 13, 12000), Dim(4000, 999, 3), Dim(3, 2, 1)
    assert family_of(scraps, 1) == "slice1_boxes"
    assert family_of((Dim(3, 13, 12000), *scraps[1:]), 1) == "slice1_words"
    assert family_of((Dim(16, 13, 12000), Dim(2000, 999, 6), Dim(6, 2, 1)), 1) == "slice1_words"
    # Nor what is read for one of many planes, if pixels are large. Tiles hold all planes of larger ones.
    for planes, apart, family in PLANES_OF_PIXELS:
        pixels = Dim(planes, 3, 60000), Dim(60000, apart, 1)
        images = Dim(200, 60000 * apart, planes * 60000)
        assert family_of((images, *pixels), 1) == f"slice1_{family}"
    # Of three places neither, if more lies between; but parts are copied in turn.
    assert family_of((Dim(3, 13, 1200000), Dim(400000, 999, 3), Dim(3, 2, 1)), 1) == "slice1_words"
    # Nor does any cache hold the sectors of half a million rows, of which more parts than four are made.
    assert family_of((Dim(5, 3, 3 * 10**6), Dim(5 * 10**5, 999, 6), Dim(6, 20, 1)), 1) == "slice1_boxes"
    assert family_of((Dim(3, 3, 6 * 10**5), Dim(10**5, 999, 6), Dim(6, 20, 1)), 1) == "slice1_words"
    # Sectors hold elements of three dimensions; two of them are far apart in the output.
    pairs_apart = (Dim(7, 2, 2 * 10**6), Dim(2, 1, 10**6), Dim(10**6, -280, 1))
    assert family_of(pairs_apart, 8) == "slice1_tiles"
    assert family_of(pairs_apart[1:], 8) == "slice1_tiles"
    assert family_of(narrow_matrix, 8) == "slice1_tiles"


def test_few_planes_of_bytes_are_copied_in_tiles(device):
    """Four to seven long rows, from pixels that are not much smaller than a vector (what was fastest)."""
    limits = without_pixels(replace(device.limits, tuning=DISCRETE))

    def family_of(planes: int, step: int, apart: int, pixels: int, width: int = 1) -> str:
        return planned_family(limits, (Dim(planes, step, pixels), Dim(pixels, apart, 1)), width)

    in_tiles = (4, 1, 9, 10**6), (7, 1, 26, 4000), (5, 2, 16, 1000), (6, 3, 24, 4000)
    for planes, step, apart, pixels in in_tiles:
        assert family_of(planes, step, apart, pixels) == "slice1_tiles"
    for planes, step, apart, pixels in (
        (3, 1, 9, 10**6),
        (4, 1, 7, 10**6),
        (4, 1, 8, 10**6),
        (5, 2, 15, 4000),
        (6, 3, 23, 4000),
        (5, 2, 16, 128),
    ):
        assert family_of(planes, step, apart, pixels) != "slice1_tiles"
    assert family_of(3, 1, 8, 10**6, width=2) != "slice1_tiles"


def many(size: int, rows: int, columns: int) -> tuple[Dim, ...]:
    """Matrices one after the other, each of which is transposed."""
    return Dim(size, rows * columns, rows * columns), Dim(rows, 1, columns), Dim(columns, rows, 1)


@pytest.mark.parametrize(
    ("width", "dims", "family"),
    [
        # Small matrices, as many as there are: a workgroup for each has too little to do.
        (1, many(10**5, 12, 24), "rows"),
        (1, many(10**5, 12, 200), "tiles"),
        (1, many(10**5, 32, 24), "rows"),
        (1, many(10**5, 32, 50), "tiles"),
        (2, many(10**5, 8, 8), "words"),
        (2, many(10**5, 5, 350), "words"),
        (2, many(10**4, 5, 2000), "tiles"),
        (2, many(10**5, 16, 100), "tiles"),
        # Few matrices of halves with a short side: pixels, if there are enough of them.
        (2, many(10, 10**6, 5), "pixels"),
        (2, many(10, 10**6, 27), "pixels"),
        (2, many(10, 10**6, 28), "tiles"),
        (2, many(2, 3 * 10**4, 15), "words, parts 1"),
        (2, many(2, 3 * 10**4, 16), "tiles"),
        (2, many(10, 10**6, 4), "words, parts 1"),
        (2, many(10**5, 64, 12), "pixels"),
        (2, many(10**5, 63, 12), "words"),
        (1, many(10, 10**6, 27), "pixels"),
        (1, many(10, 10**6, 28), "tiles"),
        (4, many(10, 10**6, 3), "pixels"),
        (4, many(10, 10**6, 64), "pixels"),
        (4, many(10, 10**6, 65), "tiles"),
        # Pixels to planes: of the fewest and the most elements, of rows that leave room for whole workgroups.
        (1, (Dim(3, 1, 10**6), Dim(10**6, 3, 1)), "planes"),
        (1, (Dim(40, 1, 10**6), Dim(10**6, 40, 1)), "planes"),
        (2, (Dim(4, -1, 10**6), Dim(10**6, -4, 1)), "planes"),
        (2, (Dim(2, 24, 10**6), Dim(3, 5, 2 * 10**6), Dim(10**6, 36, 1)), "planes"),
        (4, (Dim(2, 1, 10**6), Dim(10**6, 2, 1)), "planes"),
        (4, (Dim(36, 1, 10**6), Dim(10**6, 36, 1)), "planes"),
        (4, (Dim(10**4, 1280, 1280), Dim(10, 1, 128), Dim(128, 10, 1)), "planes"),
        (1, (Dim(17, 1, 10**6 + 1), Dim(10**6 + 1, 17, 1)), "planes"),
        # Planes of unaligned rows that fill tiles, unless few of a pixel's elements are copied; and of rows
        # that start within sectors.
        (1, (Dim(15, 1, 10**7 + 1), Dim(10**7 + 1, 15, 1)), "tiles"),
        (1, (Dim(8, 1, 10**7 + 1), Dim(10**7 + 1, 16, 1)), "planes"),
        (2, (Dim(15, 1, 10**7 + 4), Dim(10**7 + 4, 15, 1)), "planes"),
        (2, (Dim(8, 1, 10**7 + 4), Dim(10**7 + 4, 8, 1)), "tiles"),
        (4, (Dim(16, 1, 10**6), Dim(10**6, 16, 1)), "planes"),
        (4, (Dim(16, 1, 10**6 + 1), Dim(10**6 + 1, 16, 1)), "tiles"),
        (4, (Dim(15, 1, 10**6 + 1), Dim(10**6 + 1, 15, 1)), "planes"),
        # Short rows of pixels, beside which lie others that are far apart in the output, and longer ones.
        (4, (Dim(10**4, 3, 3000), Dim(100, 40000, 30), Dim(3, 1, 10), Dim(10, 4 * 10**6, 1)), "tiles"),
        (4, (Dim(10**4, 33, 3300), Dim(10, 400000, 330), Dim(33, 1, 10), Dim(10, 4 * 10**6, 1)), "pixels"),
        # Groups of channels; pixels between which others lie, or that are too far apart, are none.
        (1, (Dim(10**6, 1, 24), Dim(4, 10**7, 6), Dim(6, 10**6, 1)), "pixels"),
        (1, (Dim(10**6, 1, 24), Dim(2, 3 * 10**7, 12), Dim(2, 10**7, 6), Dim(6, 10**6, 1)), "tiles"),
        (1, (Dim(10**6, -3, 5), Dim(5, 10**7, 1)), "pixels"),
        (1, (Dim(10**6, 4, 5), Dim(5, 10**7, 1)), "words"),
        (1, (Dim(2, 1, 5 * 10**6), Dim(10**6, 2, 5), Dim(5, 10**7, 1)), "words"),
        (2, many(10, 4, 10**6), "words, parts 4"),
        (2, many(10, 5, 10**6), "tiles"),
        (4, many(10**5, 6, 100), "words"),
        (4, many(10**4, 6, 1000), "tiles"),
        (8, many(10**5, 8, 8), "rows"),
        (8, many(10**5, 17, 24), "tiles"),
        # Small images of many channels, some of which are copied: a cache holds them, if planes are short.
        (1, (Dim(10**5, 2100, 1050), Dim(3, 2, 350), Dim(350, 6, 1)), "words, parts 1"),
        (1, (Dim(9999, 134400, 67200), Dim(3, 2, 22400), Dim(22400, 6, 1)), "words, parts 1"),
        (1, (Dim(999, 2100000, 1050000), Dim(3, 2, 350000), Dim(350000, 6, 1)), "words, parts 3"),
        (1, (Dim(10**4, 19600, 9800), Dim(7, 2, 1400), Dim(1400, 14, 1)), "words, parts 1"),
        (1, (Dim(10**4, 39200, 19600), Dim(7, 2, 2800), Dim(2800, 14, 1)), "words, parts 1"),
        (2, (Dim(10**4, 8400, 4200), Dim(3, 2, 1400), Dim(1400, 6, 1)), "words, parts 3"),
        (2, (Dim(10**4, 2100, 1050), Dim(3, 2, 350), Dim(350, 6, 1)), "words, parts 1"),
        # Pieces that are no sectors apart: two of them share an access of memory.
        (4, (Dim(60, 10, 5 * 10**6), Dim(10**6, 600, 5), Dim(5, 1, 1)), "pixel_tiles"),
        (4, (Dim(60, 10, 5 * 10**6), Dim(10**6, 600, 5), Dim(5, 1, 1)), "boxes"),
        (4, (Dim(60, 15, 5 * 10**6), Dim(10**6, 900, 5), Dim(5, 1, 1)), "rows"),
        (8, (Dim(120, 7, 7 * 10**5), Dim(10**5, 840, 7), Dim(7, 1, 1)), "pixel_tiles"),
        (8, (Dim(120, 7, 7 * 10**4), Dim(10**4, 840, 7), Dim(7, 1, 1)), "rows"),
        (8, (Dim(120, 7, 7 * 10**5), Dim(10**5, 840, 7), Dim(7, 1, 1)), "rows"),  # in turn
        (8, (Dim(120, 9, 9 * 10**5), Dim(10**5, 1080, 9), Dim(9, 1, 1)), "rows"),
        (2, (Dim(60, 18, 9 * 10**6), Dim(10**6, 1080, 9), Dim(9, 1, 1)), "pixel_tiles"),
        (2, (Dim(60, 18, 9 * 10**6), Dim(10**6, 1080, 9), Dim(9, 1, 1)), "words"),
        (2, (Dim(60, 22, 11 * 10**6), Dim(10**6, 1320, 11), Dim(11, 1, 1)), "words"),
        # Rows with long steps: words, if at most half of what a step spans is copied.
        (1, (Dim(10**8, 4, 1),), "words"),
        (1, (Dim(10**8, 3, 1),), "runs"),
        (1, (Dim(1000, 400000, 10**5), Dim(10**5, -4, 1)), "words"),
        (1, (Dim(1000, 300000, 10**5), Dim(10**5, 3, 1)), "rows"),
        (1, (Dim(10**5, 4000, 2000), Dim(2, 2, 1000), Dim(1000, 4, 1)), "words"),
        (1, (Dim(10**5, 1200, 700), Dim(7, 1, 100), Dim(100, 12, 1)), "rows"),
        (1, (Dim(10**4, 12800, 100), Dim(100, 128, 1)), "words"),
        (1, (Dim(10**4, 12900, 100), Dim(100, 129, 1)), "rows"),
        (2, (Dim(10**6, 64, 1),), "words"),
        (2, (Dim(10**6, 65, 1),), "runs"),
        (4, (Dim(10**7, 5, 1),), "words"),
        (4, (Dim(10**7, 4, 1),), "runs"),
        (4, (Dim(1000, 50000, 10**4), Dim(10**4, -5, 1)), "words"),
        (4, (Dim(1000, 40000, 10**4), Dim(10**4, -4, 1)), "rows"),
        # Runs of a few short rows that lie apart, and rows of parts that are too short for words.
        (1, (Dim(3, 1, 36 * 10**6), Dim(6, 18, 6 * 10**6), Dim(10**6, 108, 6), Dim(6, 3, 1)), "boxes"),
        (1, (Dim(2, 1, 60 * 10**6), Dim(6, 20, 10**7), Dim(10**6, 120, 10), Dim(10, 2, 1)), "boxes"),
        (
            1,
            (Dim(3, 1, 360 * 10**6), Dim(6, 180, 6 * 10**7), Dim(10**6, 1080, 60), Dim(60, 3, 1)),
            "words, parts 3",
        ),
        (4, (Dim(3, 1, 72 * 10**6), Dim(6, 36, 12 * 10**6), Dim(10**6, 216, 12), Dim(12, 3, 1)), "boxes"),
        (
            4,
            (Dim(3, 1, 18 * 10**7), Dim(6, 90, 3 * 10**7), Dim(10**6, 540, 30), Dim(30, 3, 1)),
            "words, parts 3",
        ),
    ],
)
def test_what_shares_sectors_is_copied_as_was_fastest(device, width, dims, family):
    limits = without_pixels(discrete(device, max_storage_buffer_range=(1 << 32) - 1))
    limits = GPU_LIMITS if family in ("planes", "pixel_tiles") else limits
    layout = CopyLayout(dims, base_of(dims), 0)
    plan = PLAN_SLICE1(layout, width, 1 << 28, limits, output_elements=1 << 28)
    (step,) = plan.steps
    kernel = kernels.table()[step.kernel]
    name = kernel.family.name.removeprefix("slice1_")
    told = f"{name}, parts {kernel.named(step.constants)['parts']}" if name == "words" else name
    assert told.startswith(family)


@pytest.mark.parametrize(
    ("width", "dims"),
    [
        (1, (Dim(41, 1, 10**6), Dim(10**6, 41, 1))),
        (2, (Dim(3, 1, 10**6), Dim(10**6, 3, 1))),
        (2, (Dim(37, 1, 10**6), Dim(10**6, 37, 1))),
        (4, (Dim(37, 1, 10**6), Dim(10**6, 37, 1))),
        (4, (Dim(10, 1, 26214), Dim(26214, 10, 1))),  # less than a mebibyte
        (1, (Dim(10**4, 1300, 1300), Dim(10, 1, 130), Dim(130, 10, 1))),  # nearly all copied twice
        (4, (Dim(10**4, 1500, 1500), Dim(15, 1, 100), Dim(100, 15, 1))),  # a quarter
        (4, (Dim(10**5, 288, 288), Dim(3, 1, 96), Dim(96, 3, 1))),  # too few words for a workgroup
        (4, (Dim(2, 1, 10**7), Dim(2, 2, 5 * 10**6), Dim(2, 4, 10**6), Dim(10**6, 8, 1))),  # groups of groups
        (4, (Dim(3, 4, 10**6), Dim(10**6, 5, 1))),  # elements of one pixel lie between those of others
        # Windows that overlap: more elements than a pixel has.
        (1, (Dim(6, 1, 7 * 26001), Dim(7, 1, 26001), Dim(26001, 12, 1))),
        (1, (Dim(16, 1, 10**6 + 1), Dim(10**6 + 1, 16, 1))),  # these fill tiles, and a cache holds all
        (2, (Dim(30, 1, 10**6 + 1), Dim(10**6 + 1, 30, 1))),
    ],
)
def test_what_has_no_planes(width, dims):
    (step,) = PLAN_SLICE1(CopyLayout(dims, 0, 0), width, 1 << 28, GPU_LIMITS, output_elements=1 << 28).steps
    assert kernels.table()[step.kernel].family.name != "slice1_planes"


@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (2**14, 4095, (8, 64)),
        (2**16, 517, (8, 60)),
        (2**17, 383, (8, 28)),  # short rows
        (2**14, 4112, (8, 60)),  # of vectors, but not of sectors
        (2**14, 4096, (8, 32)),  # aligned ones
        (2**14 + 1, 4095, (4, 64)),  # unaligned columns
        (2**12, 4095, (8, 32)),  # caches hold all of it
    ],
)
def test_tiles_of_long_unaligned_rows_of_bytes_are_twice_as_large(device, rows, columns, tile):
    layout = CopyLayout((Dim(rows, 1, columns), Dim(columns, rows, 1)), 0, 0)
    limits = replace(device.limits, tuning=DISCRETE, max_shared_memory=48 << 10)
    (step,) = PLAN_SLICE1(layout, 1, rows * columns, limits).steps
    named = kernels.table()[step.kernel].named(step.constants)
    assert (named["down"], named["across"]) == tile


@pytest.mark.parametrize("width", [1, 2, 4])
def test_many_boxes_are_shared_by_more_workgroups(width):
    """A workgroup finds out where elements of a box lie before its first one, so few boxes have fewer."""

    def workgroups(rows: int) -> tuple[int, int]:
        dims = (Dim(60, 5, 5 * rows), Dim(rows, 300, 5), Dim(5, 1, 1))
        boxes = boxes_of(CopyLayout(dims, 0, 0), width, GPU_LIMITS)
        step, _ = box_copy(boxes, 300 * rows * width // 16, GPU_LIMITS)
        return boxes.count, step.workgroups

    shared = dict(GPU_LIMITS.tuning.slice1.box_workgroups)[width]
    (few, by_few), (many, by_many) = workgroups(10**4), workgroups(10**6)
    assert few < shared.fewest_of_many <= many
    assert by_few <= shared.of_few < by_many <= shared.of_many
    # Each copies as many boxes as any other, or one less.
    assert by_few >= shared.of_few * 3 // 4
    assert by_many >= shared.of_many * 9 // 10


def test_boxes_fit_the_least_devices(device):
    """128 invocations and 16 KiB of shared memory: what a box and what is known of it take."""
    limits = replace(
        device.limits,
        tuning=replace(DISCRETE, slice1=replace(DISCRETE.slice1, tile_least_fill=2)),
        max_workgroup_invocations=128,
        max_shared_memory=16 << 10,
    )
    layout = CopyLayout((Dim(999, 1, 301), Dim(301, 999, 1)), 0, 0)
    step = PLAN_SLICE1(layout, 1, 999 * 301, limits).steps[0]
    constants = kernels.table()[step.kernel].named(step.constants)
    shared = constants["cells"] + 2 * constants["table"] + kernels.number("box_layout_words")
    assert step.kernel == "slice1_boxes_1_bytes"
    assert constants["workgroup"] == 128
    assert 4 * shared <= 16 << 10


def test_counts_near_the_largest_buffer_do_not_wrap(device):
    limits = replace(device.limits, max_storage_buffer_range=(1 << 32) - 1)
    count = (1 << 32) - 1
    step = plan_slice1.plan_slice1(
        canonical_copy((count,), (-1,), (1,), input_base=count - 1), 1, count, limits
    ).steps[0]
    pushed = RUNS.unpack(step.push)
    vectors, each = pushed["vectors"], pushed["vectors_per_workgroup"]
    assert vectors == 1 << 28
    assert each * step.workgroups >= vectors > each * (step.workgroups - 1)


def test_every_slice1_kernel_of_the_table_is_tested_here():
    tested = {runs(width, step) for step in STEPS for width in WIDTHS}
    tested |= {
        kernel_for(RUNS.name, width, whole_vectors=0, parted=0, step=0) for width in WIDTHS if width < 16
    }
    # In those of the steps at boundaries.
    tested |= {kernel.name for kernel in RUNS.kernels.values() if kernel.variant["parted"] == "parted"}
    tested |= {tiles(width, step) for width in STEPPED for step in (1, 2, 3)} | {tiles(16)}
    tested |= {boxes(width) for width in WIDTHS}
    tested |= {kernel_for("slice1_blocks", width) for width in NARROW}
    tested |= {kernel_for("slice1_words", width) for width in (*NARROW, 4)}
    # In test_kernels_pixels.py, test_kernels_planes.py and test_kernels_pixel_tiles.py.
    of_pixels = ("slice1_pixels", "slice1_planes", "slice1_pixel_tiles")
    tested |= {kernel_for(family, width) for family in of_pixels for width in (*NARROW, 4)}
    tested |= {rows(width, step) for step in STEPS for width in IN_ROWS}
    # In test_kernels_apart.py.
    tested |= {kernel.name for kernel in kernels.family("slice1_apart").kernels.values()}
    assert tested == {kernel.name for kernel in kernels.table().values() if "output" in kernel.bindings}
