"""Planning reductions of short blocks of memory that repeat again and again, read a period at a time.

One reduced dimension repeats a block of memory. All other dimensions, kept or reduced, are columns. A first
kernel finds the best of each column, a second one the best of the columns that belong to one output. Along
one dimension positions ascend or descend, so the others may lie in memory in any order. A block may have
gaps: what lies in them is read, too, and has columns of its own, which belong to no output. If gaps are wide,
only a part of each block is read, or several parts as stretches of their own. ``periodic.py`` says which
reductions are read so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.loop_steps import PeriodLoops
from vkdml.plan.order import Order
from vkdml.plan.plans import (
    GPU_LINE,
    LINE,
    SECTOR_BYTES,
    VECTOR_BYTES,
    WORDS_LIMIT,
    DeviceLimits,
    Plan,
    Step,
    check_work,
    checked_step,
    dim_words,
    power_of_two_at_least,
    words,
)
from vkdml.plan.reduce.reductions import (
    NARROW_SHARE,
    Results,
    bases,
    buffer_bytes,
    candidate_words,
    columns_workgroups,
    dimension_words,
    fixed_flags,
    order_rules,
    scratch_words,
    settled_splits,
    whole_waves,
    workgroups_at_once,
)
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import PeriodTuning

CANDIDATES_AT_ONCE = kernels.number("candidates_at_once")
# Vectors. A workgroup reads so many side by side at least, where a period is longer.
FEWEST_VECTORS = 16
# Longer periods are read in pieces of so many vectors, by element width.
_LONG_PERIOD = 128
_PIECE = {1: 16, 2: 16, 4: 32, 8: 32}
# Vectors. Blocks of a longer period share few lines.
_SHORT_PERIOD = 256
# Of `positions_per_split` periods, which an invocation of a short period folds at least: fewer are less work
# than the exchange.
FOLDED_PERIODS = 4
# Fewer periods would leave too many candidates.
FEWEST_PERIODS = 4
# Vectors of a period that becomes one of whole lines: shorter ones are read side by side, and of longer ones
# there would be too many candidates. More stretches start within lines in any case.
_PERIODS_OF_LINES = 48, 1024
_STRETCHES_OF_LINES = 8
# Times as long as aligned vectors take those that start at any element, by element width.
_UNALIGNED = {1: 1.3, 2: 1.2, 4: 1.1, 8: 1.1}
# Periods of a split of narrow elements, whose candidates' ranks count one more.
NARROW_STEPS = NARROW_SHARE - 1
# Bytes that are read in the time that the candidate of a column takes.
_COLUMN_BYTES = 64
_PERIODS = kernels.family("argreduce_periods")
_COMBINE = kernels.family("argreduce_combine")


@dataclass(frozen=True)
class _Column:
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
    inner: tuple[_Column, ...]
    """The dimensions of the block, the innermost first."""
    outer: tuple[_Column, ...]
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
    def elements(self) -> int:
        """Those that take part."""
        return self.size * math.prod(column.size for column in (*self.inner, *self.outer))

    @property
    def read(self) -> int:
        """Elements that are read: more than take part where blocks have gaps."""
        return (self.size * self.part or self.stretch) * self.stretches

    def read_bytes(self, nbytes: int) -> int:
        """Return the bytes that are read of elements of so many; a part begins and ends within a line."""
        if not self.part:
            return self.read * nbytes
        nearest = min([self.block, *(column.stride for column in self.outer)])
        return self.size * self.stretches * min(self.part * nbytes + LINE, nearest * nbytes)

    def sector_bytes(self, nbytes: int) -> int:
        """Return about how many bytes the sectors have in which elements take part."""
        repeated = _Column(self.size, self.block, self.weight, -1)
        pieces, piece = 1, nbytes
        for column in sorted((*self.inner, repeated, *self.outer), key=lambda column: column.stride):
            stride = column.stride * nbytes
            if stride - piece < SECTOR_BYTES:
                piece += (column.size - 1) * stride
            else:
                pieces *= column.size
        return pieces * round_up(piece, SECTOR_BYTES)

    def read_time(self, nbytes: int) -> float:
        """Return about how long it takes a GPU to read memory so, as the bytes that it reads meanwhile."""
        times = 1 if self.is_aligned else _UNALIGNED[nbytes]
        return self.read_bytes(nbytes) * times + self.columns * _COLUMN_BYTES

    @property
    def has_gaps(self) -> bool:
        """Whether blocks have gaps, read or not."""
        return self.part > 0 or self.read > self.elements

    @property
    def is_apart(self) -> bool:
        """Whether there are gaps anywhere, in blocks or between stretches."""
        run = 1
        for column in (*self.inner, _Column(self.size, self.block, self.weight, -1), *self.outer):
            if column.stride != run:
                return True
            run *= column.size
        return False


def _columns(layout: ReduceLayout) -> list[_Column]:
    """Return all dimensions, those of outputs and of positions, the innermost in memory first."""
    columns = [
        _Column(dim.size, dim.input_stride, 0, number)
        for number, dim in enumerate(layout.kept)
        if dim.input_stride
    ]
    columns += [
        _Column(dim.size, dim.input_stride, dim.output_stride, -1) for dim in layout.reading_order.dims
    ]
    return sorted(columns, key=lambda column: column.stride)


def repetitions(layout: ReduceLayout, per_vector: int, *, gaps: bool) -> Iterator[Repetition]:
    """Yield a way for each reduced dimension that repeats a block of memory, with gaps in it or without."""
    columns, extent = _columns(layout), 1
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
    columns, per_sector = _columns(layout), per_vector * SECTOR_BYTES // VECTOR_BYTES
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
    layout: ReduceLayout, element: ElementType, input_bytes: int, *, gaps: bool, unaligned: bool = False
) -> Repetition | None:
    """Return the way with the fewest columns whose candidates fit the scratch memory, if there is one.

    Args:
        layout: of the reduction.
        element: what is reduced.
        input_bytes: of the input buffer.
        gaps: whether blocks may have gaps.
        unaligned: whether loads of these may start at any element, where columns would be too many else.
    """
    per_vector = VECTOR_BYTES // element.nbytes
    ways = list(repetitions(layout, per_vector, gaps=gaps))
    if unaligned:
        # The last vector of a period extends into the next one at most.
        longer = [way for way in ways if way.copies > 1 and way.has_gaps and way.block >= per_vector]
        ways += [replace(way, copies=1, is_aligned=False) for way in longer]
    # Without gaps other kernels are faster where there are so many columns.
    each = column_words(element) if gaps else candidate_words(element)
    good = (repetition for repetition in ways if _fits(repetition, element, input_bytes, each))
    return min(good, key=lambda way: (not way.is_aligned, way.columns), default=None)


def best_parts(
    layout: ReduceLayout, element: ElementType, input_bytes: int, *, unaligned: bool
) -> Repetition | None:
    """Return the fastest way to read parts of blocks, if there is one: see :func:`best_repetition`."""
    columns = _columns(layout)
    if math.prod(column.size for column in columns) > sum((c.size - 1) * c.stride for c in columns):
        return None  # nothing lies between the elements
    good = (
        way
        for way in partial_repetitions(layout, VECTOR_BYTES // element.nbytes)
        if (way.is_aligned or unaligned) and _fits(way, element, input_bytes, column_words(element))
    )
    return min(good, key=lambda way: way.read_time(element.nbytes), default=None)


def _fits(repetition: Repetition, element: ElementType, input_bytes: int, candidate: int) -> bool:
    """Whether the kernels count so far, and scratch memory has room for candidates of so many words."""
    splits = ceil_div(repetition.size, repetition.copies * NARROW_STEPS) if element.nbytes < 4 else 1
    return (
        len(repetition.outer) * kernels.number("copied_dim_words") <= _PERIODS.layout_room
        and repetition.stretch + 2 * repetition.run < WORDS_LIMIT
        and repetition.size >= FEWEST_PERIODS * repetition.copies
        and repetition.columns * splits * candidate <= scratch_words(input_bytes)
    )


def _in_whole_lines(repetition: Repetition, element: ElementType, input_bytes: int) -> Repetition:
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
    longer = replace(repetition, copies=repetition.copies * (GPU_LINE // math.gcd(run_bytes, GPU_LINE)))
    return longer if _fits(longer, element, input_bytes, candidate_words(element)) else repetition


def column_words(element: ElementType) -> int:
    """Return the words of a column's candidate; the rank of a narrow element counts within a split."""
    return candidate_words(element) if element.nbytes >= 4 else 1


@dataclass(frozen=True)
class _Division:
    """How the work of the first kernel is divided."""

    groups_per_block: int
    lanes: int
    blocks: int
    splits: int
    periods_per_split: int
    loop_steps: int


def _at_once(repetition: Repetition, limits: DeviceLimits) -> int:
    numbers = _PERIODS.numbers_of("at_once", loads=_loads(repetition))
    return numbers[-1 if limits.tuning.batched_loads else 0]


def _loads(repetition: Repetition) -> str:
    return "vectors" if repetition.is_aligned else "unaligned"


def _has_short_splits(input_bytes: int, tuning: PeriodTuning) -> bool:
    """Whether a processor reads so much that workgroups which share lines had better do so soon."""
    return 0 < 4 * tuning.split_bytes < input_bytes


def _division(
    repetition: Repetition, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> _Division:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    per_vector = VECTOR_BYTES // element.nbytes
    vectors = repetition.vectors(per_vector)
    groups = vectors * repetition.stretches
    periods = repetition.periods(per_vector)
    fewest, at_once = tuning.positions_per_split, workgroups_at_once(element, tuning)
    room = scratch_words(input_bytes) // (column_words(element) * repetition.columns)
    if vectors <= FEWEST_VECTORS and vectors <= workgroup_size:
        # Whole periods, of several stretches where these are short.
        lanes = max(min(workgroup_size // vectors, ceil_div(periods, FOLDED_PERIODS * fewest)), 1)
        side = min(workgroup_size // lanes // vectors, repetition.stretches)
        workgroups = columns_workgroups(input_bytes, tuning)
        if ceil_div(repetition.stretches, side) < workgroups:
            side = max(side * ceil_div(repetition.stretches, side) // workgroups, 1)
        groups_per_block = side * vectors
    else:
        is_short = vectors * VECTOR_BYTES <= tuning.periods.short_bytes
        segment = tuning.periods.short_segment_bytes if is_short else tuning.periods.segment_bytes
        side_by_side = segment // VECTOR_BYTES
        piece = _PIECE[element.nbytes]
        groups_per_block = _side(vectors, piece, min(workgroup_size, side_by_side))
        # Narrower blocks fill a device with fewer splits, where scratch memory has room for few.
        while groups_per_block >= 2 * piece and ceil_div(groups, groups_per_block) * room < at_once:
            groups_per_block = ceil_div(groups_per_block, 2)
    lanes = max(min(workgroup_size // groups_per_block, periods // fewest), 1)
    blocks = ceil_div(groups, groups_per_block)
    most = max(min(periods, room), 1)
    longest = max(min(most, periods // (fewest * lanes)), 1)
    candidate_bytes = repetition.columns * column_words(element) * 4
    shares = (periods / lanes, candidate_bytes / input_bytes)
    wanted = whole_waves(blocks, longest, *shares, at_once)
    if groups_per_block < vectors <= _SHORT_PERIOD and _has_short_splits(input_bytes, tuning.periods):
        # Blocks of a period, which share lines, follow each other within a split.
        stretch_bytes = repetition.stretch * element.nbytes
        # Each workgroup reads enough that to start and finish it is a small part of its time.
        of_workgroups = ceil_div(vectors, groups_per_block) * tuning.split_bytes // 2
        split_bytes = max(tuning.periods.split_bytes, of_workgroups)
        wanted = max(wanted, min(ceil_div(stretch_bytes, split_bytes), longest))
    if element.nbytes < 4:
        wanted = max(wanted, ceil_div(periods, NARROW_STEPS))

    def loop_steps(splits: int) -> int:
        loops = PeriodLoops(workgroup_size, limits.max_workgroup_count)
        share = ceil_div(periods, splits)
        return loops.periods(
            *(blocks * splits, len(repetition.outer), share, lanes),
            *(_at_once(repetition, limits), per_vector),
        )

    splits, share = settled_splits(wanted, most, periods, blocks, loop_steps, limits)
    return _Division(groups_per_block, lanes, blocks, splits, share, loop_steps(splits))


def _side(vectors: int, piece: int, most: int) -> int:
    """Return how many vectors of a period a workgroup reads side by side, such that few invocations idle."""

    def busy(side: int) -> float:
        return vectors / (ceil_div(vectors, side) * side) * (most // side * side) / most

    if vectors > _LONG_PERIOD:
        return min(piece, most)
    parts = (ceil_div(vectors, count) for count in range(1, vectors // FEWEST_VECTORS + 1))
    return max(
        (side for side in parts if side <= most), key=lambda side: (round(busy(side), 1), side), default=most
    )


@dataclass(frozen=True)
class _CombineDivision:
    """How the work of the second kernel is divided."""

    lanes: int
    blocks: int
    splits: int
    candidates_per_split: int
    loop_steps: int


def _combine_division(layout: ReduceLayout, dims: list[Dim], limits: DeviceLimits) -> _CombineDivision:
    tuning, workgroup_size, outputs = limits.tuning, limits.workgroup_size, layout.outputs
    candidates = math.prod(dim.size for dim in dims)
    most = power_of_two_at_least(ceil_div(candidates, CANDIDATES_AT_ONCE))
    filling = ceil_div(tuning.target_workgroups * workgroup_size, outputs)
    lanes = min(workgroup_size, most, power_of_two_at_least(filling))
    blocks = ceil_div(outputs, workgroup_size // lanes)

    def loop_steps(splits: int) -> int:
        loops = PeriodLoops(workgroup_size, limits.max_workgroup_count)
        counts = (len(layout.kept), len(layout.reduced), len(dims))
        return loops.combine(blocks, splits, *counts, ceil_div(candidates, splits), lanes)

    most = ceil_div(candidates, lanes * CANDIDATES_AT_ONCE)
    wanted = min(ceil_div(tuning.target_workgroups, blocks), most)
    splits, share = settled_splits(wanted, most, candidates, blocks, loop_steps, limits)
    return _CombineDivision(lanes, blocks, splits, share, loop_steps(splits))


def plan_repetition(
    repetition: Repetition,
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan:
    """Plan a reduction that reads the input this way.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    element = order.element_type
    if not limits.tuning.is_processor:
        repetition = _in_whole_lines(repetition, element, input_bytes)
    check_work("columns", repetition.columns)
    division = _division(repetition, element, input_bytes, limits)
    # Ranks of narrow elements count within a split, others from the first on.
    first_of_split = division.periods_per_split if element.nbytes < 4 else 0
    strides, dims = _candidate_dims(repetition, division.splits, first_of_split)
    combine = _combine_division(layout, dims, limits)

    # The workspace: layout, counters of the second kernel, its candidates, those of the first.
    kept_strides = (strides.get(number, 0) for number in range(len(layout.kept)))
    layout_words = (*dimension_words(layout), *words(kept_strides), *dim_words(reversed(dims)))
    placed = _COMBINE.placed(layout_words)
    counters_base = len(placed.stored)
    counters = combine.blocks if combine.splits > 1 else 0
    combined = layout.outputs * combine.splits if combine.splits > 1 else 0
    candidates_base = counters_base + counters + combined * candidate_words(element)

    rules: dict[str, int | str] = {
        "workgroup": limits.workgroup_size,
        **order_rules(layout, order),
    }
    common = {
        **results.flags,
        "run": repetition.run,
        "tiles_per_run": 0,
        "tile_vectors": 0,
    }
    # The splits of the first kernel do not change its code, nor do the results.
    own = {"layout_in_push": True, "positions_adjacent": False}
    in_memory = layout.reading_order
    descends = repetition.weight < 0
    starts = bases(layout)
    kernel, constants = _PERIODS.specialize(
        **element.specialization,
        **{**rules, "take_last": rules["take_last"] != descends},
        split=False,
        reads_parts=repetition.part > 0,
        loads=_loads(repetition),
        at_once=_at_once(repetition, limits),
        fixed_flags=fixed_flags(_PERIODS, own, input_bytes, limits),
    )
    per_vector = VECTOR_BYTES // element.nbytes
    first = Step(
        kernel,
        constants,
        _PERIODS.push(
            **common,
            **{**starts, "input_base": starts["input_base"] + in_memory.input_offset},
            **own,
            lanes=division.lanes,
            outputs=repetition.columns,
            reduce_count=repetition.periods(per_vector),
            splits=division.splits,
            kept_dims=len(repetition.outer),
            reduced_dims=0,
            scratch_base=candidates_base,
            positions_per_split=division.periods_per_split,
            stretch=repetition.stretch,
            width=repetition.width,
            groups_per_block=division.groups_per_block,
            layout_words=words(
                word for column in reversed(repetition.outer) for word in (column.size, column.stride, 0)
            ),
        ),
        min(division.blocks * division.splits, limits.max_workgroup_count),
        loop_steps=division.loop_steps,
    )
    nearest = dims[0].input_stride if dims else 0
    own = {
        "layout_in_push": placed.in_push,
        "positions_adjacent": not strides or nearest < min(strides.values()),
    }
    kernel, constants = _COMBINE.specialize(
        **{**element.specialization, **rules, "keys": "integer"},
        steps_descend=descends,
        split=combine.splits > 1,
        fixed_flags=fixed_flags(_COMBINE, {**own, **results.flags}, input_bytes, limits),
    )
    second = Step(
        kernel,
        constants,
        _COMBINE.push(
            **common,
            **starts,
            **own,
            lanes=combine.lanes,
            outputs=layout.outputs,
            reduce_count=layout.reduce_count,
            splits=combine.splits,
            kept_dims=len(layout.kept),
            reduced_dims=len(layout.reduced),
            scratch_base=counters_base,
            positions_per_split=combine.candidates_per_split,
            candidates=math.prod(dim.size for dim in dims),
            candidate_dims=len(dims),
            first_position=in_memory.position,
            repeated_weight=repetition.weight * repetition.copies % WORDS_LIMIT,
            candidates_base=candidates_base,
            layout_words=placed.pushed,
        ),
        min(combine.blocks * combine.splits, limits.max_workgroup_count),
        loop_steps=combine.loop_steps,
    )
    workspace = candidates_base + repetition.columns * division.splits * column_words(element)
    return Plan(
        (checked_step(first, limits), checked_step(second, limits)),
        buffer_bytes(element, input_bytes, results, workspace),
        placed.stored,
        counters,
    )


def _candidate_dims(
    repetition: Repetition, splits: int, periods_apart: int
) -> tuple[dict[int, int], list[Dim]]:
    """Return the candidates' strides by kept dimension, and the dimensions of the candidates of one output.

    The latter have the innermost first; their inputs are candidates, and their outputs positions.
    """
    placed, stride = [(column, column.stride) for column in repetition.inner], repetition.width
    copies = [Dim(repetition.copies, repetition.block, repetition.weight)]
    weight = periods_apart * repetition.copies * repetition.weight
    of_splits = Dim(splits, repetition.columns, weight)
    for column in repetition.outer:
        placed.append((column, stride))
        stride *= column.size
    reduced = [Dim(column.size, at, column.weight) for column, at in placed if column.kept < 0]
    dims = sorted([*reduced, *copies, of_splits], key=lambda dim: dim.input_stride)
    return {column.kept: at for column, at in placed if column.kept >= 0}, [
        dim for dim in dims if dim.size > 1
    ]
