"""Transposed copies as matrices, and their tiles. Pure numbers; ``tile_copies.py`` makes steps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vkdml.plan import kernels
from vkdml.plan.boxes import SECTOR_BYTES
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, ceil_div, power_of_two_at_least

# Words of the narrowest tile, or wider elements.
_LEAST_ACROSS = 8
_WIDTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 64)
# A side of a tile grows while its matrix has so many of it.
_TILES_OF_LONG_SIDE = 4
# Vectors of rows whose ends are few.
_LONG_ROW = 16
# Of shared memory; blocks below each other are kept in as many different ones.
_BANKS = 32
# Of so many rows that are loaded one is stored, at least.
_MOST_SPARSE = 6


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix, along columns of the input; in groups, if a second dimension continues them.

    A third one may continue the groups: it has blocks of them.
    """

    dim: Dim
    """From row to row; its input stride is positive."""
    groups: Dim | None = None
    blocks: Dim | None = None

    @property
    def in_group(self) -> int:
        """Rows from group to group; of these the group has as many as its dimension."""
        return self.groups.input_stride // self.dim.input_stride if self.groups else self.dim.size

    @property
    def in_block(self) -> int:
        """Groups from block to block; of these the block has as many as their dimension."""
        if self.groups is None or self.blocks is None:
            return 1
        return self.blocks.input_stride // self.groups.input_stride

    @property
    def count(self) -> int:
        """All rows from the first to the last, those between groups and blocks included."""
        groups = self.in_block * (self.blocks.size - 1) if self.blocks else 0
        groups += self.groups.size - 1 if self.groups else 0
        return self.in_group * groups + self.dim.size


@dataclass(frozen=True)
class Columns:
    """The columns of a matrix, along rows of the output; in groups, if a second dimension continues them."""

    dim: Dim
    """From column to column; its output stride is 1."""
    groups: Dim | None = None

    @property
    def count(self) -> int:
        return self.dim.size * (self.groups.size if self.groups else 1)


@dataclass(frozen=True)
class Matrices:
    """The output is contiguous along a row, the input has equal small steps along a column."""

    outer: tuple[Dim, ...]
    rows: Rows
    columns: Columns
    input_base: int
    output_base: int

    @property
    def input_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where columns start."""
        dims = (self.columns.dim, self.columns.groups, *self.outer)
        return (self.input_base, *(dim.input_stride for dim in dims if dim))

    @property
    def output_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where rows start."""
        dims = (self.rows.dim, self.rows.groups, self.rows.blocks, *self.outer)
        return (self.output_base, *(dim.output_stride for dim in dims if dim))


def transposed(
    layout: CopyLayout,
    least: int,
    *,
    steps: Sequence[int] = (1,),
    groups_below: int = 0,
    most_between: int = 0,
) -> Matrices | None:
    """Return the layout as transposed matrices whose sides have at least ``least`` elements, or None.

    Args:
        steps: that the input may have along a column.
        groups_below: fewer rows than this may be continued as groups, and fewer in groups as blocks; any
            columns may, as groups. 0: neither.
        most_between: elements of the input between two groups of rows, at most.
    """
    if not layout.dims:
        return None
    *others, column = layout.dims
    row = _nearest(others)
    # Another dimension that lies between the elements of a column would read them once more.
    if row is None or column.output_stride != 1 or abs(column.input_stride) <= abs(row.input_stride):
        return None
    step = max((step for step in steps if row.input_stride % step == 0), default=0)
    if not step or (abs(row.input_stride) > step and not groups_below):
        return None
    others.remove(row)
    groups_of_columns = _continuing(column, others) if groups_below else None
    groups_of_rows: Dim | None = None
    if abs(row.input_stride) > step:
        # Of each group of rows, which lie a step apart, one is copied.
        if abs(row.input_stride) - step > most_between:
            return None
        row, groups_of_rows = Dim(1, step, 0), row
    elif row.size < groups_below:
        groups_of_rows = _next_rows(row, others, most_between)
    if groups_of_rows and groups_of_rows is groups_of_columns:
        if column.size < row.size:
            groups_of_rows = None
        else:
            groups_of_columns = None
    others = [dim for dim in others if dim is not groups_of_columns and dim is not groups_of_rows]
    blocks: Dim | None = None
    if groups_of_rows:
        in_groups = abs(groups_of_rows.input_stride) // step * (groups_of_rows.size - 1) + row.size
        if in_groups < groups_below:
            blocks = _next_rows(groups_of_rows, others, most_between)
    outer = tuple(dim for dim in others if dim is not blocks)
    input_base, output_base = layout.input_base, layout.output_base
    # Rows may come in any order.
    ascending: list[Dim | None] = []
    for dim in (row, groups_of_rows, blocks):
        if dim and dim.input_stride < 0:
            input_base += (dim.size - 1) * dim.input_stride
            output_base += (dim.size - 1) * dim.output_stride
            dim = Dim(dim.size, -dim.input_stride, -dim.output_stride)
        ascending.append(dim)
    rows = Rows(ascending[0] or row, *ascending[1:])
    columns = Columns(column, groups_of_columns)
    if min(rows.count, columns.count) < least:
        return None
    return Matrices(outer, rows, columns, input_base, output_base)


def _nearest(dims: Sequence[Dim]) -> Dim | None:
    """Return the dimension whose elements are nearest to each other in the input."""
    strided = [dim for dim in dims if dim.input_stride]
    return min(strided, key=lambda dim: abs(dim.input_stride)) if strided else None


def _continuing(column: Dim, others: Sequence[Dim]) -> Dim | None:
    """Return the dimension along which the output goes on where a row of columns ends."""
    return next((dim for dim in others if dim.output_stride == column.size), None)


def _next_rows(row: Dim, others: Sequence[Dim], most_between: int) -> Dim | None:
    """Return the dimension along which the input goes on where a column of rows ends, perhaps after a gap."""
    near = _nearest(others)
    if near is None or near.input_stride % row.input_stride:
        return None
    apart = abs(near.input_stride // row.input_stride)
    between = (apart - row.size) * abs(row.input_stride)
    return near if 0 <= between <= most_between and apart <= _MOST_SPARSE * row.size else None


@dataclass(frozen=True)
class TileShape:
    """A tile of elements of a width."""

    element_bytes: int
    down: int
    """Vectors of its columns."""
    across: int
    """Words of its rows, or wider elements."""
    vectors: int
    """Of a row, that begin in the tile; of unaligned rows, the last may end beyond it."""
    loaded: int
    """Columns that a tile loads."""

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
    stepped = matrices.rows.dim.input_stride > 1
    if element_bytes == 1 and across >= 4 * _LEAST_ACROSS and (stepped or not loads_unaligned(matrices, 1)):
        down, across = 2 * down, across // 2  # such columns are loaded in longer pieces
    while shared_bytes(down, across, element_bytes) > limits.max_shared_memory:
        across -= 4
    per_vector, per_cell = VECTOR_BYTES // element_bytes, max(4 // element_bytes, 1)
    rows, columns = matrices.rows.count, matrices.columns.count
    shared = int(unaligned(matrices.output_starts, element_bytes))
    beyond = per_vector - 1 if continued(matrices, element_bytes) else 0
    cells = ceil_div(columns + beyond, per_cell)
    blocks = down * across
    down = min(down, power_of_two_at_least(ceil_div(rows, per_vector)))
    # Few rows have longer tiles, and few columns taller ones.
    apart = abs(matrices.columns.dim.input_stride) - rows * matrices.rows.dim.input_stride
    if apart * element_bytes < SECTOR_BYTES:
        while down * across < blocks and cells >= _TILES_OF_LONG_SIDE * across:
            across *= 2
    vectors = ceil_div(columns, per_vector)
    most_vectors = across * per_cell // per_vector - shared
    if not shared:
        most_vectors = max(most_vectors // 2 * 2, 1)  # whole sectors
    most_vectors = min(vectors if cells <= across else most_vectors, limits.workgroup_size)
    vectors = ceil_div(vectors, ceil_div(vectors, most_vectors))
    needed = ceil_div(min((vectors + shared) * per_vector, columns + beyond), per_cell)
    # A few widths, for few pipelines.
    across = next(width for width in (*_WIDTHS, across) if width >= needed)
    banks = _BANKS * 4 // max(element_bytes, 4)
    while 2 * down * across <= blocks and down < banks and rows >= _TILES_OF_LONG_SIDE * down * per_vector:
        down *= 2
    loaded = max(needed, _LEAST_ACROSS - shared) * per_cell
    return TileShape(element_bytes, down, across, vectors, loaded)


def continued(matrices: Matrices, element_bytes: int) -> bool:
    """Whether rows follow each other in the output, so that vectors of two of them can be stored at once."""
    per_vector = VECTOR_BYTES // element_bytes
    rows, columns = matrices.rows, matrices.columns.count
    return (
        not rows.groups
        and abs(rows.dim.output_stride) == columns >= per_vector
        and unaligned(matrices.output_starts, element_bytes)
        # The next row's elements lie one beside the others': they would be the only unaligned ones.
        and (columns < _LONG_ROW * per_vector or unaligned(matrices.input_starts, element_bytes))
    )


def loads_unaligned(matrices: Matrices, element_bytes: int) -> bool:
    """Whether a tile loads vectors of columns that start elsewhere than with a vector."""
    return continued(matrices, element_bytes) or unaligned(matrices.input_starts, element_bytes)


def unaligned(starts: Sequence[int], element_bytes: int) -> bool:
    """Whether any of these starts elsewhere than with a vector."""
    return any(start % (VECTOR_BYTES // element_bytes) for start in starts)
