"""Planning reductions of short blocks of memory that repeat again and again, read a period at a time.

A first kernel finds the best of each column, a second one the best of the columns that belong to one output.
Along one dimension positions ascend or descend, so the others may lie in memory in any order.
``repetition.py`` has the ways to read memory so, and ``periodic.py`` says which reductions are read so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import (
    VECTOR_BYTES,
    WORDS_LIMIT,
    Plan,
    Step,
    check_work,
    checked_step,
    dim_words,
    words,
)
from vkdml.plan.reduce.combining import CombineDivision, combine_division
from vkdml.plan.reduce.period_division import PeriodDivision, divide_periods
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    Results,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    order_rules,
    split_words,
)
from vkdml.plan.reduce.repetition import PERIODS, Repetition, column_words, in_whole_lines
from vkdml.plan.schema import ElementType, PlacedLayout

_COMBINE = kernels.family("argreduce_combine")


def _loads(repetition: Repetition) -> str:
    return "vectors" if repetition.is_aligned else "unaligned"


def plan_repetition(repetition: Repetition, reduction: Reduction, results: Results) -> Plan:
    """Plan a reduction that reads the input this way.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    layout, element = reduction.layout, reduction.element
    input_bytes, limits = reduction.input_bytes, reduction.limits
    if not limits.tuning.is_processor:
        repetition = in_whole_lines(repetition, element, input_bytes)
    check_work("columns", repetition.columns)
    division = divide_periods(repetition, element, input_bytes, limits)
    candidates = _candidates(repetition, division, element)
    combine = combine_division(layout, candidates.of_output, len(candidates.dims), limits)
    workspace = _workspace(repetition, layout, candidates, division, combine, element)
    work = _Work(repetition, reduction, results, workspace)
    steps = _periods_step(work, division), _combine_step(work, candidates, combine)
    return Plan(
        tuple(checked_step(step, limits) for step in steps),
        buffer_bytes(element, input_bytes, results, workspace.words),
        workspace.layout.stored,
        workspace.counters,
    )


@dataclass(frozen=True)
class _Candidates:
    """Where the first kernel leaves its candidates."""

    kept_strides: dict[int, int]
    """Candidates from output to output, by number of the kept dimension."""
    dims: list[Dim]
    """Of the candidates of one output, the innermost first. Inputs are candidates, outputs are positions."""

    @property
    def of_output(self) -> int:
        return math.prod(dim.size for dim in self.dims)

    @property
    def are_adjacent(self) -> bool:
        """Whether the candidates of one output are nearer to each other than those of different outputs."""
        nearest = self.dims[0].input_stride if self.dims else 0
        return not self.kept_strides or nearest < min(self.kept_strides.values())


def _candidates(repetition: Repetition, division: PeriodDivision, element: ElementType) -> _Candidates:
    placed, stride = [(column, column.stride) for column in repetition.inner], repetition.width
    copies = [Dim(repetition.copies, repetition.block, repetition.weight)]
    # Ranks of narrow elements count within a split, others from the first on.
    periods_apart = division.periods_per_split if element.nbytes < 4 else 0
    weight = periods_apart * repetition.copies * repetition.weight
    of_splits = Dim(division.splits, repetition.columns, weight)
    for column in repetition.outer:
        placed.append((column, stride))
        stride *= column.size
    reduced = [Dim(column.size, at, column.weight) for column, at in placed if column.kept < 0]
    dims = sorted([*reduced, *copies, of_splits], key=lambda dim: dim.input_stride)
    return _Candidates(
        {column.kept: at for column, at in placed if column.kept >= 0}, [dim for dim in dims if dim.size > 1]
    )


@dataclass(frozen=True)
class _Workspace:
    """The second kernel's layout, its counters and its candidates, then the first kernel's candidates."""

    layout: PlacedLayout
    counters: int
    candidates_base: int
    """The word at which the first kernel's candidates begin."""
    words: int

    @property
    def counters_base(self) -> int:
        return len(self.layout.stored)


def _workspace(
    repetition: Repetition,
    layout: ReduceLayout,
    candidates: _Candidates,
    division: PeriodDivision,
    combine: CombineDivision,
    element: ElementType,
) -> _Workspace:
    kept_strides = (candidates.kept_strides.get(number, 0) for number in range(len(layout.kept)))
    placed = _COMBINE.placed(
        (*dimension_words(layout), *words(kept_strides), *dim_words(reversed(candidates.dims)))
    )
    counters, combined_words = split_words(combine.blocks, layout.outputs, combine.splits, element)
    candidates_base = len(placed.stored) + counters + combined_words
    of_periods = repetition.columns * division.splits * column_words(element)
    return _Workspace(placed, counters, candidates_base, candidates_base + of_periods)


@dataclass(frozen=True)
class _Work:
    """What both kernels are told of a reduction that is read in periods."""

    repetition: Repetition
    reduction: Reduction
    results: Results
    workspace: _Workspace

    @property
    def constants(self) -> dict[str, int | str]:
        reduction, limits = self.reduction, self.reduction.limits
        return {
            **reduction.element.specialization,
            "workgroup": limits.workgroup_size,
            **order_rules(reduction.layout, reduction.order),
            "one_subgroup": limits.one_subgroup > 0,
        }

    @property
    def push(self) -> dict[str, int]:
        return {
            **self.results.flags,
            **bases(self.reduction.layout),
            "run": self.repetition.run,
            "tiles_per_run": 0,
            "tile_vectors": 0,
        }

    @property
    def steps_descend(self) -> bool:
        """Whether positions descend from one period to the next."""
        return self.repetition.weight < 0


def _periods_step(work: _Work, division: PeriodDivision) -> Step:
    """Return the step that finds the best of each column."""
    repetition, reduction = work.repetition, work.reduction
    limits, per_vector = reduction.limits, VECTOR_BYTES // reduction.element.nbytes
    # The splits of this kernel do not change its code, nor do the results.
    flags = {"layout_in_push": True, "positions_adjacent": False}
    constants = work.constants
    workgroups = division.blocks * division.splits
    kernel, by_slot = PERIODS.specialize(
        **{**constants, "take_last": constants["take_last"] != work.steps_descend},
        split=False,
        reads_parts=repetition.part > 0,
        reads_ahead=division.groups_ahead > 0,
        loads=_loads(repetition),
        fixed_flags=fixed_flags(PERIODS, flags, reduction.input_bytes, limits),
        in_rounds=limits.in_rounds(workgroups, reduction.input_bytes),
    )
    push = work.push
    push["input_base"] += reduction.layout.reading_order.input_offset
    packed = PERIODS.push(
        **push,
        **flags,
        lanes=division.lanes,
        outputs=repetition.columns,
        reduce_count=repetition.periods(per_vector),
        splits=division.splits,
        kept_dims=len(repetition.outer),
        reduced_dims=0,
        scratch_base=work.workspace.candidates_base,
        positions_per_split=division.periods_per_split,
        stretch=repetition.stretch,
        width=repetition.width,
        groups_per_block=division.groups_per_block,
        groups_ahead=division.groups_ahead,
        layout_words=words(
            word for column in reversed(repetition.outer) for word in (column.size, column.stride, 0)
        ),
    )
    started = limits.started(workgroups)
    return Step(kernel, by_slot, packed, started, limits.one_subgroup, division.loop_steps)


def _combine_step(work: _Work, candidates: _Candidates, combine: CombineDivision) -> Step:
    """Return the step that combines the columns of each output."""
    repetition, workspace = work.repetition, work.workspace
    layout, input_bytes, limits = work.reduction.layout, work.reduction.input_bytes, work.reduction.limits
    flags = {"layout_in_push": workspace.layout.in_push, "positions_adjacent": candidates.are_adjacent}
    all_flags = {**flags, **work.results.flags}
    workgroups = combine.blocks * combine.splits
    kernel, by_slot = _COMBINE.specialize(
        **{**work.constants, "workgroup": combine.workgroup_size, "keys": "integer"},
        steps_descend=work.steps_descend,
        split=combine.splits > 1,
        fixed_flags=fixed_flags(_COMBINE, all_flags, input_bytes, limits),
        in_rounds=limits.in_rounds(workgroups, input_bytes),
    )
    packed = _COMBINE.push(
        **work.push,
        **flags,
        lanes=combine.lanes,
        outputs=layout.outputs,
        reduce_count=layout.reduce_count,
        splits=combine.splits,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        scratch_base=workspace.counters_base,
        positions_per_split=combine.candidates_per_split,
        candidates=candidates.of_output,
        candidate_dims=len(candidates.dims),
        first_position=layout.reading_order.position,
        repeated_weight=repetition.weight * repetition.copies % WORDS_LIMIT,
        candidates_base=workspace.candidates_base,
        layout_words=workspace.layout.pushed,
    )
    started = limits.started(workgroups)
    return Step(kernel, by_slot, packed, started, limits.one_subgroup, combine.loop_steps)
