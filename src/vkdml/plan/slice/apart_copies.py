"""Copies of elements that lie apart in the output, or in short rows with gaps; ``slice1.py`` says which."""

from __future__ import annotations

import math

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal, run_words
from vkdml.plan.layout import CopyLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Step, check_work
from vkdml.plan.slice.counted_runs import is_one_run
from vkdml.plan.slice.matrices import unaligned

_WORKGROUP_SIZE = 128
# Items of an invocation that are loaded together.
_AT_ONCE = 4
# Bytes. Of shorter rows, most words are partial: to load them and to flip bits takes 0.5 to 0.9 of the time
# of two atomic operations (H200), of longer ones up to 1.4.
_ROW_OF_WHOLE_WORDS = 48


def is_apart(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Return whether elements lie apart in the output, or in rows so short that runs of them take longer.

    On an H200, elements with steps take 0.06 to 0.8 of the time of what copied them before, and rows with
    gaps 0.1 to 1.1 of it (619 copies, 0.42 in the mean). SwiftShader takes 0.26 of it in the mean, and
    lavapipe, with bytes and halves, 0.40.

    >>> from vkdml.plan.layout import Dim
    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> copies = (Dim(640, 1, 3),), (Dim(640, 3, 4), Dim(3, 1, 1)), (Dim(640, 3, 3), Dim(3, 1, 1))
    >>> [is_apart(CopyLayout(dims, 0, 0), 1, limits) for dims in copies]
    [True, True, False]
    """
    if not layout.dims or is_one_run(layout.dims):
        return False
    numbers = limits.tuning.slice1.whole_row_bytes
    whole = next((rows for width, *rows in numbers if width == element_bytes), None)
    if whole is None:
        return False
    row, on_gpu = layout.dims[-1], not limits.tuning.is_processor
    if row.output_stride > 1:
        # Of elements that all lie at one place of a vector, GPUs copy runs as fast (0.8 to 1.0 of the time).
        is_at_one_place = element_bytes >= 4 and row.output_stride * element_bytes % VECTOR_BYTES == 0
        return not (on_gpu and is_at_one_place)
    if row.input_stride == 1 or (element_bytes >= 4 and row.input_stride == -1):
        return row.size * element_bytes < whole[0]
    # Rows that start with vectors, GPUs gather as fast in vectors or tiles (0.6 to 1.0 of the time).
    are_vectors = not unaligned(_row_starts(layout), element_bytes)
    return row.size * element_bytes < whole[1] and not (on_gpu and are_vectors and element_bytes != 4)


def _row_starts(layout: CopyLayout) -> tuple[int, ...]:
    """Return numbers of which multiples add up to where rows start in the output."""
    return (layout.output_base, *(dim.output_stride for dim in layout.dims[:-1]))


def apart_copy(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Args:
        layout: of which ``is_apart`` is true.
        element_bytes: at most 8.
        last_vector: of the input.
        limits: of the device.

    Raises:
        TooMuchWork: more words or elements than the kernel counts.
    """
    *outer, row = layout.dims
    per_word = max(4 // element_bytes, 1)
    # Larger steps leave at most one element of the row in a word, and some words none.
    by_words = row.output_stride < per_word
    items_of_row = row.size
    if by_words:
        span = (row.size - 1) * row.output_stride + 1
        before = per_word - 1 if unaligned(_row_starts(layout), element_bytes, 4) else 0
        items_of_row = ceil_div(before + span, per_word)
    items = items_of_row * math.prod(dim.size for dim in outer)
    check_work("words" if by_words else "elements", items)
    family = kernels.family("slice1_apart")
    placed = family.placed(run_words(outer))
    workgroup_size = min(limits.workgroup_size, _WORKGROUP_SIZE)
    of_round = _AT_ONCE * workgroup_size
    rounds = ceil_div(items, of_round * limits.max_workgroup_count)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        dims=len(outer),
        at_once=_AT_ONCE,
        output_step=row.output_stride if by_words else 0,
        flips_bits=element_bytes < 4
        and (row.output_stride > 1 or row.size * element_bytes < _ROW_OF_WHOLE_WORDS),
        side_by_side=by_words and row.input_stride == row.output_stride == 1,
    )
    push = family.push(
        items=items,
        items_per_workgroup=rounds * of_round,
        items_of_row=items_of_row,
        items_of_row_inverse=reciprocal(items_of_row),
        row=row.size,
        row_input_stride=row.input_stride,
        row_output_stride=row.output_stride,
        input_base=layout.input_base,
        output_base=layout.output_base,
        last_vector=last_vector,
        layout_words=placed.pushed,
    )
    loops = loop_steps.apart(len(outer), rounds, _AT_ONCE, per_word)
    return Step(kernel, constants, push, ceil_div(items, rounds * of_round), loop_steps=loops), placed.stored
