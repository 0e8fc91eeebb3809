"""Copies of transposed pixels in tiles; ``slice1.py`` says which, ``pixel_matrices.py`` finds them."""

from __future__ import annotations

from dataclasses import dataclass

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
    power_of_two_at_least,
)
from vkdml.plan.slice.as_words import in_words
from vkdml.plan.slice.pixel_matrices import PixelMatrices, pixel_matrices_of
from vkdml.plan.slice.rounds import band_of, workgroup_of_fewest_rounds

# The fewest rows of a tile.
_FEWEST_ROWS = 8
# Boxes of words, and words, are faster than tiles of which less is filled (0.7 to 2.2 of the time, H200).
_LEAST_FILL = 0.65
# Words copy smaller outputs, and shorter rows of the output, faster than tiles.
_LEAST_BYTES, _LEAST_ROW_BYTES = 6 << 20, 192
# Rows, which read each sector once or twice, copy smaller images faster.
_LEAST_SIDE = 24


@dataclass(frozen=True)
class PixelTile:
    """What a workgroup copies at a time."""

    rows: int
    pixels: int
    """Of a row."""
    vectors: int
    """Of the output, of a row."""
    blocks: int
    """Of a row, as many pixels each as a word has elements, those that its last unit reaches included."""


@dataclass(frozen=True)
class PixelTiles:
    """A copy in tiles of pixels."""

    matrices: PixelMatrices
    tile: PixelTile
    limits: DeviceLimits

    @property
    def counts(self) -> tuple[int, int]:
        """How many tiles a matrix has down and across."""
        matrices, tile = self.matrices, self.tile
        return ceil_div(matrices.rows.size, tile.rows), ceil_div(matrices.lines.size, tile.pixels)

    @property
    def fill(self) -> float:
        """Which part of the tiles is in the matrices."""
        (down, across), matrices, tile = self.counts, self.matrices, self.tile
        return matrices.rows.size / (down * tile.rows) * matrices.lines.size / (across * tile.pixels)

    @property
    def nbytes(self) -> int:
        """Bytes of the output."""
        matrices = self.matrices
        return matrices.images * matrices.rows.size * matrices.row_elements * matrices.element_bytes

    @property
    def are_faster_than_words(self) -> bool:
        """Whether tiles take less time than words that read sectors again while a cache holds them.

        They take 0.59 of the time (35 copies of 8 to 512 MiB on an H200, 0.24 to 0.99).
        """
        row_bytes = self.matrices.row_elements * self.matrices.element_bytes
        return self.nbytes >= _LEAST_BYTES and row_bytes >= _LEAST_ROW_BYTES and self.fill >= _LEAST_FILL

    @property
    def are_faster_than_rows(self) -> bool:
        """Whether tiles take less time than rows of 16 bytes and more, one from each pixel.

        They take 0.33 to 1.05 of the time (80 copies on an H200, two more 1.18 and 1.29), but 1.05 to 1.37
        for patches of a few pixels (5 copies).
        """
        side = min(self.matrices.rows.size, self.matrices.lines.size)
        return self.are_faster_than_words and side >= _LEAST_SIDE


def pixel_tiles_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> PixelTiles | None:
    """Return the tiles of pixels of a copy; None if it has none on this device that are filled.

    >>> from vkdml.plan.device_classes import DISCRETE
    >>> from vkdml.plan.layout import Dim
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> turned = CopyLayout((Dim(1920, 3, 3240), Dim(1080, 5760, 3), Dim(3, 1, 1)), 0, 0)
    >>> tiles = pixel_tiles_of(turned, 1, limits)
    >>> tiles and (tiles.tile.rows, tiles.tile.pixels, tiles.fill > 0.9)
    (64, 64, True)
    """
    tuning = limits.tuning.slice1
    if not tuning.pixel_tile_bytes:
        return None
    matrices = pixel_matrices_of(*in_words(layout, element_bytes))
    tile = _largest_tile(matrices, limits) if matrices else None
    if matrices is None or tile is None:
        return None
    tiles = PixelTiles(matrices, tile, limits)
    least_fill = max(tuning.tile_least_fill, _LEAST_FILL if matrices.element_bytes == 4 else 0.0)
    return tiles if tiles.fill >= least_fill else None


def _largest_tile(matrices: PixelMatrices, limits: DeviceLimits) -> PixelTile | None:
    """Return the largest tile whose rows and lines are about as long as each other; None if none fits."""
    nbytes = min(limits.tuning.slice1.pixel_tile_bytes, limits.max_shared_memory)
    width = matrices.element_bytes
    most_rows = power_of_two_at_least(matrices.rows.size)
    most_pixels = power_of_two_at_least(matrices.lines.size)
    rows, pixels = max(matrices.rows_at_once, _FEWEST_ROWS), SECTOR_BYTES // width
    best = None
    while _shared_bytes_of(matrices, tile := _tile(matrices, rows, pixels)) <= nbytes:
        best = tile
        line, row = rows * matrices.pixel_elements, pixels * matrices.channels.size
        if rows < most_rows and (line <= row or pixels >= most_pixels):
            rows *= 2
        elif pixels < most_pixels:
            pixels *= 2
        else:
            break
    return best


def _tile(matrices: PixelMatrices, rows: int, pixels: int) -> PixelTile:
    width, channels = matrices.element_bytes, matrices.channels.size
    is_shifted = matrices.starts_within(SECTOR_BYTES)
    beyond = SECTOR_BYTES // width - 1 if is_shifted else 0
    blocks = ceil_div(pixels * channels + beyond, matrices.per_word * channels)
    return PixelTile(rows, pixels, pixels * channels * width // VECTOR_BYTES, blocks)


def _across(matrices: PixelMatrices, tile: PixelTile) -> int:
    """Return the words of a row in shared memory."""
    return tile.blocks * matrices.channels.size


def shared_bytes(down: int, across: int, rows_at_once: int) -> int:
    """Return the shared memory of a tile, as ``slice1_pixel_tiles.comp`` declares it."""
    return 4 * down // rows_at_once * (rows_at_once * (across + 1) | 1)


def _shared_bytes_of(matrices: PixelMatrices, tile: PixelTile) -> int:
    return shared_bytes(tile.rows, _across(matrices, tile), matrices.rows_at_once)


def pixel_tile_copy(tiles: PixelTiles, last_vector: int) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Raises:
        TooMuchWork: more tiles than the kernel counts.
    """
    matrices, tile, limits = tiles.matrices, tiles.tile, tiles.limits
    rows, lines, channels = matrices.rows, matrices.lines, matrices.channels
    tiles_down, tiles_across = tiles.counts
    count = matrices.images * tiles_down * tiles_across
    check_work("tiles", count)
    tuning = limits.tuning.slice1
    band = band_of(tiles_down, tuning.tile_most_band, tuning)
    family = kernels.family("slice1_pixel_tiles")
    placed = family.placed(dim_words(matrices.outer))
    parts = tile.rows // matrices.rows_at_once * tile.blocks
    workgroup_size = workgroup_of_fewest_rounds(parts, limits.workgroup_size)
    kernel, constants = family.specialize(
        element_bytes=matrices.element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        channels=channels.size,
        channel_step=channels.input_stride,
        pixel_elements=matrices.pixel_elements,
        backward=matrices.backward,
        rows_at_once=matrices.rows_at_once,
        down=tile.rows,
        across=_across(matrices, tile),
        input_unaligned=matrices.input_unaligned,
        output_unaligned=matrices.starts_within(VECTOR_BYTES),
        whole_sectors=matrices.starts_within(SECTOR_BYTES),
        band=band,
        in_rounds=limits.in_rounds(count, tiles.nbytes),
    )
    push = family.push(
        tiles=count,
        tiles_down=tiles_down,
        tiles_across=tiles_across,
        tiles_in_band_inverse=reciprocal(band * tiles_across),
        tiles_in_matrix_inverse=reciprocal(tiles_down * tiles_across),
        dims=len(matrices.outer),
        input_base=matrices.input_base,
        output_base=matrices.output_base,
        rows=rows.size,
        columns=matrices.row_elements,
        row_output_stride=rows.output_stride,
        line_input_stride=lines.input_stride,
        tile_vectors=tile.vectors,
        tile_vectors_inverse=reciprocal(tile.vectors),
        last_vector=last_vector,
        layout_words=placed.pushed,
    )
    loops = loop_steps.PixelTileLoops(
        workgroup_size,
        dims=len(matrices.outer),
        rows=tile.rows,
        vectors=tile.vectors,
        parts=parts,
        lines=matrices.per_word,
        words_of_line=matrices.words_of_line,
        rows_at_once=matrices.rows_at_once,
        channels=channels.size,
    ).tiles(loop_steps.rounds_of(count, limits.max_workgroup_count))
    step = Step(kernel, constants, push, limits.started(count), loop_steps=loops)
    return step, placed.stored
