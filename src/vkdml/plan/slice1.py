"""Planning slice1: a canonical copy to kernels, constants and workgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache

from vkdml.plan import kernels, loop_steps
from vkdml.plan.blocks import Blocks, blocks_of
from vkdml.plan.boxes import SECTOR_BYTES, Boxes, Room, boxes_for, inverse, words_of
from vkdml.plan.divisions import run_words, whole_inverse
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.matrices import (
    Matrices,
    TileShape,
    continued,
    loads_unaligned,
    tile_shape,
    transposed,
    unaligned,
)
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    ceil_div,
    check_buffer,
    check_work,
    checked_step,
    dim_words,
    round_up,
    words,
)
from vkdml.plan.strips import strips_of
from vkdml.plan.tuning import SliceTuning
from vkdml.plan.word_copies import is_of_words, word_copy

# Runs that read memory so often, out of a cache, are as fast as boxes.
_MOST_READS = 4
_LEAST_TILE_WORKGROUP = 32
# Bytes from element to element of a long row from which on gathering words is faster than gathering vectors.
_WORDS_APART = 8
# Of rows of so many vectors, those that cross from one to the next are few.
_VECTORS_OF_LONG_ROW = 4
# Dimensions of a run that `advance` in `slice1_runs.comp` goes through without a division.
_MOST_FIXED_DIMS = 4
# Of its numbers, the one for two innermost dimensions that have as many elements as a vector.
_LONG_PLANES = kernels.number("run_of_long_planes")


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
        TooMuchWork: more than the kernels' 32-bit counters hold, or than the driver's loops make.
    """
    output_elements = layout.count if output_elements is None else output_elements
    input_bytes, output_bytes = input_elements * element_bytes, output_elements * element_bytes
    check_buffer("input", input_bytes, limits)
    check_buffer("output", output_bytes, limits)
    last_vector = _last_vector(layout, element_bytes)
    layout, element_bytes = widened(layout, element_bytes)
    tuning = limits.tuning.slice1
    gathers_well = _gathers_well(layout, element_bytes, tuning)
    least_bytes = tuning.narrow_tile_least_bytes
    if element_bytes >= 4:
        least_bytes = max(tuning.tile_least_bytes, tuning.gathered_tile_least_bytes if gathers_well else 0)
    matrices = _matrices(layout, element_bytes, ceil_div(least_bytes, element_bytes), tuning)
    filled = matrices is not None and _fills_tiles(matrices, element_bytes, limits)
    by_words = not filled and _gathers_by_words(layout, element_bytes, limits)
    boxes = None if gathers_well or filled or by_words else _boxes_for(layout, element_bytes, limits)
    steps: tuple[Step, ...]
    # Tiles that are not filled are slower than whatever else does not read memory again and again.
    if matrices is not None and (filled or not (gathers_well or by_words or boxes)):
        step, layout_words = _tiles(matrices, element_bytes, last_vector, limits)
        steps = (step,)
    elif by_words:
        step, layout_words = word_copy(layout, element_bytes, limits)
        steps = (step,)
    elif boxes is not None:
        step, layout_words = _boxes(boxes, last_vector, limits, tuning)
        steps = (step,)
    else:
        steps, layout_words = _runs(layout, element_bytes, last_vector, limits, tuning)
    return Plan(
        tuple(checked_step(step, limits) for step in steps),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("output", round_up(output_bytes, 4)),
            ("workspace", 4 * len(layout_words)),
        ),
        layout_words,
    )


def _fills_tiles(matrices: Matrices, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether rows have a vector, and few of the elements that tiles have room for are missing."""
    has_vectors = matrices.columns.count * element_bytes >= VECTOR_BYTES
    fill = _shape(matrices, element_bytes, limits).fill(matrices)
    return has_vectors and fill >= limits.tuning.slice1.tile_least_fill


def _last_vector(layout: CopyLayout, element_bytes: int) -> int:
    """Return which vector of the input holds the last byte that is copied: nothing beyond it is read."""
    reach = sum((dim.size - 1) * dim.input_stride for dim in layout.dims if dim.input_stride > 0)
    return ((layout.input_base + reach + 1) * element_bytes - 1) // VECTOR_BYTES


def widened(layout: CopyLayout, element_bytes: int) -> tuple[CopyLayout, int]:
    """Return the same copy with the widest elements, of at most 16 bytes, that describe it.

    >>> widened(CopyLayout((Dim(6, 8, 8), Dim(4, 1, 1)), 4, 0), 2)
    (CopyLayout(dims=(Dim(size=6, input_stride=2, output_stride=2),), input_base=1, output_base=0), 8)
    """
    while element_bytes < VECTOR_BYTES and layout.dims:
        *outer, inner = layout.dims
        numbers = [layout.input_base, layout.output_base, inner.size]
        for dim in outer:
            numbers += [dim.input_stride, dim.output_stride]
        if (inner.input_stride, inner.output_stride) != (1, 1) or any(number % 2 for number in numbers):
            break
        dims = [Dim(dim.size, dim.input_stride // 2, dim.output_stride // 2) for dim in outer]
        if inner.size > 2:
            dims.append(replace(inner, size=inner.size // 2))
        layout = CopyLayout(tuple(dims), layout.input_base // 2, layout.output_base // 2)
        element_bytes *= 2
    return layout, element_bytes


@lru_cache
def _row_steps(element_bytes: int) -> tuple[int, ...]:
    """Return the input strides along a column that tiles have a kernel for."""
    return kernels.family("slice1_tiles").numbers_of("row_step", element_bytes=element_bytes)


def _matrices(layout: CopyLayout, element_bytes: int, least: int, tuning: SliceTuning) -> Matrices | None:
    down, _ = dict(tuning.tile_shapes)[element_bytes]
    return transposed(
        layout,
        least,
        steps=_row_steps(element_bytes),
        groups_below=down * VECTOR_BYTES // element_bytes,
        most_between=SECTOR_BYTES // element_bytes - 1,
    )


def _shape(matrices: Matrices, element_bytes: int, limits: DeviceLimits) -> TileShape:
    most = dict(limits.tuning.slice1.tile_shapes)[element_bytes]
    return tile_shape(matrices, element_bytes, most, limits)


def _tiles(
    matrices: Matrices, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants."""
    outer, rows, columns = matrices.outer, matrices.rows, matrices.columns
    shape = _shape(matrices, element_bytes, limits)
    tiles_down, tiles_across = shape.counts(matrices)
    tiles = math.prod(dim.size for dim in outer) * tiles_down * tiles_across
    check_work("tiles", tiles)
    layout_words = dim_words(outer)
    family = kernels.family("slice1_tiles")
    in_push = len(layout_words) <= family.layout_room
    push = family.push(
        tiles=tiles,
        tiles_down=tiles_down,
        tiles_across=tiles_across,
        tiles_in_band_inverse=whole_inverse(limits.tuning.slice1.tile_band * tiles_across),
        dims=len(outer),
        input_base=matrices.input_base,
        output_base=matrices.output_base,
        rows=rows.count,
        columns=columns.count,
        row_output_stride=rows.dim.output_stride,
        column_input_stride=columns.dim.input_stride,
        last_vector=last_vector,
        **_places(matrices, shape, element_bytes),
        layout_words=layout_words if in_push else (),
    )
    workgroup_size = _tile_workgroup_size(shape, element_bytes, limits)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=in_push,
        down=shape.down,
        across=shape.across,
        band=limits.tuning.slice1.tile_band,
        row_step=rows.dim.input_stride,
        input_unaligned=loads_unaligned(matrices, element_bytes),
        output_unaligned=unaligned(matrices.output_starts, element_bytes),
        row_groups=rows.groups is not None,
        column_groups=columns.groups is not None,
        continued=continued(matrices, element_bytes),
    )
    tiles_of_workgroup = loop_steps.rounds_of(tiles, limits.max_workgroup_count)
    parts = shape.parts(element_bytes)
    vectors = shape.columns * element_bytes // VECTOR_BYTES
    per_tile = loop_steps.tile(parts, shape.rows, vectors, workgroup_size)
    step = Step(
        kernel,
        constants,
        push,
        min(tiles, limits.max_workgroup_count),
        loop_steps=loop_steps.loop(tiles_of_workgroup, loop_steps.loop(len(outer)) + per_tile),
    )
    return step, () if in_push else layout_words


def _tile_workgroup_size(shape: TileShape, element_bytes: int, limits: DeviceLimits) -> int:
    """Return invocations that load a tile in the fewest rounds, each of which occupies nearly all of them."""
    parts = shape.parts(element_bytes)
    rounds = ceil_div(parts, limits.workgroup_size)
    return min(round_up(ceil_div(parts, rounds), _LEAST_TILE_WORKGROUP), limits.workgroup_size)


def _places(matrices: Matrices, shape: TileShape, element_bytes: int) -> dict[str, int]:
    """Return what the kernel is pushed of the places of rows and columns, and of groups of them."""
    rows, columns = matrices.rows, matrices.columns
    vectors = shape.columns * element_bytes // VECTOR_BYTES
    step = rows.dim.input_stride
    return {
        "tiles_in_matrix_inverse": whole_inverse(math.prod(shape.counts(matrices))),
        "tile_vectors": vectors,
        "tile_vectors_inverse": whole_inverse(vectors),
        "next_row_input_offset": step if rows.dim.output_stride > 0 else -step,
        "group_rows": rows.in_group,
        "group_rows_inverse": whole_inverse(rows.in_group),
        "copied_rows": rows.dim.size,
        "row_group_output_stride": rows.groups.output_stride if rows.groups else 0,
        "group_columns": columns.dim.size,
        "group_columns_inverse": whole_inverse(columns.dim.size),
        "column_group_input_stride": columns.groups.input_stride if columns.groups else 0,
    }


@lru_cache
def _steps_with_a_kernel(element_bytes: int) -> tuple[int, ...]:
    """Return the innermost input strides that have a kernel variant of their own."""
    return kernels.family("slice1_runs").numbers_of("step", element_bytes=element_bytes)


class _Written(IntEnum):
    """Which vectors of the output a step of ``slice1_runs`` writes."""

    ALL = kernels.number("written_all")
    WHOLE = kernels.number("written_whole")
    INSIDE_ROWS = kernels.number("written_inside_rows")
    AT_BOUNDARIES = kernels.number("written_at_boundaries")
    IN_STRIPS = kernels.number("written_in_strips")


def _runs(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits, tuning: SliceTuning
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps, and the layout words for the workspace if they do not fit the push constants."""
    per_vector = VECTOR_BYTES // element_bytes
    outer = list(layout.dims)
    inner: list[Dim] = []
    run = 1
    while outer and outer[-1].output_stride == run:
        inner.insert(0, outer.pop())
        run *= inner[0].size
    if not inner:
        inner.append(Dim(1, 0, 1))
    innermost = inner[-1]
    skipped = layout.output_base % per_vector
    if outer and any(
        number % per_vector for number in (layout.output_base, *(d.output_stride for d in outer))
    ):
        before = per_vector - 1  # at most: each run starts elsewhere in a vector
    else:
        before = skipped
    vectors_per_run = ceil_div(before + run, per_vector)
    family = kernels.family("slice1_runs")
    whole_vectors = innermost.size >= per_vector
    has_kernel = whole_vectors and innermost.input_stride in _steps_with_a_kernel(element_bytes)
    workgroup_size = min(limits.workgroup_size, tuning.runs_workgroup_size)
    layout_words = run_words((*outer, *inner))
    in_one = (
        bool(outer) or per_vector == 1 or run < max(per_vector, tuning.boundaries_from_bytes // element_bytes)
    )
    inside_rows = not in_one and innermost.size >= _VECTORS_OF_LONG_ROW * per_vector
    # Only kernels that gather a vector's rows one after the other gain where there is one row.
    inside_rows = inside_rows and has_kernel
    blocks = None
    if element_bytes < 4 and not in_one and not has_kernel and tuning.block_bytes:
        blocks = blocks_of(inner, element_bytes, tuning.block_bytes, layout.output_base)
    strips = None
    if not (in_one or has_kernel or blocks):
        strips = strips_of(inner, element_bytes, workgroup_size, tuning)
    if strips is not None:
        layout_words += words((strips.groups, whole_inverse(strips.groups), strips.rows, strips.row))
    in_push = len(layout_words) <= family.layout_room

    by_words = _row_words(innermost, element_bytes) if 4 <= innermost.size < per_vector else 0

    def step(written: _Written, vectors: int, per_run: int = vectors_per_run, boundary_step: int = 0) -> Step:
        check_work("vectors", vectors)
        rounds = min(vectors // (workgroup_size * tuning.full_workgroups), tuning.workgroup_vectors)
        # In each round of a workgroup every invocation writes one vector.
        per_round = loop_steps.runs_per_round(len(outer), len(inner), per_vector)
        rounds = min(rounds, (limits.max_loop_steps - 1) // (1 + per_round))
        rounds = max(rounds, 1, ceil_div(vectors, workgroup_size * limits.max_workgroup_count))
        per_workgroup = rounds * workgroup_size
        push = family.push(
            vectors=vectors,
            outer_dims=len(outer),
            dims=len(outer) + len(inner),
            input_base=layout.input_base,
            output_base=layout.output_base,
            run=run,
            vectors_per_run=per_run,
            vectors_per_run_inverse=whole_inverse(per_run),
            vectors_per_workgroup=per_workgroup,
            last_vector=last_vector,
            boundary_step=boundary_step,
            layout_words=layout_words if in_push else (),
        )
        kernel, constants = family.specialize(
            whole_vectors=whole_vectors,
            step=innermost.input_stride if has_kernel else 0,
            element_bytes=element_bytes,
            workgroup=workgroup_size,
            layout_in_push=in_push,
            parted=not in_one,
            written=written,
            run_dims=0 if in_one else _run_dims(inner, per_vector),
            row_words=by_words if written in (_Written.WHOLE, _Written.IN_STRIPS) else 0,
        )
        loops = loop_steps.loop(rounds, per_round)
        return Step(kernel, constants, push, ceil_div(vectors, per_workgroup), loop_steps=loops)

    vectors = math.prod(dim.size for dim in outer) * vectors_per_run
    if in_one:
        steps = [step(_Written.ALL, vectors)]
    else:
        if blocks is not None:
            steps = [_blocks(blocks, layout, element_bytes, last_vector, len(layout_words), limits, tuning)]
        elif strips is not None:
            steps = [step(_Written.IN_STRIPS, strips.vectors, strips.strips, strips.width)]
        else:
            steps = [step(_Written.INSIDE_ROWS if inside_rows else _Written.WHOLE, vectors)]
        boundary_step = innermost.size if inside_rows else run
        if strips is not None:
            boundary_step = strips.row
        if blocks is not None:
            boundary_step = blocks.boundary_step
        if boundary_step and (skipped or boundary_step % per_vector):
            boundaries = run // boundary_step + 1
            steps.append(step(_Written.AT_BOUNDARIES, boundaries, boundary_step=boundary_step))
    if blocks is not None and len(run_words(blocks.outer)) > kernels.family("slice1_blocks").layout_room:
        return tuple(steps), layout_words + run_words(blocks.outer)
    return tuple(steps), () if in_push else layout_words


def _row_words(inner: Dim, element_bytes: int) -> int:
    """Return how kernels read rows of single bytes by words: 1 forwards, 2 backwards; 0 where they do not.

    >>> _row_words(Dim(5, -1, 1), 1), _row_words(Dim(5, 2, 1), 1), _row_words(Dim(5, 1, 1), 2)
    (2, 0, 0)
    """
    return {1: 1, -1: 2}.get(inner.input_stride, 0) if element_bytes == 1 else 0


def _run_dims(inner: Sequence[Dim], per_vector: int) -> int:
    """Return what tells ``advance`` in ``slice1_runs.comp`` which dimensions to go through."""
    if len(inner) > 2 and inner[-2].size * inner[-1].size >= per_vector:
        return _LONG_PLANES
    return len(inner) if len(inner) <= _MOST_FIXED_DIMS else 0


def _blocks(
    blocks: Blocks,
    layout: CopyLayout,
    element_bytes: int,
    last_vector: int,
    layout_base: int,
    limits: DeviceLimits,
    tuning: SliceTuning,
) -> Step:
    """Return the step that writes all whole words of rows; its words of the workspace begin at a number."""
    workgroup_size = min(limits.workgroup_size, tuning.runs_workgroup_size)
    per_word = 4 // element_bytes
    rows, row = blocks.rows.size, blocks.row
    chunks, of_row = ceil_div(rows, blocks.chunk_groups * per_word), ceil_div(row, blocks.block_columns)
    items = math.prod(dim.size for dim in blocks.outer) * chunks * of_row
    check_work("items", items)
    inner = blocks.columns[-1]
    family = kernels.family("slice1_blocks")
    layout_words = run_words(blocks.outer)
    in_push = len(layout_words) <= family.layout_room
    per_item = loop_steps.loop(len(blocks.outer)) + loop_steps.loop(
        blocks.chunk_groups + blocks.joined, loop_steps.loop(ceil_div(blocks.block_columns, per_word) + 1)
    )
    rounds = min(
        items // (workgroup_size * tuning.full_workgroups), (limits.max_loop_steps - 1) // (1 + per_item)
    )
    rounds = max(rounds, 1, ceil_div(items, workgroup_size * limits.max_workgroup_count))
    in_input = (
        layout.input_base + blocks.first_input,
        rows,
        *(dim.input_stride for dim in (*blocks.outer, *blocks.columns)),
    )
    # Joined rows begin with those that start with a word.
    even = not blocks.joined or all(dim.output_stride % per_word == 0 for dim in blocks.outer)
    push = family.push(
        items=items,
        items_per_workgroup=rounds * workgroup_size,
        outer_dims=len(blocks.outer),
        layout_base=0 if in_push else layout_base,
        input_base=layout.input_base + blocks.first_input,
        output_base=layout.output_base + blocks.first_output,
        last_vector=last_vector,
        rows=rows,
        row=row,
        row_output_stride=blocks.rows.output_stride,
        chunk_groups=blocks.chunk_groups,
        chunks=chunks,
        chunks_inverse=whole_inverse(chunks),
        block_columns=blocks.block_columns,
        blocks=of_row,
        blocks_inverse=whole_inverse(of_row),
        column_size=inner.size,
        column_size_inverse=whole_inverse(inner.size),
        column_stride=inner.input_stride,
        column_jump=blocks.column_jump,
        layout_words=layout_words if in_push else (),
    )
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=in_push,
        input_aligned=even and all(number % per_word == 0 for number in in_input),
        output_aligned=blocks.output_aligned,
        joined=blocks.joined,
        every_second_row=blocks.rows.input_stride == 2,
        one_column_dim=len(blocks.columns) == 1,
        few_rows=rows if rows < per_word else 0,
        columns_of_three=blocks.are_columns_of_three and element_bytes == 1,
        short_row=row if blocks.joined and row < per_word else 0,
    )
    loops = loop_steps.loop(rounds, per_item)
    return Step(kernel, constants, push, ceil_div(items, rounds * workgroup_size), loop_steps=loops)


def _gathers_well(layout: CopyLayout, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether runs read each sector while a cache holds it, and few vectors are made of many rows."""
    if not layout.dims:
        return True
    inner = layout.dims[-1]
    if element_bytes < 4 and inner.size * element_bytes < VECTOR_BYTES:
        return False
    far = _far_dims(layout, element_bytes, tuning)
    reads = min(abs(inner.input_stride) * element_bytes, SECTOR_BYTES) / element_bytes  # of each sector
    return not far or (reads <= _MOST_READS and _are_cached(far, element_bytes, tuning))


def _gathers_by_words(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether words read each sector while a cache holds it, and no kernel of vectors is faster."""
    tuning = limits.tuning.slice1
    if not tuning.word_workgroup_size or not is_of_words(layout, element_bytes, limits):
        return False
    inner = layout.dims[-1]
    # Invocations that write vectors of long rows read what lies side by side, but where all are apart.
    nearest = min(abs(dim.input_stride) for dim in layout.dims) * element_bytes
    all_apart = (
        element_bytes < 4
        and nearest == abs(inner.input_stride) * element_bytes
        and _WORDS_APART <= nearest <= SECTOR_BYTES
    )
    if inner.size * element_bytes >= VECTOR_BYTES and not all_apart:
        return False
    if inner.size < 4 // element_bytes - 1 and abs(layout.dims[-2].input_stride) == inner.size:
        return False  # pairs side by side, which boxes take at once
    far = _far_dims(layout, element_bytes, tuning)
    reads = math.prod(
        min(dim.size, ceil_div(SECTOR_BYTES, abs(dim.input_stride) * element_bytes)) for dim in far
    )
    return reads <= _MOST_READS and _are_cached(far, element_bytes, tuning)


def _far_dims(layout: CopyLayout, element_bytes: int, tuning: SliceTuning) -> list[Dim]:
    """Return the dimensions along which elements of a sector are far apart in the output."""
    strided = [dim for dim in layout.dims if dim.input_stride]
    nearest = min((abs(dim.input_stride) for dim in strided), default=0)
    within = max(nearest, ceil_div(SECTOR_BYTES, element_bytes) - 1)
    sharing = [dim for dim in strided if abs(dim.input_stride) <= within]
    return [dim for dim in sharing if dim.output_stride * element_bytes > tuning.box_near_bytes]


def _are_cached(far: Sequence[Dim], element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether a cache holds what lies between elements of a sector."""
    between = max((dim.output_stride * dim.size for dim in far), default=0)
    return between * element_bytes <= tuning.box_cache_bytes


def _boxes_for(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Boxes | None:
    tuning = limits.tuning.slice1
    if not _box_bytes(element_bytes, tuning):
        return None
    if element_bytes > 4:
        more = element_bytes // 4
        dims = [Dim(dim.size, dim.input_stride * more, dim.output_stride * more) for dim in layout.dims]
        # The inner dimension merges with the words of its elements.
        if dims and (dims[-1].input_stride, dims[-1].output_stride) == (more, more):
            dims[-1] = Dim(dims[-1].size * more, 1, 1)
        else:
            dims.append(Dim(more, 1, 1))
        layout = CopyLayout(tuple(dims), layout.input_base * more, layout.output_base * more)
        element_bytes = 4
    boxes = boxes_for(layout, element_bytes, _room(element_bytes, limits, tuning))
    return boxes if boxes and boxes.layout_words <= kernels.number("box_layout_words") else None


def _box_bytes(element_bytes: int, tuning: SliceTuning) -> int:
    return tuning.narrow_box_bytes if element_bytes < 4 else tuning.box_bytes


def _room(element_bytes: int, limits: DeviceLimits, tuning: SliceTuning) -> Room:
    nbytes = min(_box_bytes(element_bytes, tuning), limits.max_shared_memory)
    rows = min(tuning.box_rows, nbytes // 64)
    workgroup_size = _box_workgroup_size(limits, tuning)
    # Beside the cells lie the layout and what is known of the rows.
    cells = nbytes // 4 - 2 * rows - kernels.number("box_layout_words")
    return Room(cells, rows, workgroup_size * kernels.number("box_turns"))


def _box_workgroup_size(limits: DeviceLimits, tuning: SliceTuning) -> int:
    return min(tuning.box_workgroup_size, 1 << (limits.max_workgroup_invocations.bit_length() - 1))


def _boxes(
    boxes: Boxes, last_vector: int, limits: DeviceLimits, tuning: SliceTuning
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants."""
    count = boxes.count
    check_work("boxes", count)
    room = _room(boxes.element_bytes, limits, tuning)
    workgroup_size = _box_workgroup_size(limits, tuning)

    def place(dim: Dim) -> int:
        return boxes.cell_strides.get(dim, 0)

    def nothing(dim: Dim) -> int:
        return 0

    layout_words = words(
        (
            *(
                word
                for dim, number, step, last in boxes.grid
                for word in (number, step, last, dim.input_stride, dim.output_stride)
            ),
            *words_of(boxes.row_dims, lambda dim: abs(dim.input_stride), nothing),
            *words_of(boxes.output_row_dims, lambda dim: dim.output_stride, place),
            *words_of(boxes.within_dims, nothing, place),
        )
    )
    family = kernels.family("slice1_boxes")
    in_push = len(layout_words) <= family.layout_room
    push = family.push(
        boxes=count,
        grid_dims=len(boxes.grid),
        row_dims=len(boxes.row_dims),
        output_row_dims=len(boxes.output_row_dims),
        within_dims=len(boxes.within_dims),
        output_grid_dim=boxes.output_grid_dim,
        input_base=boxes.layout.input_base + boxes.lowest,
        output_base=boxes.layout.output_base,
        last_vector=last_vector,
        rows=boxes.rows,
        row_vectors=boxes.row_vectors,
        row_vectors_inverse=inverse(boxes.row_vectors),
        row_words=boxes.row_words,
        row_pitch=boxes.row_pitch,
        first_cell=boxes.first_cell,
        output_row_count=boxes.output_rows,
        output_row_count_inverse=inverse(boxes.output_rows),
        output_row_length=boxes.length,
        output_row_words=boxes.output_row_words,
        output_row_words_inverse=inverse(boxes.output_row_words),
        output_row_pitch=boxes.output_row_pitch,
        first_gathered=boxes.input_cells,
        output_vectors_of_row=boxes.output_vectors_of_row,
        output_vectors_of_row_inverse=inverse(boxes.output_vectors_of_row),
        layout_words=layout_words if in_push else (),
    )
    kernel, constants = family.specialize(
        element_bytes=boxes.element_bytes,
        workgroup=workgroup_size,
        layout_in_push=in_push,
        cells=room.cells,
        table=room.rows,
        input_unaligned=boxes.input_unaligned,
        output_unaligned=boxes.output_unaligned,
    )
    loops = loop_steps.BoxLoops(
        workgroup_size=workgroup_size,
        per_word=4 // boxes.element_bytes,
        grid_dims=len(boxes.grid),
        row_dims=len(boxes.row_dims),
        output_row_dims=len(boxes.output_row_dims),
        within_dims=len(boxes.within_dims),
        rows=boxes.rows,
        vectors=boxes.rows * boxes.row_vectors,
        output_rows=boxes.output_rows,
        output_vectors=boxes.output_rows * boxes.output_vectors_of_row,
    )
    rounds = min(ceil_div(count, tuning.box_workgroups), loops.most_boxes(limits.max_loop_steps))
    rounds = max(rounds, ceil_div(count, limits.max_workgroup_count))
    step = Step(kernel, constants, push, ceil_div(count, rounds), loop_steps=loops.boxes(rounds))
    return step, () if in_push else layout_words
