"""The tile of outputs that a workgroup reduces at once in ``argreduce_short``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim, ReduceLayout

# Dimensions of outputs that a tile may have.
BOX_DIMS = 3


@dataclass(frozen=True)
class ShortTile:
    """What a workgroup processes at once."""

    dims: tuple[tuple[Dim, int], ...]
    """Dimensions of outputs and how many of each, in the order in which they are taken."""
    segments_along: int
    """Which of them; ``BOX_DIMS``: all is one segment."""
    shared_pitch: int
    """Elements from one segment to the next in shared memory."""
    position_pitch: int
    """The same from position to position, if each has segments of its own; otherwise 0."""
    shared_elements: int
    outer: tuple[Dim, ...]
    """Kept dimensions that are not among ``dims``."""
    workgroup_size: int

    @property
    def outputs(self) -> int:
        return prod(count for _, count in self.dims)

    def read_in_vain(self, positions: int) -> float:
        """Return how many elements are read for each that takes part, where outputs have so many positions.

        1 where all is one segment, or each position has segments of its own.
        """
        if self.segments_along == BOX_DIMS or self.position_pitch:
            return 1
        segments = self.dims[self.segments_along][1]
        return self.shared_pitch * segments / (self.outputs * positions)

    def segments_along_near(self, layout: ReduceLayout) -> bool:
        """Whether each of the outputs that lie nearest to each other has a segment of its own."""
        return self.segments_along < BOX_DIMS and self.dims[self.segments_along][0] is layout.kept[-1]

    @property
    def tiles(self) -> int:
        inner = prod(ceil_div(dim.size, count) for dim, count in self.dims)
        return inner * prod(dim.size for dim in self.outer)

    @property
    def evenly_apart(self) -> bool:
        """Whether the outputs in their order are evenly apart, and clipped at their end only."""
        return all(
            count == dim.size and next_dim.output_stride == count * dim.output_stride
            for (dim, count), (next_dim, _) in pairwise(self.dims)
        )


def folds_of(outputs: int, near: int, nbytes: int, packed: bool) -> int:
    """Return how many outputs, or words of narrow columns, are folded; ``near`` outputs lie side by side."""
    return outputs // near * ceil_div(near, 4 // nbytes if packed else 1)


def pitch_of(least: int, stride: int, per_vector: int) -> int:
    """Return the pitch of segments in shared memory that is the stride in memory, modulo a vector."""
    return least + (stride - least) % per_vector


def tile_of_counts(
    kept: Sequence[Dim],
    counts: Mapping[Dim, int],
    segments_along: Dim | None,
    *,
    shared_pitch: int,
    position_pitch: int,
    shared_elements: int,
    workgroup_size: int,
) -> ShortTile:
    """Return the tile that has so many outputs along some of the kept dimensions, in the outputs' order."""
    chosen = sorted(counts.items(), key=lambda item: abs(item[0].output_stride))
    return ShortTile(
        tuple(chosen),
        BOX_DIMS if segments_along is None else [dim for dim, _ in chosen].index(segments_along),
        shared_pitch,
        position_pitch,
        shared_elements,
        tuple(dim for dim in kept if dim not in counts),
        workgroup_size,
    )
