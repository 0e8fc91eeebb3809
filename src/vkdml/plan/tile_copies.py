"""Copies of transposed matrices in tiles; ``slice1.py`` says which, ``matrices.py`` finds them."""

from __future__ import annotations

import math

from vkdml.plan import kernels, loop_steps
from vkdml.plan.boxes import SECTOR_BYTES
from vkdml.plan.divisions import whole_inverse
from vkdml.plan.layout import CopyLayout
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
    Step,
    ceil_div,
    check_work,
    dim_words,
    power_of_two_at_least,
    round_up,
    words,
)
from vkdml.plan.tuning import SliceTuning

_LEAST_WORKGROUP = 32


def matrices_of(layout: CopyLayout, element_bytes: int, least: int, tuning: SliceTuning) -> Matrices | None:
    """Return the matrices that tiles could copy, with sides of ``least`` elements, or None."""
    down, _ = dict(tuning.tile_shapes)[element_bytes]
    return transposed(
        layout,
        least,
        steps=kernels.family("slice1_tiles").numbers_of("row_step", element_bytes=element_bytes),
        groups_below=down * VECTOR_BYTES // element_bytes,
        most_between=SECTOR_BYTES // element_bytes - 1,
    )


def fills_tiles(matrices: Matrices, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether rows have a vector, and few of the elements that tiles have room for are missing."""
    has_vectors = matrices.columns.count * element_bytes >= VECTOR_BYTES
    fill = tile_shape(matrices, element_bytes, limits).fill(matrices)
    return has_vectors and fill >= limits.tuning.slice1.tile_least_fill


def tile_copy(
    matrices: Matrices, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants."""
    outer, rows, columns = matrices.outer, matrices.rows, matrices.columns
    shape = tile_shape(matrices, element_bytes, limits)
    tiles_down, tiles_across = shape.counts(matrices)
    tiles = math.prod(dim.size for dim in outer) * tiles_down * tiles_across
    band = _band(tiles_down, limits.tuning.slice1)
    check_work("tiles", tiles)
    layout_words = dim_words(outer) + _block_words(matrices)
    family = kernels.family("slice1_tiles")
    in_push = len(layout_words) <= family.layout_room
    push = family.push(
        tiles=tiles,
        tiles_down=tiles_down,
        tiles_across=tiles_across,
        tiles_in_band_inverse=whole_inverse(band * tiles_across),
        dims=len(outer),
        input_base=matrices.input_base,
        output_base=matrices.output_base,
        rows=rows.count,
        columns=columns.count,
        row_output_stride=rows.dim.output_stride,
        column_input_stride=columns.dim.input_stride,
        last_vector=last_vector,
        **_places(matrices, shape),
        layout_words=layout_words if in_push else (),
    )
    workgroup_size = _workgroup_size(shape, limits)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=in_push,
        down=shape.down,
        across=shape.across,
        band=band,
        row_step=rows.dim.input_stride,
        input_unaligned=loads_unaligned(matrices, element_bytes),
        output_unaligned=unaligned(matrices.output_starts, element_bytes),
        row_groups=rows.groups is not None,
        row_blocks=rows.blocks is not None,
        column_groups=columns.groups is not None,
        continued=continued(matrices, element_bytes),
    )
    tiles_of_workgroup = loop_steps.rounds_of(tiles, limits.max_workgroup_count)
    per_tile = loop_steps.tile(shape.parts, shape.rows, shape.vectors, workgroup_size)
    step = Step(
        kernel,
        constants,
        push,
        min(tiles, limits.max_workgroup_count),
        loop_steps=loop_steps.loop(tiles_of_workgroup, loop_steps.loop(len(outer)) + per_tile),
    )
    return step, () if in_push else layout_words


def _band(tiles_down: int, tuning: SliceTuning) -> int:
    """Return the tiles of a band. Where two meet, sectors of the input are read twice (H200: up to 9%)."""
    if tiles_down > tuning.tile_most_band:
        return tuning.tile_band
    return max(power_of_two_at_least(tiles_down), tuning.tile_band)


def _workgroup_size(shape: TileShape, limits: DeviceLimits) -> int:
    """Return invocations that load a tile in the fewest rounds, each of which occupies nearly all of them."""
    rounds = ceil_div(shape.parts, limits.workgroup_size)
    return min(round_up(ceil_div(shape.parts, rounds), _LEAST_WORKGROUP), limits.workgroup_size)


def _block_words(matrices: Matrices) -> tuple[int, ...]:
    """Return what the kernel reads of blocks of groups of rows, if there are any, after the matrices."""
    rows = matrices.rows
    if rows.groups is None or rows.blocks is None:
        return ()
    in_block = rows.in_block
    return words((in_block, whole_inverse(in_block), rows.groups.size, rows.blocks.output_stride))


def _places(matrices: Matrices, shape: TileShape) -> dict[str, int]:
    """Return what the kernel is pushed of the places of rows and columns, and of groups of them."""
    rows, columns = matrices.rows, matrices.columns
    step = rows.dim.input_stride
    return {
        "tiles_in_matrix_inverse": whole_inverse(math.prod(shape.counts(matrices))),
        "tile_vectors": shape.vectors,
        "tile_vectors_inverse": whole_inverse(shape.vectors),
        "next_row_input_offset": step if rows.dim.output_stride > 0 else -step,
        "group_rows": rows.in_group,
        "group_rows_inverse": whole_inverse(rows.in_group),
        "copied_rows": rows.dim.size,
        "row_group_output_stride": rows.groups.output_stride if rows.groups else 0,
        "group_columns": columns.dim.size,
        "group_columns_inverse": whole_inverse(columns.dim.size),
        "column_group_input_stride": columns.groups.input_stride if columns.groups else 0,
    }
