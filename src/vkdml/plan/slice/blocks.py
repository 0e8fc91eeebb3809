"""Transposing blocks of narrow elements in registers, for processors: see ``shaders/slice1_blocks.comp``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim
from vkdml.plan.plans import LINE_BYTES

# Bytes. What is left of shorter matrices of joined rows takes as long as they do.
_SHORTEST_JOINED = 128
# Distances of rows in the input that the kernel has code for.
_STEPS = (1, 2)
# Dimensions along a row that the kernel has numbers for.
_MOST_COLUMN_DIMS = 2


@dataclass(frozen=True)
class Blocks:
    """Rows of the output that are near each other in the input, and how they are divided."""

    outer: tuple[Dim, ...]
    rows: Dim
    """Its input stride is 1 or 2, its output stride negative where the output has them in reverse order."""
    columns: tuple[Dim, ...]
    """At most two; the last varies fastest."""
    first_input: int
    """Of the first row in the input, from the first element."""
    first_output: int
    """The same of the output."""
    chunk_groups: int
    block_columns: int
    output_aligned: bool
    """Whether rows start with words, so that they share none."""
    joined: bool
    """Whether rows follow each other, and words that two of them share are written with them."""

    @property
    def row(self) -> int:
        """Elements."""
        return math.prod(dim.size for dim in self.columns)

    @property
    def are_columns_of_three(self) -> bool:
        """Whether all columns are three elements that follow each other."""
        return (
            self.rows.size == 3
            and self.rows.input_stride == 1
            and [dim.input_stride for dim in self.columns] == [3]
        )

    @property
    def boundary_step(self) -> int:
        """Elements from one place to the next where words may be left; 0: none are."""
        if self.output_aligned:
            return 0
        return self.rows.size * self.row if self.joined else self.row

    @property
    def column_jump(self) -> int:
        """What the step after the last column of the innermost dimension adds to the input's offset."""
        if len(self.columns) == 1:
            return 0
        outer, inner = self.columns
        return outer.input_stride - inner.size * inner.input_stride


def blocks_of(dims: Sequence[Dim], element_bytes: int, block_bytes: int, output_base: int) -> Blocks | None:
    """Return the blocks of a run; None where no rows are near each other in the input, or too few."""
    per_word = 4 // element_bytes
    # Fewer rows than elements in a word leave some of what is transposed unused.
    places = sorted(
        range(len(dims)), key=lambda place: (dims[place].size < per_word, abs(dims[place].input_stride))
    )
    found = (
        _blocks_along(place, dims, element_bytes, block_bytes, output_base)
        for place in places
        if abs(dims[place].input_stride) in _STEPS and dims[place].size > 1
    )
    return next((blocks for blocks in found if blocks), None)


def _blocks_along(
    place: int, dims: Sequence[Dim], element_bytes: int, block_bytes: int, output_base: int
) -> Blocks | None:
    """Return the blocks whose rows are those of a dimension; None where too many words would be shared."""
    per_word, rows = 4 // element_bytes, dims[place]
    # Rows are as long as the kernel can follow them: what is outside of that is copied as other matrices.
    columns = tuple(dims[max(place + 1, len(dims) - _MOST_COLUMN_DIMS) :])
    if not columns:
        return None
    outer = tuple(dim for dim in dims if dim is not rows and dim not in columns)
    row, block_columns = math.prod(dim.size for dim in columns), block_bytes // element_bytes
    starts = (output_base, rows.output_stride, *(dim.output_stride for dim in outer))
    output_aligned = all(start % per_word == 0 for start in starts)
    forward = rows.input_stride > 0
    joined = (
        not output_aligned
        and forward
        and rows.output_stride == row <= block_columns
        and output_base % per_word == 0
        and rows.size >= 2 * per_word
        and rows.size * row * element_bytes >= _SHORTEST_JOINED
    )
    if row * element_bytes < LINE_BYTES and not (output_aligned or joined):
        return None
    return Blocks(
        outer,
        Dim(rows.size, abs(rows.input_stride), rows.output_stride if forward else -rows.output_stride),
        columns,
        0 if forward else (rows.size - 1) * rows.input_stride,
        0 if forward else (rows.size - 1) * rows.output_stride,
        min(LINE_BYTES // 4, ceil_div(rows.size, per_word)),
        block_columns,
        output_aligned,
        joined,
    )
