"""Choosing the tiles of short rows and short stacks: boxes of outputs that a workgroup takes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES, DeviceLimits
from vkdml.plan.reduce.columns import LED_GROUPS
from vkdml.plan.reduce.growing_tile import OUTPUTS_OF_SECTOR, SEGMENT_MARGIN, Box, Room, gap_of, margin_of
from vkdml.plan.reduce.reductions import bytes_of_workgroup
from vkdml.plan.reduce.short_tile import BOX_DIMS, ShortTile, folds_of, tile_of_counts
from vkdml.plan.reduce.tiles_in_place import MOST_PERMUTED, tile_in_place, workgroup_size_of
from vkdml.plan.reduce.transposing import PermutedStack, sides_of
from vkdml.plan.reduce.work_division import are_multiples
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import ShortTuning

# The most positions of a stack. With more, other kernels are as fast.
MOST_POSITIONS = 32
# The same where a GPU would load elements one by one otherwise: of rows shorter than a vector that follow
# each other. They take 0.80 of the time then (35 stacks on an H200, 0.62 to 1.01). Rows of halves that do not
# all start with a word have fewer.
_MOST_POSITIONS_OF_VERY_SHORT_ROWS = {2: 90, 4: 42}
_MOST_POSITIONS_BETWEEN_WORDS = 44
# A tile writes at least so many outputs side by side if other outputs are nearer in the input.
FEWEST_SIDE_BY_SIDE = 16
# And all of a dimension that has at most so many times as many: a second tile would be nearly empty.
_MOST_TIMES_FEWEST = 1.5
# Bytes. Of rows of up to this size it writes all of a dimension that has at most so many outputs: 0.54 to
# 1.1 of the time (H100, H200).
_WHOLE_OUTPUTS_ROW = 6
_MOST_WHOLE_OUTPUTS = 96
# Bytes of a row, and how many outputs side by side tiles of shorter rows write where the outputs are not
# aligned: tiles that share a sector of indices then share fewer. 0.58 to 0.92 of the time (H100), 0.65
# to 1.06 (H200).
_UNALIGNED_SIDE_BY_SIDE = ((2, 96), (4, 64))
# Bytes. Tiles of shorter rows have so many outputs that they keep a larger workgroup busy.
_SHORTEST_LONG_ROW = 12
# The most positions, far apart, with which a small tile has room for whole sectors.
_FEW_POSITIONS = 8
# Stacks of single bytes in short unaligned rows are read in tiles if they have at most so many positions.
_MOST_UNALIGNED_POSITIONS = 11
# The same, by element width, for stacks with other rows between their own.
_MOST_APART_POSITIONS = {1: 20, 2: 20, 4: 4}
# Of halves, such a stack may have at most so many bytes.
_MOST_APART_BYTES = 4800
# By element width. Outputs of short rows that are far apart in the output are written across the next
# dimension if they have at most so many positions, and if one step along that dimension is more than
# _FAR_APART_BYTES in the input.
_MOST_FAR_APART_POSITIONS = {1: 8, 2: 4, 4: 8, 8: 3}
_FAR_APART_BYTES = {1: 1024, 2: 2048, 4: 1024, 8: 1024}
# Tiles that are written in another order have a segment for each position if they would read so many elements
# for each that takes part otherwise: 0.05 to 0.92 of the time (64 stacks on an H200).
_MOST_IN_VAIN = 1.5
# Single bytes have larger tiles if at most so many compete. With more, folding takes most of a tile's time.
_MOST_POSITIONS_OF_LARGE_TILES = 3
# The same for stacks whose rows are longer than a sector.
_MOST_POSITIONS_OF_STACKS = 5
# Stacks of wide elements have tiles and workgroups twice as large if a tile has outputs for at most this
# share of its invocations (0.74 to 1.03 of the time on an H200).
_BUSY_SHARE = 0.75
# Bytes. Stacks of longer rows never have larger tiles.
_LONG_ROW_OF_LARGE_TILES = 1408
# Bytes. Longer rows are loaded as vectors, wherever they start.
_LONG_ROW = 2048
# Bytes. From this size of a row on, tiles are large if their outputs lie in another order than the input.
# Those of shorter rows are large if small ones would have few outputs side by side.
_LONG_PERMUTED_ROW = 20
# Bytes. Rows of up to this size have twice as many outputs side by side in these large tiles.
_VERY_SHORT_ROW = 16
# Folds of outputs, or of words of them, for each invocation. A tile that has all of two dimensions, but less
# work than this, takes a part of a third dimension, too: 0.06 to 1.03 of the time, 0.62 in the mean of 26
# shapes (H200). With more work it takes longer so.
_FEW_FOLDS = 3 / 8
# Bytes. Only outputs of rows of up to this size are written across the next dimension (`along_outputs`).
_SHORT_ROW = 24


class _Stack(NamedTuple):
    """Short rows, or a short stack of them, and what their tiles are chosen by."""

    layout: ReduceLayout
    fast: Dim
    """The dimension along which outputs are written."""
    nbytes: int
    packed: bool
    tuning: ShortTuning
    limits: DeviceLimits

    @property
    def row_bytes(self) -> int:
        """Bytes of the positions of an output."""
        return self.layout.reduced[0].size * self.nbytes

    @property
    def permuted(self) -> bool:
        """Whether outputs lie in another order than the input."""
        return self.fast is not self.layout.kept[-1]


def is_short(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> bool:
    """Tell whether a layout has short rows, or a short stack of rows."""
    nbytes = element.nbytes
    if len(layout.reduced) != 1 or not layout.kept:
        return False
    positions, near = layout.reduced[0], layout.kept[-1]
    row_bytes = positions.size * positions.input_stride * nbytes
    if positions.input_stride == 1:
        tuning = limits.tuning
        least = tuning.short.row_bytes if nbytes >= 4 else tuning.short.narrow_row_bytes
        in_registers = any(
            (is_float, width) == (element.is_float, nbytes) and low <= row_bytes <= high
            for is_float, width, low, high in tuning.short.rows_in_registers
        )
        return positions.size > 1 and row_bytes < max(tuning.shortest_row_bytes, least) and not in_registers
    if near.input_stride == 1:
        return 1 < positions.size <= _most_positions(layout, nbytes, limits)
    return nbytes >= 4 and positions.size > 1 and row_bytes <= 4 * SECTOR_BYTES


def _most_positions(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> int:
    """Return the most positions of a short stack."""
    positions, near = layout.reduced[0], layout.kept[-1]
    are_alone = not limits.tuning.short.direct and layout.outputs_follow_input
    if not are_alone or near.size * nbytes >= VECTOR_BYTES or positions.input_stride != near.size:
        return MOST_POSITIONS
    if nbytes == 2 and not are_multiples(layout.row_starts, 2):
        return _MOST_POSITIONS_BETWEEN_WORDS
    return _MOST_POSITIONS_OF_VERY_SHORT_ROWS.get(nbytes, MOST_POSITIONS)


def tile_of(layout: ReduceLayout, nbytes: int, packed: bool, limits: DeviceLimits) -> ShortTile | None:
    """Choose the tile; None if not even one output fits.

    It grows from the innermost dimension outwards, as long as memory is contiguous or nearly so. The outputs'
    own innermost dimension, if another one, gets its share first: indices are to be written side by side.
    """
    return _tile_of(layout, nbytes, packed, _tuning_for(layout, nbytes, limits), limits)


def busier_tile(tile: ShortTile, layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> ShortTile:
    """Return a tile twice as large, for twice the invocations, where this one leaves many of them idle."""
    tuning = limits.tuning.short
    is_stack = layout.reduced[0].input_stride > 1 and layout.outputs_follow_input
    if nbytes < 4 or tuning.direct or not is_stack:
        return tile
    if tile.outputs > _BUSY_SHARE * tile.workgroup_size:
        return tile
    wide = replace(tuning, tile_bytes=2 * tuning.tile_bytes, workgroup_size=2 * tuning.workgroup_size)
    larger = _tile_of(layout, nbytes, False, wide, limits)
    return larger if larger is not None and larger.outputs >= 2 * tile.outputs else tile


def _tile_of(
    layout: ReduceLayout, nbytes: int, packed: bool, tuning: ShortTuning, limits: DeviceLimits
) -> ShortTile | None:
    positions, near = layout.reduced[0], layout.kept[-1]
    row_bytes = positions.size * nbytes
    goes_on = row_bytes <= _SHORT_ROW and not tuning.direct
    far_bytes = _FAR_APART_BYTES[nbytes] if _outputs_are_far_apart(layout, nbytes) else tuning.tile_bytes
    fast = along_outputs(layout, far_bytes // nbytes) if goes_on else layout.innermost_of_outputs
    stack = _Stack(layout, fast, nbytes, packed, tuning, limits)
    tile = _tile_in(_room_of(stack), stack)
    is_permuted_stack = stack.permuted and near.input_stride < positions.input_stride
    if tile is None or not is_permuted_stack or tile.read_in_vain(positions.size) < _MOST_IN_VAIN:
        return tile
    return _tile_in(_room_of(stack, positions_apart=True), stack) or tile


def _tile_in(room: Room, stack: _Stack) -> ShortTile | None:
    """Choose a tile of this room."""
    layout, fast, nbytes, packed, tuning, limits = stack
    positions, near = layout.reduced[0], layout.kept[-1]
    row_bytes, permuted = stack.row_bytes, stack.permuted
    if room.positions_apart and not tuning.direct:
        if permuted and tuning.permuted_tile_bytes:
            if nbytes == 8 and positions.size > _FEW_POSITIONS:
                return None
            tile = _transposing_tile(layout, fast, nbytes, packed, limits)
            if tile is None or not _has_few_outputs(tile, layout, nbytes, packed):
                return tile
        elif not (permuted or _is_worth_tiles(layout, nbytes)):
            return None
    extent = 1 if room.positions_apart else (positions.size - 1) * positions.input_stride + 1
    if near.input_stride > extent + gap_of(nbytes) or extent + SEGMENT_MARGIN > room.elements:
        return None
    tile_bytes = min(tuning.tile_bytes, limits.max_shared_memory // 2)
    if tuning.direct and permuted:
        most = min(MOST_PERMUTED, 2 * tile_bytes // row_bytes)
        most = min(most, max(layout.outputs // limits.tuning.target_workgroups, FEWEST_SIDE_BY_SIDE))
        return tile_in_place(layout, nbytes, most, room.workgroup_size)
    box = Box(
        layout,
        fast,
        nbytes,
        packed,
        tuning.direct,
        are_dense(layout, nbytes, limits),
        room,
        side_by_side=_side_by_side(layout, fast, row_bytes, room) if permuted else 1,
        extent=extent,
        outputs=tile_bytes // (8 if packed else 2),
    )
    box.take_contiguous()
    box.take_others()
    return box.tile()


def _room_of(stack: _Stack, *, positions_apart: bool = False) -> Room:
    """Return the room of a tile; positions may have to lie apart."""
    layout, fast, nbytes, packed, tuning, limits = stack
    positions = layout.reduced[0]
    row_bytes, permuted = stack.row_bytes, stack.permuted
    total = layout.outputs * row_bytes
    # Many outputs in few bytes keep more invocations busy.
    extent = (positions.size - 1) * positions.input_stride + 1
    full = packed or (not permuted and extent * nbytes < _SHORTEST_LONG_ROW) or tuning.direct
    workgroup_size = min(tuning.workgroup_size // (1 if full else 2), limits.workgroup_size)
    # The other half of shared memory holds positions and what is left free in tiles.
    most = min(tuning.tile_bytes, limits.max_shared_memory // 2)
    most = most if packed or tuning.direct else most // 2
    elements = _tile_bytes(most, total, limits) // nbytes
    # A GPU's tile may have one whole stack: halves take 0.65 to 0.84 of the time so, bytes 0.55 to 0.98
    # (H100).
    is_half = packed and (permuted or tuning.direct)
    budget = elements // (2 if is_half else 1)
    positions_apart = positions_apart or _positions_apart(layout, gap_of(nbytes), budget)
    is_reordered = permuted and not tuning.direct
    are_far = fast.size >= FEWEST_SIDE_BY_SIDE and fast.input_stride * FEWEST_SIDE_BY_SIDE > elements
    is_far = are_far and is_reordered
    if positions_apart:
        most = (2 if permuted else 1) * tuning.tile_bytes
        elements = _tile_bytes(most, total, limits) // nbytes // positions.size - 2 * margin_of(nbytes)
    elif tuning.permuted_tile_bytes and (is_far or (is_reordered and row_bytes >= _LONG_PERMUTED_ROW)):
        # Fewer outputs would leave invocations idle, and their indices would not fill sectors.
        workgroup_size = workgroup_size_of(limits)
        elements = _tile_bytes(tuning.permuted_tile_bytes, total, limits) // nbytes
    return Room(workgroup_size, elements, positions_apart, is_far)


def _side_by_side(layout: ReduceLayout, fast: Dim, row_bytes: int, room: Room) -> int:
    """Return how many outputs along ``fast`` a tile has at least, if it has room for them."""
    fewest = FEWEST_SIDE_BY_SIDE * (2 if room.is_far and row_bytes <= _VERY_SHORT_ROW else 1)
    whole = _MOST_WHOLE_OUTPUTS if row_bytes <= _WHOLE_OUTPUTS_ROW else _MOST_TIMES_FEWEST * fewest
    if fast.size <= whole:
        return fast.size
    if not _outputs_are_aligned(layout, fast):
        for most_bytes, most in _UNALIGNED_SIDE_BY_SIDE:
            if row_bytes <= most_bytes:
                # As many in each tile, in whole sectors.
                return round_up(ceil_div(fast.size, ceil_div(fast.size, most)), OUTPUTS_OF_SECTOR)
    return fewest


def _outputs_are_aligned(layout: ReduceLayout, fast: Dim) -> bool:
    """Whether each run of outputs along ``fast`` starts at a sector of indices."""
    starts = (layout.output_base, *(dim.output_stride for dim in layout.kept if dim is not fast))
    return all(start % OUTPUTS_OF_SECTOR == 0 for start in starts)


def along_outputs(layout: ReduceLayout, tile_elements: int) -> Dim:
    """Return the kept dimension along which neighbouring outputs are found.

    It is the outputs' innermost one; if that is short, and also the input's, the next one along which the
    outputs go on, unless a tile of so many elements has several steps along it in any case.
    """
    dims = sorted(layout.kept, key=lambda dim: abs(dim.output_stride))
    innermost, side_by_side = dims[0], dims[0].size
    if innermost is not layout.kept[-1] or side_by_side >= FEWEST_SIDE_BY_SIDE or len(dims) == 1:
        return innermost
    following = dims[1]
    goes_on = abs(following.output_stride) == abs(innermost.output_stride) * innermost.size
    is_far = following is not layout.kept[-2] and following.input_stride > tile_elements
    return following if goes_on and is_far else innermost


def _tuning_for(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> ShortTuning:
    """Return the tuning, with larger tiles where single bytes gain by them."""
    tuning = limits.tuning.short
    if nbytes > 1 or tuning.direct:
        return tuning
    return replace(tuning, tile_bytes=int(tuning.tile_bytes * _times_as_large(layout, tuning)))


def _times_as_large(layout: ReduceLayout, tuning: ShortTuning) -> float:
    """Return how many times as large tiles of single bytes are.

    They gain where a few compete, since a tile of so few bytes takes about as long to set up as to fold:
    stacks of rows within a sector take 0.82 to 0.85 of the time (H200), longer ones 0.72 to 1.0 (H100), rows
    0.92 (H200). So do rows of which a tile had not one for each invocation (0.76, H200), and unaligned stacks
    which only a large tile has room for (0.54 to 1.0, H100).
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    few, row = positions.size <= _MOST_POSITIONS_OF_LARGE_TILES, abs(positions.input_stride)
    if positions.input_stride == 1:
        is_long = positions.size * tuning.workgroup_size > tuning.tile_bytes
        return 1.5 if few else 2 if is_long else 1
    if row <= SECTOR_BYTES:
        return 2 if few else 1
    has_long_rows = layout.outputs_follow_input and near.size >= FEWEST_SIDE_BY_SIDE
    if not has_long_rows or row > _LONG_ROW_OF_LARGE_TILES:
        return 1
    if positions.size <= _MOST_POSITIONS_OF_STACKS:
        return 1.5
    is_unaligned = any(start % VECTOR_BYTES for start in layout.row_starts)
    return 2 if is_unaligned and tuning.tile_bytes < positions.size * row <= 2 * tuning.tile_bytes else 1


def _tile_bytes(most: int, total: int, limits: DeviceLimits) -> int:
    """Return the bytes of a tile, at most so many, of an input of ``total`` bytes."""
    return min(most, limits.max_shared_memory // 2, bytes_of_workgroup(total, limits.tuning))


def _transposing_tile(
    layout: ReduceLayout, fast: Dim, nbytes: int, packed: bool, limits: DeviceLimits
) -> ShortTile | None:
    """Choose a tile of outputs whose positions are far apart and which are written in another order."""
    positions, gap = layout.reduced[0], gap_of(nbytes)
    chain: list[Dim] = []
    extent = 1
    for dim in reversed(layout.kept):
        if dim is fast or dim.input_stride > extent + gap or len(chain) == BOX_DIMS - 1:
            break
        chain.append(dim)
        extent += (dim.size - 1) * dim.input_stride
    if not chain:
        return None
    stack = PermutedStack(
        chain=tuple(chain),
        fast=fast,
        positions=positions,
        nbytes=nbytes,
        packed=packed,
        gap=gap,
        input_aligned=all(start * nbytes % SECTOR_BYTES == 0 for start in layout.row_starts),
        output_aligned=_outputs_are_aligned(layout, fast),
    )
    tuning = limits.tuning.short
    workgroup_size = workgroup_size_of(limits)
    # With many positions smaller tiles have no room for whole sectors.
    few = positions.size <= _FEW_POSITIONS
    most = tuning.transposing_tile_bytes if few else tuning.permuted_tile_bytes
    wanted = _tile_bytes(most, layout.outputs * positions.size * nbytes, limits)
    sides = sides_of(stack, wanted, _tile_bytes(most, 1 << 62, limits), workgroup_size)
    if sides is None:
        return None
    counts = {**dict(zip(chain, sides.along_chain, strict=False)), fast: sides.along_fast}
    return tile_of_counts(
        layout.kept,
        counts,
        fast if sides.shared_pitch else None,
        shared_pitch=sides.shared_pitch,
        position_pitch=sides.position_pitch,
        shared_elements=sides.shared_elements,
        workgroup_size=workgroup_size,
    )


def _has_few_outputs(tile: ShortTile, layout: ReduceLayout, nbytes: int, packed: bool) -> bool:
    """Whether a tile has all outputs of two dimensions, too few for its invocations, and could have more."""
    if len(tile.dims) == BOX_DIMS or not tile.outer or any(count < dim.size for dim, count in tile.dims):
        return False
    folds = folds_of(tile.outputs, layout.kept[-1].size, nbytes, packed)
    return folds < _FEW_FOLDS * tile.workgroup_size


def are_dense(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether narrow rows lie one after the other, as their outputs do, and four of them are few words."""
    tuning, positions, near = limits.tuning.short, layout.reduced[0], layout.kept[-1]
    most_in_fours = min(tuning.most_in_fours, tuning.narrow_most_fixed_positions)
    return (
        nbytes < 4
        and len(layout.kept) == 1
        and near.output_stride == positions.input_stride == 1
        and near.input_stride == positions.size <= most_in_fours
        and layout.input_base * nbytes % 4 == 0
    )


def _positions_apart(layout: ReduceLayout, gap: int, budget: int) -> bool:
    """Whether positions lie too far apart to be read with all that is between them."""
    positions, near = layout.reduced[0], layout.kept[-1]
    if near.input_stride >= positions.input_stride:
        return False
    # What lies between two positions is read too, so it should take part.
    between = 1 + sum((dim.size - 1) * dim.input_stride for dim in _between(layout, gap))
    extent = (positions.size - 1) * positions.input_stride + 1
    return positions.input_stride > 2 * between + gap or extent + between > budget


def _outputs_are_far_apart(layout: ReduceLayout, nbytes: int) -> bool:
    """Whether neighbouring rows of less than a sector of indices are far apart in the output.

    Then each sector is written in parts, at different times (0.34 to 0.94 of the time across them, H100).
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    is_short = near.input_stride == 1 and near.size < OUTPUTS_OF_SECTOR
    are_few = positions.size <= _MOST_FAR_APART_POSITIONS.get(nbytes, 0)
    return is_short and are_few and positions.input_stride >= 2 * near.size


def _is_worth_tiles(layout: ReduceLayout, nbytes: int) -> bool:
    """Whether columns whose positions are far apart take longer without shared memory.

    Single bytes do where two positions have four times as many bytes of indices, and where few positions lie
    in short rows that are not aligned (H200). So do halves and words where other rows lie between: columns
    would store their indices one by one (tiles take 0.38 to 1.04 of the time, H100). Elsewhere halves take
    0.67 to 1.0 of the time without tiles (H100).
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    per_vector = VECTOR_BYTES // nbytes
    is_unaligned = len(layout.kept) > 1 and any(start % per_vector for start in layout.row_starts)
    if is_unaligned and near.size < LED_GROUPS * per_vector and positions.input_stride >= 2 * near.size:
        is_small = nbytes != 2 or positions.size * near.size * nbytes <= _MOST_APART_BYTES
        if positions.size <= _MOST_APART_POSITIONS.get(nbytes, 0) and is_small:
            return True
    few = is_unaligned and near.size < _LONG_ROW and positions.size <= _MOST_UNALIGNED_POSITIONS
    return nbytes == 1 and (positions.size == 2 or few)


def _between(layout: ReduceLayout, gap: int) -> Iterator[Dim]:
    """Yield the kept dimensions whose elements lie, nearly contiguous, between one position and the next."""
    extent = 1
    for dim in reversed(layout.kept):
        if dim.input_stride >= layout.reduced[0].input_stride or dim.input_stride > extent + gap:
            return
        extent += (dim.size - 1) * dim.input_stride
        yield dim
