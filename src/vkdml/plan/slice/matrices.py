"""Transposed copies as matrices, and their tiles. Pure numbers; ``tile_copies.py`` makes steps of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES, DeviceLimits, power_of_two_at_least

# The narrowest tile has so many words across, or so many elements if these are wider.
_LEAST_ACROSS = 8
_WIDTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 64)
# A side of a tile grows while its matrix has so many of it.
_TILES_OF_LONG_SIDE = 4
# A row of single bytes is long from so many tiles on.
_TILES_OF_LONG_ROW = 1.5
# If there are more columns for each row, tiles that are wide in the output load short pieces of the input.
_COLUMNS_OF_ROW = 2.75
# Vectors. Tiles that are no narrower load a sector more of each row, so that they store whole ones. Rows of
# halves that begin within sectors were copied at 0.71 of the read rate, and are at 0.81 (H200).
_LEAST_WHOLE = 12
# Vectors. Rows of so many have few vectors at their ends, and those in groups.
_LONG_ROW, _LONG_ROW_IN_GROUPS = 16, 64
# Rows of fewer groups come soon to where no other follows.
_MANY_GROUPS = 16
# Of shared memory. Blocks below each other are kept in as many different ones.
_BANKS = 32
# A tile stores at least one of so many rows that it loads.
_MOST_SPARSE = 12
# The same if columns begin between two groups, which are then read again.
_MOST_SPARSE_BETWEEN = 6
# The same if there are few columns.
_MOST_SPARSE_IF_FEW = 2


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix, along columns of the input; in groups, if a second dimension continues them.

    A third one may continue the groups: it has blocks of them.
    """

    step: int
    """From a row that is loaded to the next, in elements of the input."""
    dim: Dim
    """From row to row that is copied; its input stride is positive."""
    groups: Dim | None = None
    blocks: Dim | None = None

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(dim for dim in (self.dim, self.groups, self.blocks) if dim)

    @property
    def following(self) -> Dim:
        """The dimension along which rows may follow each other in the output."""
        return self.groups or self.dim

    @property
    def are_dense(self) -> bool:
        """Whether all that lies side by side along a column is copied."""
        return self.step == 1 and self.groups is None

    @property
    def apart(self) -> int:
        """Rows that are loaded, from one that is copied to the next of its group."""
        return self.dim.input_stride // self.step

    @property
    def in_group(self) -> int:
        """Rows that are loaded, from group to group."""
        return self.groups.input_stride // self.step if self.groups else self.count

    @property
    def in_block(self) -> int:
        """Rows that are loaded, from block to block."""
        return self.blocks.input_stride // self.step if self.blocks else self.count

    @property
    def count(self) -> int:
        """All rows from the first to the last, those between copied ones included."""
        return 1 + sum((dim.size - 1) * dim.input_stride for dim in self.dims) // self.step


@dataclass(frozen=True)
class Columns:
    """The columns of a matrix, along rows of the output; in groups, if a second dimension continues them.

    A third one may continue the groups: it has blocks of them.
    """

    dim: Dim
    """From column to column; its output stride is 1."""
    groups: Dim | None = None
    blocks: Dim | None = None

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(dim for dim in (self.dim, self.groups, self.blocks) if dim)

    @property
    def count(self) -> int:
        return math.prod(dim.size for dim in self.dims)


@dataclass(frozen=True)
class Matrices:
    """The output is contiguous along a row, the input has equal small steps along a column."""

    outer: tuple[Dim, ...]
    rows: Rows
    columns: Columns
    input_base: int
    output_base: int

    @property
    def rows_follow(self) -> bool:
        """Whether rows follow each other in the output along :attr:`Rows.following`.

        Groups of one row each are left out: they are rows with a long step, and loading more takes longer.
        """
        rows = self.rows
        if rows.blocks is not None or (rows.groups is not None and rows.dim.size == 1):
            return False
        return abs(rows.following.output_stride) == self.columns.count

    @property
    def input_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where columns start."""
        return (self.input_base, *(dim.input_stride for dim in (*self.columns.dims, *self.outer)))

    @property
    def output_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where rows start."""
        return (self.output_base, *(dim.output_stride for dim in (*self.rows.dims, *self.outer)))


@dataclass(frozen=True)
class GroupLimits:
    """Where groups of rows help: together they are loaded in longer pieces. In elements of the input."""

    sector: int
    rows_below: int
    """Fewer rows than this may be continued as groups, and fewer in groups as blocks."""
    between: int
    """Two groups, at most."""
    short: int
    """Of groups that span at most this, more may lie between two:"""
    between_short: int
    left_out_below: int
    """Rows between those that are copied may be loaded in groups that span less."""
    least_columns: int
    """Of fewer columns, not many more rows may be loaded than are copied."""
    long_columns: int
    """At least so many columns are not continued as groups, but rows along the same dimension."""
    least_followed: int
    """Fewer columns are continued as groups."""
    few_rows: int
    """Up to so many rows, and so few for each column, are continued as groups rather than columns."""


def transposed(
    layout: CopyLayout,
    least: int,
    *,
    steps: Sequence[int] = (1,),
    group_limits: GroupLimits | None = None,
) -> Matrices | None:
    """Return the layout as transposed matrices whose sides have at least ``least`` elements, or None.

    Args:
        steps: that the input may have along a column.
        group_limits: for rows in groups; any columns may be in groups then. None: neither.
    """
    if not layout.dims:
        return None
    *others, column = layout.dims
    row = _nearest(others)
    # Another dimension that lies between the elements of a column would read them once more.
    if row is None or column.output_stride != 1 or abs(column.input_stride) <= abs(row.input_stride):
        return None
    left_out = abs(row.input_stride) - _row_step(steps, (row,))
    if left_out > (group_limits.between if group_limits else 0):
        return None
    others.remove(row)
    dims: tuple[Dim, ...] = (row,)
    columns = Columns(column)
    if group_limits is not None:
        dims, columns = _grouped(row, column, others, steps, group_limits)
        if columns.groups is not None:
            columns = replace(columns, blocks=_continuing(columns.count, _without(others, dims)))
    input_base, output_base = layout.input_base, layout.output_base
    # Rows may come in any order.
    ascending = []
    for dim in dims:
        if dim.input_stride < 0:
            input_base += (dim.size - 1) * dim.input_stride
            output_base += (dim.size - 1) * dim.output_stride
            dim = Dim(dim.size, -dim.input_stride, -dim.output_stride)
        ascending.append(dim)
    rows = Rows(_row_step(steps, dims), *ascending)
    if min(rows.count, columns.count) < least:
        return None
    outer = _without(others, (*dims, *columns.dims))
    return Matrices(outer, rows, columns, input_base, output_base)


def _grouped(
    row: Dim, column: Dim, others: Sequence[Dim], steps: Sequence[int], limits: GroupLimits
) -> tuple[tuple[Dim, ...], Columns]:
    """Return the dimensions of rows, with those of groups and blocks if there are any, and the columns."""
    columns = Columns(column, _continuing(column.size, others))
    step = _row_step(steps, (row,))
    if abs(row.input_stride) > step:
        # Of each group of rows, which lie a step apart, one is copied.
        dims: tuple[Dim, ...] = (Dim(1, step, 0), row)
    else:
        groups = _next_rows((row,), columns, others, steps, limits) if row.size < limits.rows_below else None
        if groups is None:
            return (row,), columns
        if groups is columns.groups:
            if not _continue_rows(row, groups, column.size, limits):
                return (row,), columns
            columns = Columns(column)
        dims = (row, groups)
    *_, last = dims
    step = _row_step(steps, dims)
    if abs(last.input_stride) // step * (last.size - 1) + dims[0].size < limits.rows_below:
        rest = [dim for dim in others if dim is not last]
        blocks = _next_rows(dims, columns, rest, steps, limits)
        span = 1 + sum((dim.size - 1) * abs(dim.input_stride) for dim in dims)
        least = limits.long_columns * ceil_div(span, limits.sector)
        if columns.groups is not None and blocks is columns.groups and column.size >= least:
            # Of columns in groups, tiles would load few rows each (0.26 to 1.07 of the time, H100).
            columns = Columns(column)
        else:
            rest = [dim for dim in rest if dim is not columns.groups]
            blocks = _next_rows(dims, columns, rest, steps, limits)
        dims += () if blocks is None else (blocks,)
    return dims, columns


def _continue_rows(row: Dim, groups: Dim, columns: int, limits: GroupLimits) -> bool:
    """Whether a dimension continues rows as groups that could continue columns.

    Where it continues rows, tiles load longer pieces of a column.
    """
    if columns < row.size:
        return False
    if columns >= limits.long_columns:
        return True
    if groups.size < _MANY_GROUPS or columns < limits.least_followed:
        return False
    sparse = abs(groups.input_stride) / (row.size * abs(row.input_stride))
    return row.size <= limits.few_rows or columns > _COLUMNS_OF_ROW * row.size * sparse**2


def _without(dims: Sequence[Dim], taken: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the other dimensions; some may be equal to those that are taken."""
    return tuple(dim for dim in dims if not any(dim is each for each in taken))


def _nearest(dims: Sequence[Dim]) -> Dim | None:
    """Return the dimension whose elements are nearest to each other in the input."""
    strided = [dim for dim in dims if dim.input_stride]
    return min(strided, key=lambda dim: abs(dim.input_stride)) if strided else None


def _continuing(columns: int, others: Sequence[Dim]) -> Dim | None:
    """Return the dimension along which the output goes on where a row of so many columns ends."""
    return next((dim for dim in others if dim.output_stride == columns), None)


def _row_step(steps: Sequence[int], dims: Sequence[Dim]) -> int:
    """Return the longest step from row to row that is loaded, so that all rows of these dimensions are."""
    return max((step for step in steps if not any(dim.input_stride % step for dim in dims)), default=0)


def _next_rows(
    inner: Sequence[Dim],
    columns: Columns,
    others: Sequence[Dim],
    steps: Sequence[int],
    limits: GroupLimits,
) -> Dim | None:
    """Return the dimension along which the input goes on where a column of rows ends, perhaps after a gap."""
    near, column, groups = _nearest(others), columns.dim, columns.groups
    if near is None:
        return None
    last, apart = inner[-1], abs(near.input_stride)
    extent = last.size * abs(last.input_stride)
    span = 1 + sum((dim.size - 1) * abs(dim.input_stride) for dim in inner)
    if apart < span or apart - extent > (limits.between_short if span <= limits.short else limits.between):
        return None
    loaded = _row_step(steps, inner) // _row_step(steps, (*inner, near))
    if loaded > 1 and (span >= limits.left_out_below or column.size < limits.least_columns):
        return None
    count = column.size if groups is None or groups is near else columns.count
    if apart > _MOST_SPARSE_IF_FEW * extent and count < limits.least_columns:
        return None
    most_sparse = _MOST_SPARSE if apart < abs(column.input_stride) else _MOST_SPARSE_BETWEEN
    return near if apart * loaded <= most_sparse * extent else None


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
            return self.down * self.across
        return self.rows * self.across // kernels.number("tile_columns_at_once")

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
    return TileShape(element_bytes, down, across, vectors, loaded, whole_sectors)


def _has_long_unaligned_rows(matrices: Matrices, across: int, limits: DeviceLimits) -> bool:
    """Whether long rows of single bytes begin within sectors of the output, and no cache holds it.

    Their tiles are twice as large as others: of the sectors of a row, fewer are written by two tiles. That
    takes 0.77 to 0.99 of the time (H100, 29 copies of 32 MiB and more), and 1.0 to 1.2 if caches hold it.
    Where rows begin with vectors it takes 0.82 to 0.89 of it (H100, 24 copies), 0.79 to 1.11 on an H200.
    """
    rows, columns = matrices.rows, matrices.columns.count
    nbytes = math.prod(dim.size for dim in matrices.outer) * rows.count * columns
    return (
        columns >= _TILES_OF_LONG_ROW * across * 4
        and nbytes >= 2 * limits.tuning.slice1.box_cache_bytes
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
        if rows.groups.size < _MANY_GROUPS or columns >= _LONG_ROW_IN_GROUPS * per_vector:
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


def unaligned(starts: Sequence[int], element_bytes: int, nbytes: int = VECTOR_BYTES) -> bool:
    """Whether any of these starts elsewhere than with a vector, or with so many bytes."""
    return any(start * element_bytes % nbytes for start in starts)
