"""Dividing the work of joined columns among invocations and workgroups."""

from __future__ import annotations

from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, power_of_two_at_least, power_of_two_up_to
from vkdml.plan.reduce.joined_columns import Joined
from vkdml.plan.reduce.reductions import NARROW_SHARE, columns_workgroups, most_splits, settled_splits
from vkdml.plan.reduce.work_division import are_multiples, loops_of
from vkdml.plan.schema import ElementType

JOINED = kernels.family("argreduce_joined")
(JOINED_AT_ONCE,) = JOINED.numbers_of("at_once")
# A workgroup reads at least so many contiguous bytes if it can.
_SEGMENT_BYTES = 64
# Of a longer run, a workgroup reads at least so many bytes side by side; splits fill the device instead of
# lanes (0.13 to 1.07 of the time, H100).
_SIDE_BY_SIDE_OF_RUN_BYTES = 512
# Workgroups that join columns read so many times as many bytes as others.
_TIMES_AS_MUCH = 2
# At least so many invocations share the positions: their exchange leaves room for the columns of all.
_FEWEST_LANES = 2


def are_aligned(joined: Joined, layout: ReduceLayout, piece_columns: int, element: ElementType) -> bool:
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
class JoinedDivision:
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


def divide_joined(
    joined: Joined, layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> JoinedDivision | None:
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
        return loops.joined(positions, sizes, JOINED_AT_ONCE, per_vector, of_block, of_joiner, joiners)

    splits, share = settled_splits(wanted, joined.positions, joined.positions, blocks, loop_steps, limits)
    return JoinedDivision(
        lanes, piece_columns, pieces_per_run, pieces_per_block, pieces, blocks, splits, share, joiners,
        loop_steps(splits),
    )  # fmt: skip
