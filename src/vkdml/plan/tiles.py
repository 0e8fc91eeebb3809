"""Cutting an array into boxes that fit where the whole array does not. No device, no data."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vkdml.common.rounding import ceil_div, round_up

# Shorter contiguous runs are slow to copy and to read from a file.
RUN_BYTES = 64 << 10
# Each part of a reduction leaves a candidate per output; this many positions pay for folding it.
LEAST_POSITIONS = 256
CANDIDATE_INDEX_BYTES = 8
# The extent of a box is a multiple of this where it is large enough, so that its rows are aligned.
_ALIGNED_EXTENT = 64


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
        return math.prod(
            ceil_div(size, extent) for size, extent in zip(self.sizes, self.extents, strict=True)
        )

    def cuts(self, dims: Iterable[int]) -> bool:
        """Tell whether one of these dimensions is cut."""
        return any(self.extents[dim] < self.sizes[dim] for dim in dims)

    def _by_dimension(self, in_order: Sequence[int]) -> tuple[int, ...]:
        values = [0] * len(self.order)
        for dim, value in zip(self.order, in_order, strict=True):
            values[dim] = value
        return tuple(values)


@dataclass(frozen=True)
class Pieces:
    """An array cut at given places, the same across each dimension: what is read or written at once."""

    places: tuple[tuple[int, ...], ...]
    """Of each dimension: where it is cut, ascending, from 0 to its size."""

    def __iter__(self) -> Iterator[Tile]:
        """Yield each box once, those of one size one after the other.

        >>> [(piece.start, piece.sizes) for piece in Pieces(((0, 2, 3, 5),))]
        [((0,), (2,)), ((3,), (2,)), ((2,), (1,))]
        """
        by_size = []
        for places in self.places:
            starts: dict[int, list[int]] = {}
            for low, high in itertools.pairwise(places):
                starts.setdefault(high - low, []).append(low)
            by_size.append(list(starts.items()))
        for group in itertools.product(*by_size):
            sizes = tuple(size for size, _ in group)
            for start in itertools.product(*(starts for _, starts in group)):
                yield Tile(start, sizes)

    def __len__(self) -> int:
        return math.prod(len(places) - 1 for places in self.places)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(places[-1] for places in self.places)

    def around(self, tile: Tile) -> Tile:
        """Return the piece that a box lies in.

        >>> Pieces(((0, 4, 6),)).around(Tile((5,), (1,)))
        Tile(start=(4,), sizes=(2,))
        """
        low = [bisect.bisect_right(p, begin) - 1 for p, begin in zip(self.places, tile.start, strict=True)]
        start = tuple(p[at] for p, at in zip(self.places, low, strict=True))
        sizes = tuple(p[at + 1] - p[at] for p, at in zip(self.places, low, strict=True))
        return Tile(start, sizes)


class PiecewiseTiling:
    """Tiles within pieces: a piece is read or written at once, a tile is what a device processes at once."""

    def __init__(self, pieces: Pieces, cut: Callable[[tuple[int, ...]], Tiling]) -> None:
        self.pieces = pieces
        self.sizes = pieces.sizes
        self._cut = cut
        self._tilings: dict[tuple[int, ...], Tiling] = {}

    def within(self, sizes: tuple[int, ...]) -> Tiling:
        """Return how a piece of these sizes is cut into tiles."""
        if sizes not in self._tilings:
            self._tilings[sizes] = self._cut(sizes)
        return self._tilings[sizes]

    def __iter__(self) -> Iterator[Tile]:
        for piece in self.pieces:
            for tile in self.within(piece.sizes):
                start = (low + begin for low, begin in zip(piece.start, tile.start, strict=True))
                yield Tile(tuple(start), tile.sizes)

    def __len__(self) -> int:
        return sum(len(self.within(piece.sizes)) for piece in self.pieces)

    def cuts(self, dims: Iterable[int]) -> bool:
        """Tell whether one of these dimensions is cut."""
        dims = tuple(dims)
        sizes = itertools.product(
            *({high - low for low, high in itertools.pairwise(p)} for p in self.pieces.places)
        )
        return any(len(self.pieces.places[dim]) > 2 for dim in dims) or any(
            self.within(each).cuts(dims) for each in sizes
        )


@dataclass(frozen=True)
class Steps:
    """The elements that are taken along one dimension of an array that lies in chunks."""

    first: int
    """The place of the first element."""
    step: int
    """From one to the next; negative ones are read in ascending order and mirrored afterwards."""
    count: int
    """Of the elements, at least 1."""
    chunk: int
    """Extent of the chunks."""

    @property
    def read_step(self) -> int:
        """The step of reading: 1, unless chunks may lie between the elements, which need not be read."""
        return abs(self.step) if abs(self.step) > self.chunk else 1

    @property
    def read_per_element(self) -> int:
        return abs(self.step) // self.read_step

    def reading(self, begin: int, end: int) -> slice:
        """Return what to read for the elements from ``begin`` to before ``end``.

        >>> Steps(9, -2, 5, 10).reading(1, 3)
        slice(5, 8, 1)
        """
        ends = self.first + begin * self.step, self.first + (end - 1) * self.step
        # The step from one element on means nothing, and may be longer than libraries take.
        return slice(min(ends), max(ends) + 1, self.read_step if end - begin > 1 else 1)


def memory_order(byte_strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions in memory order, the one with the largest stride first.

    >>> memory_order((4, -400, 40))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(byte_strides)), key=lambda dim: (-abs(byte_strides[dim]), dim)))


def reduction_tiling(
    sizes: tuple[int, ...],
    byte_strides: tuple[int, ...],
    itemsize: int,
    axes: tuple[int, ...],
    tile_bytes: int,
) -> Tiling:
    """Cut the input of a reduction in memory order, but rarely along reduced dimensions.

    >>> reduction_tiling((1000, 1 << 20), (4 << 20, 4), 4, (1,), 32 << 20).extents
    (8, 1048576)
    >>> reduction_tiling((400, 1 << 20), (4 << 20, 4), 4, (0,), 32 << 20).extents
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
            return max(ceil_div(LEAST_POSITIONS, others), least_run(dim))

        extents = list(sizes)
        _cut(extents, order, order, most, least)
        _cut(extents, order, order, most, lambda dim: 1)
    _cut(extents, kept, kept, max(tile_bytes // CANDIDATE_INDEX_BYTES, 1), least_run)
    _cut(extents, kept, kept, max(tile_bytes // CANDIDATE_INDEX_BYTES, 1), lambda dim: 1)
    return Tiling(sizes, _evened(sizes, extents), order)


def copy_tiling(
    sizes: tuple[int, ...], byte_strides: tuple[int, ...], itemsize: int, tile_bytes: int
) -> Tiling:
    """Cut a copy of a strided array to a compact one, so that boxes have long runs on both sides.

    >>> copy_tiling((1 << 13, 1 << 13), (4, 4 << 13), 4, 1 << 20).extents
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
    return max(ceil_div(nbytes, abs(byte_stride)), 1) if byte_stride else 1


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
        boxes = ceil_div(size, extent)
        even = ceil_div(size, boxes)
        aligned = round_up(even, _ALIGNED_EXTENT)
        evened.append(aligned if boxes > 1 and aligned <= extent else even)
    return tuple(evened)


def cut_at_chunks(
    steps: Sequence[Steps],
    itemsize: int,
    growing: Sequence[int],
    piece_bytes: int,
    most_bytes: int,
    target_chunks: Sequence[int] | None = None,
) -> Pieces:
    """Cut at borders of chunks, so that no chunk is read twice; only chunks over ``most_bytes`` are cut.

    >>> cut_at_chunks([Steps(0, 1, 100, 10)], 4, [0], 200, 800).places
    ((0, 50, 100),)
    >>> cut_at_chunks([Steps(7, 1, 20, 10)], 1, [0], 10, 40).places
    ((0, 3, 13, 20),)

    Args:
        steps: what is taken along each dimension.
        itemsize: bytes of an element.
        growing: the dimensions, the one along which pieces grow first at the front.
        piece_bytes: that several chunks together may have.
        most_bytes: that one chunk may have and still be read as a whole, or that may be read for one that is
            written as a whole.
        target_chunks: of the array that is written, at whose borders to cut instead, since to write a part of
            a chunk costs more than to read one; at those of both where these meet often enough.
    """
    grids = [_source_grid(dim) for dim in steps]
    if target_chunks is not None:
        of_target = [_target_grid(dim, chunk) for dim, chunk in zip(steps, target_chunks, strict=True)]
        of_both = [
            _target_grid(dim, math.lcm(dim.chunk, chunk))
            if dim.step == 1 and dim.first % dim.chunk == 0
            else _target_grid(dim, chunk)
            for dim, chunk in zip(steps, target_chunks, strict=True)
        ]
        meet = math.prod(grid.least for grid in of_both) * itemsize <= max(most_bytes, piece_bytes)
        grids = of_both if meet else of_target
    extents = [grid.least for grid in grids]
    strides = [grid.chunk for grid in grids]
    if math.prod(extents) * itemsize > most_bytes:
        outermost_first = range(len(grids)) if target_chunks is not None else list(reversed(growing))
        _cut(extents, outermost_first, range(len(grids)), max(most_bytes // itemsize, 1), lambda dim: 1)
        for dim, grid in enumerate(grids):
            if extents[dim] < grid.least:
                strides[dim] = extents[dim]
    else:
        for dim in growing:
            grid = grids[dim]
            times = min(max(piece_bytes // (math.prod(extents) * itemsize), 1), grid.chunks)
            times = ceil_div(grid.chunks, ceil_div(grid.chunks, times))  # as many pieces of more equal sizes
            strides[dim] = times * grid.chunk
            extents[dim] = min(strides[dim], grid.length)
    return Pieces(tuple(grid.cut(stride) for grid, stride in zip(grids, strides, strict=True)))


@dataclass(frozen=True)
class _Grid:
    """The chunks along a dimension; offsets count what is read, from the first chunk's begin."""

    chunk: int
    chunks: int
    length: int
    """Of what is read."""
    count: int
    """Of the elements that are taken."""
    place: Callable[[int], int]
    """The elements that are on the near side of an offset."""

    @property
    def least(self) -> int:
        return min(self.chunk, self.length)

    def cut(self, stride: int) -> tuple[int, ...]:
        """Return the places of the borders that are so far apart: chunks of a number, or parts of a chunk."""
        end = self.chunk * self.chunks
        offsets: Iterable[int] = range(stride, end, stride)
        if stride < self.chunk:
            offsets = (
                begin + part for begin in range(0, end, self.chunk) for part in range(0, self.chunk, stride)
            )
        inner = {place for place in map(self.place, offsets) if 0 < place < self.count}
        return (0, *sorted(inner), self.count)


def _source_grid(dim: Steps) -> _Grid:
    if dim.read_step > 1:
        return _Grid(1, dim.count, dim.count, dim.count, lambda offset: offset)
    ends = dim.first, dim.first + (dim.count - 1) * dim.step
    low, high = min(ends), max(ends) + 1
    begin = low // dim.chunk * dim.chunk

    def place(offset: int) -> int:
        border = begin + offset
        if dim.step > 0:
            return -((dim.first - border) // dim.step)
        return (dim.first - border) // -dim.step + 1

    return _Grid(dim.chunk, ceil_div(high - begin, dim.chunk), high - low, dim.count, place)


def _target_grid(dim: Steps, chunk: int) -> _Grid:
    per_element = dim.read_per_element
    return _Grid(
        chunk * per_element,
        ceil_div(dim.count, chunk),
        dim.count * per_element,
        dim.count,
        lambda offset: ceil_div(offset, per_element),
    )
