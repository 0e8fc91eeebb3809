"""Reductions across a stride: how their work is divided."""

from __future__ import annotations

import math

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import NO_DIM, ReduceLayout, contiguous
from vkdml.plan.plans import GPU_LINE, VECTOR_BYTES, DeviceLimits, power_of_two_at_least
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
# Bytes. Narrower segments waste memory bandwidth.
NARROWEST_SEGMENT = 64
# Columns of fewer positions gain by wider segments, by how they are loaded; and what these may leave idle.
_FEW_POSITIONS = {"vectors": 768, "unaligned": 3072}
_MORE_IDLE = 0.04
# Columns of unaligned bytes have one of so many workgroups, which combine fewer candidates (H100 0.96 of the
# time, H200 0.97).
_SHARE_OF_BYTES = 2
# Workgroups of single bytes read so many times as many.
_TIMES_AS_MUCH = 2
# Narrow elements that are loaded in vectors are not split if their workgroups make up a wave, nearly, or so
# many. Of halves so many times as many run at once as where there are splits.
_HALVES_AT_ONCE = 2
_NEARLY_WHOLE = 0.95
_MANY_WAVES = 1.85
# More invocations that share the positions of narrow columns take longer to exchange than splits.
MOST_LANES_UNSPLIT = 32


def _gains_by_wide_segments(loads: str, reduce_count: int, groups: int, side: int) -> bool:
    """Whether workgroups had better take twice as many groups side by side, and fewer positions at a time.

    They had where invocations get few positions, and more often where segments end within sectors; but not
    where the last workgroup would then have much less to do than the others (H100, H200).
    """

    def idle(side: int) -> float:
        return ceil_div(groups, side) * side / groups

    few = reduce_count < _FEW_POSITIONS.get(loads, 0)
    return few and idle(2 * side) <= idle(side) + _MORE_IDLE


def _unsplit_waves(blocks: int, element: ElementType, tuning: Tuning) -> float:
    """Return how many waves of workgroups so many blocks of narrow columns are."""
    at_once = workgroups_at_once(element, tuning) * (_HALVES_AT_ONCE if element.nbytes == 2 else 1)
    return blocks / max(at_once, 1)


def _is_whole(waves: float) -> bool:
    """Whether the last of a few waves has few workgroups less than the others."""
    return waves >= _NEARLY_WHOLE * math.ceil(waves)


def column_division(
    layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> WorkDivision:
    """Return how the outputs, and the positions of each, are divided among invocations and workgroups."""
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, reduce_count = layout.outputs, layout.reduce_count
    inner = layout.kept[-1] if layout.kept else NO_DIM
    loads, run, columns, load_bytes, columns_apart = "elements", 1, 1, element.nbytes, False
    if inner.input_stride == 1:
        per_vector = VECTOR_BYTES // element.nbytes
        may_be_apart = tuning.columns_apart or inner.size < per_vector
        side, in_run = contiguous(layout.kept) if may_be_apart else (inner.size, 1)
        if side >= per_vector:
            run, columns, load_bytes, columns_apart = side, per_vector, VECTOR_BYTES, in_run > 1
            loads = "vectors" if are_multiples(layout.starts_of_rows(in_run), per_vector) else "unaligned"
    # Groups of long unaligned runs start where their indices fill vectors: one more has what lies before.
    led = (
        loads == "unaligned"
        and not columns_apart
        and run >= LED_GROUPS * columns
        and inner.output_stride == 1
    )
    groups = outputs // run * (ceil_div(run, columns) if not led else 1 + ceil_div(run - 1, columns))

    # Neighbouring invocations read neighbouring memory: of several outputs, or of one.
    adjacent = outputs == 1 or 0 < abs(layout.reduced[-1].input_stride) < abs(inner.input_stride)
    workgroups = columns_workgroups(input_bytes, tuning, _TIMES_AS_MUCH if element.nbytes == 1 else 1)
    segment = tuning.columns_segment_bytes
    if not tuning.is_processor and loads == "unaligned" and element.nbytes == 1:
        workgroups = ceil_div(workgroups, _SHARE_OF_BYTES)
    if _gains_by_wide_segments(loads, reduce_count, groups, segment // load_bytes):
        segment *= 2
    if columns > 1 and are_far_columns(layout, element.nbytes, tuning):
        workgroups, segment = tuning.far_columns_workgroups, tuning.far_columns_segment_bytes
    worthwhile = worthwhile_workgroups(layout, element, tuning)
    workgroups = min(workgroups, worthwhile)
    filling = ceil_div(workgroups * workgroup_size, groups)
    most = power_of_two_at_least(ceil_div(reduce_count, tuning.positions_per_lane))
    segment = max(segment, load_bytes)
    enough = min(tuning.split_workgroups, worthwhile)
    in_waves = not tuning.is_processor and element.nbytes < 4 and loads == "vectors" and not adjacent
    run_bytes = run * element.nbytes
    # Short segments share lines unless rows start with one.
    narrowest = NARROWEST_SEGMENT if run_bytes % GPU_LINE == 0 or run_bytes <= segment // 2 else segment
    while True:
        side_by_side = 1 if adjacent else min(power_of_two_at_least(groups), segment // load_bytes)
        lanes = min(workgroup_size // min(side_by_side, workgroup_size), most, power_of_two_at_least(filling))
        block_groups = workgroup_size // lanes
        blocks = ceil_div(groups, block_groups)
        splits = ceil_div(workgroups, blocks)
        longest = min(
            ceil_div(reduce_count, tuning.positions_per_split * lanes),
            max(tuning.most_candidates // (min(block_groups, groups) * columns), 1),
            most_splits(outputs, element, input_bytes),
        )
        if splits > 1 and not tuning.is_processor and element.nbytes >= 4:
            shares = reduce_count / lanes, outputs * candidate_words(element) * 4 / input_bytes
            splits = whole_waves(blocks, longest, *shares, workgroups_at_once(element, tuning))
        splits = min(splits, longest)
        if in_waves and splits > 1 and lanes <= MOST_LANES_UNSPLIT:
            # Splits take a quarter longer: they store and combine many candidates, and each exchanges the
            # best of all its columns (H100, H200).
            waves = _unsplit_waves(blocks, element, tuning)
            if waves >= _MANY_WAVES or (waves <= 1 and _is_whole(waves) and element.nbytes == 2):
                splits = 1
            elif (
                segment > narrowest
                and waves <= 1
                and _is_whole(2 * waves)
                and 2 * lanes == MOST_LANES_UNSPLIT
            ):
                segment //= 2
                continue
        # A narrower block has fewer candidates to combine, so there may be more splits.
        if adjacent or segment <= NARROWEST_SEGMENT or blocks * splits >= enough:
            break
        segment //= 2

    if element.nbytes < 4:
        splits = max(splits, ceil_div(reduce_count, NARROW_SHARE))
    family = kernels.family("argreduce_columns")
    # Loads along a stride that an invocation may have in flight.
    at_once = family.numbers_of("at_once", loads=loads)[-1 if tuning.batched_loads else 0]

    innermost = layout.reduced[-1].size

    def whole_segments(splits: int) -> bool:
        """Whether each lane takes the innermost dimension whole: on GPUs, where it is few loads for each."""
        few = not tuning.is_processor and not adjacent and lanes > 1 and innermost < lanes * at_once
        return bool(few) and len(layout.reduced) > 1 and reduce_count // splits >= innermost * lanes

    def loop_steps(splits: int) -> int:
        loops = loops_of(layout, limits, lanes, blocks, splits)
        positions, columns_of_block = ceil_div(reduce_count, splits), min(block_groups * columns, outputs)
        return loops.columns(
            *(positions, innermost, at_once, columns, columns_of_block),
            columns_apart=columns_apart,
            whole_segments=whole_segments(splits),
        )

    splits, positions = settled_splits(splits, reduce_count, reduce_count, blocks, loop_steps, limits)
    variant: dict[str, int | str] = {
        "loads": loads,
        "at_once": at_once,
        "one_stride": len(layout.reduced) == 1,
        "one_run": run == outputs,
        "columns_apart": columns_apart,
        "whole_segments": whole_segments(splits),
    }
    return WorkDivision(
        family,
        variant,
        lanes,
        blocks,
        splits,
        run,
        tiles_per_run=0,
        tile_vectors=0,
        positions_per_split=positions,
        loop_steps=loop_steps(splits),
        positions_adjacent=adjacent,
    )
