"""Planning argmin and argmax: a canonical layout to kernels, constants and workgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.loop_steps import ReduceLoops
from vkdml.plan.order import Order
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
    words,
)
from vkdml.plan.schema import ElementType, Family
from vkdml.plan.short import plan_short

# Vectors of 16 bytes that one invocation loads in one batch.
CHUNK_VECTORS = kernels.number("chunk_vectors")
# Bytes. Narrower segments waste memory bandwidth.
NARROWEST_SEGMENT = 64
# A narrow key shares a word with its position in the split.
NARROW_SHARE = (1 << kernels.number("narrow_rank_bits")) - 1
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
    output_elements = outputs if output_elements is None else output_elements
    input_bytes = input_elements * element.nbytes
    check_buffer("input", input_bytes, limits)
    check_buffer("output", output_elements * index_bytes, limits)
    check_work("outputs", outputs)
    if reduce_count >= REDUCE_LIMIT:
        raise TooMuchWork(
            f"{reduce_count} overlapping elements compete for one output, more than the kernels count "
            f"(fewer than {REDUCE_LIMIT})"
        )

    short = plan_short(
        layout,
        order,
        input_bytes,
        limits,
        index_bytes=index_bytes,
        with_values=with_values,
        output_elements=output_elements,
    )
    if short is not None:
        return short
    shape = _shape(layout, element, input_bytes, limits)
    # Backwards positions turn the tie rule round.
    last_position = order.take_last != layout.reversed_order
    dims = (
        *(word for dim in layout.kept for word in (dim.size, dim.input_stride, dim.output_stride)),
        *(
            word
            for dim in layout.reduced
            for word in (dim.size, dim.input_stride, dim.output_stride, dim.output_stride >> 32)
        ),
    )
    layout_words = words(dims)
    in_push = len(layout_words) <= shape.family.layout_room
    scratch_base = 0 if in_push else len(layout_words)

    push = shape.family.push(
        layout_in_push=in_push,
        wide_indices=index_bytes == 8,
        with_values=with_values,
        positions_adjacent=shape.positions_adjacent,
        lanes=shape.lanes,
        outputs=outputs,
        reduce_count=reduce_count,
        splits=shape.splits,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        input_base=layout.input_base,
        output_base=layout.output_base,
        index_base=layout.index_base,
        scratch_base=scratch_base,
        run=shape.run,
        tiles_per_run=shape.tiles_per_run,
        tile_vectors=shape.tile_vectors,
        positions_per_split=shape.positions_per_split,
        layout_words=layout_words if in_push else (),
    )
    kernel, constants = shape.family.specialize(
        **element.specialization,
        **shape.variant,
        workgroup=limits.workgroup_size,
        take_min=order.take_min,
        take_last=last_position,
        omit_nan=order.omit_nan,
        split=shape.splits > 1,
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
    counters = candidate_words = 0
    if shape.splits > 1:
        counters, candidate_words = shape.blocks, outputs * shape.splits * _candidate_words(element)
    return Plan(
        (step,),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("indices", output_elements * index_bytes),
            ("values", round_up(output_elements * element.nbytes, 4) if with_values else 0),
            ("workspace", 4 * (scratch_base + counters + candidate_words)),
        ),
        () if in_push else layout_words,
        counters,
    )


def _candidate_words(element: ElementType) -> int:
    return (2 if element.nbytes == 8 else 1) + 1


def _most_splits(outputs: int, element: ElementType, input_bytes: int) -> int:
    """Return how many splits fit the scratch memory, 1% of the input plus 1 MiB, nearly all candidates."""
    scratch = input_bytes // 100 + (1 << 20) - (1 << 16)
    return max(1, scratch // (outputs * _candidate_words(element) * 4))


def _shape(layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning = limits.tuning
    innermost = layout.reduced[-1]
    long_enough = innermost.size * element.nbytes >= tuning.shortest_row_bytes
    if innermost.input_stride == 1 and long_enough:
        return _rows(layout, element, input_bytes, limits)
    return _columns(layout, element, input_bytes, limits)


def _rows(layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs = layout.outputs
    run = layout.reduced[-1].size
    segments = layout.reduce_count // run
    per_vector = VECTOR_BYTES // element.nbytes
    vectors = (run - 1 + per_vector - 1) // per_vector + 1  # wherever the run starts
    aligned = _runs_are_aligned(layout, per_vector)
    if aligned:
        vectors = ceil_div(run, per_vector)
    # As few invocations per output as fill the device: every one of them takes part in the final exchange.
    filling = ceil_div(tuning.target_workgroups * workgroup_size, outputs)
    most = power_of_two_at_least(ceil_div(vectors, CHUNK_VECTORS))
    # Few invocations read a short row in one step and a long row in many.
    few = most if most <= tuning.row_lanes else power_of_two_at_least(most // tuning.row_steps)
    fewest = max(min(few, tuning.row_lanes), power_of_two_at_least(filling))
    lanes = min(workgroup_size, most, fewest)
    blocks = ceil_div(outputs, workgroup_size // lanes)

    # Splits take tiles in turn, so that at any time they read neighbouring memory.
    wanted = max(tuning.split_workgroups // blocks, 1)
    if segments > 1:  # each step waits for the previous one
        wanted = ceil_div(2 * tuning.target_workgroups, blocks)
    tiles_per_run, tile_vectors = 1, vectors
    if wanted > segments:
        tile_vectors = ceil_div(vectors, ceil_div(wanted, segments))
        tile_vectors = max(tile_vectors, lanes * tuning.fewest_vectors_per_lane)
        tile_vectors = min(tile_vectors, tuning.tile_bytes // VECTOR_BYTES)
        tile_vectors = min(round_up(tile_vectors, lanes * CHUNK_VECTORS), vectors)
        tiles_per_run = ceil_div(vectors, tile_vectors)
    units = segments * tiles_per_run
    check_work("tiles", units)
    subgroup_size = limits.subgroup_size if tuning.subgroups else 0
    if subgroup_size and (
        workgroup_size % subgroup_size or workgroup_size > subgroup_size * limits.max_subgroups
    ):
        subgroup_size = 0

    def loop_steps(splits: int) -> int:
        loops = _loops(layout, limits, lanes, blocks, splits, subgroup_size)
        return loops.rows(units, tile_vectors, CHUNK_VECTORS, min(workgroup_size // lanes, outputs))

    rounds = ceil_div(units, min(units, wanted, _most_splits(outputs, element, input_bytes)))
    splits = _enough_splits(ceil_div(units, rounds), units, loop_steps, limits)
    check_work("splits", blocks * splits)
    variant: dict[str, int | str] = {
        "subgroups": bool(subgroup_size),
        "subgroup": subgroup_size,
        "aligned": aligned and run % per_vector == 0,
        "one_run": segments == 1,
        "one_chunk": units == splits and tile_vectors <= lanes * CHUNK_VECTORS,
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
    )


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


def _enough_splits(wanted: int, most: int, loop_steps: Callable[[int], int], limits: DeviceLimits) -> int:
    """Return the number of splits: ``wanted``, or more, up to ``most``, where the loops would be too long.

    More splits may need more scratch memory than allowed; a correct result comes first.
    """
    splits = wanted
    while loop_steps(splits) > limits.max_loop_steps and splits < most:
        splits = min(ceil_div(splits * 5, 4), most)
    return splits


def _are_multiples(offsets: Iterable[int], step: int) -> bool:
    return all(offset % step == 0 for offset in offsets)


def _runs_are_aligned(layout: ReduceLayout, per_vector: int) -> bool:
    outer = (dim.input_stride for dim in (*layout.kept, *layout.reduced[:-1]))
    return _are_multiples((layout.input_base, *outer), per_vector)


@lru_cache
def _at_once(loads: str) -> tuple[int, ...]:
    """Return how many loads along a stride an invocation may have in flight, ascending."""
    return kernels.family("argreduce_columns").numbers_of("at_once", loads=loads)


def _columns(layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, reduce_count = layout.outputs, layout.reduce_count
    inner = layout.kept[-1] if layout.kept else Dim(1, 0, 0)
    loads, run, columns, load_bytes = "elements", 1, 1, element.nbytes
    if inner.input_stride == 1:
        per_vector = VECTOR_BYTES // element.nbytes
        outer = (dim.input_stride for dim in (*layout.kept[:-1], *layout.reduced))
        if inner.size >= per_vector:
            run, columns, load_bytes = inner.size, per_vector, VECTOR_BYTES
            aligned = _are_multiples((layout.input_base, *outer), per_vector)
            loads = "vectors" if aligned else "unaligned"
    groups = outputs // run * ceil_div(run, columns)

    # Neighbouring invocations read neighbouring memory: of several outputs, or of one.
    adjacent = outputs == 1 or 0 < abs(layout.reduced[-1].input_stride) < abs(inner.input_stride)
    filling = ceil_div(tuning.columns_workgroups * workgroup_size, groups)
    most = power_of_two_at_least(ceil_div(reduce_count, tuning.positions_per_lane))
    segment = max(tuning.columns_segment_bytes, load_bytes)
    while True:
        side_by_side = 1 if adjacent else min(power_of_two_at_least(groups), segment // load_bytes)
        lanes = min(workgroup_size // min(side_by_side, workgroup_size), most, power_of_two_at_least(filling))
        block_groups = workgroup_size // lanes
        blocks = ceil_div(groups, block_groups)
        splits = min(
            ceil_div(tuning.columns_workgroups, blocks),
            ceil_div(reduce_count, tuning.positions_per_split * lanes),
            max(tuning.most_candidates // (min(block_groups, groups) * columns), 1),
            _most_splits(outputs, element, input_bytes),
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
        columns_of_block = min(block_groups * columns, outputs)
        return loops.columns(positions, layout.reduced[-1].size, at_once, columns, columns_of_block)

    splits = _enough_splits(splits, reduce_count, loop_steps, limits)
    positions = ceil_div(reduce_count, splits)
    splits = ceil_div(reduce_count, positions)
    check_work("splits", blocks * splits)
    variant: dict[str, int | str] = {
        "loads": loads,
        "at_once": at_once,
        "one_stride": len(layout.reduced) == 1,
        "one_run": run == outputs,
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
