"""Ways to read memory in which the same coordinates return: a block, its repetitions, and parts of blocks.

One reduced dimension repeats a block of memory. All other dimensions, kept or reduced, are columns. A block
may have gaps: what lies in them is read, too, and has columns of its own, which belong to no output. If gaps
are wide, only a part of each block is read, or several parts as stretches of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import GPU_LINE_BYTES, LINE_BYTES, SECTOR_BYTES, VECTOR_BYTES, WORDS_LIMIT
from vkdml.plan.reduce.reductions import NARROW_SHARE, candidate_words, scratch_words
from vkdml.plan.reduce.sectors import sector_bytes_of
from vkdml.plan.schema import ElementType

PERIODS = kernels.family("argreduce_periods")
# Fewer periods would leave too many candidates.
_FEWEST_PERIODS = 4
# Vectors of a period that becomes one of whole lines: shorter ones are read side by side, and of longer ones
# there would be too many candidates. More stretches start within lines in any case.
_PERIODS_OF_LINES = 48, 1024
_STRETCHES_OF_LINES = 8
# Periods of a split of narrow elements, whose candidates' ranks count one more.
NARROW_STEPS = NARROW_SHARE - 1
# What follows comes from 1800 ways to read 500 windows of 512 MiB (H200). What takes the least time by it
# takes 1.02 of the time of the best way, on average.
#
# Times as long as aligned vectors take those that start at any element, by element width.
_UNALIGNED = {1: 1.08, 2: 1.08, 4: 1.06, 8: 1.06}
# Parts of nearly a whole block take so many times as long as the block.
_NEARLY_ALL, _OF_NEARLY_ALL = 0.9, 1.25
# Bytes that are read in the time that the candidate of a column takes; and in that of the square root of the
# number of stretches.
_COLUMN_BYTES, _STRETCH_BYTES = 64, 200_000


@dataclass(frozen=True)
class Column:
    """A dimension of the columns."""

    size: int
    stride: int
    """In the input, in elements; positive."""
    weight: int
    """What a step adds to the position in the reduction, or takes from it; 0 for a kept dimension."""
    kept: int
    """Which kept dimension of the layout it is, or -1."""


@dataclass(frozen=True)
class Repetition:
    """A way to read the input: a block of memory and its repetitions are a stretch; there are several."""

    size: int
    """Repetitions."""
    block: int
    """Elements of one, and of the gap behind it."""
    weight: int
    """What a repetition adds to the position in the reduction, or takes from it."""
    copies: int
    """Repetitions of a period; one where loads start at any element."""
    inner: tuple[Column, ...]
    """The dimensions of the block, the innermost first."""
    outer: tuple[Column, ...]
    """The dimensions of the stretches, the innermost first."""
    stretch: int
    """Elements of one, from the first to the last."""
    is_aligned: bool = True
    """Whether loads are of aligned vectors."""
    part: int = 0
    """Elements of a block that are read, those of its inner dimensions from the first to the last; 0: all."""

    @property
    def run(self) -> int:
        """Elements of a period; of aligned loads, whole vectors."""
        return self.block * self.copies

    @property
    def stretches(self) -> int:
        return math.prod(column.size for column in self.outer)

    @property
    def width(self) -> int:
        """Columns of a stretch."""
        return self.part or self.run

    @property
    def columns(self) -> int:
        return self.width * self.stretches

    def vectors(self, per_vector: int) -> int:
        """Return the vectors of a period that are read, wherever a part begins in a vector."""
        return ceil_div(self.width + (per_vector - 1 if self.part and self.is_aligned else 0), per_vector)

    def periods(self, per_vector: int) -> int:
        """Return how many periods a stretch spans at most, wherever it starts in a vector."""
        return self.size if self.part else ceil_div(self.stretch + per_vector - 1, self.run)

    @property
    def _dims(self) -> tuple[Column, ...]:
        """All dimensions: those of the block, the one that repeats it, and those of the stretches."""
        return (*self.inner, Column(self.size, self.block, self.weight, -1), *self.outer)

    @property
    def elements(self) -> int:
        """Those that take part."""
        return math.prod(column.size for column in self._dims)

    @property
    def read(self) -> int:
        """Elements that are read: more than take part where blocks have gaps."""
        return (self.size * self.part or self.stretch) * self.stretches

    def read_bytes(self, nbytes: int) -> int:
        """Return the bytes that are read of elements of so many; most parts begin and end within a line."""
        if not self.part:
            return self.read * nbytes
        strides = [self.block, *(column.stride for column in self.outer)]
        part_bytes = self.part * nbytes
        start_with_lines = all(stride * nbytes % LINE_BYTES == 0 for stride in strides)
        beyond = 0 if start_with_lines and part_bytes % SECTOR_BYTES == 0 else LINE_BYTES
        return self.size * self.stretches * min(part_bytes + beyond, min(strides) * nbytes)

    def sector_bytes(self, nbytes: int) -> int:
        """Return about how many bytes the sectors have in which elements take part."""
        return sector_bytes_of(((column.size, column.stride) for column in self._dims), nbytes)

    def time(self, nbytes: int, *, is_processor: bool) -> float:
        """Return about how long it takes to read memory so, as the bytes that are read meanwhile."""
        read = self.read_bytes(nbytes)
        time = read + self.columns * _COLUMN_BYTES
        if is_processor:
            return time
        return time + read * (self._times(nbytes) - 1) + math.sqrt(self.stretches) * _STRETCH_BYTES

    def _times(self, nbytes: int) -> float:
        """Return how many times as long as to read as much in aligned blocks a GPU takes."""
        if not self.is_aligned:
            return _UNALIGNED[nbytes]
        is_nearly_all = self.part * nbytes + SECTOR_BYTES > _NEARLY_ALL * self.block * nbytes
        return _OF_NEARLY_ALL if self.part and is_nearly_all else 1

    @property
    def has_gaps(self) -> bool:
        """Whether blocks have gaps, read or not."""
        return self.part > 0 or self.read > self.elements

    @property
    def is_apart(self) -> bool:
        """Whether there are gaps anywhere, in blocks or between stretches."""
        run = 1
        for column in self._dims:
            if column.stride != run:
                return True
            run *= column.size
        return False


def columns_of(layout: ReduceLayout) -> list[Column]:
    """Return all dimensions, those of outputs and of positions, the innermost in memory first."""
    columns = [
        Column(dim.size, dim.input_stride, 0, number)
        for number, dim in enumerate(layout.kept)
        if dim.input_stride
    ]
    columns += [
        Column(dim.size, dim.input_stride, dim.output_stride, -1) for dim in layout.reading_order.dims
    ]
    return sorted(columns, key=lambda column: column.stride)


def repetitions(layout: ReduceLayout, per_vector: int, *, gaps: bool) -> Iterator[Repetition]:
    """Yield a way for each reduced dimension that repeats a block of memory, with gaps in it or without."""
    columns, extent = columns_of(layout), 1
    for place, column in enumerate(columns):
        if column.stride < extent or (column.stride > extent and not gaps):
            return
        extent += (column.size - 1) * column.stride
        if column.kept < 0:
            copies = per_vector // math.gcd(column.stride, per_vector)
            inner, outer = tuple(columns[:place]), tuple(columns[place + 1 :])
            yield Repetition(column.size, column.stride, column.weight, copies, inner, outer, extent)


def partial_repetitions(layout: ReduceLayout, per_vector: int) -> Iterator[Repetition]:
    """Yield ways to read parts of the blocks that a reduced dimension repeats.

    A part extends along some of the innermost dimensions, with the gaps in it. The others are of stretches;
    these do not share sectors.
    """
    columns, per_sector = columns_of(layout), per_vector * SECTOR_BYTES // VECTOR_BYTES
    for repeated in columns:
        if repeated.kept >= 0 or repeated.stride < per_vector:
            continue
        others, part = [column for column in columns if column is not repeated], 1
        for place, column in enumerate(others):
            part += (column.size - 1) * column.stride
            if part >= repeated.stride:
                break
            inner, outer = tuple(others[: place + 1]), tuple(others[place + 1 :])
            if all(other.stride >= part + per_sector for other in outer):
                yield Repetition(
                    *(repeated.size, repeated.stride, repeated.weight, 1, inner, outer),
                    (repeated.size - 1) * repeated.stride + part,
                    is_aligned=repeated.stride % per_vector == 0,
                    part=part,
                )


def best_repetition(
    layout: ReduceLayout, element: ElementType, input_bytes: int, *, is_only_way: bool = False
) -> Repetition | None:
    """Return the way without gaps in blocks that has the fewest columns; None if their candidates do not fit.

    Args:
        layout: of the reduction.
        element: what is reduced.
        input_bytes: of the input buffer.
        is_only_way: whether nothing else reads memory in order, so that there may be as many columns as
            fit, and loads that start at any element.
    """
    per_vector = VECTOR_BYTES // element.nbytes
    ways = list(repetitions(layout, per_vector, gaps=False))
    if is_only_way:
        ways += _unaligned(ways, per_vector)
    # Otherwise other kernels are faster where there are so many columns.
    each = column_words(element) if is_only_way else candidate_words(element)
    good = (repetition for repetition in ways if _fits(repetition, element, input_bytes, each))
    return min(good, key=lambda way: (not way.is_aligned, way.columns), default=None)


def ways_with_gaps(
    layout: ReduceLayout, element: ElementType, input_bytes: int, *, unaligned: bool
) -> Iterator[Repetition]:
    """Yield the ways to read memory with gaps, in blocks or between them, whose candidates fit.

    Arguments are those of :func:`best_repetition`; with ``unaligned``, loads may start at any element.
    """
    ways = (way for way in all_ways(layout, element) if way.is_apart and (unaligned or way.is_aligned))
    return (way for way in ways if parts_that_fit(way, element, input_bytes) == 1)


def all_ways(layout: ReduceLayout, element: ElementType) -> list[Repetition]:
    """Return all ways, also those whose candidates do not fit."""
    per_vector = VECTOR_BYTES // element.nbytes
    whole = list(repetitions(layout, per_vector, gaps=True))
    ways = (*whole, *_unaligned(whole, per_vector), *_partial(layout, per_vector))
    return [way for way in ways if _is_possible(way)]


def parts_that_fit(repetition: Repetition, element: ElementType, input_bytes: int) -> int:
    """Return into how many parts its candidates would have to be divided to fit the scratch memory."""
    return ceil_div(_candidates_words(repetition, element, column_words(element)), scratch_words(input_bytes))


def _partial(layout: ReduceLayout, per_vector: int) -> Iterator[Repetition]:
    """Yield the ways to read parts of blocks; none if nothing lies between the elements."""
    columns = columns_of(layout)
    if math.prod(column.size for column in columns) <= sum((c.size - 1) * c.stride for c in columns):
        yield from partial_repetitions(layout, per_vector)


def _unaligned(ways: Iterable[Repetition], per_vector: int) -> list[Repetition]:
    """Return the ways whose aligned periods have several blocks, with loads that start at any element.

    The last vector of a period extends into the next one at most.
    """
    longer = (way for way in ways if way.copies > 1 and way.block >= per_vector)
    return [replace(way, copies=1, is_aligned=False) for way in longer]


def _is_possible(repetition: Repetition) -> bool:
    """Whether the kernels count so far."""
    return (
        len(repetition.outer) * kernels.number("copied_dim_words") <= PERIODS.layout_room
        and repetition.stretch + 2 * repetition.run < WORDS_LIMIT
        and repetition.size >= _FEWEST_PERIODS * repetition.copies
    )


def _candidates_words(repetition: Repetition, element: ElementType, candidate: int) -> int:
    """Return the words of all candidates, each of so many."""
    splits = ceil_div(repetition.size, repetition.copies * NARROW_STEPS) if element.nbytes < 4 else 1
    return repetition.columns * splits * candidate


def _fits(repetition: Repetition, element: ElementType, input_bytes: int, candidate: int) -> bool:
    """Whether it is possible, and scratch memory has room for candidates of so many words."""
    if not _is_possible(repetition):
        return False
    return _candidates_words(repetition, element, candidate) <= scratch_words(input_bytes)


def in_whole_lines(repetition: Repetition, element: ElementType, input_bytes: int) -> Repetition:
    """Return it with periods of whole lines of a GPU, so that no block of a period has parts of lines.

    That takes 0.91 to 1.0 of the time (H100).
    """
    run_bytes = repetition.run * element.nbytes
    shortest, longest = _PERIODS_OF_LINES
    is_of_length = (
        repetition.is_aligned and not repetition.part and shortest <= run_bytes // VECTOR_BYTES <= longest
    )
    if not is_of_length or repetition.stretches > _STRETCHES_OF_LINES:
        return repetition
    runs_of_lines = GPU_LINE_BYTES // math.gcd(run_bytes, GPU_LINE_BYTES)
    longer = replace(repetition, copies=repetition.copies * runs_of_lines)
    return longer if _fits(longer, element, input_bytes, candidate_words(element)) else repetition


def column_words(element: ElementType) -> int:
    """Return the words of a column's candidate; the rank of a narrow element counts within a split."""
    return candidate_words(element) if element.nbytes >= 4 else 1
