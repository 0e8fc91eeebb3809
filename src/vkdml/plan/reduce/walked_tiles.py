"""Choosing tiles, in shared memory, of outputs whose elements lie along several dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES, DeviceLimits
from vkdml.plan.reduce.element_costs import ElementCosts
from vkdml.plan.reduce.growing_tile import OUTPUTS_OF_SECTOR, gap_of, margin_of, of_whole_rounds
from vkdml.plan.reduce.reductions import SHORT_ROW_OF_OUTPUTS, bytes_of_workgroup
from vkdml.plan.reduce.sectors import sector_bytes_of
from vkdml.plan.reduce.short_tile import BOX_DIMS, ShortTile, pitch_of, tile_of_counts
from vkdml.plan.reduce.short_tiles import FEWEST_SIDE_BY_SIDE, MOST_POSITIONS
from vkdml.plan.reduce.walks import Walk

# Bytes of an output's elements. Of longer ones a tile has too few to keep its invocations busy.
_MOST_BYTES = 1024
# Bytes of the wide elements of an output. If these are more, workgroups are larger: they load more at once.
_SHORT_WIDE_BYTES = 128
# Positions of a short row of outputs, and the elements of all of these. Of more a tile has too few rows.
_MOST_POSITIONS_OF_ROW = 160
_MOST_ELEMENTS_OF_ROW = 2048
# Elements of very short rows. Read one by one, they meet in few lines of a cache if rows of so many bytes lie
# between the outputs of one and of the next.
FEW_ELEMENTS = 3
_FAR_APART = 128
# The most positions along one dimension, by element width: of outputs that have theirs between them and the
# next output, and of outputs side by side whose positions are rows apart.
_MOST_BETWEEN_OUTPUTS = {1: 64, 2: 16, 4: 5, 8: 2}
_MOST_ROWS_APART = {1: 9, 2: 6, 4: 2, 8: 1}
# The most elements from one of these outputs to the next; how many side by side are enough, whatever follows
# them; and how many of fewer have an element in the same sector at least, on average.
_FARTHEST_BESIDE = {1: 4, 2: 3, 4: 4, 8: 4}
_FEWEST_BESIDE, _FEWEST_OF_SECTOR = 8, 3.05
# Tiles may read so many bytes for each byte of the sectors that are needed, if at most so many positions
# compete or some of these are adjacent.
_MOST_IN_VAIN, _MOST_APART = 1.5, 128
# The fewest outputs of a tile if each has a segment of its own, with elements along several dimensions.
FEWEST_OUTPUTS = 12
# The most segments of an output, if outputs have segments of their own, too.
_MOST_PIECES = 8


def gains_by_tile(layout: ReduceLayout, nbytes: int, loads: str) -> bool:
    """Tell whether elements that columns would load so are walked faster in a tile (H200).

    Narrow ones along several dimensions are, which would be loaded one by one, and single bytes of short rows
    of outputs, which would be loaded partly in vain (0.6 to 0.9 of the time). So are two bytes in very short
    rows of which a cache would hold too few, and few positions along one dimension, if elements that do not
    take part lie between them (0.14 to 1.07; of wide ones, too). Wider ones are walked faster in short rows
    out of memory order (0.3 to 0.9, H100 and H200), and where :class:`ElementCosts` says so.
    """
    if loads == "vectors" or not layout.kept or layout.reduce_count * nbytes > _MOST_BYTES:
        return False
    if loads == "elements" and len(layout.reduced) == 1 and _are_few_apart(layout, nbytes):
        return True
    if nbytes >= 4:
        is_single = loads == "elements"
        return is_single and (_are_rows_out_of_order(layout) or ElementCosts(layout, nbytes).is_walked)
    if len(layout.reduced) > 1:
        return loads == "elements"
    near, count = layout.kept[-1], layout.reduce_count
    row = near.size
    if near.input_stride != 1 or not row == layout.reduced[0].input_stride <= SHORT_ROW_OF_OUTPUTS:
        return False
    if nbytes == 1:
        return count <= _MOST_POSITIONS_OF_ROW and row * count <= _MOST_ELEMENTS_OF_ROW
    return row <= FEW_ELEMENTS and row * count * nbytes % _FAR_APART == 0


def _are_few_apart(layout: ReduceLayout, nbytes: int) -> bool:
    """Whether few positions compete along one dimension, with elements that do not take part between them."""
    positions, near = layout.reduced[0], layout.kept[-1]
    if positions.input_stride == 1 or (nbytes >= 4 and not layout.outputs_follow_input):
        return False
    extent = (positions.size - 1) * positions.input_stride + 1
    if 1 < extent <= near.input_stride:
        return positions.size <= _MOST_BETWEEN_OUTPUTS[nbytes]
    if near.input_stride > _FARTHEST_BESIDE[nbytes] or positions.size > _MOST_ROWS_APART[nbytes]:
        return False
    following = layout.kept[-2].input_stride if len(layout.kept) > 1 else 0
    are_dense = near.size * SECTOR_BYTES >= _FEWEST_OF_SECTOR * following * nbytes
    return near.size >= _FEWEST_BESIDE or are_dense or extent <= following


def _are_rows_out_of_order(layout: ReduceLayout) -> bool:
    """Whether what competes for an output is side by side in memory, in another order than its positions."""
    order = layout.memory_order
    return order is not None and len(order.dims) > 1 and order.run_dims == len(order.dims)


def walked_tile_of(
    layout: ReduceLayout, walk: Walk, nbytes: int, limits: DeviceLimits
) -> tuple[Walk, ShortTile] | None:
    """Choose a tile whose outputs are walked by one invocation each; None if memory would be read in vain.

    Returns:
        The tile, and the walk as it goes through shared memory.
    """
    tuning, count = limits.tuning.short, layout.reduce_count
    fast = layout.innermost_of_outputs
    permuted = fast is not layout.kept[-1]
    are_long = not permuted and nbytes >= 4 and count * nbytes > _SHORT_WIDE_BYTES
    workgroup_size = min(tuning.workgroup_size // (1 if permuted or are_long else 2), limits.workgroup_size)
    if are_long:
        wanted = 2 * tuning.tile_bytes
    else:
        # Tiles that are written in another order end within sectors of the input and of the output.
        wanted = max(tuning.tile_bytes, workgroup_size * count * nbytes) * (2 if permuted else 1)
    most = 2 * (tuning.permuted_tile_bytes or tuning.tile_bytes)
    share = bytes_of_workgroup(layout.outputs * count * nbytes, limits.tuning)
    budget = min(wanted, most, share, limits.max_shared_memory // 2) // nbytes
    for apart in (False, True):
        inner = walk.order.dims[apart:]
        segments = walk.order.dims[0].size if apart else 1
        if segments > MOST_POSITIONS:
            continue
        for side_by_side in (min(fast.size, FEWEST_SIDE_BY_SIDE), 1) if permuted else (1,):
            tile = _tile(layout, inner, nbytes, budget // segments, side_by_side, workgroup_size)
            if tile is None:
                continue
            # If positions and outputs both have segments, these have to be few and of adjacent elements.
            are_few_pieces = segments <= _MOST_PIECES and walk.order.run_dims > 0
            if not (apart and tile.segments_along_near(layout)) or are_few_pieces:
                return _with_positions_apart(walk, tile, nbytes) if apart else (walk, tile)
    return None


def has_few_outputs(tile: ShortTile, layout: ReduceLayout) -> bool:
    """Whether a tile has outputs for so few invocations that elements are as well read one by one."""
    if len(layout.reduced) == 1:
        return tile.outputs < tile.workgroup_size // 2
    return tile.segments_along_near(layout) and tile.outputs < FEWEST_OUTPUTS


def _with_positions_apart(walk: Walk, tile: ShortTile, nbytes: int) -> tuple[Walk, ShortTile]:
    """Give the runs along the outermost dimension of a walk segments of their own."""
    outermost, per_vector = walk.order.dims[0], VECTOR_BYTES // nbytes
    pitch = pitch_of(tile.shared_elements, outermost.input_stride, per_vector)
    elements = tile.shared_elements + (outermost.size - 1) * pitch
    return replace(walk, apart=True), replace(tile, position_pitch=pitch, shared_elements=elements)


def _tile(
    layout: ReduceLayout,
    inner: tuple[Dim, ...],
    nbytes: int,
    budget: int,
    side_by_side: int,
    workgroup_size: int,
) -> ShortTile | None:
    """Choose a tile of the elements along ``inner``, of at most so many elements in shared memory.

    Dimensions of outputs between these elements are whole. ``side_by_side`` outputs at least are along their
    own innermost dimension, if that is another one than the input's.
    """
    gap, margin, per_vector = gap_of(nbytes), margin_of(nbytes), VECTOR_BYTES // nbytes
    fast = layout.innermost_of_outputs
    room = budget // side_by_side - margin - per_vector
    farthest = max((dim.input_stride for dim in inner), default=0)
    extent = 1 + sum((dim.size - 1) * dim.input_stride for dim in inner)
    between = [dim for dim in layout.kept if 0 < dim.input_stride < farthest]
    extent += sum((dim.size - 1) * dim.input_stride for dim in between)
    if len(between) > BOX_DIMS or extent > min(_most_read(layout, (*inner, *between), nbytes) + gap, room):
        return None
    counts = {dim: dim.size for dim in reversed(between)}
    for dim in reversed(layout.kept):
        if dim in counts:
            continue
        most = extent + gap
        if not counts:
            most = max(most, int(_MOST_IN_VAIN * (extent * nbytes + SECTOR_BYTES)) // nbytes)
        apart = not 0 < dim.input_stride <= most
        if apart or (dim is fast and side_by_side > 1) or len(counts) == BOX_DIMS - (side_by_side > 1):
            break
        count = min(dim.size, 1 + (room - extent) // dim.input_stride)
        if count < dim.size:
            count = of_whole_rounds(count, prod(counts.values()) * side_by_side, workgroup_size, per_vector)
        counts[dim] = count
        extent += (count - 1) * dim.input_stride
        if count < dim.size:
            break
    segments_along, shared_pitch = None, 0
    rest = [dim for dim in layout.kept if dim not in counts]
    complete = all(count == dim.size for dim, count in counts.items())
    if side_by_side > 1 and fast not in counts:
        segments_along = fast
    elif rest and complete and len(counts) < BOX_DIMS:
        segments_along = rest[-1]
    if segments_along is not None:
        shared_pitch = pitch_of(extent + margin, segments_along.input_stride, per_vector)
        count = max(min(segments_along.size, (budget - margin - per_vector) // shared_pitch), 1)
        if count < segments_along.size:
            multiple = OUTPUTS_OF_SECTOR if segments_along is fast else 1
            count = of_whole_rounds(count, prod(counts.values()), workgroup_size, multiple)
        counts[segments_along] = count
        extent += (count - 1) * shared_pitch
    if layout.kept[-1] not in counts:
        return None
    return tile_of_counts(
        layout.kept,
        counts,
        segments_along,
        shared_pitch=shared_pitch,
        position_pitch=0,
        shared_elements=extent + margin + per_vector,
        workgroup_size=workgroup_size,
    )


def _most_read(layout: ReduceLayout, dims: Sequence[Dim], nbytes: int) -> int:
    """Return the most elements that are read for those along some dimensions."""
    most = 2 * prod(dim.size for dim in dims)
    if layout.reduce_count <= _MOST_APART or layout.reading_order.run_dims:
        sector_bytes = sector_bytes_of(((dim.size, dim.input_stride) for dim in dims), nbytes)
        most = max(most, int(_MOST_IN_VAIN * sector_bytes) // nbytes)
    return most
