"""Planning argmin and argmax: a canonical layout to kernels, constants and workgroups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from vkdml.plan import kernels
from vkdml.plan.joined_columns import plan_joined
from vkdml.plan.layout import Dim, MemoryOrder, ReduceLayout
from vkdml.plan.loop_steps import ReduceLoops
from vkdml.plan.order import Order
from vkdml.plan.periodic import LONGEST_ROW_BYTES, is_out_of_order, plan_periods
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    TooMuchWork,
    ceil_div,
    check_buffer,
    check_work,
    checked_step,
    power_of_two_at_least,
    round_up,
)
from vkdml.plan.reading import reading_layout_words
from vkdml.plan.reductions import (
    FOUR,
    NARROW_SHARE,
    Results,
    are_far_columns,
    bases,
    buffer_bytes,
    dimension_words,
    enough_splits,
    fixed_flags,
    is_in_fours,
    most_splits,
    order_rules,
    split_words,
)
from vkdml.plan.schema import ElementType, Family
from vkdml.plan.short import is_written_across, plan_short
from vkdml.plan.transposed_columns import in_strips
from vkdml.plan.tuning import Tuning

# Vectors of 16 bytes that one invocation loads in one batch.
CHUNK_VECTORS = kernels.number("chunk_vectors")
LED_GROUPS = kernels.number("led_groups")
# Vectors of one invocation that it keeps in registers at most.
MOST_KEPT = 2 * CHUNK_VECTORS
# Of an output, that are reduced as repeated blocks if they can be.
MANY_RUNS = 32
# An unaligned row of up to so many vectors is processed in so many steps at least.
MOST_FEW_VECTORS = 192
FEWEST_STEPS = 12
# Unaligned rows of up to so many vectors are kept, of which an invocation has up to so many. Longer ones are
# kept only where all invocations keep as many as they can: else reading on takes less than the exchange.
MOST_VECTORS_KEPT_UNALIGNED = 20
UNALIGNED_VECTORS_OF_LANE = 7
# Bytes. Narrower segments waste memory bandwidth.
NARROWEST_SEGMENT = 64
# Columns of fewer positions gain by wider segments, by how they are loaded; and what these may leave idle.
_FEW_POSITIONS = {"vectors": 768, "unaligned": 3072}
_MORE_IDLE = 0.04
REDUCE_LIMIT = (1 << 32) - (1 << 24)
NOT_REDUCED = Dim(1, 0, 0)


@dataclass(frozen=True)
class _Shape:
    """How the work is divided; see the push constants in ``shaders/kernels.json``."""

    family: Family
    variant: dict[str, int | str]
    """Values of the family's axes, and of the constants that remove code which this plan does not need."""
    lanes: int
    blocks: int
    """Workgroups of each split."""
    splits: int
    run: int
    tiles_per_run: int
    tile_vectors: int
    positions_per_split: int
    loop_steps: int
    """Steps that the loops of one invocation make at most."""
    subgroup_size: int = 0
    positions_adjacent: bool = False
    reading: MemoryOrder | None = None
    """In which order the elements are read, if not in that of positions."""


def plan_argreduce(
    layout: ReduceLayout,
    order: Order,
    input_elements: int,
    limits: DeviceLimits,
    *,
    index_bytes: int,
    with_values: bool,
    output_elements: int | None = None,
) -> Plan:
    """Plan an argmin or argmax.

    Args:
        layout: canonical.
        order: of the elements.
        input_elements: elements in the input buffer; the layout's offsets lie within.
        limits: of the device.
        index_bytes: 4 or 8.
        with_values: also copy the chosen elements.
        output_elements: elements in each output buffer; by default one for each output.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        TooMuchWork: more than the kernels' 32-bit counters hold, or than the driver's loops make.
    """
    element = order.element_type
    if not layout.reduced:
        layout = replace(layout, reduced=(NOT_REDUCED,))
    outputs, reduce_count = layout.outputs, layout.reduce_count
    results = Results(index_bytes, with_values, outputs if output_elements is None else output_elements)
    input_bytes = input_elements * element.nbytes
    check_buffer("input", input_bytes, limits)
    check_buffer("output", results.elements * index_bytes, limits)
    check_work("outputs", outputs)
    if reduce_count >= REDUCE_LIMIT:
        raise TooMuchWork(
            f"{reduce_count} overlapping elements compete for one output, more than the kernels count "
            f"(fewer than {REDUCE_LIMIT})"
        )

    runs = _long_runs_of(layout, element, limits)
    in_rows = (
        runs is not None
        and not _are_many_and_short(runs, layout, element)
        and not is_out_of_order(layout, element, input_bytes, limits)
    )
    kinds = (_plan_strips, plan_short) if in_rows else (_plan_strips, plan_short, plan_periods, plan_joined)
    for plan_kind in kinds:
        plan = plan_kind(layout, order, input_bytes, results, limits)
        if plan is not None:
            return plan
    if runs is None:
        shape = _columns(layout, element, input_bytes, limits)
    else:
        keeping = _limits_of_whole_rows(layout, runs, element, limits)
        limits = keeping or limits
        shape = _rows(layout, runs, element, input_bytes, limits, are_split=keeping is None)
    return _plan_shape(shape, layout, order, input_bytes, results, limits)


def _plan_strips(
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan | None:
    """Plan columns whose outputs lie in another order in strips; None if they are not such, or not enough."""
    element, tuning = order.element_type, limits.tuning
    if not tuning.strip_bytes or not is_written_across(layout, element.nbytes, input_bytes, limits):
        return None
    plans = []
    for part in in_strips(layout, element.nbytes, tuning.strip_bytes):
        shape = _columns(part, element, input_bytes, limits)
        if shape.splits > 1:
            return None
        plans.append(_plan_shape(shape, part, order, input_bytes, results, limits))
    if not plans or (len(plans) > 1 and any(plan.layout for plan in plans)):
        return None
    return replace(plans[0], steps=tuple(step for plan in plans for step in plan.steps))


def _plan_shape(
    shape: _Shape,
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan:
    """Return the plan of one step that divides the work so."""
    element, outputs = order.element_type, layout.outputs
    layout_words = dimension_words(layout)
    if shape.reading is not None:
        layout_words = reading_layout_words(layout, shape.reading, with_values=results.with_values)
    in_push = len(layout_words) <= shape.family.layout_room
    scratch_base = 0 if in_push else len(layout_words)

    flags = {
        "layout_in_push": in_push,
        **results.flags,
        "positions_adjacent": shape.positions_adjacent,
    }
    push = shape.family.push(
        **flags,
        lanes=shape.lanes,
        outputs=outputs,
        reduce_count=layout.reduce_count,
        splits=shape.splits,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        scratch_base=scratch_base,
        run=shape.run,
        tiles_per_run=shape.tiles_per_run,
        tile_vectors=shape.tile_vectors,
        positions_per_split=shape.positions_per_split,
        layout_words=layout_words[: shape.family.layout_room] if in_push or shape.reading else (),
    )
    kernel, constants = shape.family.specialize(
        **element.specialization,
        **shape.variant,
        workgroup=limits.workgroup_size,
        **order_rules(layout, order),
        split=shape.splits > 1,
        fixed_flags=fixed_flags(shape.family, flags, input_bytes, limits),
    )
    step = checked_step(
        Step(
            kernel,
            constants,
            push,
            min(shape.blocks * shape.splits, limits.max_workgroup_count),
            shape.subgroup_size,
            shape.loop_steps,
        ),
        limits,
    )
    counters, scratch_words = split_words(shape.blocks, outputs, shape.splits, element)
    return Plan(
        (step,),
        buffer_bytes(element, input_bytes, results, scratch_base + counters + scratch_words),
        () if in_push else layout_words,
        counters,
    )


class _Runs(NamedTuple):
    """Reduced elements that are side by side in memory."""

    length: int
    outer_strides: tuple[int, ...]
    """Of the reduced dimensions outside a run."""
    first: int
    """Offset of the first run from that of the layout."""
    reading: MemoryOrder | None = None
    """The order in which runs are read, if it is not that of positions."""

    def pieces_of(self, elements: int) -> int:
        """Return over how many rows of the last dimension these elements extend; 0 if it does not matter."""
        if self.reading is None:
            return 0
        return min(elements, (elements - 2) // self.reading.dims[-1].size + 2)


def _long_runs_of(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> _Runs | None:
    """Return the runs of a layout if they are long enough for rows."""
    runs = _runs_of(layout, bool(limits.tuning.memory_order))
    if runs is None or runs.length * element.nbytes < limits.tuning.shortest_row_bytes:
        return None
    return runs


def _are_many_and_short(runs: _Runs, layout: ReduceLayout, element: ElementType) -> bool:
    """Tell whether an output has so many short runs that the way from one to the next decides."""
    return (
        layout.reduce_count // runs.length >= MANY_RUNS and runs.length * element.nbytes <= LONGEST_ROW_BYTES
    )


def _runs_of(layout: ReduceLayout, in_memory_order: bool) -> _Runs | None:
    *outer, innermost = layout.reduced
    order = layout.memory_order if in_memory_order else None
    in_run = order.run_dims if order is not None else 0
    if innermost.input_stride == 1 and (order is None or in_run == 1):
        return _Runs(innermost.size, tuple(dim.input_stride for dim in outer), 0)
    if order is None or in_run == 0:
        return None
    outside = len(order.dims) - in_run
    length = math.prod(dim.size for dim in order.dims[outside:])
    outer_strides = tuple(dim.input_stride for dim in order.dims[:outside])
    return _Runs(length, outer_strides, order.input_offset, order)


def _limits_of_whole_rows(
    layout: ReduceLayout, runs: _Runs, element: ElementType, limits: DeviceLimits
) -> DeviceLimits | None:
    """Return limits whose workgroup keeps a row in registers, or None where rows may as well be split.

    Few rows of up to 128 KiB take 12% to 30% less time so than split, which makes workgroups wait for each
    other (H100).
    """
    tuning = limits.tuning
    vectors, _ = _vectors_of(layout, runs, element)
    few = layout.outputs * 4 <= tuning.split_workgroups
    # Other kernels keep no row.
    if runs.reading or layout.reduce_count != runs.length or not (few and tuning.subgroups):
        return None
    wanted = max(power_of_two_at_least(ceil_div(vectors, MOST_KEPT)), tuning.workgroup_size)
    if wanted > min(tuning.widest_workgroup, limits.subgroup_size * limits.max_subgroups):
        return None
    wide = replace(limits, tuning=replace(tuning, workgroup_size=wanted))
    return wide if wide.workgroup_size == wanted else None


def _vectors_of(layout: ReduceLayout, runs: _Runs, element: ElementType) -> tuple[int, bool]:
    """Return the vectors that a run lies in, wherever it starts, and whether all are aligned and whole."""
    per_vector = VECTOR_BYTES // element.nbytes
    if not _runs_are_aligned(layout, runs, per_vector):
        return ceil_div(runs.length - 1, per_vector) + 1, False
    return ceil_div(runs.length, per_vector), runs.length % per_vector == 0


def _rows(
    layout: ReduceLayout,
    runs: _Runs,
    element: ElementType,
    input_bytes: int,
    limits: DeviceLimits,
    *,
    are_split: bool,
) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, run = layout.outputs, runs.length
    segments = layout.reduce_count // run
    per_vector = VECTOR_BYTES // element.nbytes
    vectors, whole = _vectors_of(layout, runs, element)
    # As few invocations per output as fill the device: every one of them takes part in the final exchange.
    filling = ceil_div(tuning.target_workgroups * workgroup_size, outputs)
    most = power_of_two_at_least(ceil_div(vectors, CHUNK_VECTORS))
    fewest = min(_row_lanes(vectors, whole, tuning), tuning.row_lanes)
    keeping = 0
    if segments == 1 and tuning.subgroups:
        if runs.reading:
            keeping = _keeping_lanes(vectors, tuning, workgroup_size)
        elif not whole:
            keeping = _lanes_keeping_unaligned(vectors, tuning)
        fewest = keeping or fewest
    fewest = max(fewest, power_of_two_at_least(filling))
    lanes = min(workgroup_size, most, fewest)
    blocks = ceil_div(outputs, workgroup_size // lanes)

    # Splits take tiles in turn, so that at any time they read neighbouring memory.
    wanted = max(tuning.split_workgroups // blocks, 1) if are_split else 1
    if segments > 1:  # each step waits for the previous one
        wanted = ceil_div(2 * tuning.target_workgroups, blocks)
    tiles_per_run, tile_vectors = 1, vectors
    if wanted > segments:
        tile_vectors = ceil_div(vectors, ceil_div(wanted, segments))
        tile_vectors = max(tile_vectors, lanes * tuning.fewest_vectors_per_lane)
        tile_vectors = min(tile_vectors, tuning.tile_bytes // VECTOR_BYTES)
        tile_vectors = min(round_up(tile_vectors, lanes * CHUNK_VECTORS), vectors)
        tiles_per_run = ceil_div(vectors, tile_vectors)
    subgroup_size = limits.subgroup_size if tuning.subgroups else 0
    if subgroup_size and (
        workgroup_size % subgroup_size or workgroup_size > subgroup_size * limits.max_subgroups
    ):
        subgroup_size = 0

    def loop_steps(splits: int) -> int:
        loops = _loops(layout, limits, lanes, blocks, splits, subgroup_size)
        in_block = min(workgroup_size // lanes, outputs)
        tiles = segments * tiles_per_run
        return loops.rows(tiles, tile_vectors, CHUNK_VECTORS, in_block, runs.pieces_of(per_vector))

    # A split has at least one tile, and where memory order is not that of positions its loops are long.
    least = lanes * CHUNK_VECTORS if runs.reading else vectors
    while loop_steps(segments * tiles_per_run) > limits.max_loop_steps and tile_vectors > least:
        tile_vectors = round_up(ceil_div(tile_vectors, 2), lanes * CHUNK_VECTORS)
        tiles_per_run = ceil_div(vectors, tile_vectors)
    units = segments * tiles_per_run
    check_work("tiles", units)
    rounds = ceil_div(units, min(units, wanted, most_splits(outputs, element, input_bytes)))
    splits = enough_splits(ceil_div(units, rounds), units, loop_steps, limits)
    check_work("splits", blocks * splits)
    kept = ceil_div(tile_vectors, lanes)
    if not (whole or runs.reading or lanes == keeping) or units > splits or kept > MOST_KEPT:
        kept = 0
    variant: dict[str, int | str] = {
        "memory_order": runs.reading is not None,
        "subgroups": bool(subgroup_size),
        "subgroup": subgroup_size,
        "aligned": whole,
        "one_run": segments == 1,
        "one_subgroup": workgroup_size <= limits.subgroup_size,
        "kept_vectors": kept,
    }
    return _Shape(
        kernels.family("argreduce_rows"),
        variant,
        lanes,
        blocks,
        splits,
        run,
        tiles_per_run,
        tile_vectors,
        0,
        loop_steps(splits),
        subgroup_size,
        reading=runs.reading,
    )


def _row_lanes(vectors: int, whole: bool, tuning: Tuning) -> int:
    """Return how many invocations process a row while there are enough rows to fill the device."""
    in_one, in_two = (power_of_two_at_least(ceil_div(vectors, count * CHUNK_VECTORS)) for count in (1, 2))
    if not whole and vectors <= MOST_FEW_VECTORS:
        # Vectors within a row need no masks: the longer an invocation's part, the fewer do.
        return 1 << (max(vectors // FEWEST_STEPS, 1).bit_length() - 1)
    # A whole row is read at once if it can be; then the fewest loads past its end decide.
    if whole and in_one <= tuning.row_lanes and round_up(vectors, in_one) <= round_up(vectors, in_two):
        return in_one
    if whole and in_two <= tuning.row_lanes:
        return in_two
    return power_of_two_at_least(in_one // tuning.row_steps)


def _lanes_keeping_unaligned(vectors: int, tuning: Tuning) -> int:
    """Return how many invocations keep an unaligned row in registers, or 0 where reading on is faster."""
    if vectors <= MOST_VECTORS_KEPT_UNALIGNED:
        return power_of_two_at_least(ceil_div(vectors, UNALIGNED_VECTORS_OF_LANE))
    lanes = power_of_two_at_least(ceil_div(vectors, MOST_KEPT))
    return lanes if lanes <= tuning.row_lanes and ceil_div(vectors, lanes) == MOST_KEPT else 0


def _keeping_lanes(vectors: int, tuning: Tuning, most: int) -> int:
    """Return how many invocations keep a row in registers, or 0 if a workgroup cannot.

    What an invocation keeps it searches for the winner's position once, and only if it has the winner's key.
    """
    in_one, in_two = (power_of_two_at_least(ceil_div(vectors, kept)) for kept in (CHUNK_VECTORS, MOST_KEPT))
    if in_one <= tuning.row_lanes and round_up(vectors, in_one) <= round_up(vectors, in_two):
        return in_one
    return in_two if in_two <= most else 0


def _loops(
    layout: ReduceLayout, limits: DeviceLimits, lanes: int, blocks: int, splits: int, subgroup_size: int = 0
) -> ReduceLoops:
    return ReduceLoops(
        limits.workgroup_size,
        subgroup_size,
        lanes,
        len(layout.kept),
        len(layout.reduced),
        blocks,
        splits,
        limits.max_workgroup_count,
    )


def _are_multiples(offsets: Iterable[int], step: int) -> bool:
    return all(offset % step == 0 for offset in offsets)


def _runs_are_aligned(layout: ReduceLayout, runs: _Runs, per_vector: int) -> bool:
    kept = (dim.input_stride for dim in layout.kept)
    return _are_multiples((layout.input_base + runs.first, *runs.outer_strides, *kept), per_vector)


@lru_cache
def _at_once(loads: str) -> tuple[int, ...]:
    """Return how many loads along a stride an invocation may have in flight, ascending."""
    return kernels.family("argreduce_columns").numbers_of("at_once", loads=loads)


def _side_by_side(dims: Sequence[Dim]) -> tuple[int, int]:
    """Return how many elements are side by side in the input, and of how many of the last dimensions."""
    run = 1
    for count, dim in enumerate(reversed(dims)):
        if dim.input_stride != run:
            return run, count
        run *= dim.size
    return run, len(dims)


def _gains_by_wide_segments(loads: str, reduce_count: int, groups: int, side: int) -> bool:
    """Whether workgroups had better take twice as many groups side by side, and fewer positions at a time.

    They had where invocations get few positions, and more often where segments end within sectors; but not
    where the last workgroup would then have much less to do than the others (H100, H200).
    """

    def idle(side: int) -> float:
        return ceil_div(groups, side) * side / groups

    few = reduce_count < _FEW_POSITIONS.get(loads, 0)
    return few and idle(2 * side) <= idle(side) + _MORE_IDLE


def _columns(layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, reduce_count = layout.outputs, layout.reduce_count
    inner = layout.kept[-1] if layout.kept else Dim(1, 0, 0)
    loads, run, columns, load_bytes, columns_apart = "elements", 1, 1, element.nbytes, False
    if inner.input_stride == 1:
        per_vector = VECTOR_BYTES // element.nbytes
        in_fours = is_in_fours(reduce_count, element.nbytes, tuning)
        together = FOUR if in_fours else per_vector
        may_be_apart = tuning.columns_apart or inner.size < together
        side, in_run = _side_by_side(layout.kept) if may_be_apart else (inner.size, 1)
        if side >= together:
            run, columns, load_bytes, columns_apart = side, together, together * element.nbytes, in_run > 1
            outer = (dim.input_stride for dim in (*layout.kept[:-in_run], *layout.reduced))
            aligned = _are_multiples((layout.input_base, *outer), together)
            if in_fours:
                loads = "fours" if aligned else "unaligned_fours"
            else:
                loads = "vectors" if aligned else "unaligned"
    # Fours of long unaligned runs start where their indices fill vectors: one more has what lies before.
    led = loads == "unaligned_fours" and run >= LED_GROUPS * columns
    groups = outputs // run * (ceil_div(run, columns) if not led else 1 + ceil_div(run - 1, columns))

    # Neighbouring invocations read neighbouring memory: of several outputs, or of one.
    adjacent = outputs == 1 or 0 < abs(layout.reduced[-1].input_stride) < abs(inner.input_stride)
    workgroups, segment = tuning.columns_workgroups, tuning.columns_segment_bytes
    if _gains_by_wide_segments(loads, reduce_count, groups, segment // load_bytes):
        segment *= 2
    if columns > 1 and are_far_columns(layout, element.nbytes, tuning):
        workgroups, segment = tuning.far_columns_workgroups, tuning.far_columns_segment_bytes
    filling = ceil_div(workgroups * workgroup_size, groups)
    most = power_of_two_at_least(ceil_div(reduce_count, tuning.positions_per_lane))
    segment = max(segment, load_bytes)
    while True:
        side_by_side = 1 if adjacent else min(power_of_two_at_least(groups), segment // load_bytes)
        lanes = min(workgroup_size // min(side_by_side, workgroup_size), most, power_of_two_at_least(filling))
        block_groups = workgroup_size // lanes
        blocks = ceil_div(groups, block_groups)
        splits = min(
            ceil_div(workgroups, blocks),
            ceil_div(reduce_count, tuning.positions_per_split * lanes),
            max(tuning.most_candidates // (min(block_groups, groups) * columns), 1),
            most_splits(outputs, element, input_bytes),
        )
        # A narrower block has fewer candidates to combine, so there may be more splits.
        if adjacent or segment <= NARROWEST_SEGMENT or blocks * splits >= tuning.split_workgroups:
            break
        segment //= 2

    if element.nbytes < 4:
        splits = max(splits, ceil_div(reduce_count, NARROW_SHARE))
    family = kernels.family("argreduce_columns")
    at_once = _at_once(loads)[-1 if tuning.batched_loads else 0]

    def loop_steps(splits: int) -> int:
        loops = _loops(layout, limits, lanes, blocks, splits)
        positions = ceil_div(reduce_count, splits)
        innermost, columns_of_block = layout.reduced[-1].size, min(block_groups * columns, outputs)
        return loops.columns(positions, innermost, at_once, columns, columns_of_block, columns_apart)

    splits = enough_splits(splits, reduce_count, loop_steps, limits)
    positions = ceil_div(reduce_count, splits)
    splits = ceil_div(reduce_count, positions)
    check_work("splits", blocks * splits)
    variant: dict[str, int | str] = {
        "loads": loads,
        "at_once": at_once,
        "one_stride": len(layout.reduced) == 1,
        "one_run": run == outputs,
        "columns_apart": columns_apart,
    }
    return _Shape(
        family,
        variant,
        lanes,
        blocks,
        splits,
        run,
        0,
        0,
        positions,
        loop_steps(splits),
        positions_adjacent=adjacent,
    )
