"""Boxes of a copy: parts short along all dimensions, with contiguous spans of the input and of the output.

All boxes of a copy have the same extents; where these do not divide a size, the last box overlaps the one
before. Pure numbers in elements; ``box_copies.py`` makes a step of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels
from vkdml.plan.divisions import exact_reciprocal
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES

# Kernels count within a box in 16 bits.
_MOST = 1 << 16


@dataclass(frozen=True)
class Room:
    """What a workgroup has for a box."""

    cells: int
    """Words of shared memory."""
    rows: int
    """The most rows of the input, and of the output."""
    words: int
    """The most words of the output."""


@dataclass(frozen=True)
class Boxes:
    """A copy of elements of 1, 2 or 4 bytes and the extents of its boxes, by dimension."""

    layout: CopyLayout
    extents: tuple[int, ...]
    element_bytes: int

    @property
    def _dims(self) -> list[tuple[Dim, int]]:
        """The dimensions that have more than one element in a box, outermost in the output first."""
        return [
            (dim, extent) for dim, extent in zip(self.layout.dims, self.extents, strict=True) if extent > 1
        ]

    @cached_property
    def _spans(self) -> tuple[int, list[tuple[Dim, int]], list[tuple[Dim, int]]]:
        """Return the elements of a contiguous span of the input, its dimensions, and those of spans."""
        span = 1
        within: list[tuple[Dim, int]] = []
        rows: list[tuple[Dim, int]] = []
        for dim, extent in sorted(self._dims, key=lambda pair: abs(pair[0].input_stride)):
            apart = abs(dim.input_stride)
            if not apart:
                continue
            if not rows and (apart - span) * self.element_bytes < SECTOR_BYTES:
                span += (extent - 1) * apart
                within.append((dim, extent))
            else:
                rows.append((dim, extent))
        return span, within, rows[::-1]

    @property
    def span(self) -> int:
        """Elements of a contiguous span of the input, those between the copied ones included."""
        return self._spans[0]

    @property
    def row_dims(self) -> list[tuple[Dim, int]]:
        """The dimensions from span to span of the input, outermost first, and their extents."""
        return self._spans[2]

    @cached_property
    def _outputs(self) -> tuple[int, list[tuple[Dim, int]], list[tuple[Dim, int]]]:
        """Return the elements of a row of the output, its dimensions, and those of rows."""
        length, whole = 1, True
        within: list[tuple[Dim, int]] = []
        rows: list[tuple[Dim, int]] = []
        for dim, extent in reversed(list(zip(self.layout.dims, self.extents, strict=True))):
            if whole and not rows and dim.output_stride == length:
                length *= extent
                whole = extent == dim.size
                within.append((dim, extent))
            elif extent > 1:
                rows.append((dim, extent))
        return length, within[::-1], rows[::-1]

    @property
    def length(self) -> int:
        """Elements of a row of the output."""
        return self._outputs[0]

    @property
    def within_dims(self) -> list[tuple[Dim, int]]:
        """The dimensions along a row of the output, outermost first; the first may be cut."""
        return self._outputs[1]

    @property
    def output_row_dims(self) -> list[tuple[Dim, int]]:
        return self._outputs[2]

    @property
    def rows(self) -> int:
        return math.prod(extent for _, extent in self.row_dims)

    @property
    def output_rows(self) -> int:
        return math.prod(extent for _, extent in self.output_row_dims)

    @property
    def aligned_rows(self) -> bool:
        """Whether all spans of the input start with a vector."""
        return not any(start % self._per_vector for start in self._input_starts)

    @property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.element_bytes

    @property
    def _per_word(self) -> int:
        return 4 // self.element_bytes

    @property
    def row_vectors(self) -> int:
        before = 0 if self.aligned_rows else self._per_vector - 1
        return ceil_div(before + self.span, self._per_vector)

    @property
    def output_row_words(self) -> int:
        return ceil_div(self.length, self._per_word)

    @cached_property
    def _pitches(self) -> tuple[dict[Dim, int], int]:
        """Return how far spans of the input are apart among the cells, by dimension, and the extent of all.

        Elements keep their places in words as they are loaded, so spans are as far apart as in memory but for
        whole words. They share no word, wherever a box starts in one. Odd numbers of words lie between those
        side by side: neighbouring invocations that read one of each then read different banks.
        """
        word, extension = self._per_word, self.span
        pitches: dict[Dim, int] = {}
        for dim, extent in reversed(self.row_dims):
            least = extension + self._places_in_word - 1
            pitch = least + (abs(dim.input_stride) - least) % word
            pitches[dim] = pitch if pitch // word % 2 else pitch + word
            extension += (extent - 1) * pitches[dim]
        return pitches, extension

    @property
    def _places_in_word(self) -> int:
        """In how many places of a word a box may start in the input."""
        return self._per_word if self.input_unaligned else 1

    @property
    def output_row_pitch(self) -> int:
        """Cells from row to row of gathered words; 0 where words are stored at once."""
        return self.output_row_words | 1 if self.element_bytes < 4 else 0

    @property
    def layout_words(self) -> int:
        """Words that describe the grid and the dimensions within a box."""
        within = len(self.row_dims) + len(self.output_row_dims) + len(self.within_dims)
        return len(self.grid) * kernels.number("grid_dim_words") + within * kernels.number("box_dim_words")

    @property
    def cells(self) -> int:
        return self.input_cells + self.output_rows * self.output_row_pitch

    @property
    def input_cells(self) -> int:
        _, extension = self._pitches
        return ceil_div(extension + self._places_in_word - 1, self._per_word)

    @property
    def output_words(self) -> int:
        return self.output_rows * self.output_row_words

    def fits(self, room: Room) -> bool:
        return (
            self.cells <= room.cells
            and max(self.rows, self.output_rows) <= room.rows
            and self.output_words <= room.words
            and self.input_cells * self._per_word < _MOST
            and self.rows * self.row_vectors < _MOST
            and self.output_rows * self.output_vectors_of_row * self._per_vector < _MOST
        )

    @property
    def lowest(self) -> int:
        """What to add to the input offset of a box's first element for the lowest one of the box."""
        return sum((extent - 1) * min(dim.input_stride, 0) for dim, extent in self._dims)

    @cached_property
    def cell_strides(self) -> dict[Dim, int]:
        """By dimension, what a step adds to the place among the cells, in elements."""
        strides = {dim: dim.input_stride for dim, _ in self._spans[1]}
        for dim, pitch in self._pitches[0].items():
            strides[dim] = pitch if dim.input_stride > 0 else -pitch
        return strides

    @property
    def first_cell(self) -> int:
        """The place among the cells of the box's first element."""
        return -sum((extent - 1) * min(self.cell_strides.get(dim, 0), 0) for dim, extent in self._dims)

    @cached_property
    def _continued(self) -> tuple[Dim | None, int]:
        """Return the dimension in which the next box continues rows of the output, and how far boxes overlap.

        Words that two boxes share are then whole in one of them.
        """
        if not self.within_dims:
            return None, 0
        dim, extent = self.within_dims[0]
        overlap = ceil_div(self._per_word - 1, self.length // extent) if self.output_unaligned else 0
        if extent == dim.size or extent < 2 * overlap + 1:
            return None, 0
        return dim, overlap

    @cached_property
    def grid(self) -> list[tuple[Dim, int, int, int]]:
        """The dimensions along which there are several boxes, the slowest first: count, step, last origin."""
        continued, overlap = self._continued
        grid = []
        for dim, extent in zip(self.layout.dims, self.extents, strict=True):
            if extent == dim.size:
                continue
            step = extent - overlap if dim is continued else extent
            grid.append((dim, 1 + ceil_div(dim.size - extent, step), step, dim.size - extent))
        return grid

    @property
    def count(self) -> int:
        return math.prod(count for _, count, _, _ in self.grid)

    @property
    def output_grid_dim(self) -> int:
        """Along which dimension of the grid rows of the output go on; beyond all if along none."""
        continued, _ = self._continued
        dims = [dim for dim, *_ in self.grid]
        return dims.index(continued) if continued in dims else len(dims)

    @cached_property
    def _input_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where the spans of the input start."""
        starts = [self.layout.input_base + self.lowest]
        starts += [dim.input_stride for dim, _ in self.row_dims]
        for dim, _, step, last in self.grid:
            starts += [dim.input_stride * step, dim.input_stride * last]
        return tuple(starts)

    @property
    def input_unaligned(self) -> bool:
        """Whether spans of the input may start anywhere in a word."""
        return any(start % self._per_word for start in self._input_starts)

    @cached_property
    def output_unaligned(self) -> bool:
        """Whether rows of the output may start anywhere in a word."""
        starts = [self.layout.output_base, *(dim.output_stride for dim, _ in self.output_row_dims)]
        for dim, extent in zip(self.layout.dims, self.extents, strict=True):
            if extent < dim.size:
                starts += [dim.output_stride * extent, dim.output_stride * (dim.size - extent)]
        return any(start % self._per_word for start in starts)

    @property
    def output_vectors_of_row(self) -> int:
        """Vectors of the output that lie within a row, at most, or 1."""
        return max(self.length // self._per_vector, 1)


def boxes_for(layout: CopyLayout, element_bytes: int, room: Room) -> Boxes | None:
    """Return boxes whose spans are about equally long in the input and in the output, and fill the room.

    None where the output has no contiguous elements, or only few of them fit.
    """
    if not layout.dims or layout.dims[-1].output_stride != 1:
        return None
    best = None
    nbytes = 4 * room.cells
    while best is None and nbytes >= element_bytes:
        boxes = Boxes(layout, _extents(layout, element_bytes, nbytes), element_bytes)
        if boxes.fits(room):
            best = boxes
        nbytes = nbytes * 27 // 32
    if best is None:
        return None
    best = _grown(best, room)
    if any(extent < dim.size for dim, extent in best.within_dims) and best.length < 8 // element_bytes:
        return None
    return best


def _extents(layout: CopyLayout, element_bytes: int, nbytes: int) -> tuple[int, ...]:
    """Return the least extents with which spans of the input and of the output have so many bytes."""
    extents = dict.fromkeys(layout.dims, 1)
    span = 1
    for dim in sorted(layout.dims, key=lambda dim: abs(dim.input_stride)):
        apart = abs(dim.input_stride)
        if not apart:
            continue
        if span * element_bytes >= nbytes or (apart - span) * element_bytes >= SECTOR_BYTES:
            break
        extents[dim] = _cut(
            dim.size, ceil_div(nbytes // element_bytes - span, apart) + 1, apart * element_bytes
        )
        if extents[dim] < dim.size:
            break
        span += (dim.size - 1) * apart
    length = 1
    for dim in reversed(layout.dims):
        if length * element_bytes >= nbytes or dim.output_stride != length:
            break
        extent = _cut(dim.size, ceil_div(nbytes // element_bytes, length), length * element_bytes)
        extents[dim] = max(extents[dim], extent)
        if extents[dim] < dim.size:
            break
        length *= dim.size
    return tuple(extents[dim] for dim in layout.dims)


def _cut(size: int, most: int, apart_bytes: int) -> int:
    """Return the extent of equal parts of a dimension: about ``most``, and whole sectors where it can be."""
    if most >= size:
        return size
    sectors = SECTOR_BYTES // math.gcd(SECTOR_BYTES, apart_bytes)
    if most >= sectors:
        most -= most % sectors
    each = ceil_div(size, ceil_div(size, most))
    return min(round_up(each, sectors), most) if most >= sectors else each


def _grown(boxes: Boxes, room: Room) -> Boxes:
    """Take more rows while there is room: spans that cannot become longer are loaded together."""
    for number in reversed(range(len(boxes.extents))):
        size = boxes.layout.dims[number].size
        for extent in _larger(boxes.extents[number], size):
            extents = (*boxes.extents[:number], extent, *boxes.extents[number + 1 :])
            larger = Boxes(boxes.layout, extents, boxes.element_bytes)
            if larger.fits(room):
                boxes = larger
                break
    return boxes


def _larger(extent: int, size: int) -> Iterator[int]:
    """Yield equal parts of a dimension that are more than ``extent``, the largest first."""
    parts, last = 1, 0
    while (each := ceil_div(size, parts)) > extent:
        if each != last:
            yield each
        last = each
        parts = max(parts + 1, parts * 5 // 4)


def words_of(
    pairs: Sequence[tuple[Dim, int]], first: Callable[[Dim], int], second: Callable[[Dim], int]
) -> Iterator[int]:
    """Yield the layout words of dimensions within a box: extent, reciprocal and two strides."""
    for dim, extent in pairs:
        yield from (extent, exact_reciprocal(extent), first(dim), second(dim))
