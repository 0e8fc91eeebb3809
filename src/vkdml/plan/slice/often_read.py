"""Copies that read memory several times, such as repeats of an array and windows that overlap.

A cache holds what they read, and instructions take longer than the memory. So kernels are faster here that
elsewhere read too much for each element.
"""

from __future__ import annotations

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import CopyLayout, span_of
from vkdml.plan.plans import GPU_LINE_BYTES, VECTOR_BYTES

_OFTEN = 3
# Bytes. Longer rows of halves have few vectors that lie across two rows.
_LONG_ROW_OF_HALVES = 1000
# Bytes. Longer rows of one byte are copied as vectors: words take 1.13 to 1.21 of the time (H200).
_LONGEST_REPEATED_ROW = 10_000
# From so many dimensions on, rows find their places by more divisions than runs do; and the bytes of a row
# from which on that is so: shorter rows take up to 1.3 of the time in runs. Runs of more dimensions
# divide, too.
_MANY_DIMS, _MOST_DIMS = 4, 5
_LEAST_ROW_OF_RUN = 64
# Lines in which the elements of a subgroup's words lie, from which on boxes are faster.
_MANY_LINES = 28
# Of halves. Shorter rows are gathered by words no faster than boxes copy them.
_LEAST_ROW_BYTES = 8


def reads_of_each(layout: CopyLayout) -> float:
    """Return how often an element is read, in the mean of the memory between the first and the last.

    >>> from vkdml.plan.layout import Dim
    >>> reads_of_each(CopyLayout((Dim(5, 0, 6), Dim(6, 1, 1)), 0, 0))
    5.0
    """
    return layout.count / span_of(layout.dims)


def is_read_often(layout: CopyLayout) -> bool:
    """Whether an element is read so often that instructions take longer than the memory."""
    return bool(layout.dims) and reads_of_each(layout) >= _OFTEN


def is_gathered_well(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether rows of adjacent or equal elements are read often, so that boxes would spare no reads.

    Gathered, elements of 4 bytes and more take 0.34 to 1.0 of the time of boxes (H200, 80 copies: 0.72).
    """
    row = layout.dims[-1]
    is_long = row.size * element_bytes >= VECTOR_BYTES
    return is_long and abs(row.input_stride) <= 1 and is_read_often(layout)


def are_halves_in_vectors(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether rows of halves are read often and are faster as vectors than by words.

    They take 0.55 to 1.10 of the time (H200, 80 copies: 0.86).
    """
    row = layout.dims[-1]
    if element_bytes != 2 or row.input_stride != 1 or not is_read_often(layout):
        return False
    row_bytes = row.size * element_bytes
    return row_bytes >= _LONG_ROW_OF_HALVES or row_bytes % VECTOR_BYTES == 0


def are_faster_in_runs(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether rows of 4 and 8 bytes that are read often take less time in runs than row by row.

    They take 0.64 to 0.98 of the time (H200, 60 copies).
    """
    dims = layout.dims
    if element_bytes not in (4, 8) or not is_read_often(layout):
        return False
    return _MANY_DIMS <= len(dims) <= _MOST_DIMS and dims[-1].size * element_bytes >= _LEAST_ROW_OF_RUN


def are_rows_of_words(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether words are faster than vectors, though rows are no shorter.

    Rows of one byte that is repeated take 0.47 to 0.98 of the time (H200, 24 copies), rows of words along
    many dimensions 0.69 to 1.03 (15 copies).
    """
    row = layout.dims[-1]
    if element_bytes == 1:
        return len(layout.dims) > 1 and row.input_stride == 0 and row.size <= _LONGEST_REPEATED_ROW
    return element_bytes == 4 and len(layout.dims) > _MOST_DIMS and is_read_often(layout)


def are_faster_by_words(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether short rows of halves that are read often are gathered by words, and not in boxes.

    Rows of 10 and 14 bytes take 0.28 to 1.01 of the time (H200, 10 copies: 0.54).
    """
    row_bytes = layout.dims[-1].size * element_bytes
    return element_bytes == 2 and _LEAST_ROW_BYTES <= row_bytes < VECTOR_BYTES and is_read_often(layout)


def are_faster_in_boxes(layout: CopyLayout, element_bytes: int) -> bool:
    """Whether words of rows that are read often would load each element from a line of its own.

    Boxes take 0.23 to 1.11 of the time (H200, 11 copies: 0.51).
    """
    if element_bytes > 2 or not is_read_often(layout):
        return False
    return _lines_of_subgroup(layout, element_bytes) >= _MANY_LINES


def _lines_of_subgroup(layout: CopyLayout, element_bytes: int) -> int:
    """Return about how many lines hold the elements that a line of the output consists of.

    >>> from vkdml.plan.layout import Dim
    >>> windows = Dim(99, 640, 6336), Dim(99, 1, 64), Dim(16, 64000, 4), Dim(2, 640, 2), Dim(2, 1, 1)
    >>> _lines_of_subgroup(CopyLayout(windows, 0, 0), 2)
    32
    """
    left, lines, extent = GPU_LINE_BYTES // element_bytes, 1, 1
    for dim in reversed(layout.dims):
        count, apart = min(dim.size, left), abs(dim.input_stride) * element_bytes
        if apart >= GPU_LINE_BYTES:
            lines *= count
        else:
            extent += (count - 1) * apart
        left = ceil_div(left, count)
        if left <= 1:
            break
    return lines * ceil_div(extent, GPU_LINE_BYTES)
