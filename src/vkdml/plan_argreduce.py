"""Planning argmin and argmax: a canonical layout to kernels, constants and workgroups."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from vkdml.layout import Dim, ReduceLayout
from vkdml.plan import (
    VECTOR_BYTES,
    DeviceLimits,
    Element,
    Plan,
    Step,
    ceil_div,
    check_buffer,
    check_work,
    pack,
    power_of_two_at_least,
    round_up,
    words,
)

REDUCE_LAYOUT_WORDS = 16
FLAG_LAYOUT_IN_PUSH, FLAG_WIDE_INDICES, FLAG_WITH_VALUES = 1, 2, 4
REDUCE_LIMIT = (1 << 32) - (1 << 24)
NOT_REDUCED = Dim(1, 0, 0)


@dataclass(frozen=True)
class _Shape:
    """How the first pass divides its work; see the push constants in ``shaders/argreduce.glsl``."""

    kernel: str
    lanes: int
    batch: int
    splits: int
    run: int
    tiles_per_run: int
    tile_vectors: int
    share: int
    workgroups: int


def plan_argreduce(
    layout: ReduceLayout,
    element: Element,
    input_elements: int,
    limits: DeviceLimits,
    *,
    take_min: bool,
    take_last: bool,
    omit_nan: bool,
    index_bytes: int,
    with_values: bool,
    output_elements: int | None = None,
) -> Plan:
    """Plan an argmin or argmax.

    Args:
        layout: canonical.
        element: of the input.
        input_elements: that the input buffer holds; the layout's offsets lie within.
        limits: of the device.
        take_min: argmin, not argmax.
        take_last: the last of equals, by index.
        omit_nan: NaNs lose to everything instead of beating it.
        index_bytes: 4 or 8.
        with_values: also copy the chosen elements.
        output_elements: that the output buffers hold (default: one for each output).

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        ValueError: more work than the kernels' 32-bit counters hold.
    """
    outputs, reduce_count = layout.outputs, layout.reduce_count
    output_elements = outputs if output_elements is None else output_elements
    input_bytes = input_elements * element.nbytes
    check_buffer("input", input_bytes, limits)
    check_buffer("output", output_elements * index_bytes, limits)
    check_work("outputs", outputs)
    if reduce_count >= REDUCE_LIMIT:
        raise ValueError(
            f"{reduce_count} overlapping elements compete for one output, more than the kernels count "
            f"(fewer than {REDUCE_LIMIT})"
        )

    shape = _shape(layout, element, input_bytes, limits)
    workgroup_size = limits.workgroup_size
    # Backwards positions turn the tie rule round.
    last_position = take_last != layout.reversed_order
    dims = (
        *(word for dim in layout.kept for word in (dim.size, dim.input_stride, dim.output_stride)),
        *(
            word
            for dim in layout.reduced
            for word in (dim.size, dim.input_stride, dim.output_stride, dim.output_stride >> 32)
        ),
    )
    layout_words = words(dims)
    in_push = len(layout_words) <= REDUCE_LAYOUT_WORDS
    candidates_base = 0 if in_push else len(layout_words)

    flags = (
        FLAG_LAYOUT_IN_PUSH * in_push
        + FLAG_WIDE_INDICES * (index_bytes == 8)
        + FLAG_WITH_VALUES * with_values
    )
    # NaN rules change nothing for elements that have none, so those share pipelines.
    omit_nan = omit_nan and "float" in element.name

    def step(kernel: str, shape: _Shape) -> Step:
        header = (
            flags,
            shape.lanes,
            outputs,
            reduce_count,
            shape.splits,
            len(layout.kept),
            len(layout.reduced),
            layout.input_base,
            layout.output_base,
            layout.index_base,
            layout.index_base >> 32,
            candidates_base,
            shape.run,
            shape.tiles_per_run,
            shape.tile_vectors,
            shape.share,
        )
        push = pack(header, layout_words if in_push else ())
        # Candidates are keys already: where they come from makes no difference any more.
        ordered = kernel.startswith("argreduce_combine")
        constants = (
            workgroup_size,
            int(take_min and not ordered),
            int(last_position),
            int(omit_nan and not ordered),
            shape.batch,
        )
        return Step(kernel, constants, push, min(shape.workgroups, limits.max_workgroup_count))

    steps = [step(f"{shape.kernel}_{element.name}", shape)]
    candidate_words = _candidate_words(element)
    scratch_words = 0
    if shape.splits > 1:
        scratch_words = outputs * shape.splits * candidate_words
        lanes = min(workgroup_size, power_of_two_at_least(ceil_div(shape.splits, 4)))
        combine = _Shape(
            "argreduce_combine",
            lanes,
            1,
            shape.splits,
            0,
            0,
            0,
            0,
            ceil_div(outputs, workgroup_size // lanes),
        )
        steps.append(step(f"argreduce_combine_{element.nbytes}_bytes", combine))
    return Plan(
        tuple(steps),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("indices", output_elements * index_bytes),
            ("values", round_up(output_elements * element.nbytes, 4) if with_values else 0),
            ("workspace", 4 * (candidates_base + scratch_words)),
        ),
        () if in_push else layout_words,
    )


def _candidate_words(element: Element) -> int:
    return (2 if element.nbytes == 8 else 1) + 1


def _most_splits(outputs: int, element: Element, input_bytes: int) -> int:
    """Scratch memory is at most 1% of the input plus 1 MiB, of which the layout takes next to nothing."""
    scratch = input_bytes // 100 + (1 << 20) - 4096
    return max(1, scratch // (outputs * _candidate_words(element) * 4))


def _shape(layout: ReduceLayout, element: Element, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning = limits.tuning
    innermost = layout.reduced[-1] if layout.reduced else NOT_REDUCED
    long_enough = innermost.size * element.nbytes >= tuning.shortest_row_bytes
    if innermost.input_stride == 1 and long_enough:
        return _rows(layout, element, input_bytes, limits)
    return _columns(layout, element, input_bytes, limits)


def _lanes(fewest: int, most: int, outputs: int, limits: DeviceLimits) -> int:
    """As few invocations to an output as keep the device filled: every further one grows their tree."""
    workgroup_size = limits.workgroup_size
    filling = ceil_div(limits.tuning.target_workgroups * workgroup_size, outputs)
    return min(workgroup_size, most, power_of_two_at_least(max(fewest, filling)))


def _rows(layout: ReduceLayout, element: Element, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs = layout.outputs
    run = layout.reduced[-1].size
    segments = layout.reduce_count // run
    per_vector = VECTOR_BYTES // element.nbytes
    vectors = (run - 1 + per_vector - 1) // per_vector + 1  # wherever the run starts
    if _runs_are_aligned(layout, per_vector):
        vectors = ceil_div(run, per_vector)
    tile_vectors = min(vectors, tuning.tile_bytes // VECTOR_BYTES)
    tiles_per_run = ceil_div(vectors, tile_vectors)
    units = segments * tiles_per_run
    check_work("tiles", units)
    most = power_of_two_at_least(ceil_div(vectors, tuning.rows_batch))
    lanes = _lanes(ceil_div(vectors, tuning.vectors_per_lane), most, outputs, limits)
    items_per_workgroup = workgroup_size // lanes
    wanted = ceil_div(tuning.target_workgroups * items_per_workgroup, outputs)
    splits = min(units, wanted, _most_splits(outputs, element, input_bytes))
    share = ceil_div(units, splits)
    splits = ceil_div(units, share)
    check_work("splits", outputs * splits)
    workgroups = ceil_div(outputs * splits, items_per_workgroup)
    return _Shape(
        "argreduce_rows",
        lanes,
        tuning.rows_batch,
        splits,
        run,
        tiles_per_run,
        tile_vectors,
        share,
        workgroups,
    )


def _runs_are_aligned(layout: ReduceLayout, per_vector: int) -> bool:
    strides = [dim.input_stride for dim in (*layout.kept, *layout.reduced[:-1])]
    return all(offset % per_vector == 0 for offset in (layout.input_base, *strides))


def _columns(layout: ReduceLayout, element: Element, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs, reduce_count = layout.outputs, layout.reduce_count
    inner: Dim | None = layout.kept[-1] if layout.kept else None
    kernel, run, groups = "argreduce_strided", 1, outputs
    columns = 4 // element.nbytes
    if columns > 1 and inner and inner.input_stride == 1 and inner.size >= columns:
        kernel, run = "argreduce_columns", inner.size
        groups = outputs // run * ceil_div(run, columns)

    # Neighbouring invocations read what is nearest in memory: outputs, or positions of one output.
    nearest_position = abs(layout.reduced[-1].input_stride) if layout.reduced else inf
    positions_first = inner is None or nearest_position < abs(inner.input_stride)
    most = power_of_two_at_least(ceil_div(reduce_count, tuning.columns_batch))
    side_by_side = min(workgroup_size, power_of_two_at_least(groups))
    lanes = min(most, workgroup_size // side_by_side)
    if positions_first and reduce_count * element.nbytes >= tuning.shortest_row_bytes:
        lanes = _lanes(ceil_div(reduce_count, tuning.positions_per_lane), most, outputs, limits)

    blocks = ceil_div(groups, workgroup_size // lanes)
    longest_share = tuning.positions_per_split * lanes
    splits = min(
        ceil_div(tuning.target_workgroups, blocks),
        ceil_div(reduce_count, longest_share),
        _most_splits(outputs, element, input_bytes),
    )
    share = ceil_div(reduce_count, splits)
    splits = ceil_div(reduce_count, share)
    check_work("splits", blocks * splits)
    return _Shape(kernel, lanes, tuning.columns_batch, splits, run, 0, 0, share, blocks * splits)
