"""Plans: which kernels run with which constants for one operation. Pure values: no device, no data."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import inf
from typing import Any

from vkdml.layout import CopyLayout, Dim, ReduceLayout
from vkdml.tuning import Tuning

PUSH_BYTES = 128
REDUCE_LAYOUT_WORDS = 16
COPY_LAYOUT_WORDS = 24
FLAG_LAYOUT_IN_PUSH, FLAG_WIDE_INDICES, FLAG_WITH_VALUES = 1, 2, 4
WORDS_LIMIT = 1 << 32
# Kernels count work in 32 bits and step over it, so they need some room at the end.
WORK_LIMIT = 1 << 31
REDUCE_LIMIT = (1 << 32) - (1 << 24)
VECTOR_BYTES = 16
NOT_REDUCED = Dim(1, 0, 0)


@dataclass(frozen=True)
class DeviceLimits:
    """What a plan must respect and may assume of a device."""

    tuning: Tuning
    max_storage_buffer_range: int
    max_workgroup_count: int
    max_workgroup_invocations: int

    @property
    def workgroup_size(self) -> int:
        """Invocations per workgroup: a power of two within the limit."""
        most = 1 << (self.max_workgroup_invocations.bit_length() - 1)
        return min(self.tuning.workgroup_size, most)


@dataclass(frozen=True)
class Step:
    """One dispatch: a kernel of the table, its specialization constants, push constants and workgroups."""

    kernel: str
    constants: tuple[int, ...]
    push: bytes
    workgroups: int


@dataclass(frozen=True)
class Plan:
    """The dispatches of one operation, in order, and the sizes in bytes of the buffers they use.

    The workspace starts with ``layout``, words that the host writes; the rest is scratch. Sizes of 0 are
    buffers that nothing uses.
    """

    steps: tuple[Step, ...]
    buffer_bytes: tuple[tuple[str, int], ...]
    layout: tuple[int, ...]

    def bytes_of(self, role: str) -> int:
        return dict(self.buffer_bytes).get(role, 0)


@dataclass(frozen=True)
class Element:
    """An element type of the kernel table."""

    name: str
    nbytes: int


def _power_of_two_at_least(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _words(values: Any) -> tuple[int, ...]:
    return tuple(value % WORDS_LIMIT for value in values)


def _check_buffer(what: str, nbytes: int, limits: DeviceLimits) -> None:
    if nbytes > limits.max_storage_buffer_range:
        raise MemoryError(
            f"the {what} spans {nbytes} bytes, more than one buffer of this device can hold "
            f"({limits.max_storage_buffer_range} bytes): reduce or slice it in parts"
        )


def _check_work(what: str, count: int) -> None:
    if count >= WORK_LIMIT:
        raise ValueError(
            f"{count} {what} in one call are more than the kernels count (fewer than {WORK_LIMIT})"
        )


def _pack(header: tuple[int, ...], layout: tuple[int, ...]) -> bytes:
    words = _words((*header, *layout))
    return struct.pack(f"<{PUSH_BYTES // 4}I", *words, *(0,) * (PUSH_BYTES // 4 - len(words)))


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
    _check_buffer("input", input_bytes, limits)
    _check_buffer("output", output_elements * index_bytes, limits)
    _check_work("outputs", outputs)
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
    layout_words = _words(dims)
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
        push = _pack(header, layout_words if in_push else ())
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
        lanes = min(workgroup_size, _power_of_two_at_least(_ceil_div(shape.splits, 4)))
        combine = _Shape(
            "argreduce_combine",
            lanes,
            1,
            shape.splits,
            0,
            0,
            0,
            0,
            _ceil_div(outputs, workgroup_size // lanes),
        )
        steps.append(step(f"argreduce_combine_{element.nbytes}_bytes", combine))
    return Plan(
        tuple(steps),
        (
            ("input", _round_up(input_bytes, VECTOR_BYTES)),
            ("indices", output_elements * index_bytes),
            ("values", _round_up(output_elements * element.nbytes, 4) if with_values else 0),
            ("workspace", 4 * (candidates_base + scratch_words)),
        ),
        () if in_push else layout_words,
    )


def _round_up(n: int, step: int) -> int:
    return _ceil_div(n, step) * step


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
    filling = _ceil_div(limits.tuning.target_workgroups * workgroup_size, outputs)
    return min(workgroup_size, most, _power_of_two_at_least(max(fewest, filling)))


def _rows(layout: ReduceLayout, element: Element, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    outputs = layout.outputs
    run = layout.reduced[-1].size
    segments = layout.reduce_count // run
    per_vector = VECTOR_BYTES // element.nbytes
    vectors = (run - 1 + per_vector - 1) // per_vector + 1  # wherever the run starts
    if _runs_are_aligned(layout, per_vector):
        vectors = _ceil_div(run, per_vector)
    tile_vectors = min(vectors, tuning.tile_bytes // VECTOR_BYTES)
    tiles_per_run = _ceil_div(vectors, tile_vectors)
    units = segments * tiles_per_run
    _check_work("tiles", units)
    most = _power_of_two_at_least(_ceil_div(vectors, tuning.rows_batch))
    lanes = _lanes(_ceil_div(vectors, tuning.vectors_per_lane), most, outputs, limits)
    items_per_workgroup = workgroup_size // lanes
    wanted = _ceil_div(tuning.target_workgroups * items_per_workgroup, outputs)
    splits = min(units, wanted, _most_splits(outputs, element, input_bytes))
    share = _ceil_div(units, splits)
    splits = _ceil_div(units, share)
    _check_work("splits", outputs * splits)
    workgroups = _ceil_div(outputs * splits, items_per_workgroup)
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
        groups = outputs // run * _ceil_div(run, columns)

    # Neighbouring invocations read what is nearest in memory: outputs, or positions of one output.
    nearest_position = abs(layout.reduced[-1].input_stride) if layout.reduced else inf
    positions_first = inner is None or nearest_position < abs(inner.input_stride)
    most = _power_of_two_at_least(_ceil_div(reduce_count, tuning.columns_batch))
    side_by_side = min(workgroup_size, _power_of_two_at_least(groups))
    lanes = min(most, workgroup_size // side_by_side)
    if positions_first and reduce_count * element.nbytes >= tuning.shortest_row_bytes:
        lanes = _lanes(_ceil_div(reduce_count, tuning.positions_per_lane), most, outputs, limits)

    blocks = _ceil_div(groups, workgroup_size // lanes)
    longest_share = tuning.positions_per_split * lanes
    splits = min(
        _ceil_div(tuning.target_workgroups, blocks),
        _ceil_div(reduce_count, longest_share),
        _most_splits(outputs, element, input_bytes),
    )
    share = _ceil_div(reduce_count, splits)
    splits = _ceil_div(reduce_count, share)
    _check_work("splits", blocks * splits)
    return _Shape(kernel, lanes, tuning.columns_batch, splits, run, 0, 0, share, blocks * splits)


def plan_slice1(
    layout: CopyLayout,
    element_bytes: int,
    input_elements: int,
    limits: DeviceLimits,
    *,
    output_elements: int | None = None,
) -> Plan:
    """Plan a strided copy of elements of 1, 2, 4, 8 or 16 bytes.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        ValueError: more work than the kernels' 32-bit counters hold.
    """
    output_elements = layout.count if output_elements is None else output_elements
    _check_buffer("input", input_elements * element_bytes, limits)
    _check_buffer("output", output_elements * element_bytes, limits)
    dims = layout.dims
    run = words_per_run = 1
    run_input_stride = 0
    items = layout.count
    kernel = f"slice1_wide_{element_bytes}_bytes"
    if element_bytes < 4:
        kernel = f"slice1_narrow_{element_bytes}_bytes"
        if dims and dims[-1].output_stride == 1:
            run, run_input_stride = dims[-1].size, dims[-1].input_stride
            dims = dims[:-1]
        # Wherever in a word the run starts.
        words_per_run = (run * element_bytes + (4 - element_bytes) + 3) // 4
        items = layout.count // run * words_per_run
    if items >= WORDS_LIMIT:
        raise ValueError(
            f"{items} elements in one call are more than the kernels count (fewer than {WORDS_LIMIT})"
        )
    layout_words = _words(word for dim in dims for word in (dim.size, dim.input_stride, dim.output_stride))
    in_push = len(layout_words) <= COPY_LAYOUT_WORDS
    header = (
        int(in_push),
        items,
        len(dims),
        layout.input_base,
        layout.output_base,
        run,
        words_per_run,
        run_input_stride,
    )
    push = _pack(header, layout_words if in_push else ())
    workgroup_size = limits.workgroup_size
    workgroups = min(_ceil_div(items, workgroup_size), limits.max_workgroup_count)
    return Plan(
        (Step(kernel, (workgroup_size,), push, workgroups),),
        (
            ("input", _round_up(input_elements * element_bytes, VECTOR_BYTES)),
            ("output", _round_up(output_elements * element_bytes, 4)),
            ("workspace", 0 if in_push else 4 * len(layout_words)),
        ),
        () if in_push else layout_words,
    )
