"""Planning reductions of joined columns; ``joined_columns.py`` says what is joined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES, Plan, Step, TooMuchWork, checked_step, words
from vkdml.plan.reduce.joined_columns import Joined, joined_columns
from vkdml.plan.reduce.joined_division import (
    JOINED,
    JoinedDivision,
    divide_joined,
    most_vectors,
)
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    Results,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    order_rules,
    split_words,
)
from vkdml.plan.reduce.walked_tiles import gains_by_tile
from vkdml.plan.schema import ElementType

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
# Inputs of up to so many bytes may take less time as joined columns than as periods.
_SMALL_BYTES = 48 << 20
_LARGE_BYTES = 192 << 20
_VERY_SMALL_BYTES = 4 << 20
# Columns along so many folded dimensions, of which the innermost has at most so many positions, take longer.
_MANY_FOLDED, _FEW_INNERMOST = 3, 128
# Copies of adjacent outputs have at least so many elements, of all positions together; copies of wide
# elements in rows of so few bytes that columns would load each twice have fewer (64 rows of 5 words take 0.45
# of the time on an H100, 0.34 on an H200). So have copies of these numbers of halves, which would be loaded
# one by one (0.71 to 1.02 of the time, 12 stacks on an H200).
_FEWEST_ELEMENTS = 400
_FEWEST_IN_SHORT_ROWS, _SHORT_ROW_BYTES = 300, 32
_FEWEST_OF_FEW_HALVES, _FEW_HALVES = 180, (2, 3, 4, 6)


def _is_worth_it(joined: Joined, layout: ReduceLayout, element: ElementType) -> bool:
    """Tell whether loading columns in vectors is faster than other kernels although they are joined."""
    fewest: float = _FEWEST_POSITIONS[element.nbytes]
    if joined.joined == 1:
        if joined.run * joined.positions < _fewest_elements(joined, element.nbytes):
            return False
        fewest *= _MORE_OF_COPIES
        if gains_by_tile(layout, element.nbytes, "unaligned"):
            in_order = layout.outputs_follow_input
            are_fast = in_order and layout.reduce_count <= _MOST_IN_FAST_TILES
            fewest = max(fewest, _FEWEST_BESIDE_FAST_TILES if are_fast else _FEWEST_BESIDE_TILES)
    elif joined.inner is not None:
        fewest *= _MORE_OF_TWO
    elif element.nbytes >= 4 and joined.apart == 1:
        adjacent_bytes = min(joined.joined * element.nbytes, _SIDE_BY_SIDE_BYTES)
        fewest = max(fewest, adjacent_bytes * _POSITIONS_PER_BYTE)
    return joined.positions >= fewest


def _fewest_elements(joined: Joined, nbytes: int) -> int:
    """Return how many elements copies of adjacent outputs have at least."""
    if nbytes == 2 and joined.block in _FEW_HALVES:
        return _FEWEST_OF_FEW_HALVES
    is_short_row = nbytes >= 4 and joined.block * nbytes <= _SHORT_ROW_BYTES
    return _FEWEST_IN_SHORT_ROWS if is_short_row else _FEWEST_ELEMENTS


@dataclass(frozen=True)
class Joining(Reduction):
    """A reduction whose columns may be joined, and how."""

    @cached_property
    def joined(self) -> Joined | None:
        """What is joined; None if that cannot be, or is not faster than other kernels."""
        tuning, has_several = self.limits.tuning, len(self.layout.reduced) > 1
        if self.input_bytes < (tuning.joined_dims_from_bytes if has_several else tuning.joined_from_bytes):
            return None
        per_vector = VECTOR_BYTES // self.element.nbytes
        joined = joined_columns(self.layout, per_vector, most_vectors(self.limits))
        return joined if joined and _is_worth_it(joined, self.layout, self.element) else None

    @cached_property
    def division(self) -> JoinedDivision | None:
        """How the work is divided; None if nothing is joined, or if it cannot be divided."""
        if self.joined is None:
            return None
        try:
            return divide_joined(self.joined, self.layout, self.element, self.input_bytes, self.limits)
        except TooMuchWork:
            return None

    @property
    def is_faster_than_periods(self) -> bool:
        """Whether joined columns of a small input take less time than periods, which take two kernels.

        Up to 4 MiB they take 0.81 of the time (0.70 to 1.07). Up to 48 MiB, unsplit ones take 0.80 (0.49 to
        1.41), and split ones 0.87 (0.73 to 1.06) if whole dimensions are joined in aligned vectors; others
        take as long or longer. Beyond, those of one folded dimension take 0.87 in aligned vectors (130 of
        128 MiB, 0.61 to 1.27), as does joining copies of single bytes of 512 MiB (20, 0.75 to 1.02); H200,
        geometric means.
        """
        if self.joined is None or self.division is None:
            return False
        if self.input_bytes > _SMALL_BYTES:
            if not self.division.pieces.loads.is_aligned or len(self.joined.folded) > 1:
                return False
            are_copies_of_bytes = self.joined.copies > 1 and self.element.nbytes == 1
            return are_copies_of_bytes or self.input_bytes <= _LARGE_BYTES
        if self.input_bytes <= _VERY_SMALL_BYTES:
            return True
        is_whole = self.joined.copies == 1 and self.division.pieces.loads.is_aligned
        return self.division.splits == 1 or is_whole

    @property
    def is_slower_than_periods(self) -> bool:
        """Whether joined columns of a large input take longer than periods, if these read all at once.

        They do in many short rows, where periods take 0.70 of the time (21 shapes on an H200, 0.40 to 1.54).
        So do narrow ones along two folded dimensions, in short rows or of copies: 0.68 (54 shapes, 0.32 to
        1.10).
        """
        if self.input_bytes <= _SMALL_BYTES or self.joined is None:
            return False
        folded = self.joined.folded
        are_short_rows = folded[-1][0] <= _FEW_INNERMOST
        if self.element.nbytes < 4:
            return len(folded) > 1 and (are_short_rows or self.joined.copies > 1)
        return len(folded) >= _MANY_FOLDED and are_short_rows


def plan_joined(joining: Joining, results: Results) -> Plan | None:
    """Plan a reduction so if its columns are joined."""
    joined, division = joining.joined, joining.division
    if joined is None or division is None:
        return None
    try:
        return plan_divided(joined, division, joining, results)
    except TooMuchWork:
        return None


def plan_divided(joined: Joined, division: JoinedDivision, reduction: Reduction, results: Results) -> Plan:
    """Return the plan of these joined columns, divided so.

    Raises:
        TooMuchWork: more than the driver's loops make.
    """
    layout, element, limits = reduction.layout, reduction.element, reduction.limits
    input_bytes, pieces = reduction.input_bytes, division.pieces
    layout_words = (*dimension_words(layout), *words(word for dim in joined.folded for word in dim))
    layout_words += words(joined.inner or ())
    flags = {"layout_in_push": False, **results.flags, "positions_adjacent": False}
    push = JOINED.push(
        **flags,
        lanes=pieces.lanes,
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
        piece_columns=pieces.piece_columns,
        outputs_per_piece=pieces.piece_columns // joined.columns,
        outputs_per_run=joined.run // joined.columns,
        pieces_per_run=pieces.pieces_per_run,
        pieces_per_block=pieces.pieces_per_block,
        pieces=pieces.pieces,
        joiners=pieces.joiners,
        layout_words=(),
    )
    kernel, constants = JOINED.specialize(
        **element.specialization,
        loads="vectors" if pieces.loads.is_aligned else "unaligned",
        one_folded=len(joined.folded) == 1,
        two_joined=joined.inner is not None,
        workgroup=limits.workgroup_size,
        **order_rules(layout, reduction.order),
        split=division.splits > 1,
        fixed_flags=fixed_flags(JOINED, flags, input_bytes, limits),
        in_rounds=limits.in_rounds(division.workgroups, input_bytes),
        one_subgroup=False,
    )
    workgroups = limits.started(division.workgroups)
    counters, scratch_words = split_words(pieces.blocks, layout.outputs, division.splits, element)
    workspace_words = len(layout_words) + counters + scratch_words
    return Plan(
        (checked_step(Step(kernel, constants, push, workgroups, loop_steps=division.loop_steps), limits),),
        buffer_bytes(element, input_bytes, results, workspace_words),
        layout_words,
        counters,
    )
