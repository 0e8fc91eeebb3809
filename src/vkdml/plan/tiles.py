"""Cutting an array into boxes that fit where the whole array does not. No device, no data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Shorter contiguous runs are slow to copy and to read from a file.
RUN_BYTES = 64 << 10
# Each part of a reduction leaves a candidate per output; this many positions pay for folding it.
LEAST_POSITIONS = 256
INDEX_BYTES = 8
# The extent of a box is a multiple of this where it is large enough, so that its rows are aligned.
ALIGNED_EXTENT = 64


@dataclass(frozen=True)
class Tile:
    """A box: where it starts in each dimension, and its extent there."""

    start: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.sizes)

    @property
    def slices(self) -> tuple[Any, ...]:
        """The index that selects the box from an array; the result is an array even without dimensions."""
        return (
            *(slice(start, start + size) for start, size in zip(self.start, self.sizes, strict=True)),
            ...,
        )


@dataclass(frozen=True)
class Tiling:
    """An array cut into boxes that are alike but for those at the far ends.

    Iterating yields the boxes: first all of full size, then those of each other size, so that what is made
    for one size is reused before it is dropped. Boxes of one size come in memory order.
    """

    sizes: tuple[int, ...]
    """Of the array."""
    extents: tuple[int, ...]
    """Of a full box."""
    order: tuple[int, ...]
    """The dimensions, the one with the greatest stride first."""

    def __iter__(self) -> Iterator[Tile]:
        """Yield each box once; together they are the array.

        >>> [tile.start for tile in Tiling((2, 5), (2, 2), (0, 1))]
        [(0, 0), (0, 2), (0, 4)]
        """
        # Of each dimension: the part that full extents fill, and the rest if there is one.
        parts = []
        for dim in self.order:
            size, extent = self.sizes[dim], self.extents[dim]
            full = size // extent * extent
            spans = [(range(0, full, extent), extent)]
            if full < size:
                spans.append((range(full, size, extent), size - full))
            parts.append(spans)
        for group in itertools.product(*parts):
            sizes = self._by_dimension([extent for _, extent in group])
            for number in range(math.prod(len(starts) for starts, _ in group)):
                start = []
                for starts, _ in reversed(group):  # not itertools.product(), which would list each range
                    number, place = divmod(number, len(starts))
                    start.append(starts[place])
                yield Tile(self._by_dimension(start[::-1]), sizes)

    def __len__(self) -> int:
        return math.prod(-(-size // extent) for size, extent in zip(self.sizes, self.extents, strict=True))

    def cuts(self, dims: Iterable[int]) -> bool:
        """Tell whether one of these dimensions is cut."""
        return any(self.extents[dim] < self.sizes[dim] for dim in dims)

    def _by_dimension(self, in_order: Sequence[int]) -> tuple[int, ...]:
        values = [0] * len(self.order)
        for dim, value in zip(self.order, in_order, strict=True):
            values[dim] = value
        return tuple(values)


def memory_order(byte_strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions in memory order, the one with the largest stride first.

    >>> memory_order((4, -400, 40))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(byte_strides)), key=lambda dim: (-abs(byte_strides[dim]), dim)))


def tile_reduction(
    sizes: tuple[int, ...],
    byte_strides: tuple[int, ...],
    itemsize: int,
    axes: tuple[int, ...],
    tile_bytes: int,
) -> Tiling:
    """Cut the input of a reduction in memory order, but rarely along reduced dimensions.

    >>> tile_reduction((1000, 1 << 20), (4 << 20, 4), 4, (1,), 32 << 20).extents
    (8, 1048576)
    >>> tile_reduction((400, 1 << 20), (4 << 20, 4), 4, (0,), 32 << 20).extents
    (400, 20608)

    Args:
        sizes: of the input, none 0.
        byte_strides: of the input; 0 only where the size is 1.
        itemsize: bytes of an element.
        axes: that are reduced.
        tile_bytes: that a box, or the indices of its candidates, may have; one element is always allowed.
    """
    order = memory_order(byte_strides)
    kept = [dim for dim in order if dim not in axes]
    most = max(tile_bytes // itemsize, 1)
    # Half a tile must have room for as many positions as make up for the candidates.
    run_bytes = min(RUN_BYTES, tile_bytes // (2 * LEAST_POSITIONS))

    def least_run(dim: int) -> int:
        return _covering(run_bytes, byte_strides[dim])

    extents = list(sizes)
    _cut(extents, kept, order, most, least_run)
    if math.prod(extents) > most:

        def least(dim: int) -> int:
            if dim in kept:
                return least_run(dim)
            others = math.prod(extents[axis] for axis in axes if axis != dim)
            return max(-(-LEAST_POSITIONS // others), least_run(dim))

        extents = list(sizes)
        _cut(extents, order, order, most, least)
        _cut(extents, order, order, most, lambda dim: 1)
    _cut(extents, kept, kept, max(tile_bytes // INDEX_BYTES, 1), least_run)
    _cut(extents, kept, kept, max(tile_bytes // INDEX_BYTES, 1), lambda dim: 1)
    return Tiling(sizes, _evened(sizes, extents), order)


def tile_copy(
    sizes: tuple[int, ...], byte_strides: tuple[int, ...], itemsize: int, tile_bytes: int
) -> Tiling:
    """Cut a copy of a strided array to a compact one, so that boxes have long runs on both sides.

    >>> tile_copy((1 << 13, 1 << 13), (4, 4 << 13), 4, 1 << 20).extents
    (512, 512)

    Args:
        sizes: of both, none 0.
        byte_strides: of the source; the target is compact in row-major order.
        itemsize: bytes of an element.
        tile_bytes: that a box may have; one element is always allowed.
    """
    target_strides = [itemsize * math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    most = max(tile_bytes // itemsize, 1)
    order = tuple(range(len(sizes)))
    run_bytes = RUN_BYTES
    while True:

        def least(dim: int, run_bytes: int = run_bytes) -> int:
            return max(_covering(run_bytes, byte_strides[dim]), _covering(run_bytes, target_strides[dim]))

        extents = list(sizes)
        _cut(extents, order, order, most, least)
        if math.prod(extents) <= most:
            return Tiling(sizes, _evened(sizes, extents), order)
        run_bytes //= 2


def _covering(nbytes: int, byte_stride: int) -> int:
    """Return how many steps cover ``nbytes``."""
    return max(-(-nbytes // abs(byte_stride)), 1) if byte_stride else 1


def _cut(
    extents: list[int], dims: Sequence[int], counted: Sequence[int], most: int, least: Callable[[int], int]
) -> None:
    """Shorten ``extents`` along ``dims``, one after the other, until the counted ones hold ``most``."""
    for dim in dims:
        count = math.prod(extents[other] for other in counted)
        if count <= most:
            return
        extents[dim] = max(most // (count // extents[dim]), min(least(dim), extents[dim]), 1)


def _evened(sizes: tuple[int, ...], extents: list[int]) -> tuple[int, ...]:
    """Return extents that give as many boxes of more equal sizes."""
    evened = []
    for size, extent in zip(sizes, extents, strict=True):
        boxes = -(-size // extent)
        even = -(-size // boxes)
        aligned = -(-even // ALIGNED_EXTENT) * ALIGNED_EXTENT
        evened.append(aligned if boxes > 1 and aligned <= extent else even)
    return tuple(evened)
