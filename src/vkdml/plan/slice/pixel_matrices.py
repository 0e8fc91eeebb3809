"""Transposed pixels, such as turned images, as matrices; ``pixel_tile_copies.py`` makes steps of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import CopyLayout, Dim, ascending
from vkdml.plan.plans import VECTOR_BYTES
from vkdml.plan.slice.matrices import unaligned

# Words that an invocation keeps of its lines, at most. If as many rows as a word has elements are more, it
# makes one row.
_MOST_WORDS = 32
# From one pixel of the input to the next, at most: of larger ones, memory is read in vain.
_MOST_PIXEL_BYTES = 64


@dataclass(frozen=True)
class PixelMatrices:
    """A copy whose output has lines of pixels of the input as columns."""

    element_bytes: int
    outer: tuple[Dim, ...]
    rows: Dim
    """From pixel to pixel of a line, which is from row to row of the output; the input stride is positive."""
    lines: Dim
    """From line to line."""
    channels: Dim
    """Of a pixel; the input stride is positive."""
    backward: bool
    """Whether the elements of a pixel are copied in the opposite order."""
    input_base: int
    """Of the first element of a pixel in the order of memory."""
    output_base: int

    @property
    def per_word(self) -> int:
        return 4 // self.element_bytes

    @property
    def pixel_elements(self) -> int:
        """From one pixel of a line to the next."""
        return self.rows.input_stride

    @property
    def images(self) -> int:
        """How many matrices there are."""
        return math.prod(dim.size for dim in self.outer)

    @property
    def row_elements(self) -> int:
        """Of a row of the output."""
        return self.lines.size * self.channels.size

    @property
    def _pixel_span(self) -> int:
        return (self.channels.size - 1) * self.channels.input_stride + 1

    @property
    def words_of_line(self) -> int:
        """The words that an invocation loads of a line, at most: it may start within a word."""
        return self._words_of_line(self.rows_at_once)

    def _words_of_line(self, rows_at_once: int) -> int:
        span = (rows_at_once - 1) * self.pixel_elements + self._pixel_span
        return ceil_div(span, self.per_word) + 1

    @cached_property
    def rows_at_once(self) -> int:
        """Rows that an invocation makes; 0 if even one takes too many registers."""
        for rows in (self.per_word, 1):
            if self.per_word * (self._words_of_line(rows) - 1) <= _MOST_WORDS:
                return rows
        return 0

    @property
    def input_unaligned(self) -> bool:
        """Whether what an invocation loads of a line may start anywhere in a word."""
        steps = self.lines.input_stride, self.rows_at_once * self.pixel_elements
        starts = (self.input_base, *steps, *(dim.input_stride for dim in self.outer))
        return unaligned(starts, self.element_bytes, 4)

    @property
    def output_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where rows start."""
        return (
            self.output_base,
            self.rows.output_stride,
            *(dim.output_stride for dim in self.outer),
        )

    def starts_within(self, nbytes: int) -> bool:
        """Tell whether rows of the output may start elsewhere than with so many bytes."""
        return unaligned(self.output_starts, self.element_bytes, nbytes)


def pixel_matrices_of(layout: CopyLayout, element_bytes: int) -> PixelMatrices | None:
    """Return the matrices of pixels of a copy of elements of up to 4 bytes; None if it has none.

    >>> turned = CopyLayout((Dim(1920, 3, 3240), Dim(1080, 5760, 3), Dim(3, 1, 1)), 0, 0)
    >>> matrices = pixel_matrices_of(turned, 1)
    >>> matrices and (matrices.rows.size, matrices.lines.size, matrices.channels.size)
    (1920, 1080, 3)
    """
    if len(layout.dims) < 3:
        return None
    *others, channels = layout.dims
    lines = next((dim for dim in others if dim.output_stride == channels.size), None)
    strided = [dim for dim in others if dim.input_stride]
    if lines is None or not strided or channels.output_stride != 1 or not channels.input_stride:
        return None
    rows = min(strided, key=lambda dim: abs(dim.input_stride))
    reach = (channels.size - 1) * abs(channels.input_stride)
    if rows is lines or not reach < abs(rows.input_stride) <= _MOST_PIXEL_BYTES // element_bytes:
        return None
    outer = tuple(dim for dim in others if dim is not rows and dim is not lines)
    source, target = layout.input_base, layout.output_base
    backward = channels.input_stride < 0
    if backward:
        source -= reach
        channels = Dim(channels.size, -channels.input_stride, 1)
    # Rows may come in any order.
    (rows,), source, target = ascending((rows,), source, target)
    matrices = PixelMatrices(element_bytes, outer, rows, lines, channels, backward, source, target)
    has_vectors = matrices.row_elements * element_bytes >= VECTOR_BYTES
    return matrices if matrices.rows_at_once and has_vectors else None
