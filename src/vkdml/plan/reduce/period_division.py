"""Dividing the work of reductions in periods among invocations and workgroups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan.loop_steps import PeriodLoops
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits
from vkdml.plan.reduce.reductions import (
    VECTOR_LOADS,
    columns_workgroups,
    scratch_words,
    settled_splits,
    whole_waves,
    workgroups_at_once,
)
from vkdml.plan.reduce.repetition import NARROW_STEPS, Repetition, column_words
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import PeriodTuning, Tuning

# Vectors. A workgroup reads so many side by side at least, where a period is longer.
_FEWEST_VECTORS = 16
# Longer periods are read in pieces of so many vectors, by element width.
_LONG_PERIOD = 128
_PIECE = {1: 16, 2: 16, 4: 32, 8: 32}
# GPUs read so many times as many, if all workgroups run at once then, and are this share of those that do. It
# takes 0.95 of the time, 0.91 for halves (362 reductions on an H200, 0.77 to 1.15).
_WIDER = (2, 4)
_LEAST_OF_WAVE = 0.7
# Of `positions_per_split` periods, which an invocation of a short period folds at least: fewer are less work
# than the exchange.
_FOLDED_PERIODS = 4


@dataclass(frozen=True)
class PeriodDivision:
    """How the work of the first kernel is divided."""

    groups_per_block: int
    lanes: int
    blocks: int
    splits: int
    periods_per_split: int
    loop_steps: int
    groups_ahead: int
    """Vectors of a period that a workgroup reads ahead; 0: it reads nothing ahead."""


def reads_ahead(input_bytes: int, tuning: Tuning) -> bool:
    """Whether this is a processor, and so much memory that it had better be loaded in order."""
    has_splits = _has_short_splits(input_bytes, tuning.periods)
    return tuning.reads_ahead > 0 and has_splits and input_bytes >= tuning.periods.ahead_from_bytes


def _has_short_splits(input_bytes: int, tuning: PeriodTuning) -> bool:
    """Whether a processor reads so much that the workgroups of a period had better do so soon."""
    return 0 < 4 * tuning.split_bytes < input_bytes


def _groups_ahead(vectors: int, groups_per_block: int, periods: int, tuning: PeriodTuning) -> int:
    """Return how many vectors of a period a processor reads ahead for the workgroups that fold them.

    What these read of several periods is apart, so that a processor waits for each line of it. Loaded in the
    order of memory first, it takes 0.68 of the time on an AMD EPYC, 1.05 on an Intel Xeon (lavapipe).

    Args:
        vectors: of a period.
        groups_per_block: vectors of a period that a workgroup folds.
        periods: of a split.
        tuning: of reductions in periods.
    """
    if vectors < 2 * groups_per_block:
        return 0
    if vectors * periods * VECTOR_BYTES <= 2 * tuning.split_bytes:
        return vectors
    blocks = tuning.split_bytes // 2 // (periods * groups_per_block * VECTOR_BYTES)
    return blocks * groups_per_block if blocks > 1 else 0


def divide_periods(
    repetition: Repetition, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> PeriodDivision:
    """Return how the periods are divided.

    Args:
        repetition: the way to read the input.
        element: what is reduced.
        input_bytes: of the input buffer.
        limits: of the device.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    return _Dividing(repetition, element, input_bytes, limits).division()


@dataclass(frozen=True)
class _Blocks:
    """What workgroups fold of each period, before the periods are divided into splits."""

    groups_per_block: int
    lanes: int
    count: int
    most_splits: int
    """Of which an invocation still folds enough."""


@dataclass(frozen=True)
class _Dividing:
    """What is divided; arguments of ``divide_periods``."""

    repetition: Repetition
    element: ElementType
    input_bytes: int
    limits: DeviceLimits

    def division(self) -> PeriodDivision:
        """See ``divide_periods``."""
        limits, repetition, periods = self.limits, self.repetition, self._periods
        blocks, wanted = self._blocks_and_splits()
        side = blocks.groups_per_block

        def groups_ahead(periods_per_split: int) -> int:
            if not reads_ahead(self.input_bytes, self._tuning):
                return 0
            return _groups_ahead(self._vectors, side, periods_per_split, self._tuning.periods)

        def loop_steps(splits: int) -> int:
            loops = PeriodLoops(limits.workgroup_size, limits.max_workgroup_count)
            periods_per_split = ceil_div(periods, splits)
            return loops.periods(
                *(blocks.count * splits, len(repetition.outer), periods_per_split, blocks.lanes),
                *(VECTOR_LOADS, self._per_vector),
                groups_ahead(periods_per_split),
            )

        wanted = max(wanted, self._fewest_splits)
        splits, per_split = settled_splits(
            wanted, self._most_splits, periods, blocks.count, loop_steps, limits
        )
        return PeriodDivision(
            groups_per_block=side,
            lanes=blocks.lanes,
            blocks=blocks.count,
            splits=splits,
            periods_per_split=per_split,
            loop_steps=loop_steps(splits),
            groups_ahead=groups_ahead(per_split),
        )

    @property
    def _tuning(self) -> Tuning:
        return self.limits.tuning

    @property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.element.nbytes

    @cached_property
    def _vectors(self) -> int:
        """Of a period."""
        return self.repetition.vectors(self._per_vector)

    @property
    def _groups(self) -> int:
        """Vectors of the periods of all stretches."""
        return self._vectors * self.repetition.stretches

    @cached_property
    def _periods(self) -> int:
        return self.repetition.periods(self._per_vector)

    @property
    def _at_once(self) -> int:
        """Workgroups that run at the same time."""
        return workgroups_at_once(self.element, self._tuning)

    @property
    def _candidate_bytes(self) -> int:
        """Of a split."""
        return self.repetition.columns * column_words(self.element) * 4

    @property
    def _room(self) -> int:
        """How many splits scratch memory has room for."""
        return scratch_words(self.input_bytes) * 4 // self._candidate_bytes

    @property
    def _most_splits(self) -> int:
        return max(min(self._periods, self._room), 1)

    @property
    def _fewest_splits(self) -> int:
        return ceil_div(self._periods, NARROW_STEPS) if self.element.nbytes < 4 else 1

    def _blocks(self, groups_per_block: int) -> _Blocks:
        fewest = self._tuning.positions_per_split
        lanes = max(min(self.limits.workgroup_size // groups_per_block, self._periods // fewest), 1)
        most_splits = max(min(self._most_splits, self._periods // (fewest * lanes)), 1)
        return _Blocks(groups_per_block, lanes, ceil_div(self._groups, groups_per_block), most_splits)

    def _blocks_and_splits(self) -> tuple[_Blocks, int]:
        are_short = self._vectors <= min(_FEWEST_VECTORS, self.limits.workgroup_size)
        groups = self._groups_of_short_periods() if are_short else self._groups_of_long_periods()
        blocks = self._blocks(groups)
        shares = self._periods / blocks.lanes, self._candidate_bytes / self.input_bytes
        wanted = whole_waves(blocks.count, blocks.most_splits, *shares, self._at_once)
        if self._tuning.is_processor:
            return blocks, max(wanted, self._short_splits(blocks))
        if self._vectors > _LONG_PERIOD and blocks.count * wanted > self._at_once:
            return self._in_one_wave(groups) or (blocks, wanted)
        return blocks, wanted

    def _groups_of_short_periods(self) -> int:
        """Return how many vectors a workgroup reads side by side: whole periods, of several stretches."""
        workgroup_size, stretches = self.limits.workgroup_size, self.repetition.stretches
        enough = ceil_div(self._periods, _FOLDED_PERIODS * self._tuning.positions_per_split)
        lanes = max(min(workgroup_size // self._vectors, enough), 1)
        side = min(workgroup_size // lanes // self._vectors, stretches)
        workgroups = columns_workgroups(self.input_bytes, self._tuning)
        if ceil_div(stretches, side) < workgroups:
            side = max(side * ceil_div(stretches, side) // workgroups, 1)
        return side * self._vectors

    def _groups_of_long_periods(self) -> int:
        """Return how many vectors a workgroup reads side by side: a part of a period."""
        side_by_side = self._tuning.periods.segment_bytes // VECTOR_BYTES
        piece = _PIECE[self.element.nbytes]
        groups = _side(self._vectors, piece, min(self.limits.workgroup_size, side_by_side))
        # Narrower blocks fill a device with fewer splits, where scratch memory has room for few.
        while groups >= 2 * piece and ceil_div(self._groups, groups) * self._room < self._at_once:
            groups = ceil_div(groups, 2)
        return groups

    def _in_one_wave(self, groups_per_block: int) -> tuple[_Blocks, int] | None:
        """Return wider blocks, and splits, of which all workgroups run at once; None if they are too few."""
        for times in _WIDER:
            if times * groups_per_block > self.limits.workgroup_size:
                break
            blocks = self._blocks(times * groups_per_block)
            splits = min(self._at_once // blocks.count, blocks.most_splits)
            are_enough = blocks.count * splits >= _LEAST_OF_WAVE * self._at_once
            if are_enough and splits >= self._fewest_splits:
                return blocks, splits
        return None

    def _short_splits(self, blocks: _Blocks) -> int:
        """Return how many splits keep the blocks of a period, which follow each other, near in memory."""
        periods = self._tuning.periods
        if blocks.groups_per_block >= self._vectors or not _has_short_splits(self.input_bytes, periods):
            return 1
        stretch_bytes = self.repetition.stretch * self.element.nbytes
        # Each workgroup reads enough that to start and finish it is a small part of its time.
        of_workgroups = ceil_div(self._vectors, blocks.groups_per_block) * self._tuning.split_bytes // 2
        split_bytes = max(periods.split_bytes, of_workgroups)
        return min(ceil_div(stretch_bytes, split_bytes), blocks.most_splits)


def _side(vectors: int, piece: int, most: int) -> int:
    """Return how many vectors of a period a workgroup reads side by side, such that few invocations idle."""

    def busy(side: int) -> float:
        return vectors / (ceil_div(vectors, side) * side) * (most // side * side) / most

    if vectors > _LONG_PERIOD:
        return min(piece, most)
    parts = (ceil_div(vectors, count) for count in range(1, vectors // _FEWEST_VECTORS + 1))
    return max(
        (side for side in parts if side <= most), key=lambda side: (round(busy(side), 1), side), default=most
    )
