"""Copies of transposed matrices in tiles; ``slice1.py`` says which, ``matrices.py`` finds them."""

from __future__ import annotations

import math

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal
from vkdml.plan.layout import CopyLayout
from vkdml.plan.plans import (
    SECTOR_BYTES,
    VECTOR_BYTES,
    DeviceLimits,
    Step,
    check_work,
    dim_words,
    words,
)
from vkdml.plan.slice.matrices import (
    Columns,
    GroupLimits,
    Matrices,
    Rows,
    are_planes,
    transposed,
    unaligned,
)
from vkdml.plan.slice.rounds import band_of, workgroup_of_fewest_rounds
from vkdml.plan.slice.tile_shapes import TileShape, continued, loads_unaligned, tile_shape
from vkdml.plan.tuning import SliceTuning

# Bytes of an element and step of rows whose loads take so many registers that large workgroups leave some
# unused (0.82 to 0.97 of the time on an H200).
_EVERY_THIRD_BYTE = (1, 3)
# Groups of rows that span up to this are loaded with all that lies between them, if that is less than two
# sectors.
_SHORT_BYTES = 24
# A dimension that could continue both rows and columns continues rows if there are columns of so many bytes,
# or of words, or at most so many bytes of rows.
_LONG_COLUMNS_BYTES, _LONG_COLUMNS_OF_WORDS, _FEW_ROWS_BYTES = 128, 96, 8
# Up to so many rows are copied in boxes if their runs are shorter than _SHORT_RUN_BYTES, and a column's runs
# together shorter than _FEW_RUNS_BYTES (0.44 to 1.04 of the time on an H100).
_VERY_FEW_ROWS, _SHORT_RUN_BYTES, _FEW_RUNS_BYTES = 4, 80, 512
# Shorter rows that come in groups are copied in boxes, or word by word (0.47 to 0.70 of the time on an H100).
_SHORT_ROW_BYTES = 64
# Planes have rows of so many vectors at least, and columns so many times a row's step apart.
_VECTORS_OF_PLANES, _PLANES_APART = 9, 8


def matrices_of(
    layout: CopyLayout, element_bytes: int, least: int, tuning: SliceTuning, *, far: bool = False
) -> Matrices | None:
    """Return the matrices that tiles could copy, with sides of ``least`` elements, or None.

    Args:
        far: whether groups of rows may lie as far apart as those of the shortest rows.
    """
    down, _ = dict(tuning.tile_shapes)[element_bytes]
    sector, two_sectors = SECTOR_BYTES // element_bytes, 2 * SECTOR_BYTES // element_bytes
    return transposed(
        layout,
        least,
        steps=kernels.family("slice1_tiles").numbers_of("row_step", element_bytes=element_bytes),
        group_limits=GroupLimits(
            sector=sector,
            rows_below=down * VECTOR_BYTES // element_bytes,
            between=(two_sectors if far else sector) - 1,
            short=_SHORT_BYTES // element_bytes,
            between_short=two_sectors - 1,
            left_out_below=two_sectors,
            least_columns=two_sectors,
            long_columns=ceil_div(
                _LONG_COLUMNS_OF_WORDS if element_bytes == 4 else _LONG_COLUMNS_BYTES, element_bytes
            ),
            least_followed=VECTOR_BYTES // element_bytes + 1,
            few_rows=_FEW_ROWS_BYTES // element_bytes,
        ),
    )


def fills_tiles(matrices: Matrices, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether tiles are worth their while.

    Rows have a vector, few of the elements that tiles have room for are missing, and nothing else is faster.
    """
    tuning = limits.tuning.slice1
    shape = tile_shape(matrices, element_bytes, limits)
    if are_planes(matrices, element_bytes, tuning):
        return _are_faster_in_tiles(matrices, shape) and not _are_short_runs(matrices, element_bytes, tuning)
    has_vectors = matrices.columns.count * element_bytes >= VECTOR_BYTES
    if not has_vectors or shape.fill(matrices) < tuning.tile_least_fill:
        return False
    return not (
        _are_small(matrices, element_bytes, tuning)
        or _are_short_runs(matrices, element_bytes, tuning)
        or _are_short_rows(matrices, element_bytes, tuning)
    )


def _are_faster_in_tiles(planes: Matrices, shape: TileShape) -> bool:
    """Whether planes take less time in tiles all the same: they are long, and vectors hold few columns each.

    They take 0.78 of the time of boxes (H100, 18 copies, 0.50 to 1.06; H200: 0.70), and 0.81 of that of words
    (14 copies, 0.56 to 0.97; H200: 0.83).
    """
    is_apart = abs(planes.columns.dim.input_stride) >= _PLANES_APART * planes.rows.step
    return shape.vectors >= _VECTORS_OF_PLANES and is_apart


def _are_small(matrices: Matrices, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether there are many matrices so small that a workgroup for each takes longer than gathering."""
    rows, columns = matrices.rows, matrices.columns.count
    by_width = {width: limits for width, *limits in tuning.small_matrices}
    most_bytes, most_aligned_bytes, most_rows = by_width.get(element_bytes, (0, 0, 0))
    most = most_bytes if unaligned(matrices.input_starts, element_bytes) else most_aligned_bytes
    is_narrow = rows.count * rows.step <= most_rows or columns * element_bytes < SECTOR_BYTES
    return bool(matrices.outer) and rows.count * columns * element_bytes <= most and is_narrow


def _are_short_runs(matrices: Matrices, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether a few rows of short groups of columns, each contiguous in the input, lie apart."""
    row, columns = matrices.rows.dim, matrices.columns
    if not tuning.has_boxes(element_bytes) or columns.groups is None or row.size > _VERY_FEW_ROWS:
        return False
    run = row.size * columns.dim.size
    is_contiguous = matrices.rows.apart == 1 and abs(columns.dim.input_stride) == row.size * row.input_stride
    is_apart = abs(columns.groups.input_stride) >= 2 * run
    is_short = (
        run * element_bytes < _SHORT_RUN_BYTES and matrices.rows.count * element_bytes < _FEW_RUNS_BYTES
    )
    return is_contiguous and is_apart and is_short


def _are_short_rows(matrices: Matrices, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether rows of narrow elements come in groups and are short, so that tiles store few of them.

    Rows of more than a vector that follow each other are stored together, and rows of whole vectors have no
    ends: tiles take 0.68 of the time of boxes (nine copies on an H200, 0.39 to 1.21).
    """
    if element_bytes >= 4 or matrices.rows.groups is None or not tuning.has_boxes(element_bytes):
        return False
    row, nbytes = matrices.columns.count, matrices.columns.count * element_bytes
    if nbytes >= _SHORT_ROW_BYTES or (matrices.rows_follow and nbytes > VECTOR_BYTES):
        return False
    return unaligned((row, *matrices.output_starts), element_bytes)


def tile_copy(
    matrices: Matrices, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants."""
    outer, rows, columns = matrices.outer, matrices.rows, matrices.columns
    shape = tile_shape(matrices, element_bytes, limits)
    tiles_down, tiles_across = shape.counts(matrices)
    tiles = matrices.count * tiles_down * tiles_across
    nbytes = matrices.elements * element_bytes
    band = _band(matrices, tiles_down, element_bytes, limits.tuning.slice1)
    check_work("tiles", tiles)
    family = kernels.family("slice1_tiles")
    placed = family.placed(dim_words(outer) + _row_block_words(rows) + _column_block_words(columns))
    push = family.push(
        tiles=tiles,
        tiles_down=tiles_down,
        tiles_across=tiles_across,
        tiles_in_band_inverse=reciprocal(band * tiles_across),
        dims=len(outer),
        input_base=matrices.input_base,
        output_base=matrices.output_base,
        rows=rows.count,
        columns=columns.count,
        row_output_stride=rows.dim.output_stride,
        column_input_stride=columns.dim.input_stride,
        last_vector=last_vector,
        **_places(matrices, shape),
        layout_words=placed.pushed,
    )
    takes_registers = (element_bytes, rows.step) == _EVERY_THIRD_BYTE
    most_invocations = max(limits.workgroup_size // (2 if takes_registers else 1), shape.vectors)
    # Each invocation stores one vector of a row, so there are at least as many as a row has vectors.
    workgroup_size = workgroup_of_fewest_rounds(shape.parts, most_invocations, shape.vectors)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        down=shape.down,
        across=shape.across,
        columns_at_once=shape.columns_at_once,
        band=band,
        row_step=rows.step,
        input_unaligned=loads_unaligned(matrices, element_bytes),
        output_unaligned=unaligned(matrices.output_starts, element_bytes),
        whole_sectors=shape.whole_sectors,
        row_groups=rows.groups is not None,
        rows_apart=rows.apart,
        row_blocks=rows.blocks is not None,
        column_groups=columns.groups is not None,
        column_blocks=columns.blocks is not None,
        continued=continued(matrices, element_bytes),
        in_rounds=limits.in_rounds(tiles, nbytes),
    )
    tiles_of_workgroup = loop_steps.rounds_of(tiles, limits.max_workgroup_count)
    per_tile = loop_steps.tile(shape.parts, shape.columns_at_once, shape.rows, shape.vectors, workgroup_size)
    step = Step(
        kernel,
        constants,
        push,
        limits.started(tiles),
        loop_steps=loop_steps.loop(tiles_of_workgroup, loop_steps.loop(len(outer)) + per_tile),
    )
    return step, placed.stored


def _band(matrices: Matrices, tiles_down: int, element_bytes: int, tuning: SliceTuning) -> int:
    """Return the tiles of a band. Where two meet, sectors of the input are read twice (H200: up to 9%)."""
    most = tuning.tile_most_band
    if matrices.rows.step == 1 and loads_unaligned(matrices, element_bytes):
        most = dict(tuning.unaligned_tile_most_band).get(element_bytes, most)
    return band_of(tiles_down, most, tuning)


def _row_block_words(rows: Rows) -> tuple[int, ...]:
    """Return what the kernel reads of blocks of groups of rows, if there are any, after the matrices."""
    if rows.groups is None or rows.blocks is None:
        return ()
    in_block = rows.in_block
    return words((in_block, reciprocal(in_block), rows.groups.size, rows.blocks.output_stride))


def _column_block_words(columns: Columns) -> tuple[int, ...]:
    """Return what the kernel reads of blocks of groups of columns, if there are any, after those of rows."""
    groups, blocks = columns.groups, columns.blocks
    if groups is None or blocks is None:
        return ()
    from_last_group = blocks.input_stride - groups.size * groups.input_stride
    return words((groups.size, reciprocal(groups.size), from_last_group))


def _places(matrices: Matrices, shape: TileShape) -> dict[str, int]:
    """Return what the kernel is pushed of the places of rows and columns, and of groups of them."""
    rows, columns = matrices.rows, matrices.columns
    following = rows.following
    to_next = following.input_stride if following.output_stride > 0 else -following.input_stride
    return {
        "tiles_in_matrix_inverse": reciprocal(math.prod(shape.counts(matrices))),
        "tile_vectors": shape.vectors,
        "tile_vectors_inverse": reciprocal(shape.vectors),
        "next_row_input_offset": to_next,
        "group_rows": rows.in_group,
        "group_rows_inverse": reciprocal(rows.in_group),
        "copied_rows": rows.dim.size,
        "row_group_output_stride": rows.groups.output_stride if rows.groups else 0,
        "group_columns": columns.dim.size,
        "group_columns_inverse": reciprocal(columns.dim.size),
        "column_group_input_stride": columns.groups.input_stride if columns.groups else 0,
    }
