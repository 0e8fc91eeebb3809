"""Planning reductions of several columns to one output: short innermost dimensions, reduced or kept.

Elements that are side by side in memory make a run of columns. In a run one reduced dimension lies inside of
kept dimensions, or a part of one just outside of them, or both: their columns are joined to one output, after
each has been folded over all other positions. So memory is read in vectors where the adjacent elements of an
output, or of adjacent outputs, are too few for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout, contiguous
from vkdml.plan.order import Order
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    TooMuchWork,
    checked_step,
    power_of_two_at_least,
    power_of_two_up_to,
    words,
)
from vkdml.plan.reduce.reductions import (
    NARROW_SHARE,
    SHORT_ROW_OF_OUTPUTS,
    Results,
    bases,
    buffer_bytes,
    columns_workgroups,
    dimension_words,
    fixed_flags,
    most_splits,
    order_rules,
    settled_splits,
    split_words,
)
from vkdml.plan.reduce.walked_tiles import gains_by_tile
from vkdml.plan.reduce.work_division import are_multiples, loops_of
from vkdml.plan.schema import ElementType

_FAMILY = kernels.family("argreduce_joined")
(_AT_ONCE,) = _FAMILY.numbers_of("at_once")
# The most vectors that the columns of an output lie in, with the columns between them.
_MOST_VECTORS = 40
# The most vectors of a run of copies.
_MOST_COPIED_VECTORS = 10
# If rows of outputs have so many vectors, a whole dimension is not joined.
_LONG_ROW_VECTORS = 3
# Short unaligned rows of outputs are joined if vectors that load them hold so many times as many elements.
_LOADED_IN_VAIN = 1.05
# Copies are joined if joining a whole dimension leaves fewer positions to fold.
_MANY_POSITIONS = 32
# By element width, the fewest positions to fold. With fewer, joining takes longer than the loads of other
# kernels (H200).
_FEWEST_POSITIONS = {1: 16, 2: 12, 4: 8, 8: 8}
# Copies need so many times as many positions (H200).
_MORE_OF_COPIES = 1.25
# So do two dimensions that are joined (0.05 to 1.04 of the time with as many, H100).
_MORE_OF_TWO = 1.25
# Where tiles are possible, they are faster than copies with fewer positions than this.
_FEWEST_BESIDE_TILES = 25
# The same if outputs lie in the order of the input and at most _MOST_IN_FAST_TILES elements compete for each
# (0.64 to 0.98 of the time, H100 and H200).
_FEWEST_BESIDE_FAST_TILES = 36
_MOST_IN_FAST_TILES = 64
# Wide elements need so many positions for each byte of an output's adjacent columns, of which only the first
# _SIDE_BY_SIDE_BYTES count.
_POSITIONS_PER_BYTE = 5 / 8
_SIDE_BY_SIDE_BYTES = 64
# Copies of adjacent outputs have at least so many elements, of all positions together.
_FEWEST_ELEMENTS = 400
# Fewer columns are joined if that takes at most so many times the fewest loads.
_LOADS_IN_VAIN = 1.1
# A workgroup reads at least so many contiguous bytes if it can.
_SEGMENT_BYTES = 64
# Of a longer run, a workgroup reads at least so many bytes side by side; splits fill the device instead of
# lanes (0.13 to 1.07 of the time, H100).
_SIDE_BY_SIDE_OF_RUN_BYTES = 512
# Workgroups that join columns read so many times as many bytes as others.
_TIMES_AS_MUCH = 2
# At least so many invocations share the positions: their exchange leaves room for the columns of all.
_FEWEST_LANES = 2


@dataclass(frozen=True)
class Joined:
    """How the columns of a run belong to outputs."""

    block: int
    """Columns side by side in memory, of whole outputs."""
    joined: int
    """Columns of an output in a block."""
    apart: int
    """Columns from one of these to the next."""
    step: int
    """Positions of the reduced dimensions within the joined one; of two the inner one."""
    folded: tuple[tuple[int, int], ...]
    """Sizes and input strides of the dimensions whose positions each column has."""
    copies: int = 1
    """Blocks of a run, along a part of a reduced dimension."""
    copies_step: int = 1
    """Positions of the reduced dimensions within that one, without the joined one."""
    overlap: int = 0
    """Copies that the last position of the last folded dimension shares with the one before."""
    inner: tuple[int, int] | None = None
    """Where two dimensions are joined, in another order than that of their positions: the columns along the
    inner one, and the positions of the others within the outer one."""

    @property
    def run(self) -> int:
        """Columns side by side in memory."""
        return self.block * self.copies

    @property
    def columns(self) -> int:
        """Columns of an output."""
        return self.joined * self.copies

    @property
    def unit(self) -> int:
        """Columns between which no output's columns are divided."""
        return self.run if self.copies > 1 else self.joined * self.apart

    @property
    def positions(self) -> int:
        return math.prod(size for size, _ in self.folded)


def joined_columns(layout: ReduceLayout, per_vector: int) -> Joined | None:
    """Return how this layout's columns are joined, in runs of a vector or more; None if they are not.

    >>> from vkdml.plan.layout import Dim
    >>> planes = ReduceLayout((Dim(500, 3, 1),), (Dim(40, 1500, 3), Dim(3, 1, 1)), 0, 0, 0, False)
    >>> joined = joined_columns(planes, 16)
    >>> joined.block, joined.joined, joined.apart, joined.step, joined.folded
    (1500, 3, 1, 1, ((40, 1500),))
    """
    apart, in_row = contiguous(layout.kept)
    inside = _dim_at(layout.reduced, apart)
    # Short unaligned rows of outputs are loaded partly in vain, too.
    in_vain = apart <= SHORT_ROW_OF_OUTPUTS and round_up(apart, per_vector) >= apart * _LOADED_IN_VAIN
    if inside is None or not (apart < per_vector or in_vain):
        return None
    others = (*layout.reduced[:inside], *layout.reduced[inside + 1 :])
    joined, inner = layout.reduced[inside].size, None
    outside = _dim_at(others, apart * joined)
    if outside is not None and apart == 1:
        inner = joined, _positions(others[outside + 1 :])
        joined *= others[outside].size
        others = (*others[:outside], *others[outside + 1 :])
    block, _ = contiguous(layout.kept[: len(layout.kept) - in_row], apart * joined)
    step = _positions(layout.reduced[inside + 1 :])
    whole = Joined(block, joined, apart, step, _folded(others), inner=inner)
    if block == joined:  # rows
        return None
    fits = bool(others) and whole.unit <= _MOST_VECTORS * per_vector
    has_vectors = fits and block >= per_vector and apart < _LONG_ROW_VECTORS * per_vector
    if has_vectors and (whole.positions >= _MANY_POSITIONS or apart == 1):
        return whole
    if apart > 1:
        copied = _copied(Joined(apart, 1, 1, 1, ()), layout.reduced, per_vector)
    else:
        copied = _copied(whole, others, per_vector) if fits else None
    return copied or (whole if has_vectors and apart <= per_vector else None)


def _copied(alone: Joined, others: tuple[Dim, ...], per_vector: int) -> Joined | None:
    """Repeat a block along a part of the reduced dimension outside of it, so that few loads are in vain.

    Args:
        alone: the block as it is.
        others: the reduced dimensions, without the joined one.
        per_vector: elements of a vector.
    """
    place = _dim_at(others, alone.block)
    if place is None:
        return None
    size = others[place].size
    most = max(min(size // 2, _MOST_COPIED_VECTORS * per_vector // alone.block), 1)
    may_overlap = place == len(others) - 1
    choices = [
        copies
        for copies in range(ceil_div(per_vector, alone.block), most + 1)
        if may_overlap or size % copies == 0
    ]

    def loads(copies: int) -> int:
        return ceil_div(copies * alone.block, per_vector) * ceil_div(size, copies)

    # More columns take longer to join: a few loads more cost less.
    fewest = min(map(loads, choices), default=0)
    copies = next((copies for copies in choices if loads(copies) <= fewest * _LOADS_IN_VAIN), 0)
    if not copies:
        return None
    times = ceil_div(size, copies)
    folded = list(_folded(others))
    folded[place] = times, alone.block * copies
    return replace(
        alone,
        folded=tuple(folded),
        copies=copies,
        copies_step=_positions(others[place + 1 :]),
        overlap=times * copies - size,
    )


def _dim_at(dims: Iterable[Dim], stride: int) -> int | None:
    return next((number for number, dim in enumerate(dims) if dim.input_stride == stride), None)


def _positions(dims: Iterable[Dim]) -> int:
    return math.prod(dim.size for dim in dims)


def _folded(dims: Iterable[Dim]) -> tuple[tuple[int, int], ...]:
    return tuple((dim.size, dim.input_stride) for dim in dims)


def _are_aligned(joined: Joined, layout: ReduceLayout, piece_columns: int, element: ElementType) -> bool:
    """Whether all loads are of aligned vectors."""
    offsets = [layout.input_base, joined.run, piece_columns, joined.overlap * joined.block]
    offsets += [stride for _, stride in joined.folded]
    offsets += [dim.input_stride for dim in _outside(layout, joined)]
    return are_multiples(offsets, VECTOR_BYTES // element.nbytes)


def _outside(layout: ReduceLayout, joined: Joined) -> tuple[Dim, ...]:
    """Return the kept dimensions from run to run; runs of overlapping views overlap."""
    outputs, kept = joined.block // joined.joined, len(layout.kept)
    while outputs > 1:
        kept -= 1
        outputs //= layout.kept[kept].size
    return layout.kept[:kept]


@dataclass(frozen=True)
class _Division:
    """How the work is divided; see the push constants in ``shaders/kernels.json``."""

    lanes: int
    piece_columns: int
    pieces_per_run: int
    pieces_per_block: int
    pieces: int
    blocks: int
    splits: int
    positions_per_split: int
    joiners: int
    loop_steps: int


def _division(
    joined: Joined, layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> _Division | None:
    """Return it, or None if a workgroup is too small for whole outputs."""
    tuning, workgroup_size, outputs = limits.tuning, limits.workgroup_size, layout.outputs
    per_vector = VECTOR_BYTES // element.nbytes
    groups_of_run, groups_of_unit = (ceil_div(n, per_vector) for n in (joined.run, joined.unit))
    runs = outputs * joined.columns // joined.run
    most = max(workgroup_size // groups_of_unit, 1)
    # Neighbouring positions lie beside a short run more often than not.
    beside = _SEGMENT_BYTES // (min(groups_of_run, workgroup_size) * VECTOR_BYTES)
    workgroups = columns_workgroups(input_bytes, tuning, _TIMES_AS_MUCH)
    filling = ceil_div(workgroups * workgroup_size, runs * groups_of_run)
    filling = min(filling, workgroup_size // min(_SIDE_BY_SIDE_OF_RUN_BYTES // VECTOR_BYTES, groups_of_run))
    lanes = max(power_of_two_at_least(max(filling, beside, 1)), _FEWEST_LANES)
    lanes = min(lanes, power_of_two_at_least(ceil_div(joined.positions, tuning.positions_per_lane)))
    lanes = max(min(lanes, power_of_two_up_to(most)), _FEWEST_LANES)
    side = workgroup_size // lanes
    if groups_of_unit > side:
        return None
    piece_columns, pieces_per_block = joined.run, side // groups_of_run
    if groups_of_run > side:
        piece_columns, pieces_per_block = side * per_vector // joined.unit * joined.unit, 1
    pieces_per_run = ceil_div(joined.run, piece_columns)
    pieces = runs * pieces_per_run
    pieces_per_block = max(min(pieces_per_block, pieces), 1)
    blocks = ceil_div(pieces, pieces_per_block)
    of_block = min(pieces_per_block * piece_columns // joined.columns, outputs)
    fitting = power_of_two_up_to(workgroup_size // of_block)
    joiners = min(fitting, power_of_two_at_least(joined.columns))
    wanted = min(
        ceil_div(workgroups, blocks),
        ceil_div(joined.positions, tuning.positions_per_split * lanes),
        most_splits(outputs, element, input_bytes),
    )
    if element.nbytes < 4:
        wanted = max(wanted, ceil_div(joined.positions, NARROW_SHARE))

    def loop_steps(splits: int) -> int:
        loops = loops_of(layout, limits, lanes, blocks, splits)
        sizes = tuple(size for size, _ in joined.folded)
        positions, of_joiner = ceil_div(joined.positions, splits), ceil_div(joined.columns, joiners)
        return loops.joined(positions, sizes, _AT_ONCE, per_vector, of_block, of_joiner, joiners)

    splits, share = settled_splits(wanted, joined.positions, joined.positions, blocks, loop_steps, limits)
    return _Division(
        lanes, piece_columns, pieces_per_run, pieces_per_block, pieces, blocks, splits, share, joiners,
        loop_steps(splits),
    )  # fmt: skip


def _is_worth_it(joined: Joined, layout: ReduceLayout, element: ElementType) -> bool:
    """Tell whether loading columns in vectors is faster than other kernels although they are joined."""
    fewest: float = _FEWEST_POSITIONS[element.nbytes]
    if joined.joined == 1:
        if joined.run * joined.positions < _FEWEST_ELEMENTS:
            return False
        fewest *= _MORE_OF_COPIES
        if gains_by_tile(layout, element.nbytes, "unaligned"):
            in_order = layout.innermost_of_outputs is layout.kept[-1]
            are_fast = in_order and layout.reduce_count <= _MOST_IN_FAST_TILES
            fewest = max(fewest, _FEWEST_BESIDE_FAST_TILES if are_fast else _FEWEST_BESIDE_TILES)
    elif joined.inner is not None:
        fewest *= _MORE_OF_TWO
    elif element.nbytes >= 4:
        adjacent_bytes = min(joined.joined * element.nbytes, _SIDE_BY_SIDE_BYTES)
        fewest = max(fewest, adjacent_bytes * _POSITIONS_PER_BYTE)
    return joined.positions >= fewest


def plan_joined(
    layout: ReduceLayout, order: Order, input_bytes: int, results: Results, limits: DeviceLimits
) -> Plan | None:
    """Plan a reduction so if its columns can be joined; arguments as of ``plan_argreduce``."""
    if input_bytes < limits.tuning.joined_from_bytes:
        return None
    element = order.element_type
    joined = joined_columns(layout, VECTOR_BYTES // element.nbytes)
    if not joined or not _is_worth_it(joined, layout, element):
        return None
    try:
        return plan_columns(joined, layout, order, input_bytes, results, limits)
    except TooMuchWork:
        return None


def plan_columns(
    joined: Joined,
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan | None:
    """Plan a reduction as these joined columns; None if a workgroup is too small for those of an output.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    element = order.element_type
    division = _division(joined, layout, element, input_bytes, limits)
    if not division:
        return None
    layout_words = (*dimension_words(layout), *words(word for dim in joined.folded for word in dim))
    layout_words += words(joined.inner or ())
    flags = {"layout_in_push": False, **results.flags, "positions_adjacent": False}
    push = _FAMILY.push(
        **flags,
        lanes=division.lanes,
        outputs=layout.outputs,
        reduce_count=layout.reduce_count,
        splits=division.splits,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        scratch_base=len(layout_words),
        run=joined.run,
        tiles_per_run=0,
        tile_vectors=0,
        positions_per_split=division.positions_per_split,
        positions=joined.positions,
        folded_dims=len(joined.folded),
        joined=joined.joined,
        joined_apart=joined.apart,
        joined_step=joined.step,
        copies=joined.copies,
        copies_step=joined.copies_step,
        overlap=joined.overlap,
        piece_columns=division.piece_columns,
        outputs_per_piece=division.piece_columns // joined.columns,
        outputs_per_run=joined.run // joined.columns,
        pieces_per_run=division.pieces_per_run,
        pieces_per_block=division.pieces_per_block,
        pieces=division.pieces,
        joiners=division.joiners,
        layout_words=(),
    )
    kernel, constants = _FAMILY.specialize(
        **element.specialization,
        loads="vectors" if _are_aligned(joined, layout, division.piece_columns, element) else "unaligned",
        at_once=_AT_ONCE,
        one_folded=len(joined.folded) == 1,
        two_joined=joined.inner is not None,
        workgroup=limits.workgroup_size,
        **order_rules(layout, order),
        split=division.splits > 1,
        fixed_flags=fixed_flags(_FAMILY, flags, input_bytes, limits),
    )
    workgroups = min(division.blocks * division.splits, limits.max_workgroup_count)
    counters, scratch_words = split_words(division.blocks, layout.outputs, division.splits, element)
    workspace_words = len(layout_words) + counters + scratch_words
    return Plan(
        (checked_step(Step(kernel, constants, push, workgroups, loop_steps=division.loop_steps), limits),),
        buffer_bytes(element, input_bytes, results, workspace_words),
        layout_words,
        counters,
    )
