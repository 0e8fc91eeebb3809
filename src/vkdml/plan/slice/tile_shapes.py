"""The tiles of transposed matrices, shaped as these are; ``tile_copies.py`` makes steps of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES, DeviceLimits, power_of_two_at_least
from vkdml.plan.slice.matrices import MANY_GROUPS, Matrices, unaligned

# The narrowest tile has so many words across, or so many elements if these are wider.
_LEAST_ACROSS = 8
_WIDTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 64)
# A side of a tile grows while its matrix has so many of it.
_TILES_OF_LONG_SIDE = 4
# A row of single bytes is long from so many tiles on.
_TILES_OF_LONG_ROW = 1.5
# Vectors. Tiles that are no narrower load a sector more of each row, so that they store whole ones. Rows of
# halves that begin within sectors were copied at 0.71 of the read rate, and are at 0.81 (H200).
_LEAST_WHOLE = 12
# Vectors. Rows of so many have few vectors at their ends, and those in groups.
_LONG_ROW, _LONG_ROW_IN_GROUPS = 16, 64
# Columns of which an invocation loads a part at once: an element, or a vector of narrow ones. Large copies
# load up to 16 columns of words, and of halves those of two words, not of one: as many bytes are then in
# flight as a GPU needs.
_COLUMNS_AT_ONCE, _MOST_WORDS_AT_ONCE = (
    kernels.number("tile_columns_at_once"),
    kernels.number("tile_words_at_once"),
)
# Vectors below each other from which on there are enough invocations if each takes two words of halves.
_LEAST_DOWN_FOR_TWO_WORDS = 4
# Of shared memory. Blocks below each other are kept in as many different ones.
_BANKS = 32


@dataclass(frozen=True)
class TileShape:
    """A tile of elements of a width."""

    element_bytes: int
    down: int
    """Vectors of its columns."""
    across: int
    """Words of its rows, or wider elements."""
    vectors: int
    """Of a row, that begin in the tile, which stores them; the last of unaligned rows may end beyond it."""
    loaded: int
    """Columns that a tile loads, without those that it loads for the sake of whole sectors."""
    columns_at_once: int
    """Columns of which an invocation loads a part before it uses what it loaded."""
    whole_sectors: bool
    """Whether rows may start within a sector of the output, and the tile stores those that begin in it."""

    @property
    def rows(self) -> int:
        return self.down * VECTOR_BYTES // self.element_bytes

    @property
    def columns(self) -> int:
        """Columns that are a tile's own."""
        return self.vectors * VECTOR_BYTES // self.element_bytes

    @property
    def parts(self) -> int:
        """The parts that a tile is loaded in, each by one invocation: see ``load_columns``."""
        if self.element_bytes < 4:
            return self.down * self.across * (4 // self.element_bytes) // self.columns_at_once
        return self.rows * self.across // self.columns_at_once

    def counts(self, matrices: Matrices) -> tuple[int, int]:
        """Return how many tiles a matrix has down and across."""
        return ceil_div(matrices.rows.count, self.rows), ceil_div(matrices.columns.count, self.columns)

    def fill(self, matrices: Matrices) -> float:
        """Return which part of the tiles is in the matrices."""
        down, across = self.counts(matrices)
        return matrices.rows.count / (down * self.rows) * matrices.columns.count / (across * self.loaded)


def shared_bytes(down: int, across: int, element_bytes: int) -> int:
    """Return the shared memory of a tile, as ``slice1_tiles.comp`` declares it."""
    cell_bytes = max(element_bytes, 4)
    block = VECTOR_BYTES // element_bytes * (across + 1)
    banks = _BANKS * 4 // cell_bytes // down
    return cell_bytes * down * (block + (banks - block) % (2 * banks))


def tile_shape(matrices: Matrices, element_bytes: int, limits: DeviceLimits) -> TileShape:
    """Return the tiles of these matrices on this device, shaped as the matrices are.

    Tuning gives the largest; as many vectors of a row are stored at once as a workgroup has invocations.
    """
    down, across = dict(limits.tuning.slice1.tile_shapes)[element_bytes]
    stepped = matrices.rows.step > 1
    are_unaligned = loads_unaligned(matrices, element_bytes)
    is_continued = continued(matrices, element_bytes)
    groups_follow = is_continued and matrices.rows.groups is not None
    rows_unaligned = unaligned(matrices.output_starts, element_bytes)
    has_long_rows = element_bytes == 1 and _has_long_unaligned_rows(matrices, across, limits)
    writes_vectors = not (has_long_rows or rows_unaligned)
    if (
        element_bytes == 1
        and across >= 4 * _LEAST_ACROSS
        and (stepped or (writes_vectors if are_unaligned else not groups_follow))
    ):
        # Such columns are loaded in longer pieces, unaligned ones where rows are written in whole vectors:
        # 0.95 of the time of copies of 512 MiB, 0.90 of 48 MiB (H200, 28 copies).
        down *= 2
        if are_unaligned or not has_long_rows:
            across //= 2
    while shared_bytes(down, across, element_bytes) > limits.max_shared_memory:
        across -= 4
    per_vector, per_cell = VECTOR_BYTES // element_bytes, max(4 // element_bytes, 1)
    rows, columns = matrices.rows.count, matrices.columns.count
    cells = ceil_div(columns + (per_vector - 1 if is_continued else 0), per_cell)
    blocks = down * across
    down = min(down, power_of_two_at_least(ceil_div(rows, per_vector)))
    # Few rows have longer tiles, and few columns taller ones.
    apart = abs(matrices.columns.dim.input_stride) - rows * matrices.rows.step
    if apart * element_bytes < SECTOR_BYTES:
        while down * across < blocks and cells >= _TILES_OF_LONG_SIDE * across:
            across *= 2
    shared = int(rows_unaligned)
    within_sectors = unaligned(matrices.output_starts, element_bytes, SECTOR_BYTES)
    is_cut, vectors_across = cells > across, across * per_cell // per_vector
    whole_sectors = is_cut and within_sectors and vectors_across >= _LEAST_WHOLE and matrices.rows.are_dense
    ahead = int(whole_sectors)  # vectors of the next tile, besides the one of unaligned rows
    vectors_of_unit = SECTOR_BYTES // VECTOR_BYTES if whole_sectors or not within_sectors else 1
    units = ceil_div(columns, vectors_of_unit * per_vector)
    most_vectors = vectors_across - shared - ahead if is_cut else units * vectors_of_unit
    most_units = max(min(most_vectors, limits.workgroup_size) // vectors_of_unit, 1)
    vectors = ceil_div(units, ceil_div(units, most_units)) * vectors_of_unit
    there_are = columns + (vectors_of_unit * per_vector - 1 if is_continued else 0)
    loaded = min((vectors + shared) * per_vector, there_are)
    needed = ceil_div(min(loaded + ahead * per_vector, there_are), per_cell)
    # A few widths, for few pipelines.
    across = next(width for width in (*_WIDTHS, across) if width >= needed)
    banks = _BANKS * 4 // max(element_bytes, 4)
    while 2 * down * across <= blocks and down < banks and rows >= _TILES_OF_LONG_SIDE * down * per_vector:
        down *= 2
    loaded = max(ceil_div(loaded, per_cell), _LEAST_ACROSS - shared) * per_cell
    few = per_cell if element_bytes < 4 else _COLUMNS_AT_ONCE
    shape = TileShape(element_bytes, down, across, vectors, loaded, few, whole_sectors)
    return replace(shape, columns_at_once=_columns_at_once(shape, matrices, limits))


def _columns_at_once(shape: TileShape, matrices: Matrices, limits: DeviceLimits) -> int:
    """Return of how many columns an invocation loads a part before it uses what it loaded.

    More of them take 0.90 of the time of words (H200, 53 copies, 0.73 to 1.04), and 0.96 of that of halves
    (39, 0.90 to 1.06). Small copies have too few invocations then (1.05 to 1.17). Columns with steps, of
    which more is read than used, gain nothing (45 copies, 0.99); neither do elements of other widths.
    """
    fills_device = matrices.elements >= limits.tuning.slice1.full_workgroups * shape.rows * shape.columns
    if matrices.rows.step == 1 and fills_device:
        if shape.element_bytes == 4:
            counts = range(_COLUMNS_AT_ONCE, _MOST_WORDS_AT_ONCE + 1)
            return max(count for count in counts if shape.across % count == 0)
        if shape.element_bytes == 2 and shape.down >= _LEAST_DOWN_FOR_TWO_WORDS:
            return _COLUMNS_AT_ONCE
    return shape.columns_at_once


def _has_long_unaligned_rows(matrices: Matrices, across: int, limits: DeviceLimits) -> bool:
    """Whether long rows of single bytes begin within sectors of the output, and no cache holds it.

    Their tiles are twice as large as others: of the sectors of a row, fewer are written by two tiles. That
    takes 0.77 to 0.99 of the time (H100, 29 copies of 32 MiB and more), and 1.0 to 1.2 if caches hold it.
    Where rows begin with vectors it takes 0.82 to 0.89 of it (H100, 24 copies), 0.79 to 1.11 on an H200.
    """
    rows, columns = matrices.rows, matrices.columns.count
    return (
        columns >= _TILES_OF_LONG_ROW * across * 4
        and matrices.elements >= 2 * limits.tuning.slice1.box_cache_bytes
        and rows.groups is None
        and unaligned(matrices.output_starts, 1, SECTOR_BYTES)
    )


def continued(matrices: Matrices, element_bytes: int) -> bool:
    """Whether rows follow each other in the output, so that vectors of two of them can be stored at once.

    Of rows in groups, those at one place of all groups may follow each other.
    """
    per_vector = VECTOR_BYTES // element_bytes
    rows, columns = matrices.rows, matrices.columns.count
    if (
        not matrices.rows_follow
        or columns < per_vector
        or not unaligned(matrices.output_starts, element_bytes)
    ):
        return False
    if rows.groups:
        if rows.groups.size < MANY_GROUPS or columns >= _LONG_ROW_IN_GROUPS * per_vector:
            return False
        if rows.apart == 1:
            return True
    # The next row's elements would be the only unaligned ones.
    return columns < _LONG_ROW * per_vector or unaligned(matrices.input_starts, element_bytes)


def loads_unaligned(matrices: Matrices, element_bytes: int) -> bool:
    """Whether a tile loads vectors of columns that start elsewhere than with a vector."""
    starts = matrices.input_starts
    if continued(matrices, element_bytes):
        starts += (matrices.rows.following.input_stride,)
    return unaligned(starts, element_bytes)
