"""Transposing blocks of narrow elements in registers, for processors: see ``shaders/slice1_blocks.comp``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vkdml.plan.layout import Dim
from vkdml.plan.plans import ceil_div

# Bytes of a processor's caches.
LINE = 64
# Dimensions along a row that the kernel has numbers for.
MOST_COLUMN_DIMS = 2


@dataclass(frozen=True)
class Blocks:
    """Rows of the output that are side by side in the input, and how they are divided."""

    outer: tuple[Dim, ...]
    rows: Dim
    """Its input stride is 1; its output stride is negative where the output has them in the reverse order."""
    columns: tuple[Dim, ...]
    """At most two; the last varies fastest."""
    first_input: int
    """Of the first row in the input, from the first element."""
    first_output: int
    """The same of the output."""
    chunk_groups: int
    block_columns: int

    @property
    def row(self) -> int:
        """Elements."""
        return math.prod(dim.size for dim in self.columns)

    @property
    def column_jump(self) -> int:
        """What the step after the last column of the innermost dimension adds to the input's offset."""
        if len(self.columns) == 1:
            return 0
        outer, inner = self.columns
        return outer.input_stride - inner.size * inner.input_stride


def blocks_of(dims: Sequence[Dim], element_bytes: int, block_bytes: int) -> Blocks | None:
    """Return the blocks of a run; None where no rows are side by side in the input, or too few."""
    per_word = 4 // element_bytes
    place = next((place for place, dim in enumerate(dims) if abs(dim.input_stride) == 1), None)
    if place is None or dims[place].size < per_word:
        return None
    # Rows are as long as the kernel can follow them: what is outside of that is copied as other matrices.
    columns, dim = tuple(dims[max(place + 1, len(dims) - MOST_COLUMN_DIMS) :]), dims[place]
    if not columns or math.prod(dim.size for dim in columns) < LINE // element_bytes:
        return None
    forward = dim.input_stride > 0
    return Blocks(
        tuple(other for other in dims if other is not dim and other not in columns),
        Dim(dim.size, 1, dim.output_stride if forward else -dim.output_stride),
        columns,
        0 if forward else 1 - dim.size,
        0 if forward else (dim.size - 1) * dim.output_stride,
        min(LINE // 4, ceil_div(dim.size, per_word)),
        block_bytes // element_bytes,
    )
