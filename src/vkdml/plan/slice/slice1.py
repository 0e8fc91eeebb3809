"""Planning slice1: a canonical copy to kernels, constants and workgroups."""

from __future__ import annotations

from dataclasses import replace

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Plan, Step, check_buffer, checked_step
from vkdml.plan.slice import often_read
from vkdml.plan.slice.apart_copies import apart_copy, is_apart
from vkdml.plan.slice.box_copies import box_copy, boxes_of
from vkdml.plan.slice.matrices import Matrices
from vkdml.plan.slice.pixel_copies import pixel_copy, pixels_of
from vkdml.plan.slice.pixel_tile_copies import pixel_tile_copy, pixel_tiles_of
from vkdml.plan.slice.plane_copies import plane_copy, planes_of
from vkdml.plan.slice.row_copies import is_of_rows, row_copy
from vkdml.plan.slice.run_copies import are_faster_in_parts, run_copy
from vkdml.plan.slice.sector_sharing import Sharing
from vkdml.plan.slice.tile_copies import fills_tiles, matrices_of, tile_copy
from vkdml.plan.slice.turns import are_few_rows_in_turn, are_spread_rows_in_turn
from vkdml.plan.slice.word_copies import is_of_words, word_copy

# Bytes of a row from which on words are loaded with what lies between groups of rows.
_LONG_ROW_OF_WORDS = 1700
# Widths of elements whose rows take less time by vectors than by words, if both copy them in turn.
_GATHERED_BY_VECTORS = (1, 8)


def plan_slice1(
    layout: CopyLayout,
    element_bytes: int,
    input_elements: int,
    limits: DeviceLimits,
    *,
    output_elements: int | None = None,
) -> Plan:
    """Plan a strided copy of elements of 1, 2, 4, 8 or 16 bytes.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        TooMuchWork: more than the kernels' 32-bit counters hold, or than the driver's loops make.
    """
    output_elements = layout.count if output_elements is None else output_elements
    input_bytes, output_bytes = input_elements * element_bytes, output_elements * element_bytes
    check_buffer("input", input_bytes, limits)
    check_buffer("output", output_bytes, limits)
    last_vector = _last_vector(layout, element_bytes)
    layout, element_bytes = widened(layout, element_bytes)
    steps, layout_words = _copied(layout, element_bytes, last_vector, limits)
    return Plan(
        tuple(checked_step(step, limits) for step in steps),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("output", round_up(output_bytes, 4)),
            ("workspace", 4 * len(layout_words)),
        ),
        layout_words,
    )


def _copied(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps of a copy, and the layout words for the workspace."""
    if is_apart(layout, element_bytes, limits):
        return _only(apart_copy(layout, element_bytes, last_vector, limits))
    pixels = pixels_of(layout, element_bytes, limits)
    if pixels is not None:
        return _only(pixel_copy(pixels, last_vector, limits))
    planes = planes_of(layout, element_bytes, limits)
    if planes is not None:
        return _only(plane_copy(planes, last_vector))
    sharing = Sharing(layout, element_bytes, limits)
    gathers_well = sharing.gathers_well
    matrices, filled = _matrices(sharing, limits)
    by_words = not filled and sharing.gathers_by_words
    beside = None if filled or by_words else sharing.words_beside
    by_words = by_words or beside is not None
    wants_boxes = sharing.are_faster_in_boxes if by_words else not (gathers_well or filled)
    pixel_tiles = None
    if by_words or wants_boxes or (sharing.are_short_rows and not filled):
        pixel_tiles = pixel_tiles_of(layout, element_bytes, limits)
    if pixel_tiles is not None:
        are_faster = pixel_tiles.are_faster_than_words if by_words else pixel_tiles.are_faster_than_rows
        if wants_boxes or are_faster:
            return _only(pixel_tile_copy(pixel_tiles, last_vector))
    boxes = boxes_of(layout, element_bytes, limits) if wants_boxes else None
    by_words = by_words and boxes is None
    # Tiles that are not filled are slower than whatever else does not read memory again and again.
    if matrices is not None and (filled or not (gathers_well or by_words or boxes)):
        return _only(tile_copy(matrices, element_bytes, last_vector, limits))
    if by_words:
        return _only(word_copy(layout, element_bytes, limits, beside))
    if boxes is not None:
        rows = _gathered_rows(sharing, last_vector)
        return _only(rows or box_copy(boxes, last_vector, limits))
    if sharing.are_rows_of_words:
        return _only(word_copy(layout, element_bytes, limits))
    if is_of_rows(layout, element_bytes, limits) and not _are_faster_in_runs(layout, element_bytes, limits):
        return _only(row_copy(layout, element_bytes, last_vector, limits))
    return run_copy(layout, element_bytes, last_vector, limits)


def _gathered_rows(sharing: Sharing, last_vector: int) -> tuple[Step, tuple[int, ...]] | None:
    """Return the step that gathers rows, if that is faster than boxes, and its layout words."""
    layout, element_bytes, limits = sharing.layout, sharing.element_bytes, sharing.limits
    are_few = are_few_rows_in_turn(layout, element_bytes, limits)
    are_spread = sharing.is_along_one and are_spread_rows_in_turn(layout, element_bytes, limits)
    if not (are_few or are_spread or sharing.are_whole_rows):
        return None
    by_vectors = are_few or element_bytes > 4
    if by_vectors and element_bytes in _GATHERED_BY_VECTORS and is_of_rows(layout, element_bytes, limits):
        return row_copy(layout, element_bytes, last_vector, limits)
    if sharing.has_words and is_of_words(layout, element_bytes, limits):
        return word_copy(layout, element_bytes, limits)
    return None


def _are_faster_in_runs(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether runs take less time than rows, each with its ends."""
    if are_faster_in_parts(layout, element_bytes, limits):
        return True
    if limits.tuning.is_processor:
        return False
    return element_bytes == VECTOR_BYTES or often_read.are_faster_in_runs(layout, element_bytes)


def _only(step: tuple[Step, tuple[int, ...]]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    return (step[0],), step[1]


def _matrices(sharing: Sharing, limits: DeviceLimits) -> tuple[Matrices | None, bool]:
    """Return the matrices that tiles could copy, if there are any, and whether they are worth it."""
    layout, element_bytes, tuning = sharing.layout, sharing.element_bytes, limits.tuning.slice1
    near = None
    for least_bytes in sharing.least_tile_bytes:
        least = ceil_div(least_bytes, element_bytes)
        near = matrices_of(layout, element_bytes, least, tuning)
        ways = [near]
        if element_bytes < VECTOR_BYTES:
            far = matrices_of(layout, element_bytes, least, tuning, far=True)
            if far is not None and far != near:
                ways.insert(0 if _are_far_faster(far, element_bytes) else 1, far)
        for matrices in ways:
            if matrices is not None and fills_tiles(matrices, element_bytes, limits):
                return matrices, not sharing.are_faster_by_words(matrices)
    return near, False


def _are_far_faster(far: Matrices, element_bytes: int) -> bool:
    """Whether loading what lies between groups of rows takes less time than copying each group by itself.

    It takes 0.92 of the time on an H100 (31 copies, 0.63 to 1.15) and on an H200 (0.46 to 1.30). For short
    rows of words it takes longer (0.96 to 1.70 of the time).
    """
    return element_bytes != 4 or far.columns.count * element_bytes >= _LONG_ROW_OF_WORDS


def _last_vector(layout: CopyLayout, element_bytes: int) -> int:
    """Return which vector of the input holds the last byte that is copied: nothing beyond it is read."""
    reach = sum((dim.size - 1) * dim.input_stride for dim in layout.dims if dim.input_stride > 0)
    return ((layout.input_base + reach + 1) * element_bytes - 1) // VECTOR_BYTES


def widened(layout: CopyLayout, element_bytes: int) -> tuple[CopyLayout, int]:
    """Return the same copy with the widest elements, of at most 16 bytes, that describe it.

    >>> widened(CopyLayout((Dim(6, 8, 8), Dim(4, 1, 1)), 4, 0), 2)
    (CopyLayout(dims=(Dim(size=6, input_stride=2, output_stride=2),), input_base=1, output_base=0), 8)
    """
    while element_bytes < VECTOR_BYTES and layout.dims:
        *outer, inner = layout.dims
        numbers = [layout.input_base, layout.output_base, inner.size]
        for dim in outer:
            numbers += [dim.input_stride, dim.output_stride]
        if (inner.input_stride, inner.output_stride) != (1, 1) or any(number % 2 for number in numbers):
            break
        dims = [Dim(dim.size, dim.input_stride // 2, dim.output_stride // 2) for dim in outer]
        if inner.size > 2:
            dims.append(replace(inner, size=inner.size // 2))
        layout = CopyLayout(tuple(dims), layout.input_base // 2, layout.output_base // 2)
        element_bytes *= 2
    return layout, element_bytes
