"""Reductions across a stride: how their work is divided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import NO_DIM, ReduceLayout, contiguous
from vkdml.plan.plans import VECTOR_BYTES, power_of_two_at_least
from vkdml.plan.reduce.column_costs import NARROWEST_SEGMENT, SMALL_POSITIONS_PER_SPLIT, ColumnWork
from vkdml.plan.reduce.near_columns import NearColumns
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    ELEMENT_LOADS,
    VECTOR_LOADS,
    candidate_words,
    columns_workgroups,
    least_splits,
    most_splits,
    settled_splits,
    whole_waves,
    workgroups_at_once,
    worthwhile_workgroups,
)
from vkdml.plan.reduce.work_division import WorkDivision, are_multiples, loops_of
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import Tuning

# Vectors of a row from which on indices are stored in vectors, wherever the row starts.
LED_GROUPS = kernels.number("led_groups")
# Workgroups of single bytes read so many times as many.
_TIMES_AS_MUCH = 2
# The fewest positions of an innermost dimension that has others beside it, for a processor to read columns in
# vectors.
_FEWEST_BESIDE = 64
# The most positions of an innermost dimension that an invocation of a processor takes whole: lanes that share
# longer ones find fewer places.
_LONGEST_WHOLE = 64
# So many times as many positions of narrow elements where outputs lie in another order: each of a vector's
# many is written far from the next one.
_TIMES_ACROSS = 4
# The fewest positions of unaligned rows whose outputs lie apart.
_FEWEST_APART = 32
# Single bytes with at most so many positions are loaded in pairs of words, by twice as many invocations: to
# find and to write their indices takes longer than to load them.
_MOST_POSITIONS_IN_PAIRS = 9
_WORDS_OF_VECTOR = VECTOR_BYTES // 4
_FAMILY = kernels.family("argreduce_columns")


@dataclass(frozen=True)
class _Groups:
    """The columns that an invocation loads together: a vector of them, half of one, or one."""

    count: int
    columns: int
    """Of a group."""
    loads: str
    run: int
    """Columns side by side, which are divided among groups."""
    columns_apart: bool
    """Whether those are side by side in the input, but not in the output."""
    vector_words: int = _WORDS_OF_VECTOR
    """Of a group, where it is no single column."""


def _groups(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> _Groups:
    """Return vectors where columns lie side by side, and single columns elsewhere."""
    inner = layout.kept[-1] if layout.kept else NO_DIM
    in_pairs = are_in_pairs(layout.reduce_count, element.nbytes, tuning)
    vector_words = 2 if in_pairs else _WORDS_OF_VECTOR
    per_vector = 4 * vector_words // element.nbytes
    run, in_run = contiguous(layout.kept)
    may_be_apart = tuning.columns_apart or inner.size < per_vector
    if not (may_be_apart or _are_faster_apart(layout, element, in_run)):
        run, in_run = inner.size, 1
    if inner.input_stride != 1 or run < per_vector:
        return _Groups(layout.outputs, 1, "elements", 1, columns_apart=False)
    is_aligned, columns_apart = are_multiples(layout.starts_of_rows(in_run), per_vector), in_run > 1
    # Groups of long unaligned runs start where their indices fill vectors: one more has what lies before.
    leads = (
        not is_aligned and not columns_apart and run >= LED_GROUPS * per_vector and inner.output_stride == 1
    )
    groups_of_run = 1 + ceil_div(run - 1, per_vector) if leads else ceil_div(run, per_vector)
    loads = "vectors" if is_aligned else "unaligned"
    return _Groups(layout.outputs // run * groups_of_run, per_vector, loads, run, columns_apart, vector_words)


def are_in_pairs(positions: int, nbytes: int, tuning: Tuning) -> bool:
    """Whether columns that have so many positions are loaded in pairs of words.

    Single bytes take 0.76 to 1.05 of the time so (H200, 130 stacks, 0.92 in the mean); halves take longer.
    """
    return nbytes == 1 and positions <= _MOST_POSITIONS_IN_PAIRS and not tuning.is_processor


def _are_faster_apart(layout: ReduceLayout, element: ElementType, in_run: int) -> bool:
    """Whether a GPU loads unaligned rows as the longer ones that they make up, with outputs far apart.

    Narrow elements in rows of less than two vectors fill these in part, and longer rows may be aligned: 0.48
    to 1.10 of the time (57 reductions on an H200). With few positions, it takes longer to write the outputs.
    Words gain less, and so do bytes in rows that are aligned together.

    Args:
        layout: with kept dimensions.
        element: its elements.
        in_run: how many of these make up a longer row.
    """
    nbytes, per_vector = element.nbytes, VECTOR_BYTES // element.nbytes
    if layout.reduce_count < _FEWEST_APART or are_multiples(layout.row_starts, per_vector):
        return False
    are_aligned = are_multiples(layout.starts_of_rows(in_run), per_vector)
    return (nbytes in (2, 8) and are_aligned) or (nbytes < 4 and layout.kept[-1].size < 2 * per_vector)


def are_fast_vectors(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> bool:
    """Whether a processor reads columns of aligned rows in vectors: walks, tiles and periods take longer.

    With enough positions vectors take 0.45 to 1.0 of the time.

    Args:
        layout: canonical.
        element: its elements.
        tuning: of the device.
    """
    fewest = dict(tuning.vector_positions).get(element.nbytes)
    if fewest is None or not layout.kept:
        return False
    if element.nbytes < 4 and not layout.outputs_follow_input:
        fewest *= _TIMES_ACROSS
    positions = layout.reduced[-1]
    if positions.size < (fewest if len(layout.reduced) == 1 else max(fewest, _FEWEST_BESIDE)):
        return False
    near, per_vector = layout.kept[-1], VECTOR_BYTES // element.nbytes
    return near.input_stride == 1 and near.size >= per_vector and are_multiples(layout.row_starts, per_vector)


def column_division(reduction: Reduction, *, with_values: bool) -> WorkDivision:
    """Return how the outputs, and the positions of each, are divided among invocations and workgroups."""
    return replace(_Columns.of(reduction), with_values=with_values).division()


@dataclass(frozen=True)
class _Columns(Reduction):
    """A reduction along a stride."""

    with_values: bool = False

    @cached_property
    def _groups(self) -> _Groups:
        return _groups(self.layout, self.element, self.limits.tuning)

    @cached_property
    def _near(self) -> NearColumns | None:
        """Which positions of the columns lie near each other; None on a processor."""
        if self.limits.tuning.is_processor:
            return None
        nbytes, groups = self.element.nbytes, self._groups
        return NearColumns(self.layout.reduced, nbytes, groups.run, groups.columns, self.input_bytes)

    @cached_property
    def _are_positions_nearest(self) -> bool:
        """Whether neighbouring positions are nearer to each other than neighbouring columns."""
        inner = self.layout.kept[-1] if self.layout.kept else NO_DIM
        stride = abs(self.layout.reduced[-1].input_stride)
        return self.layout.outputs == 1 or 0 < stride < abs(inner.input_stride)

    @cached_property
    def _at_once(self) -> int:
        """Loads along a stride that an invocation may have in flight."""
        return ELEMENT_LOADS if self._groups.loads == "elements" else VECTOR_LOADS

    @cached_property
    def _most_lanes(self) -> int:
        positions = ceil_div(self.layout.reduce_count, self.limits.tuning.positions_per_lane)
        return power_of_two_at_least(positions)

    @cached_property
    def _least_splits(self) -> int:
        return least_splits(self.layout.reduce_count, self.element)

    def _most_splits(self, lanes: int, positions_per_split: int) -> int:
        """Return the most splits, so that each lane has enough positions and their candidates have room."""
        tuning, groups = self.limits.tuning, self._groups
        columns = min(self.limits.workgroup_size // lanes, groups.count) * groups.columns
        return min(
            ceil_div(self.layout.reduce_count, positions_per_split * lanes),
            max(tuning.most_candidates // columns, 1),
            most_splits(self.layout.outputs, self.element, self.input_bytes),
        )

    def _cheapest(self) -> tuple[int, int]:
        """Return the lanes and splits that take a GPU the least time."""
        work = ColumnWork(
            loads=self._groups.loads,
            groups=self._groups.count,
            columns=self._groups.columns,
            positions=self.layout.reduce_count,
            outputs=self.layout.outputs,
            element=self.element,
            row_bytes=self._groups.run * self.element.nbytes,
            are_matrices=self._lie_beside or abs(self.layout.reduced[-1].input_stride) == self._groups.run,
            omits_nan=self.order.omit_nan,
            with_values=self.with_values,
            workgroup_size=self.limits.workgroup_size,
            tuning=self.limits.tuning,
        )
        positions = SMALL_POSITIONS_PER_SPLIT if work.is_small else self.limits.tuning.positions_per_split
        most_splits = partial(self._most_splits, positions_per_split=positions)
        return work.cheapest_division(self._most_lanes, self._least_splits, most_splits)

    def _filling(self) -> tuple[int, int]:
        """Return the lanes and splits that fill a processor, or a GPU that loads single elements."""
        tuning, workgroup_size, nbytes = self.limits.tuning, self.limits.workgroup_size, self.element.nbytes
        groups, load_bytes = self._groups.count, self._groups.columns * nbytes
        workgroups = columns_workgroups(self.input_bytes, tuning, _TIMES_AS_MUCH if nbytes == 1 else 1)
        worthwhile = worthwhile_workgroups(self.layout, self.element, tuning)
        workgroups = min(workgroups, worthwhile)
        filling = ceil_div(workgroups * workgroup_size, groups)
        segment = max(tuning.columns_segment_bytes, load_bytes)
        enough = min(tuning.split_workgroups, worthwhile)
        while True:
            side_by_side = 1 if self._are_positions_nearest else segment // load_bytes
            side_by_side = min(side_by_side, power_of_two_at_least(groups), workgroup_size)
            lanes = min(workgroup_size // side_by_side, self._most_lanes, power_of_two_at_least(filling))
            blocks = ceil_div(groups, workgroup_size // lanes)
            splits = ceil_div(workgroups, blocks)
            if tuning.is_processor:  # to divide what nearly fills it takes longer
                splits = max(workgroups // blocks, 1)
                enough = min(enough, blocks * splits)
            longest = self._most_splits(lanes, tuning.positions_per_split)
            if splits > 1 and not tuning.is_processor and nbytes >= 4:
                candidates = self.layout.outputs * candidate_words(self.element) * 4 / self.input_bytes
                at_once = workgroups_at_once(self.element, tuning)
                splits = whole_waves(blocks, longest, self.layout.reduce_count / lanes, candidates, at_once)
            splits = min(splits, longest)
            # A narrower block has fewer candidates to combine, so there may be more splits.
            if self._are_positions_nearest or segment <= NARROWEST_SEGMENT or blocks * splits >= enough:
                return lanes, splits
            segment //= 2

    def _takes_whole_segments(self, lanes: int, splits: int) -> bool:
        """Whether each lane takes the innermost dimension whole.

        On GPUs: where it is few loads for each, or lanes together read what is near then. On processors:
        where it is short. Each place along the others is found by divisions, once for a lane then.
        """
        innermost, share = self.layout.reduced[-1].size, self.layout.reduce_count // splits
        if self.limits.tuning.is_processor:
            is_short = len(self.layout.reduced) > 1 and innermost <= _LONGEST_WHOLE
            return is_short and lanes > 1 and share >= innermost * lanes
        if self._are_positions_nearest or lanes == 1:
            return False
        if self._lie_beside:
            return 2 * share > innermost * lanes  # most lanes have one
        are_few = innermost < lanes * self._at_once and share >= innermost * lanes
        return are_few and len(self.layout.reduced) > 1

    @property
    def _lie_beside(self) -> bool:
        """Whether the innermost dimension lies far apart, and positions along the next one near."""
        return self._near is not None and self._near.beside > 0

    def _lanes_and_splits(self) -> tuple[int, int]:
        is_by_cost = self._groups.columns > 1 and not self.limits.tuning.is_processor
        lanes, splits = self._cheapest() if is_by_cost else self._filling()
        fewest = 1 if self._near is None else self._near.fewest_lanes
        fewest = min(fewest, self._most_lanes, self.limits.workgroup_size)
        if fewest <= lanes:
            return lanes, splits
        lanes = fewest
        return lanes, min(splits, self._most_splits(lanes, self.limits.tuning.positions_per_split))

    def _are_adjacent(self, lanes: int, *, whole_segments: bool) -> bool:
        """Whether neighbouring invocations read neighbouring positions, and not neighbouring groups."""
        if self._are_positions_nearest or self._near is None:
            return self._are_positions_nearest
        return self._near.are_adjacent(lanes, whole_segments=whole_segments)

    def division(self) -> WorkDivision:
        """Return how the work is divided."""
        layout, limits, groups = self.layout, self.limits, self._groups
        lanes, splits = self._lanes_and_splits()
        block_groups = limits.workgroup_size // lanes
        blocks = ceil_div(groups.count, block_groups)

        def loop_steps(splits: int) -> int:
            loops = loops_of(layout, limits, lanes, blocks, splits)
            columns_of_block = min(block_groups * groups.columns, layout.outputs)
            return loops.columns(
                *(ceil_div(layout.reduce_count, splits), layout.reduced[-1].size),
                *(self._at_once, groups.columns, columns_of_block),
                columns_apart=groups.columns_apart,
                whole_segments=self._takes_whole_segments(lanes, splits),
            )

        wanted, count = max(splits, self._least_splits), layout.reduce_count
        splits, positions = settled_splits(wanted, count, count, blocks, loop_steps, limits)
        whole_segments = self._takes_whole_segments(lanes, splits)
        variant: dict[str, int | str] = {
            "loads": groups.loads,
            "vector_words": groups.vector_words,
            "one_stride": len(layout.reduced) == 1,
            "one_run": groups.run == layout.outputs,
            "columns_apart": groups.columns_apart,
            "whole_segments": whole_segments,
        }
        return WorkDivision(
            _FAMILY,
            variant,
            lanes,
            blocks,
            splits,
            groups.run,
            tiles_per_run=0,
            tile_vectors=0,
            positions_per_split=positions,
            loop_steps=loop_steps(splits),
            positions_adjacent=self._are_adjacent(lanes, whole_segments=whole_segments),
            writes_vectors=splits == 1 and groups.columns > 1,
        )
