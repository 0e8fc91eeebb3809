"""Copies in boxes; ``slice1.py`` says which, ``boxes.py`` finds their extents."""

from __future__ import annotations

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import exact_reciprocal
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import DeviceLimits, Step, check_work, power_of_two_up_to, words
from vkdml.plan.slice.as_words import in_words
from vkdml.plan.slice.boxes import Boxes, Room, boxes_for, words_of
from vkdml.plan.tuning import SliceTuning


def boxes_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Boxes | None:
    """Return the boxes of a copy, of elements of up to 4 bytes; None where it has none on this device."""
    tuning = limits.tuning.slice1
    if not tuning.has_boxes(element_bytes):
        return None
    layout, element_bytes = in_words(layout, element_bytes)
    boxes = boxes_for(layout, element_bytes, _room(element_bytes, limits))
    return boxes if boxes and boxes.layout_words <= kernels.number("box_layout_words") else None


def _room(element_bytes: int, limits: DeviceLimits) -> Room:
    tuning = limits.tuning.slice1
    nbytes = min(tuning.bytes_of_box(element_bytes), limits.max_shared_memory)
    rows = min(tuning.box_rows, nbytes // 64)
    workgroup_size = _workgroup_size(limits)
    # Beside the cells lie the layout and three words about each row.
    cells = nbytes // 4 - 3 * rows - kernels.number("box_layout_words")
    return Room(cells, rows, workgroup_size * kernels.number("box_turns"))


def _workgroup_size(limits: DeviceLimits) -> int:
    return min(limits.tuning.slice1.box_workgroup_size, power_of_two_up_to(limits.max_workgroup_invocations))


def box_copy(boxes: Boxes, last_vector: int, limits: DeviceLimits) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants."""
    count = boxes.count
    check_work("boxes", count)
    room = _room(boxes.element_bytes, limits)
    workgroup_size = _workgroup_size(limits)
    family = kernels.family("slice1_boxes")
    placed = family.placed(_layout_words(boxes))
    push = family.push(
        boxes=count,
        grid_dims=len(boxes.grid),
        row_dims=len(boxes.row_dims),
        output_row_dims=len(boxes.output_row_dims),
        within_dims=len(boxes.within_dims),
        output_grid_dim=boxes.output_grid_dim,
        input_base=boxes.layout.input_base + boxes.lowest,
        output_base=boxes.layout.output_base,
        last_vector=last_vector,
        rows=boxes.rows,
        row_vectors=boxes.row_vectors,
        row_vectors_inverse=exact_reciprocal(boxes.row_vectors),
        row_length=boxes.span,
        first_cell=boxes.first_cell,
        output_row_count=boxes.output_rows,
        output_row_count_inverse=exact_reciprocal(boxes.output_rows),
        output_row_length=boxes.length,
        output_row_words=boxes.output_row_words,
        output_row_words_inverse=exact_reciprocal(boxes.output_row_words),
        output_row_pitch=boxes.output_row_pitch,
        first_gathered=boxes.input_cells,
        output_vectors_of_row=boxes.output_vectors_of_row,
        output_vectors_of_row_inverse=exact_reciprocal(boxes.output_vectors_of_row),
        layout_words=placed.pushed,
    )
    kernel, constants = family.specialize(
        element_bytes=boxes.element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        cells=room.cells,
        table=room.rows,
        input_unaligned=boxes.input_unaligned,
        output_unaligned=boxes.output_unaligned,
    )
    loops = _loops(boxes, workgroup_size)
    workgroups = _workgroups(boxes, limits.tuning.slice1)
    rounds = min(ceil_div(count, workgroups), loops.most_boxes(limits.max_loop_steps))
    rounds = max(rounds, ceil_div(count, limits.max_workgroup_count))
    step = Step(kernel, constants, push, ceil_div(count, rounds), loop_steps=loops.boxes(rounds))
    return step, placed.stored


def _layout_words(boxes: Boxes) -> tuple[int, ...]:
    def place(dim: Dim) -> int:
        return boxes.cell_strides.get(dim, 0)

    def pitch(dim: Dim) -> int:
        return abs(place(dim))

    def nothing(dim: Dim) -> int:
        return 0

    grid = (
        word
        for dim, number, step, last in boxes.grid
        for word in (number, step, last, dim.input_stride, dim.output_stride)
    )
    rows = words_of(boxes.row_dims, lambda dim: abs(dim.input_stride), pitch)
    output_rows = words_of(boxes.output_row_dims, lambda dim: dim.output_stride, place)
    return words((*grid, *rows, *output_rows, *words_of(boxes.within_dims, nothing, place)))


def _loops(boxes: Boxes, workgroup_size: int) -> loop_steps.BoxLoops:
    return loop_steps.BoxLoops(
        workgroup_size=workgroup_size,
        per_word=4 // boxes.element_bytes,
        grid_dims=len(boxes.grid),
        row_dims=len(boxes.row_dims),
        output_row_dims=len(boxes.output_row_dims),
        within_dims=len(boxes.within_dims),
        rows=boxes.rows,
        vectors=boxes.rows * boxes.row_vectors,
        output_rows=boxes.output_rows,
        output_vectors=boxes.output_rows * boxes.output_vectors_of_row,
    )


def _workgroups(boxes: Boxes, tuning: SliceTuning) -> int:
    """Return how many workgroups share the boxes."""
    return dict(tuning.box_workgroups)[boxes.element_bytes].share(boxes.count)
