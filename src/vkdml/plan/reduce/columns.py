"""Reductions across a stride: how their work is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import NO_DIM, ReduceLayout, contiguous
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, power_of_two_at_least
from vkdml.plan.reduce.column_costs import NARROWEST_SEGMENT, ColumnWork
from vkdml.plan.reduce.reductions import (
    NARROW_SHARE,
    are_far_columns,
    candidate_words,
    columns_workgroups,
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


@dataclass(frozen=True)
class _Groups:
    """The columns that an invocation loads together: a vector of them, or one."""

    count: int
    columns: int
    """Of a group."""
    loads: str
    run: int
    """Columns side by side, which are divided among groups."""
    columns_apart: bool
    """Whether those are side by side in the input, but not in the output."""

    def load_bytes(self, element: ElementType) -> int:
        return self.columns * element.nbytes


def _groups(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> _Groups:
    """Return vectors where columns lie side by side, and single columns elsewhere."""
    inner = layout.kept[-1] if layout.kept else NO_DIM
    per_vector = VECTOR_BYTES // element.nbytes
    may_be_apart = tuning.columns_apart or inner.size < per_vector
    run, in_run = contiguous(layout.kept) if may_be_apart else (inner.size, 1)
    if inner.input_stride != 1 or run < per_vector:
        return _Groups(layout.outputs, 1, "elements", 1, columns_apart=False)
    is_aligned, columns_apart = are_multiples(layout.starts_of_rows(in_run), per_vector), in_run > 1
    # Groups of long unaligned runs start where their indices fill vectors: one more has what lies before.
    leads = (
        not is_aligned and not columns_apart and run >= LED_GROUPS * per_vector and inner.output_stride == 1
    )
    groups_of_run = 1 + ceil_div(run - 1, per_vector) if leads else ceil_div(run, per_vector)
    loads = "vectors" if is_aligned else "unaligned"
    return _Groups(layout.outputs // run * groups_of_run, per_vector, loads, run, columns_apart)


def _filling_division(
    layout: ReduceLayout,
    element: ElementType,
    groups: _Groups,
    input_bytes: int,
    most_lanes: int,
    most_splits: Callable[[int], int],
    limits: DeviceLimits,
    *,
    adjacent: bool,
) -> tuple[int, int]:
    """Return the lanes and splits that fill a device: a processor, or a GPU that loads single elements."""
    tuning, workgroup_size, load_bytes = limits.tuning, limits.workgroup_size, groups.load_bytes(element)
    workgroups = columns_workgroups(input_bytes, tuning, _TIMES_AS_MUCH if element.nbytes == 1 else 1)
    segment = tuning.columns_segment_bytes
    if groups.columns > 1 and are_far_columns(layout, element.nbytes, tuning):
        workgroups, segment = tuning.far_columns_workgroups, tuning.far_columns_segment_bytes
    worthwhile = worthwhile_workgroups(layout, element, tuning)
    workgroups = min(workgroups, worthwhile)
    filling = ceil_div(workgroups * workgroup_size, groups.count)
    segment = max(segment, load_bytes)
    enough = min(tuning.split_workgroups, worthwhile)
    while True:
        side_by_side = 1 if adjacent else min(power_of_two_at_least(groups.count), segment // load_bytes)
        lanes = workgroup_size // min(side_by_side, workgroup_size)
        lanes = min(lanes, most_lanes, power_of_two_at_least(filling))
        blocks = ceil_div(groups.count, workgroup_size // lanes)
        splits, longest = ceil_div(workgroups, blocks), most_splits(lanes)
        if splits > 1 and not tuning.is_processor and element.nbytes >= 4:
            candidates = layout.outputs * candidate_words(element) * 4 / input_bytes
            at_once = workgroups_at_once(element, tuning)
            splits = whole_waves(blocks, longest, layout.reduce_count / lanes, candidates, at_once)
        splits = min(splits, longest)
        # A narrower block has fewer candidates to combine, so there may be more splits.
        if adjacent or segment <= NARROWEST_SEGMENT or blocks * splits >= enough:
            return lanes, splits
        segment //= 2


def column_division(
    layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits, *, with_values: bool
) -> WorkDivision:
    """Return how the outputs, and the positions of each, are divided among invocations and workgroups."""
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, reduce_count = layout.outputs, layout.reduce_count
    groups = _groups(layout, element, tuning)
    # Neighbouring invocations read neighbouring memory: of several outputs, or of one.
    inner = layout.kept[-1] if layout.kept else NO_DIM
    adjacent = outputs == 1 or 0 < abs(layout.reduced[-1].input_stride) < abs(inner.input_stride)
    most_lanes = power_of_two_at_least(ceil_div(reduce_count, tuning.positions_per_lane))
    least_splits = ceil_div(reduce_count, NARROW_SHARE) if element.nbytes < 4 else 1

    def longest(lanes: int) -> int:
        """Return the most splits, so that each has enough positions and their candidates have room."""
        return min(
            ceil_div(reduce_count, tuning.positions_per_split * lanes),
            max(tuning.most_candidates // (min(workgroup_size // lanes, groups.count) * groups.columns), 1),
            most_splits(outputs, element, input_bytes),
        )

    if groups.columns > 1 and not tuning.is_processor:
        work = ColumnWork(
            loads=groups.loads,
            groups=groups.count,
            columns=groups.columns,
            positions=reduce_count,
            outputs=outputs,
            element=element,
            row_bytes=groups.run * element.nbytes,
            with_values=with_values,
            workgroup_size=workgroup_size,
            tuning=tuning,
        )
        lanes, splits = work.cheapest_division(most_lanes, least_splits, longest)
    else:
        lanes, splits = _filling_division(
            layout, element, groups, input_bytes, most_lanes, longest, limits, adjacent=adjacent
        )
    splits = max(splits, least_splits)
    block_groups = workgroup_size // lanes
    blocks = ceil_div(groups.count, block_groups)
    family = kernels.family("argreduce_columns")
    # Loads along a stride that an invocation may have in flight.
    at_once = family.numbers_of("at_once", loads=groups.loads)[-1 if tuning.batched_loads else 0]

    innermost = layout.reduced[-1].size

    def whole_segments(splits: int) -> bool:
        """Whether each lane takes the innermost dimension whole: on GPUs, where it is few loads for each."""
        few = not tuning.is_processor and not adjacent and lanes > 1 and innermost < lanes * at_once
        return bool(few) and len(layout.reduced) > 1 and reduce_count // splits >= innermost * lanes

    def loop_steps(splits: int) -> int:
        loops = loops_of(layout, limits, lanes, blocks, splits)
        positions, columns_of_block = (
            ceil_div(reduce_count, splits),
            min(block_groups * groups.columns, outputs),
        )
        return loops.columns(
            *(positions, innermost, at_once, groups.columns, columns_of_block),
            columns_apart=groups.columns_apart,
            whole_segments=whole_segments(splits),
        )

    splits, positions = settled_splits(splits, reduce_count, reduce_count, blocks, loop_steps, limits)
    variant: dict[str, int | str] = {
        "loads": groups.loads,
        "at_once": at_once,
        "one_stride": len(layout.reduced) == 1,
        "one_run": groups.run == outputs,
        "columns_apart": groups.columns_apart,
        "whole_segments": whole_segments(splits),
    }
    return WorkDivision(
        family,
        variant,
        lanes,
        blocks,
        splits,
        groups.run,
        tiles_per_run=0,
        tile_vectors=0,
        positions_per_split=positions,
        loop_steps=loop_steps(splits),
        positions_adjacent=adjacent,
        writes_vectors=splits == 1 and groups.columns > 1,
    )
