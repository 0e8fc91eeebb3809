"""Copies of transposed matrices of pixels, such as turned images; ``slice1.py`` says which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal
from vkdml.plan.layout import CopyLayout, Dim
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
from vkdml.plan.slice.matrices import unaligned

# Words that an invocation keeps of its lines, at most. If as many rows as a word has elements are more, it
# makes one row.
_MOST_WORDS = 32
# From one pixel of the input to the next, at most: of larger ones, memory is read in vain.
_MOST_PIXEL_BYTES = 64
# The fewest rows of a tile.
_FEWEST_ROWS = 8
# Words copy smaller outputs, and shorter rows of the output, faster than tiles.
_BYTES_FROM_WORDS, _ROW_FROM_WORDS = 6 << 20, 192
_LEAST_WORKGROUP = 32


@dataclass(frozen=True)
class PixelMatrices:
    """A copy whose output has lines of the input as columns of pixels."""

    element_bytes: int
    outer: tuple[Dim, ...]
    rows: Dim
    """From pixel to pixel of a line, which is from row to row of the output; the input stride is positive."""
    columns: Dim
    """From line to line."""
    channels: Dim
    """Of a pixel; the input stride is positive."""
    backward: bool
    """Whether the elements of a pixel are copied in the opposite order."""
    input_base: int
    """Of the first element of a pixel in the order of memory."""
    output_base: int

    @property
    def per_word(self) -> int:
        return 4 // self.element_bytes

    @property
    def pixel_elements(self) -> int:
        """From one pixel of a line to the next."""
        return self.rows.input_stride

    @property
    def row(self) -> int:
        """Elements of a row of the output."""
        return self.columns.size * self.channels.size

    @property
    def _pixel_span(self) -> int:
        return (self.channels.size - 1) * self.channels.input_stride + 1

    @property
    def read(self) -> int:
        """The words that an invocation loads of each line."""
        return self._read(self.rows_at_once)

    def _read(self, rows_at_once: int) -> int:
        span = (rows_at_once - 1) * self.pixel_elements + self._pixel_span
        return ceil_div(span, self.per_word) + 1

    @property
    def rows_at_once(self) -> int:
        """Rows that an invocation makes; 0 if even one takes too many registers."""
        for rows in (self.per_word, 1):
            if self.per_word * (self._read(rows) - 1) <= _MOST_WORDS:
                return rows
        return 0

    @cached_property
    def input_unaligned(self) -> bool:
        """Whether what an invocation loads of a line may start anywhere in a word."""
        steps = self.columns.input_stride, self.rows_at_once * self.pixel_elements
        starts = (self.input_base, *steps, *(dim.input_stride for dim in self.outer))
        return any(start % self.per_word for start in starts)

    @property
    def output_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where rows start."""
        return (
            self.output_base,
            self.rows.output_stride,
            *(dim.output_stride for dim in self.outer),
        )

    def starts_within(self, nbytes: int) -> bool:
        """Tell whether rows of the output may start elsewhere than with so many bytes."""
        return unaligned(self.output_starts, self.element_bytes, nbytes)


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

    def counts(self, matrices: PixelMatrices) -> tuple[int, int]:
        """Return how many tiles a matrix has down and across."""
        return ceil_div(matrices.rows.size, self.rows), ceil_div(matrices.columns.size, self.pixels)

    def fill(self, matrices: PixelMatrices) -> float:
        """Return which part of the tiles is in the matrices."""
        down, across = self.counts(matrices)
        rows, columns = matrices.rows.size, matrices.columns.size
        return rows / (down * self.rows) * columns / (across * self.pixels)


def pixel_matrices_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> PixelMatrices | None:
    """Return the matrices of pixels of a copy; None if it has none that fill their tiles on this device.

    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> turned = CopyLayout((Dim(1920, 3, 3240), Dim(1080, 5760, 3), Dim(3, 1, 1)), 0, 0)
    >>> matrices = pixel_matrices_of(turned, 1, limits)
    >>> matrices and (matrices.rows.size, matrices.columns.size, matrices.channels.size)
    (1920, 1080, 3)
    """
    layout, element_bytes = in_words(layout, element_bytes)
    if not limits.tuning.slice1.pixel_tile_bytes or len(layout.dims) < 3:
        return None
    *others, channels = layout.dims
    columns = next((dim for dim in others if dim.output_stride == channels.size), None)
    strided = [dim for dim in others if dim.input_stride]
    if columns is None or not strided or channels.output_stride != 1 or not channels.input_stride:
        return None
    rows = min(strided, key=lambda dim: abs(dim.input_stride))
    reach = (channels.size - 1) * abs(channels.input_stride)
    if rows is columns or not reach < abs(rows.input_stride) <= _MOST_PIXEL_BYTES // element_bytes:
        return None
    outer = tuple(dim for dim in others if dim is not rows and dim is not columns)
    source, target = layout.input_base, layout.output_base
    backward = channels.input_stride < 0
    if backward:
        source -= reach
        channels = Dim(channels.size, -channels.input_stride, 1)
    if rows.input_stride < 0:  # they may come in any order
        source += (rows.size - 1) * rows.input_stride
        target += (rows.size - 1) * rows.output_stride
        rows = Dim(rows.size, -rows.input_stride, -rows.output_stride)
    matrices = PixelMatrices(element_bytes, outer, rows, columns, channels, backward, source, target)
    if not matrices.rows_at_once or matrices.row * element_bytes < VECTOR_BYTES:
        return None
    tile = pixel_tile(matrices, limits)
    return matrices if tile and tile.fill(matrices) >= limits.tuning.slice1.tile_least_fill else None


def are_faster_than_words(matrices: PixelMatrices) -> bool:
    """Tell whether tiles take less time than words that read sectors again while a cache holds them.

    They take 0.68 of the time (29 copies of 48 and 512 MiB on an H200, 0.38 to 1.19).
    """
    row_bytes = matrices.row * matrices.element_bytes
    nbytes = math.prod(dim.size for dim in matrices.outer) * matrices.rows.size * row_bytes
    return nbytes >= _BYTES_FROM_WORDS and row_bytes >= _ROW_FROM_WORDS


def pixel_tile(matrices: PixelMatrices, limits: DeviceLimits) -> PixelTile | None:
    """Return the largest tile whose rows and lines are about as long as each other; None if none fits."""
    nbytes = min(limits.tuning.slice1.pixel_tile_bytes, limits.max_shared_memory)
    width = matrices.element_bytes
    most_rows = power_of_two_at_least(matrices.rows.size)
    most_pixels = power_of_two_at_least(matrices.columns.size)
    rows, pixels = max(matrices.rows_at_once, _FEWEST_ROWS), SECTOR_BYTES // width
    best = None
    while (tile := _tile(matrices, rows, pixels, limits)) and _shared_bytes(matrices, tile) <= nbytes:
        best = tile
        line, row = rows * matrices.pixel_elements, pixels * matrices.channels.size
        if rows < most_rows and (line <= row or pixels >= most_pixels):
            rows *= 2
        elif pixels < most_pixels:
            pixels *= 2
        else:
            break
    return best


def _tile(matrices: PixelMatrices, rows: int, pixels: int, limits: DeviceLimits) -> PixelTile:
    width, channels = matrices.element_bytes, matrices.channels.size
    is_shifted = matrices.starts_within(SECTOR_BYTES)
    beyond = SECTOR_BYTES // width - 1 if is_shifted else 0
    blocks = ceil_div(pixels * channels + beyond, matrices.per_word * channels)
    return PixelTile(rows, pixels, pixels * channels * width // VECTOR_BYTES, blocks)


def _across(matrices: PixelMatrices, tile: PixelTile) -> int:
    """Return the words of a row in shared memory."""
    return tile.blocks * matrices.channels.size


def _shared_bytes(matrices: PixelMatrices, tile: PixelTile) -> int:
    """Return the shared memory of a tile, as ``slice1_pixel_tiles.comp`` declares it."""
    rows_at_once = matrices.rows_at_once
    return 4 * tile.rows // rows_at_once * (rows_at_once * (_across(matrices, tile) + 1) | 1)


def pixel_tile_copy(
    matrices: PixelMatrices, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Raises:
        TooMuchWork: more tiles than the kernel counts.
    """
    rows, columns, channels = matrices.rows, matrices.columns, matrices.channels
    tile = pixel_tile(matrices, limits)
    assert tile is not None
    tiles_down, tiles_across = tile.counts(matrices)
    count = math.prod(dim.size for dim in matrices.outer)
    tiles = count * tiles_down * tiles_across
    check_work("tiles", tiles)
    tuning = limits.tuning.slice1
    band = max(power_of_two_at_least(tiles_down), tuning.tile_band)
    band = band if tiles_down <= tuning.tile_most_band else tuning.tile_band
    nbytes = count * rows.size * matrices.row * matrices.element_bytes
    family = kernels.family("slice1_pixel_tiles")
    placed = family.placed(dim_words(matrices.outer))
    parts = tile.rows // matrices.rows_at_once * tile.blocks
    workgroup_size = _workgroup_size(parts, limits.workgroup_size)
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
        in_rounds=limits.in_rounds(tiles, nbytes),
    )
    push = family.push(
        tiles=tiles,
        tiles_down=tiles_down,
        tiles_across=tiles_across,
        tiles_in_band_inverse=reciprocal(band * tiles_across),
        tiles_in_matrix_inverse=reciprocal(tiles_down * tiles_across),
        dims=len(matrices.outer),
        input_base=matrices.input_base,
        output_base=matrices.output_base,
        rows=rows.size,
        columns=matrices.row,
        row_output_stride=rows.output_stride,
        column_input_stride=columns.input_stride,
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
        read=matrices.read,
        made=(matrices.rows_at_once + 1) * channels.size,
    ).tiles(loop_steps.rounds_of(tiles, limits.max_workgroup_count))
    step = Step(kernel, constants, push, limits.started(tiles), loop_steps=loops)
    return step, placed.stored


def _workgroup_size(parts: int, most: int) -> int:
    """Return invocations that load a tile in the fewest rounds, each of which occupies nearly all of them."""
    wanted = ceil_div(parts, ceil_div(parts, most))
    return min(round_up(wanted, _LEAST_WORKGROUP), most)
