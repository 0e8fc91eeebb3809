"""Choosing tiles whose elements are read where they are, as suits a processor, and those of walks."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import LINE_BYTES, DeviceLimits
from vkdml.plan.reduce.short_tile import BOX_DIMS, ShortTile
from vkdml.plan.reduce.walks import Walk

# Outputs of a tile that is read where it is and written in another order, and those side by side.
MOST_PERMUTED = 4096
_INDICES_OF_TILE = 64
_INDICES_OF_LINE = LINE_BYTES // 4
# Bytes of lines of memory that a subgroup reads again and again from a cache.
_WALK_BYTES = 512 * 1024
# Lines that the nearest cache of a processor has for sure.
_HELD_LINES = 256
# Outputs that read no more are many in a tile.
_FEW_LINES = 2


def tile_of_walks(
    layout: ReduceLayout,
    walk: Walk,
    nbytes: int,
    columns: int,
    limits: DeviceLimits,
    most_outputs: int | None = None,
) -> ShortTile:
    """Choose a tile of outputs. Invocations walk through some neighbours each, so many columns at a time.

    ``most_outputs`` bounds a tile further: the loops of more would have too many steps for the driver.
    """
    workgroup_size, count = workgroup_size_of(limits), layout.reduce_count
    near = layout.kept[-1]
    # Each invocation has lines of memory of its own, which have its next outputs while a cache holds them.
    line_bytes = max(min(_WALK_BYTES // (walk.lines(nbytes) * LINE_BYTES), workgroup_size), 1) * LINE_BYTES
    across = not layout.outputs_follow_input
    if across and walk.lines(nbytes) <= _FEW_LINES and count * nbytes <= _FEW_LINES * LINE_BYTES:
        # More of them would leave no room for lines of the output.
        line_bytes = LINE_BYTES
    least = workgroup_size * columns
    most = min(MOST_PERMUTED, 2 * limits.tuning.short.tile_bytes // (count * nbytes))
    most = max(most, line_bytes // (near.input_stride * nbytes or LINE_BYTES), least)
    enough = max(layout.outputs // limits.tuning.target_workgroups, least)
    most = min(most, enough)
    multiple = columns
    if not across:
        # Where a cache does not hold all lines from one column to the next, invocations share none, but for
        # a dimension that then leaves a rest: that takes as long as a whole tile.
        are_held = walk.lines(nbytes) * workgroup_size <= _HELD_LINES
        multiple = least if are_held else max(least, workgroup_size * LINE_BYTES // nbytes)
        if near.size > most and near.size % multiple:
            multiple = least
            whole = round_up(ceil_div(near.size, near.size // most), least)
            most = whole if whole <= enough else most
    if most_outputs is not None and most > most_outputs:
        most = max(most_outputs, least)
        multiple = min(multiple, most)
    tile = tile_in_place(layout, nbytes, most - most % least, workgroup_size, multiple, line_bytes // nbytes)
    # Columns are the first dimension.
    return replace(tile, dims=tuple(sorted(tile.dims, key=lambda item: columns > 1 and item[0] is not near)))


def tile_in_place(
    layout: ReduceLayout, nbytes: int, most: int, workgroup_size: int, multiple: int = 4, first: int = 1
) -> ShortTile:
    """Choose a tile of at most so many outputs that are read where they are.

    It has whole lines of the output and of the input, as far as it has room, and more of the output then.
    ``first`` elements of the input come before.
    """
    by_output = sorted(layout.kept, key=lambda dim: abs(dim.output_stride))
    near = layout.kept[-1]
    counts: dict[Dim, int] = {near: 1}

    def take(dim: Dim, count: int) -> int:
        """Return how many of this number are still wanted of the next dimension."""
        if dim not in counts and len(counts) == BOX_DIMS:
            return 1
        had = counts.get(dim, 1)
        room = max(most * had // max(prod(counts.values()), 1), 1)
        counts[dim] = max(had, min(dim.size, count, room))
        return ceil_div(count, dim.size) if counts[dim] == dim.size else 1

    for dims, line in (
        (layout.kept[::-1], first),
        (by_output, _INDICES_OF_TILE),
        (layout.kept[::-1], LINE_BYTES // nbytes),
    ):
        wanted = line
        for dim in dims:
            if wanted > 1:
                wanted = take(dim, wanted)

    def even_out(dim: Dim) -> None:
        if dim in counts:
            counts[dim] = even_count(dim.size, counts[dim], multiple if dim is near else _INDICES_OF_LINE)

    if by_output[0] is not near:
        even_out(near)  # before others take what room is left
    for dim in by_output:
        take(dim, dim.size)
        even_out(dim)
    # Tiles that have all but of the outputs' innermost dimension then follow each other in the input, too.
    in_input_order = all(count == dim.size for dim, count in counts.items() if dim is not by_output[0])
    chosen = tuple(
        sorted(
            counts.items(),
            key=lambda item: abs(item[0].input_stride if in_input_order else item[0].output_stride),
        )
    )
    outer = tuple(dim for dim in layout.kept if dim not in counts)
    return ShortTile(chosen, BOX_DIMS, 0, 0, 0, outer, workgroup_size)


def even_count(size: int, most: int, multiple: int) -> int:
    """Return a count, if possible a multiple, that cuts a dimension into few parts, nearly alike.

    >>> even_count(1041, 480, 32), even_count(75, 64, 8), even_count(6, 6, 4)
    (352, 40, 6)
    """
    if most == size or most < multiple:
        return most
    even = ceil_div(size, ceil_div(size, most))
    return min(round_up(even, multiple), most - most % multiple)


def workgroup_size_of(limits: DeviceLimits) -> int:
    return min(limits.tuning.short.workgroup_size, limits.workgroup_size)
