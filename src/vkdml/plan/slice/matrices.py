"""Transposed copies as matrices; ``tile_shapes.py`` finds their tiles, ``tile_copies.py`` plans them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import CopyLayout, Dim, ascending, span_of
from vkdml.plan.plans import VECTOR_BYTES
from vkdml.plan.tuning import SliceTuning

# If there are more columns for each row, tiles that are wide in the output load short pieces of the input.
_COLUMNS_OF_ROW = 2.75
# Planes have at least so many rows.
FEWEST_PLANES = 4
# Rows of fewer groups come soon to where no other follows.
MANY_GROUPS = 16
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
    def count(self) -> int:
        """How many matrices there are."""
        return math.prod(dim.size for dim in self.outer)

    @property
    def elements(self) -> int:
        """Of all matrices."""
        return self.count * self.rows.count * self.columns.count

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
    # Rows may come in any order.
    upright, input_base, output_base = ascending(dims, layout.input_base, layout.output_base)
    rows = Rows(_row_step(steps, dims), *upright)
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
        span = span_of(dims)
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
    if groups.size < MANY_GROUPS or columns < limits.least_followed:
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
    span = span_of(inner)
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


def unaligned(starts: Sequence[int], element_bytes: int, nbytes: int = VECTOR_BYTES) -> bool:
    """Whether any of these starts elsewhere than with a vector, or with so many bytes."""
    return any(start * element_bytes % nbytes for start in starts)


def are_planes(matrices: Matrices, element_bytes: int, tuning: SliceTuning) -> bool:
    """Whether single bytes are copied to so few rows that tiles are mostly empty."""
    return element_bytes == 1 and matrices.rows.count < tuning.narrow_tile_least_bytes
