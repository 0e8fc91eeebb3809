"""Planning reductions of short blocks of memory that repeat again and again, read a period at a time.

A first kernel finds the best of each column, a second one the best of the columns that belong to one output.
Along one dimension positions ascend or descend, so the others may lie in memory in any order.
``repetition.py`` has the ways to read memory so, and ``periodic.py`` says which reductions are read so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.loop_steps import PeriodLoops
from vkdml.plan.order import Order
from vkdml.plan.plans import (
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
from vkdml.plan.reduce.repetition import NARROW_STEPS, PERIODS, Repetition, column_words, in_whole_lines
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
_COMBINE = kernels.family("argreduce_combine")


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
    numbers = PERIODS.numbers_of("at_once", loads=_loads(repetition))
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
        repetition = in_whole_lines(repetition, element, input_bytes)
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
    kernel, constants = PERIODS.specialize(
        **element.specialization,
        **{**rules, "take_last": rules["take_last"] != descends},
        split=False,
        reads_parts=repetition.part > 0,
        loads=_loads(repetition),
        at_once=_at_once(repetition, limits),
        fixed_flags=fixed_flags(PERIODS, own, input_bytes, limits),
    )
    per_vector = VECTOR_BYTES // element.nbytes
    first = Step(
        kernel,
        constants,
        PERIODS.push(
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
