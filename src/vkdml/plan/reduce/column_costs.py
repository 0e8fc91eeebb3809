"""Which division of columns takes the least time on a GPU: a model of it, fitted to measurements.

Its unit is the load of one vector of 16 bytes by each invocation of ``Tuning.columns_workgroups / 2``
workgroups, as many as run at once in the best case. The figures below come from 1400 shapes of 4 MiB to
1 GiB, each divided in up to 70 ways, on an H100 and an H200. What the model chooses takes 1.015 of the time
of the best of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan.plans import GPU_LINE_BYTES, VECTOR_BYTES, power_of_two_at_least
from vkdml.plan.reduce.reductions import candidate_words
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import Tuning

# Shares of `columns_workgroups`, by how columns are loaded and the bytes of an element: those that run at
# once with the registers they take, and those that are enough to reach the memory's rate.
_AT_ONCE = {
    "vectors": {1: 1 / 4, 2: 1 / 2, 4: 1 / 2, 8: 1 / 2},
    "unaligned": {1: 3 / 16, 2: 7 / 16, 4: 1 / 2, 8: 1 / 2},
}
_ENOUGH = {
    "vectors": {1: 1 / 8, 2: 1 / 4, 4: 1 / 4, 8: 1 / 4},
    "unaligned": {1: 3 / 16, 2: 3 / 8, 4: 5 / 16, 8: 5 / 16},
}
_AT_ONCE_OF_DOUBLES = 3 / 8
# With values fewer run at once, and of aligned halves that omit NaN.
_OF_LONGER_CODE = 3 / 4
# A cache holds inputs of so many loads. Fewer workgroups reach its rate, unless elements are long to unpack.
CACHED_LOADS = 8
_ENOUGH_IF_CACHED = 0.43
# Of the time of a full wave, what a last one with few workgroups takes.
_LAST_WAVE = 0.4
# Loads: to start a wave of workgroups; for its invocations to exchange what they found, and for each step of
# that; to combine splits, for each column of a group, and for each of these in each split.
_START = 1
_EXCHANGE = 0.4
_EXCHANGE_STEP = 0.14
_COMBINING = 3
_COMBINING_COLUMN = 1.5
_COMBINING_COLUMN_OF_SPLIT = 0.0125
# Candidates take so many times as long as loads of as many bytes.
_CANDIDATES = 19
# Bytes side by side that a workgroup loads at least. So few take longer than more, by this factor.
NARROWEST_SEGMENT = 64
_OF_NARROW_SEGMENTS = 1.26
# If rows do not all start with a line, segments take as long as if they had so many bytes more.
_BEYOND_SEGMENT = 20
# Of matrices whose rows are shorter than a line, what the lanes of a group read at a time lies side by side.
# It takes as long as if it had so many bytes more (H100, 90 shapes).
_BEYOND_ROWS = 8
_MOST_LANES_OF_MATRICES = 64
_FEW_SPLITS = range(2, 9)
_WAVES = range(1, 5)

# Inputs of less than a load (4 MiB on these cards) do not fill the memory's bandwidth: what counts is how
# long an invocation waits. Microseconds, fitted to 240 shapes of 32 KiB to 12 MiB in up to 90 divisions each,
# on an H100 and an H200. What the model chooses takes 1.03 of the time of the best of these.
#
# For a batch of loads of an invocation, and for those of each workgroup of its multiprocessor.
_BATCH = {
    "vectors": {1: 0.44, 2: 0.52, 4: 0.42, 8: 0.63},
    "unaligned": {1: 0.66, 2: 0.74, 4: 0.44, 8: 0.91},
}
_BATCH_LOADS = 4
SMALL_POSITIONS_PER_SPLIT = 2 * _BATCH_LOADS
"""The fewest positions that an invocation has of a split of so small an input."""
_BATCH_BESIDE = 0.235
# For each workgroup of a multiprocessor; for each step of the exchange between lanes; to combine splits, for
# each column of a group, and for each column of the block in each split.
_WORKGROUP = 0.35
_STEP = 0.2
_SPLIT_COLUMN = 0.51
_SPLIT_CANDIDATE = 0.092 / 256
WORKGROUPS_OF_MULTIPROCESSOR = 16
"""In ``Tuning.columns_workgroups``."""
_SMALL_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)


def most_at_once(tuning: Tuning) -> float:
    """Return the workgroups that run at the same time in the best case: a wave, and those of a load."""
    return tuning.columns_workgroups / 2


def load_bytes(workgroup_size: int, tuning: Tuning) -> float:
    """Return the bytes that a load is, of the whole device."""
    return most_at_once(tuning) * workgroup_size * VECTOR_BYTES


def splits_to_compare(in_waves: Sequence[int], least: int, most: int) -> set[int]:
    """Return the numbers of splits to compare: few, and those that make waves of workgroups.

    Args:
        in_waves: splits of which the workgroups make waves, or parts of one; the most splits last.
        least: splits that are needed, even if they are more than there should be.
        most: splits that there should be.
    """
    wanted = {1, *in_waves, *(splits for splits in _FEW_SPLITS if splits < in_waves[-1])}
    return {max(min(splits, most), least) for splits in wanted}


@dataclass(frozen=True)
class ColumnWork:
    """Columns that are loaded in vectors. A group is a vector of them."""

    loads: str
    """``vectors`` or ``unaligned``."""
    groups: int
    columns: int
    """Of a group."""
    positions: int
    outputs: int
    element: ElementType
    row_bytes: int
    """Of columns side by side."""
    are_matrices: bool
    """Whether the next position of a column follows its row in memory."""
    omits_nan: bool
    with_values: bool
    workgroup_size: int
    tuning: Tuning

    @property
    def is_small(self) -> bool:
        """Whether the elements are less than a load."""
        return self._loads < 1

    def cheapest_division(
        self, most_lanes: int, least_splits: int, most_splits: Callable[[int], int]
    ) -> tuple[int, int]:
        """Return lanes and splits.

        Args:
            most_lanes: that share the positions of a group, a power of two.
            least_splits: that are needed, even if they are more than there should be.
            most_splits: that there should be, by lanes.
        """
        lanes = self.workgroup_size // min(power_of_two_at_least(self.groups), self.workgroup_size)
        lanes = min(lanes, most_lanes)
        if self.is_small:
            return self._cheapest_of_small(lanes, most_lanes, least_splits, most_splits)
        widest = self.workgroup_size * VECTOR_BYTES // NARROWEST_SEGMENT
        if self._are_narrow_matrices:
            widest = min(self.workgroup_size, _MOST_LANES_OF_MATRICES)
        widest = max(min(widest, most_lanes), lanes)
        choices = []
        while lanes <= widest:
            blocks = ceil_div(self.groups, self.workgroup_size // lanes)
            in_waves = [waves * self._at_once // blocks for waves in _WAVES]
            for splits in splits_to_compare(in_waves, least_splits, most_splits(lanes)):
                choices.append((self._time(lanes, splits, blocks), lanes, splits))
            lanes *= 2
        _, lanes, splits = min(choices)
        return lanes, splits

    def _cheapest_of_small(
        self, lanes: int, most_lanes: int, least_splits: int, most_splits: Callable[[int], int]
    ) -> tuple[int, int]:
        """Return the same for less than a load; ``lanes`` are the fewest."""
        choices = []
        while lanes <= min(self.workgroup_size, most_lanes):
            most = max(most_splits(lanes), least_splits)
            for splits in {min(max(splits, least_splits), most) for splits in _SMALL_SPLITS}:
                choices.append((self._microseconds(lanes, splits), lanes, splits))
            lanes *= 2
        _, lanes, splits = min(choices)
        return lanes, splits

    def _microseconds(self, lanes: int, splits: int) -> float:
        """Return how long a division of less than a load takes, but for what all have in common."""
        in_block = self.workgroup_size // lanes
        workgroups = ceil_div(self.groups, in_block) * splits
        beside = workgroups * WORKGROUPS_OF_MULTIPROCESSOR / self.tuning.columns_workgroups
        batches = ceil_div(self.positions, splits * lanes * _BATCH_LOADS)
        time = batches * (_BATCH[self.loads][self.element.nbytes] + _BATCH_BESIDE * beside)
        time += _WORKGROUP * beside + _STEP * math.log2(lanes)
        if splits > 1:
            columns_of_block = min(self.groups, in_block) * self.columns
            time += _SPLIT_COLUMN * self.columns + _SPLIT_CANDIDATE * splits * columns_of_block
        return time

    @property
    def _are_narrow_matrices(self) -> bool:
        """Whether the lanes of a group share lines of memory, which groups of other matrices do not."""
        return self.are_matrices and self.row_bytes < GPU_LINE_BYTES

    @cached_property
    def _load_bytes(self) -> float:
        return load_bytes(self.workgroup_size, self.tuning)

    @cached_property
    def _loads(self) -> float:
        """Loads that the elements are, if nothing else takes time."""
        return self.outputs * self.positions * self.element.nbytes / self._load_bytes

    @cached_property
    def _at_once(self) -> int:
        """Workgroups that run at the same time."""
        share = _AT_ONCE[self.loads][self.element.nbytes]
        if self.element.nbytes == 8 and self.element.is_float:
            share = _AT_ONCE_OF_DOUBLES
        omits_of_halves = self.omits_nan and self.element.is_float and self.element.nbytes == 2
        if self.with_values or (omits_of_halves and self.loads == "vectors"):
            share *= _OF_LONGER_CODE
        return max(int(self.tuning.columns_workgroups * share), 1)

    @cached_property
    def _enough(self) -> float:
        """Workgroups that reach the memory's rate together, or a cache's."""
        share = _ENOUGH[self.loads][self.element.nbytes]
        are_unpacked = self.element.nbytes == 1 or (self.element.nbytes == 2 and self.loads == "unaligned")
        if self._loads < CACHED_LOADS and not are_unpacked:
            share *= _ENOUGH_IF_CACHED
        return self.tuning.columns_workgroups * share

    @cached_property
    def _candidate_bytes(self) -> int:
        """Bytes of the candidates of each split."""
        return self.outputs * candidate_words(self.element) * 4

    def _time(self, lanes: int, splits: int, blocks: int) -> float:
        """Return how long this division takes, in loads."""
        workgroups = blocks * splits
        time = self._loads
        last_wave = workgroups % self._at_once if workgroups > self._at_once else 0
        if last_wave:
            time += _LAST_WAVE * (self._at_once - last_wave) / workgroups * self._loads
        side_by_side = self.workgroup_size // lanes
        # A block of fewer groups leaves invocations idle.
        busy = workgroups * min(self.groups / side_by_side, 1)
        time *= max(1, self._enough / busy)
        segment = side_by_side * VECTOR_BYTES
        if self._are_narrow_matrices:
            time += self._loads * _BEYOND_ROWS / (lanes * self.row_bytes)
        elif segment <= NARROWEST_SEGMENT:
            time *= _OF_NARROW_SEGMENTS
        if self.row_bytes % GPU_LINE_BYTES:
            time *= 1 + _BEYOND_SEGMENT / segment
        waves = workgroups / most_at_once(self.tuning)
        time += _START * waves
        if lanes > 1:
            time += max(1, waves) * (_EXCHANGE + _EXCHANGE_STEP * math.log2(lanes))
        if splits > 1:
            time += _COMBINING + self.columns * (_COMBINING_COLUMN + _COMBINING_COLUMN_OF_SPLIT * splits)
            time += _CANDIDATES * splits * self._candidate_bytes / self._load_bytes
        return time
