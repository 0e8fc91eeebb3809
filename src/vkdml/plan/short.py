"""Planning reductions of few positions each, of which there are many: short rows, and short stacks of rows.

A workgroup copies a tile of the input to shared memory; see ``shaders/short_tile.glsl``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from vkdml.plan import kernels, loop_steps
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.periodic import best_walk, is_periodic
from vkdml.plan.plans import (
    LINE,
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    ceil_div,
    check_work,
    checked_step,
    round_up,
)
from vkdml.plan.reductions import (
    FOUR,
    NARROW_SHARE,
    Results,
    are_far_columns,
    are_few_in_turn,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    is_in_fours,
    order_rules,
)
from vkdml.plan.schema import ElementType
from vkdml.plan.transposing import Stack, sides_of
from vkdml.plan.tuning import ShortTuning, Tuning
from vkdml.plan.walks import Walk, walk_of

# Dimensions of outputs that a tile may have.
BOX_DIMS = 3
NO_DIM = Dim(1, 0, 0)
# Bytes. Memory is read and written in sectors, and rows this far apart are read with what lies between.
SECTOR = 32
# A segment starts and ends within vectors that it may not share with its neighbours.
SEGMENT_MARGIN = 2 * VECTOR_BYTES
# Outputs side by side that a tile writes at least, where others lie nearer in the input.
FEWEST_SIDE_BY_SIDE = 16
# Outputs of a tile that is read where it is and written in another order, and those side by side.
MOST_PERMUTED = 4096
INDICES_OF_TILE = 64
INDICES_OF_LINE = LINE // 4
# Bytes of adjacent columns that an invocation takes.
COLUMN_BYTES = kernels.number("walked_column_bytes")
# Bytes of lines of memory that a subgroup reads again and again from a cache.
WALK_BYTES = 512 * 1024
# Lines that the nearest cache of a processor has for sure.
HELD_LINES = 256
# Outputs that read no more are many in a tile.
FEW_LINES = 2
# Outputs in an aligned sector of indices.
OUTPUTS_OF_SECTOR = 8
# Of a stack. More are as fast elsewhere.
MOST_POSITIONS = 32
# Positions of a row of single bytes whose ranks, which start at 1, are bytes too.
MOST_RANKED = 255
# Bytes. Tiles of shorter rows have so many outputs that they need not be large.
SHORTEST_LONG_ROW = 12
# Of a stack whose positions are far apart and whose columns are aligned.
FEW_POSITIONS = 8
# Bytes. Of shorter rows a stack is walked rather than read by a loop for its number of positions.
LONG_STACK_ROW = 1024
# Positions of an unaligned stack: where they start in a word repeats after so many.
FEWEST_PHASED = 4
# Bytes. Tiles of outputs in another order than the input are large from this size of a row on.
LONG_PERMUTED_ROW = 20
# Shared memory is allocated in so many words, since each number is a pipeline.
SHARED_STEP = 256


@dataclass(frozen=True)
class _Tile:
    """What a workgroup processes at once."""

    dims: tuple[tuple[Dim, int], ...]
    """Dimensions of outputs and how many of each, in the order of the outputs' memory."""
    segments_along: int
    """Which of them; ``BOX_DIMS``: all is one segment."""
    shared_pitch: int
    """Elements from one segment to the next in shared memory."""
    position_pitch: int
    """The same from position to position, if each has segments of its own; otherwise 0."""
    shared_elements: int
    outer: tuple[Dim, ...]
    """Kept dimensions that are not among ``dims``."""
    workgroup_size: int

    @property
    def outputs(self) -> int:
        return prod(count for _, count in self.dims)

    @property
    def tiles(self) -> int:
        inner = prod(ceil_div(dim.size, count) for dim, count in self.dims)
        return inner * prod(dim.size for dim in self.outer)

    @property
    def evenly_apart(self) -> bool:
        """Whether the outputs in their order are evenly apart, and clipped at their end only."""
        return all(
            count == dim.size and next_dim.output_stride == count * dim.output_stride
            for (dim, count), (next_dim, _) in pairwise(self.dims)
        )


def plan_short(
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan | None:
    """Plan a reduction of short rows or short stacks; None if it is neither.

    Args:
        layout: canonical, with a reduced dimension.
        order: of the elements.
        input_bytes: of the input buffer.
        results: what is written for each output.
        limits: of the device.

    Raises:
        TooMuchWork: more than the kernel counts, or than the driver's loops make.
    """
    tuning, element = limits.tuning.short, order.element_type
    if not tuning.tile_bytes or input_bytes < tuning.from_bytes:
        return None
    walk: Walk | None = None
    tile: _Tile | None
    at_once = 1
    near = layout.kept[-1] if layout.kept else NO_DIM
    short = _is_short(layout, element.nbytes, limits)
    if not short or _walks_stacks(layout, element.nbytes, limits):
        walk, at_once = _walk(layout, element, input_bytes, limits) or (None, 1)
    if walk is not None:
        positions, packed = walk.run, at_once > 1
        columns = "walked_packed" if packed else "walked"
        tile = _tile_of_walks(layout, walk, element.nbytes, at_once, limits)
    elif short:
        positions = layout.reduced[0]
        packed = element.nbytes < 4 and positions.input_stride != 1
        columns = "packed" if packed else "single"
        tile = _tile(layout, element.nbytes, packed, limits)
    else:
        return None
    if tile is None:
        return None
    check_work("tiles", tile.tiles)
    positions_at_once = 1
    if walk and packed and _are_few_columns(near, positions, element.nbytes):
        positions_at_once = COLUMN_BYTES // element.nbytes // near.size
    in_fours = walk is None and _is_in_fours(layout, tile, element.nbytes, limits)
    columns = "fours" if in_fours else columns

    direct = tuning.direct or walk is not None
    family = kernels.family("argreduce_short")
    layout_words = dimension_words(replace(layout, kept=tile.outer)) + (walk.words if walk else ())
    in_push = len(layout_words) <= family.layout_room
    flags = {"layout_in_push": in_push, **results.flags}
    shared_words = _padded(round_up(words_of(tile.shared_elements, element.nbytes) + 2, SHARED_STEP))
    box = (*tile.dims, *((NO_DIM, 1),) * (BOX_DIMS - len(tile.dims)))
    kernel, constants = family.specialize(
        **element.specialization,
        columns=columns,
        workgroup=tile.workgroup_size,
        **order_rules(layout, order),
        fixed_flags=fixed_flags(family, flags, input_bytes, limits),
        tile_words=1 if direct else shared_words,
        result_words=SHARED_STEP if direct else round_up(tile.outputs, SHARED_STEP),
        near=[dim for dim, _ in tile.dims].index(near),
        positions=positions.size
        if tuning.fixed_positions and positions.size <= _most_fixed(positions, near, element.nbytes, tuning)
        else 0,
        segments_along=tile.segments_along,
        positions_apart=tile.position_pitch > 0,
        dims=max(len(tile.dims), 2 if tile.outer else 1),
        evenly_apart=tile.evenly_apart,
        word_aligned=element.nbytes < 4
        and _starts_with_words(layout, tile, 4 // element.nbytes, packed, walk, positions_at_once),
        direct=direct,
        long_rows=element.nbytes == 1 and positions.size > MOST_RANKED and walk is None,
        run_apart=walk is not None and positions.input_stride != 1,
        joined=walk.joined.size if walk else 1,
        positions_at_once=positions_at_once,
        padded=not packed
        and not direct
        and box[0][0].input_stride * element.nbytes % (4 if in_fours else 8) == 0,
    )
    box_words = {
        name: value
        for i, (dim, count) in enumerate(box)
        for name, value in (
            (f"size_{i}", dim.size),
            (f"tile_{i}", count),
            (f"tiles_{i}", ceil_div(dim.size, count)),
            (f"input_stride_{i}", dim.input_stride),
            (f"output_stride_{i}", dim.output_stride),
        )
    }
    push = family.push(
        **flags,
        tiles=tile.tiles,
        kept_dims=len(tile.outer),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        shared_pitch=tile.shared_pitch,
        position_pitch=tile.position_pitch,
        **box_words,
        layout_words=layout_words if in_push else (),
    )
    stored = () if in_push else layout_words
    rounds = loop_steps.rounds_of(tile.tiles, limits.max_workgroup_count)
    if walk:
        steps = _steps_of_walks(walk, tile, at_once, element.nbytes, len(layout.reduced), rounds)
        if steps > limits.max_loop_steps:
            return None
    else:
        vectors = ceil_div(tile.shared_elements * element.nbytes, VECTOR_BYTES)
        steps = loop_steps.short(
            *(rounds, len(tile.outer), vectors, tile.outputs, positions.size, tile.workgroup_size)
        )
    workgroups = min(tile.tiles, limits.max_workgroup_count)
    step = checked_step(Step(kernel, constants, push, workgroups, 0, steps), limits)
    return Plan(
        (step,),
        buffer_bytes(element, input_bytes, results, len(stored)),
        stored,
    )


def _is_short(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> bool:
    if len(layout.reduced) != 1 or not layout.kept:
        return False
    positions, near = layout.reduced[0], layout.kept[-1]
    row_bytes = positions.size * positions.input_stride * nbytes
    if positions.input_stride == 1:
        tuning = limits.tuning
        least = tuning.short.row_bytes if nbytes >= 4 else tuning.short.narrow_row_bytes
        return positions.size > 1 and row_bytes < max(tuning.shortest_row_bytes, least)
    if near.input_stride == 1:
        return 1 < positions.size <= MOST_POSITIONS
    return nbytes >= 4 and positions.size > 1 and row_bytes <= 4 * SECTOR


def _walks_stacks(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether a short stack of narrow elements takes less time as a walk, if it can be one.

    It does where the number of positions is not compiled in, and where there are so few of them that what is
    found out about where each starts in a word is used once.
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    if nbytes >= 4 or positions.input_stride == 1 or near.input_stride != 1:
        return False
    if positions.size > _most_fixed(positions, near, nbytes, limits.tuning.short):
        return True
    if _are_few_columns(near, positions, nbytes):
        return True
    starts = (layout.input_base, positions.input_stride, *(dim.input_stride for dim in layout.kept[:-1]))
    return positions.size < FEWEST_PHASED and any(start * nbytes % 4 for start in starts)


def _most_fixed(positions: Dim, near: Dim, nbytes: int, tuning: ShortTuning) -> int:
    """Return up to how many positions their number is compiled in."""
    in_short_rows = positions.input_stride != 1 and near.size * nbytes < LONG_STACK_ROW
    if nbytes >= 4 or in_short_rows:
        return tuning.most_fixed_positions
    return tuning.narrow_most_fixed_positions


def _are_dense(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether narrow rows lie one after the other, as their outputs do, and four of them are few words."""
    tuning, positions, near = limits.tuning.short, layout.reduced[0], layout.kept[-1]
    return (
        nbytes < 4
        and tuning.fixed_positions
        and len(layout.kept) == 1
        and near.output_stride == positions.input_stride == 1
        and near.input_stride == positions.size <= tuning.most_in_fours
        and layout.input_base * nbytes % 4 == 0
    )


def _is_in_fours(layout: ReduceLayout, tile: _Tile, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether an invocation folds four rows."""
    count = tile.dims[0][1]
    return _are_dense(layout, nbytes, limits) and (count % FOUR == 0 or count == layout.kept[0].size)


def words_of(elements: int, nbytes: int) -> int:
    return ceil_div(elements * nbytes, 4)


def _padded(shared_words: int) -> int:
    """Words of shared memory with one more for each 32; see ``bank_of``."""
    return shared_words + ceil_div(shared_words, 32)


def _starts_with_words(
    layout: ReduceLayout,
    tile: _Tile,
    per_word: int,
    packed: bool,
    walk: Walk | None,
    positions_at_once: int = 1,
) -> bool:
    """Whether every row, run of a walk, or row of a stack's words of columns, starts with a word."""
    near = layout.kept[-1]
    steps = [layout.input_base, tile.shared_pitch, *(dim.input_stride for dim in layout.kept[:-1])]
    if packed:
        steps += [
            *(
                (*walk.starts, walk.run.input_stride)
                if walk
                else (dim.input_stride for dim in layout.reduced)
            ),
            *(n * near.input_stride for dim, n in tile.dims if dim is near and n < dim.size),
        ]
    else:
        steps += [near.input_stride, *(walk.starts if walk else ())]
    return all(step % per_word == 0 for step in steps)


def _tile(layout: ReduceLayout, nbytes: int, packed: bool, limits: DeviceLimits) -> _Tile | None:
    """Choose the tile; None if not even one output fits.

    It grows from the innermost dimension outwards, as long as memory is contiguous or nearly so. The outputs'
    own innermost dimension, if another one, gets its share first: indices are to be written side by side.
    """
    tuning, positions, near = limits.tuning.short, layout.reduced[0], layout.kept[-1]
    fast = min(layout.kept, key=lambda dim: abs(dim.output_stride))
    extent = (positions.size - 1) * positions.input_stride + 1
    total = layout.outputs * positions.size * nbytes
    # The other half of shared memory holds positions and what is left free in tiles.
    tile_bytes = min(tuning.tile_bytes, limits.max_shared_memory // 2)
    per_vector, gap, margin = VECTOR_BYTES // nbytes, 2 * SECTOR // nbytes, SEGMENT_MARGIN // nbytes
    # Many outputs in few bytes keep more invocations busy.
    full = packed or (fast is near and extent * nbytes < SHORTEST_LONG_ROW) or tuning.direct
    workgroup_size = min(tuning.workgroup_size // (1 if full else 2), limits.workgroup_size)
    budget = tile_bytes if packed or tuning.direct else tile_bytes // 2
    budget = min(budget, max(total // limits.tuning.target_workgroups, 1024)) // nbytes
    positions_apart = _positions_apart(layout, gap, budget // (2 if packed else 1))
    permuted = fast is not near
    if permuted and not tuning.direct and tuning.permuted_tile_bytes:
        if positions_apart:
            many = positions.size > FEW_POSITIONS
            return None if many and nbytes == 8 else _transposing_tile(layout, fast, nbytes, packed, limits)
        if positions.size * nbytes >= LONG_PERMUTED_ROW:
            # Fewer outputs would leave invocations idle, and their indices would not fill sectors.
            workgroup_size = min(tuning.workgroup_size, limits.workgroup_size)
            budget = _permuted_bytes(tuning.permuted_tile_bytes, total, limits) // nbytes
    if positions_apart:
        in_fours = is_in_fours(positions.size, nbytes, limits.tuning)
        worth_tiles = packed and not in_fours and _is_worth_tiles(layout, per_vector)
        if not (tuning.direct or permuted or worth_tiles):
            return None
        budget = min((2 if permuted else 1) * tuning.tile_bytes, limits.max_shared_memory // 2)
        budget = min(budget, max(total // limits.tuning.target_workgroups, 1024)) // nbytes
        extent, budget = 1, budget // positions.size - 2 * margin
    if near.input_stride > extent + gap or extent + SEGMENT_MARGIN > budget:
        return None
    if tuning.direct and fast is not near:
        most = min(MOST_PERMUTED, 2 * tile_bytes // (positions.size * nbytes))
        most = min(most, max(layout.outputs // limits.tuning.target_workgroups, FEWEST_SIDE_BY_SIDE))
        return _tile_in_place(layout, nbytes, most, workgroup_size)
    counts: dict[Dim, int] = {}

    def folds() -> int:
        """How many outputs, or words of columns, are folded so far."""
        number = prod(counts.values())
        return number // counts[near] * ceil_div(counts[near], 4 // nbytes) if packed and counts else number

    outputs = tile_bytes // (8 if packed else 2)

    side_by_side = 1 if fast is near else min(fast.size, FEWEST_SIDE_BY_SIDE)
    room = budget if side_by_side == 1 else budget // side_by_side - margin - per_vector
    outputs = max(outputs // side_by_side, 1)
    for dim in reversed(layout.kept):
        apart = dim is not near and dim.input_stride > extent + gap
        if (dim is fast and side_by_side > 1) or apart or len(counts) == BOX_DIMS - (fast is not near):
            break
        reach = (dim.size - 1) * dim.input_stride
        # What lies between two positions is read in any case.
        wide = budget if reach < positions.input_stride else room
        count = max(min(dim.size, 1 + max(wide - extent, 0) // max(dim.input_stride, 1), outputs), 1)
        if count < dim.size:
            in_turn = workgroup_size * (FOUR if _are_dense(layout, nbytes, limits) else 1)
            if tuning.direct and packed:
                count = _of_even_tiles(dim.size, count, per_vector)
            else:
                count = _of_whole_rounds(count, folds() * side_by_side, in_turn, per_vector)
        counts[dim] = count
        extent += (count - 1) * dim.input_stride
        outputs = max(outputs // count, 1)
        if count < dim.size:
            break

    rest = [dim for dim in layout.kept if dim not in counts]
    complete = all(count == dim.size for dim, count in counts.items())
    along = fast if fast not in counts else rest[-1] if rest and complete and len(counts) < BOX_DIMS else None
    segments_along, shared_pitch = None, 0
    if along is not None:
        most = min(along.size, outputs * side_by_side)
        if along.input_stride <= extent + gap:
            count = min(most, 1 + (budget - extent) // max(along.input_stride, 1))
        else:
            shared_pitch = _pitch(extent + margin, along.input_stride, per_vector)
            segments_along = along
            count = min(most, budget // shared_pitch)
        count = max(count, 1)
        if count < along.size:
            multiple = OUTPUTS_OF_SECTOR if along is fast and along is not near else 1
            count = _of_whole_rounds(count, folds(), workgroup_size, multiple)
        counts[along] = count
        extent += (count - 1) * (shared_pitch or along.input_stride)
    position_pitch = 0
    if positions_apart and not tuning.direct:
        position_pitch = _pitch(extent + margin, positions.input_stride, per_vector)
        extent += (positions.size - 1) * position_pitch
    chosen = sorted(counts.items(), key=lambda item: abs(item[0].output_stride))
    names = [dim for dim, _ in chosen]
    return _Tile(
        tuple(chosen),
        BOX_DIMS if segments_along is None else names.index(segments_along),
        shared_pitch,
        position_pitch,
        extent + margin + per_vector,
        tuple(dim for dim in layout.kept if dim not in counts),
        workgroup_size,
    )


def _permuted_bytes(most: int, total: int, limits: DeviceLimits) -> int:
    """Return the bytes of a tile whose outputs are written in another order, of an input of so many."""
    return min(most, limits.max_shared_memory // 2, max(total // limits.tuning.target_workgroups, 1024))


def is_written_across(layout: ReduceLayout, nbytes: int, input_bytes: int, limits: DeviceLimits) -> bool:
    """Tell whether outputs lie in another order than a short stack whose positions are far apart."""
    tuning = limits.tuning.short
    if input_bytes < tuning.from_bytes or not _is_short(layout, nbytes, limits):
        return False
    near, positions = layout.kept[-1], layout.reduced[0]
    permuted = abs(near.output_stride) > min(abs(dim.output_stride) for dim in layout.kept)
    budget = tuning.tile_bytes // 2 // nbytes
    return permuted and positions.input_stride != 1 and _positions_apart(layout, 2 * SECTOR // nbytes, budget)


def _transposing_tile(
    layout: ReduceLayout, fast: Dim, nbytes: int, packed: bool, limits: DeviceLimits
) -> _Tile | None:
    """Choose a tile of outputs whose positions are far apart and which are written in another order."""
    positions, gap = layout.reduced[0], 2 * SECTOR // nbytes
    chain: list[Dim] = []
    extent = 1
    for dim in reversed(layout.kept):
        if dim is fast or dim.input_stride > extent + gap or len(chain) == BOX_DIMS - 1:
            break
        chain.append(dim)
        extent += (dim.size - 1) * dim.input_stride
    if not chain:
        return None
    starts = (layout.input_base, positions.input_stride, *(dim.input_stride for dim in layout.kept[:-1]))
    targets = (layout.output_base, *(dim.output_stride for dim in layout.kept if dim is not fast))
    stack = Stack(
        chain=tuple(chain),
        fast=fast,
        positions=positions,
        nbytes=nbytes,
        packed=packed,
        gap=gap,
        input_aligned=all(start * nbytes % SECTOR == 0 for start in starts),
        output_aligned=all(target % OUTPUTS_OF_SECTOR == 0 for target in targets),
    )
    tuning = limits.tuning.short
    workgroup_size = min(tuning.workgroup_size, limits.workgroup_size)
    # With many positions smaller tiles have no room for whole sectors.
    few = positions.size <= FEW_POSITIONS
    most = tuning.transposing_tile_bytes if few else tuning.permuted_tile_bytes
    wanted = _permuted_bytes(most, layout.outputs * positions.size * nbytes, limits)
    sides = sides_of(stack, wanted, _permuted_bytes(most, 1 << 62, limits), workgroup_size)
    if sides is None:
        return None
    counts = {**dict(zip(chain, sides.along_chain, strict=False)), fast: sides.along_fast}
    chosen = sorted(counts.items(), key=lambda item: abs(item[0].output_stride))
    return _Tile(
        tuple(chosen),
        [dim for dim, _ in chosen].index(fast) if sides.shared_pitch else BOX_DIMS,
        sides.shared_pitch,
        sides.position_pitch,
        sides.shared_elements,
        tuple(dim for dim in layout.kept if dim not in counts),
        workgroup_size,
    )


def _walk(
    layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> tuple[Walk, int] | None:
    """Return how an invocation walks through the elements of an output, and of how many columns at once.

    None where other kernels are faster: few outputs, rows, or runs in more places than a cache has lines for.
    """
    tuning, inner, nbytes = limits.tuning, layout.reduced[-1], element.nbytes
    longest = max(tuning.shortest_row_bytes, tuning.short.walked_row_bytes)
    if not layout.kept or (inner.input_stride == 1 and inner.size * nbytes >= longest):
        return None
    near = layout.kept[-1]
    join = nbytes * near.input_stride in (2, 4) and nbytes * near.input_stride * near.size >= COLUMN_BYTES
    walk = walk_of(layout, join=join) if tuning.short.walked_runs else None
    if walk is None or (nbytes < 4 and layout.reduce_count > NARROW_SHARE):
        return None
    are_columns = near.input_stride == 1 or walk.joined.size > 1
    packed = nbytes < 4 and are_columns and walk.run.input_stride != 1
    columns = COLUMN_BYTES // nbytes // walk.joined.size if packed else 1
    fills_words = _are_few_columns(near, walk.run, nbytes)
    if fills_words:
        columns = near.size
    few_columns = near.size < columns
    if 2 * near.size < columns:
        # Few columns, beside which there may be others along another dimension.
        if any(dim.input_stride == near.size for dim in layout.kept[:-1]):
            return None
        columns = 1
    lines = walk.runs if few_columns else walk.lines(nbytes)
    has_periods = is_periodic(layout, element, input_bytes, limits)
    has_periods = has_periods and best_walk(layout, element, input_bytes) is not None
    if lines > _most_runs(layout, walk, nbytes, tuning, has_periods=has_periods):
        return None
    shares_lines = walk.run.size * walk.run.input_stride * nbytes < LINE and (columns == 1 or fills_words)
    if has_periods and shares_lines and walk.runs > tuning.short.walked_runs_of_periods:
        return None
    fewest = tuning.target_workgroups * _workgroup_size(limits) * columns
    return (walk, columns) if layout.outputs >= fewest else None


def _are_few_columns(near: Dim, positions: Dim, nbytes: int) -> bool:
    """Whether columns make up a word or half of one, and their positions follow each other."""
    return (
        near.input_stride == 1
        and near.size == positions.input_stride
        and near.size > 1
        and near.size * nbytes in (2, 4)
    )


def _most_runs(layout: ReduceLayout, walk: Walk, nbytes: int, tuning: Tuning, *, has_periods: bool) -> int:
    """Return how many runs apart a walk may have."""
    short = tuning.short
    if nbytes >= 4:
        far = layout.kept[-1].input_stride == 1 and are_far_columns(layout, nbytes, tuning)
        return short.far_walked_runs if far else short.walked_runs
    if are_few_in_turn(layout) and not has_periods:
        return short.walked_runs
    # A processor loads the next line before it is asked for.
    near = walk.pitch(nbytes) < tuning.far_columns_from_bytes
    return short.narrow_walked_runs * (2 if near else 1)


def _tile_of_walks(
    layout: ReduceLayout, walk: Walk, nbytes: int, columns: int, limits: DeviceLimits
) -> _Tile:
    """Choose a tile of outputs. Invocations walk through some neighbours each, so many columns at a time."""
    workgroup_size, count = _workgroup_size(limits), layout.reduce_count
    near = layout.kept[-1]
    # Each invocation has lines of memory of its own, which have its next outputs while a cache holds them.
    line_bytes = max(min(WALK_BYTES // (walk.lines(nbytes) * LINE), workgroup_size), 1) * LINE
    across = near is not min(layout.kept, key=lambda dim: abs(dim.output_stride))
    if across and walk.lines(nbytes) <= FEW_LINES and count * nbytes <= FEW_LINES * LINE:
        # More of them would leave no room for lines of the output.
        line_bytes = LINE
    least = workgroup_size * columns
    most = min(MOST_PERMUTED, 2 * limits.tuning.short.tile_bytes // (count * nbytes))
    most = max(most, line_bytes // (near.input_stride * nbytes or LINE), least)
    most = min(most, max(layout.outputs // limits.tuning.target_workgroups, least))
    multiple = columns
    if not across:
        # Where a cache does not hold all lines from one column to the next, invocations share none.
        are_held = walk.lines(nbytes) * workgroup_size <= HELD_LINES
        multiple = least if are_held else max(least, workgroup_size * LINE // nbytes)
    tile = _tile_in_place(layout, nbytes, most - most % least, workgroup_size, multiple, line_bytes // nbytes)
    # Columns are the first dimension.
    return replace(tile, dims=tuple(sorted(tile.dims, key=lambda item: columns > 1 and item[0] is not near)))


def _steps_of_walks(
    walk: Walk, tile: _Tile, at_once: int, nbytes: int, reduced_dims: int, rounds: int
) -> int:
    (_, along), *others = tile.dims
    groups = ceil_div(along, at_once) * prod(count for _, count in others)
    run, *runs = walk.sizes
    words = 4 // nbytes if nbytes < 4 and walk.run.input_stride == 1 else 1
    sizes = (ceil_div(run, words), *runs)
    return loop_steps.walks(
        rounds, (len(tile.outer), reduced_dims), groups, at_once, sizes, tile.workgroup_size
    )


def _workgroup_size(limits: DeviceLimits) -> int:
    return min(limits.tuning.short.workgroup_size, limits.workgroup_size)


def _tile_in_place(
    layout: ReduceLayout, nbytes: int, most: int, workgroup_size: int, multiple: int = 4, first: int = 1
) -> _Tile:
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
        (by_output, INDICES_OF_TILE),
        (layout.kept[::-1], LINE // nbytes),
    ):
        wanted = line
        for dim in dims:
            if wanted > 1:
                wanted = take(dim, wanted)

    def even_out(dim: Dim) -> None:
        if dim in counts:
            counts[dim] = _of_even_tiles(dim.size, counts[dim], multiple if dim is near else INDICES_OF_LINE)

    if by_output[0] is not near:
        even_out(near)  # before others take what room is left
    for dim in by_output:
        take(dim, dim.size)
        even_out(dim)
    in_input_order = counts[near] == near.size
    chosen = tuple(
        sorted(
            counts.items(),
            key=lambda item: abs(item[0].input_stride if in_input_order else item[0].output_stride),
        )
    )
    outer = tuple(dim for dim in layout.kept if dim not in counts)
    return _Tile(chosen, BOX_DIMS, 0, 0, 0, outer, workgroup_size)


def _of_even_tiles(size: int, most: int, multiple: int) -> int:
    """Return a count, if possible a multiple, that cuts a dimension into few parts, nearly alike.

    >>> _of_even_tiles(1041, 480, 32), _of_even_tiles(75, 64, 8), _of_even_tiles(6, 6, 4)
    (352, 40, 6)
    """
    if most == size or most < multiple:
        return most
    even = ceil_div(size, ceil_div(size, most))
    return min(round_up(even, multiple), most - most % multiple)


def _pitch(least: int, stride: int, per_vector: int) -> int:
    """Return the pitch of segments in shared memory that is the stride in memory, modulo a vector."""
    return least + (stride - least) % per_vector


def _positions_apart(layout: ReduceLayout, gap: int, budget: int) -> bool:
    """Whether positions lie too far apart to be read with all that is between them."""
    positions, near = layout.reduced[0], layout.kept[-1]
    if near.input_stride >= positions.input_stride:
        return False
    # What lies between two positions is read too, so it should take part.
    between = 1 + sum((dim.size - 1) * dim.input_stride for dim in _between(layout, gap))
    extent = (positions.size - 1) * positions.input_stride + 1
    return positions.input_stride > 2 * between + gap or extent + between > budget


def _is_worth_tiles(layout: ReduceLayout, per_vector: int) -> bool:
    """Whether narrow columns whose positions are far apart take longer without shared memory.

    They do where loads are not aligned, and where they wait for scattered stores of many indices.
    """
    positions = layout.reduced[0]
    starts = [layout.input_base, positions.input_stride, *(dim.input_stride for dim in layout.kept[:-1])]
    return positions.size <= FEW_POSITIONS or any(start % per_vector for start in starts)


def _between(layout: ReduceLayout, gap: int) -> Iterator[Dim]:
    """Yield the kept dimensions whose elements lie, nearly contiguous, between one position and the next."""
    extent = 1
    for dim in reversed(layout.kept):
        if dim.input_stride >= layout.reduced[0].input_stride or dim.input_stride > extent + gap:
            return
        extent += (dim.size - 1) * dim.input_stride
        yield dim


def _of_whole_rounds(most: int, each: int, workgroup_size: int, multiple: int) -> int:
    """Return which count up to ``most``, of ``each`` outputs, leaves the fewest invocations idle.

    Args:
        most: of an array's dimension, at least 1.
        each: folds of one.
        workgroup_size: invocations, each of which folds in turn.
        multiple: of which the count is, if it is not small.
    """
    if most >= 4 * workgroup_size:
        return most - most % workgroup_size
    multiple = multiple if most >= 2 * multiple else 1
    first = most - most % multiple

    def idle(count: int) -> float:
        return ceil_div(count * each, workgroup_size) * workgroup_size / (count * each)

    return min(range(first, max(first // 2, multiple) - 1, -multiple), key=idle)
