"""Planning slice1: a canonical copy to kernels, constants and workgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from vkdml.plan.box_copies import box_copy, boxes_of
from vkdml.plan.boxes import SECTOR_BYTES
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    ceil_div,
    check_buffer,
    checked_step,
    round_up,
)
from vkdml.plan.row_copies import is_of_rows, row_copy
from vkdml.plan.run_copies import run_copy
from vkdml.plan.tile_copies import fills_tiles, matrices_of, tile_copy
from vkdml.plan.tuning import SliceTuning
from vkdml.plan.word_copies import is_of_words, word_copy

# Runs that read memory so often, out of a cache, are as fast as boxes.
_MOST_READS = 4
# Bytes from element to element of a long row from which on gathering words is faster than gathering vectors.
_WORDS_APART = 8
# Of bytes that lie nearer to each other, vectors are gathered faster even where parts are long.
_FEWEST_BYTES_APART = 3


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
    tuning = limits.tuning.slice1
    gathers_well = _gathers_well(layout, element_bytes, tuning)
    least_bytes = tuning.narrow_tile_least_bytes
    if element_bytes >= 4:
        gathered = dict(tuning.gathered_tile_least_bytes).get(element_bytes, 0) if gathers_well else 0
        least_bytes = max(tuning.tile_least_bytes, gathered)
    matrices = matrices_of(layout, element_bytes, ceil_div(least_bytes, element_bytes), tuning)
    filled = matrices is not None and fills_tiles(matrices, element_bytes, limits)
    by_words = not filled and _gathers_by_words(layout, element_bytes, limits)
    beside = None if filled or by_words else _words_beside(layout, element_bytes, limits)
    if beside is not None and gathers_well and not _are_long_parts(layout, beside, element_bytes, tuning):
        beside = None
    by_words = by_words or beside is not None
    boxes = None if gathers_well or filled or by_words else boxes_of(layout, element_bytes, limits)
    steps: tuple[Step, ...]
    # Tiles that are not filled are slower than whatever else does not read memory again and again.
    if matrices is not None and (filled or not (gathers_well or by_words or boxes)):
        step, layout_words = tile_copy(matrices, element_bytes, last_vector, limits)
        steps = (step,)
    elif by_words:
        step, layout_words = word_copy(layout, element_bytes, limits, beside)
        steps = (step,)
    elif boxes is not None:
        step, layout_words = box_copy(boxes, last_vector, limits, tuning)
        steps = (step,)
    elif is_of_rows(layout, element_bytes, limits):
        step, layout_words = row_copy(layout, element_bytes, last_vector, limits)
        steps = (step,)
    else:
        steps, layout_words = run_copy(layout, element_bytes, last_vector, limits, tuning)
    return Plan(
        tuple(checked_step(step, limits) for step in steps),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("output", round_up(output_bytes, 4)),
            ("workspace", 4 * len(layout_words)),
        ),
        layout_words,
    )


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


def _gathers_well(layout: CopyLayout, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether runs read each sector while a cache holds it, and few vectors are made of many rows."""
    if not layout.dims:
        return True
    inner = layout.dims[-1]
    if element_bytes < 4 and inner.size * element_bytes < VECTOR_BYTES:
        return False
    far = _far_dims(layout, element_bytes, tuning)
    reads = min(abs(inner.input_stride) * element_bytes, SECTOR_BYTES) / element_bytes  # of each sector
    return not far or (reads <= _MOST_READS and _are_cached(far, element_bytes, tuning))


def _gathers_by_words(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether words read each sector while a cache holds it, and no kernel of vectors is faster."""
    tuning = limits.tuning.slice1
    if not tuning.word_workgroup_size or not is_of_words(layout, element_bytes, limits):
        return False
    inner = layout.dims[-1]
    # Invocations that write vectors of long rows read what lies side by side, but where all are apart.
    nearest = min(abs(dim.input_stride) for dim in layout.dims) * element_bytes
    all_apart = (
        element_bytes < 4
        and nearest == abs(inner.input_stride) * element_bytes
        and _WORDS_APART <= nearest <= SECTOR_BYTES
    )
    if inner.size * element_bytes >= VECTOR_BYTES and not all_apart:
        return False
    far = _far_dims(layout, element_bytes, tuning)
    reads = math.prod(
        min(dim.size, ceil_div(SECTOR_BYTES, abs(dim.input_stride) * element_bytes)) for dim in far
    )
    return reads <= _MOST_READS and _are_cached(far, element_bytes, tuning)


def _words_beside(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Dim | None:
    """Return the dimension along which words of long rows share sectors that runs would read too often."""
    tuning = limits.tuning.slice1
    if not tuning.word_workgroup_size or element_bytes > 4 or not layout.dims:
        return None
    inner = layout.dims[-1]
    far = _far_dims(layout, element_bytes, tuning)
    is_near = abs(inner.input_stride) * element_bytes <= tuning.beside_bytes
    if len(far) != 1 or far[0] is inner or inner.size * element_bytes < VECTOR_BYTES or not is_near:
        return None
    (beside,) = far
    reach = (beside.size - 1) * abs(beside.input_stride) * element_bytes
    is_beside = reach < tuning.beside_parts_bytes and is_of_words(layout, element_bytes, limits, beside)
    return beside if is_beside else None


def _are_long_parts(layout: CopyLayout, beside: Dim, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether parts that a cache could hold, such as planes of small images, are long enough for words."""
    least = dict(tuning.cached_parts_bytes).get(element_bytes)
    if least is None:
        return False
    stride = abs(layout.dims[-1].input_stride)
    if element_bytes == 1 and stride < _FEWEST_BYTES_APART:
        return False
    # Vectors of single bytes that lie in as many words take that many loads.
    if element_bytes == 1 and stride >= 4:
        least //= 4
    return abs(beside.output_stride) * element_bytes >= least


def _far_dims(layout: CopyLayout, element_bytes: int, tuning: SliceTuning) -> list[Dim]:
    """Return the dimensions along which elements of a sector are far apart in the output."""
    strided = [dim for dim in layout.dims if dim.input_stride]
    nearest = min((abs(dim.input_stride) for dim in strided), default=0)
    within = max(nearest, ceil_div(SECTOR_BYTES, element_bytes) - 1)
    sharing = [dim for dim in strided if abs(dim.input_stride) <= within]
    return [dim for dim in sharing if dim.output_stride * element_bytes > tuning.box_near_bytes]


def _are_cached(far: Sequence[Dim], element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether a cache holds what lies between elements of a sector."""
    between = max((dim.output_stride * dim.size for dim in far), default=0)
    return between * element_bytes <= tuning.box_cache_bytes
