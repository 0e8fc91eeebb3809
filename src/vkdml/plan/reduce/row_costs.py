"""Which division of rows takes the least time on a GPU: a model of it, fitted to measurements.

Its unit is the load of one vector of 16 bytes by each invocation of ``Tuning.split_workgroups`` workgroups,
as many as run at once. The figures below come from 1700 shapes of 1 to 512 MiB, 560 of them divided in up to
30 ways, on an H200 and an H100. What the model chooses takes 1.01 of the time of the best of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.plans import VECTOR_BYTES, power_of_two_at_least
from vkdml.plan.reduce.reductions import candidate_words
from vkdml.plan.reduce.work_division import Share
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import Tuning

# The fewest invocations that share a row of one run, by whether its vectors are whole: fewer read memory in
# too many places at a time (up to 1.1 of the time on an H100).
_FEWEST_LANES = {False: 16, True: 32}
# Invocations apart from each other read shorter pieces of memory: by so much over their number more time, and
# by more where rows start at multiples of a power of two, and so in the same banks of memory.
_APART = 0.56
_APART_IN_BANKS = 4.06
_BANKS_BYTES = 64 * 1024
# Loads: how long an invocation waits for a batch of its own, and for the first of each run; by whether runs
# are read in the order of positions. Out of it, positions are computed.
_BATCH = {True: 1.45, False: 2.5}
_FIRST = {True: 1.85, False: 5}
# Of all invocations that run at once, what reaches the memory's rate.
_ENOUGH = 0.5
# Of the time of a full wave, what a last one with few workgroups takes.
_LAST_WAVE = 0.132
# Full-sized workgroups take so many times as long as halves of them. Of these, which need more registers for
# unaligned runs, so large a part runs at once.
_FULL_SIZE = 1.03
_HALF_SIZE_UNALIGNED_AT_ONCE = 7 / 8
# Loads: to start a wave of workgroups and to exchange what it found; to combine splits, for each of them, and
# for candidates of so many bytes as a load.
_WAVE = 3.1
_COMBINING = 7.9
_COMBINING_SPLIT = 0.0087
_CANDIDATES = 20
# An invocation has at most so many vectors of a run, if there are enough of them.
_MOST_VECTORS = 512
# So many waves of workgroups are compared; none is as few workgroups as there can be.
_WAVES = (0, 1 / 2, 1, 2, 4)
_BATCH_VECTORS = kernels.number("batch_vectors")


@dataclass(frozen=True)
class RowWork:
    """Runs that are long enough to be read in vectors."""

    outputs: int
    runs: int
    """Of each output."""
    vectors: int
    """That a run lies in."""
    run_bytes: int
    are_whole: bool
    """Whether all runs start and end with a vector."""
    in_order: bool
    """Whether they are read in the order of positions."""
    element: ElementType
    workgroup_size: int
    """The largest."""
    subgroup_size: int
    may_divide_splits: bool
    """Whether the kernel divides the splits of a workgroup into parts, which that of subgroups does."""
    tuning: Tuning

    def cheapest_division(self, most_splits: int) -> Share:
        """Return how to divide the rows, with at most so many splits."""
        _, *share = min(self._choices(most_splits))
        return Share(*share)

    def _choices(self, most_splits: int) -> Iterator[tuple[float, int, int, int, int]]:
        """Yield times and divisions."""
        fewest = _FEWEST_LANES[self.are_whole] if self.runs == 1 else 1
        fewest = max(fewest, power_of_two_at_least(ceil_div(self.vectors, _MOST_VECTORS)))
        for workgroup_size in self._workgroup_sizes:
            most_lanes = min(workgroup_size, power_of_two_at_least(self.vectors))
            lanes, at_once = min(fewest, most_lanes), self._at_once(workgroup_size)
            while lanes <= most_lanes:
                parts = self._parts(workgroup_size // lanes)
                blocks = ceil_div(self.outputs, workgroup_size // parts // lanes)
                tiles = self.runs * ceil_div(self.vectors, lanes * _BATCH_VECTORS)
                most = min(ceil_div(tiles, parts), most_splits)
                for splits in {max(min(int(waves * at_once / blocks), most), 1) for waves in _WAVES}:
                    time = self._time(workgroup_size, lanes, splits, parts, blocks)
                    yield time, workgroup_size, lanes, splits, parts
                lanes *= 2

    def _parts(self, most_outputs: int) -> int:
        """Return into how many parts workgroups with room for so many outputs divide splits of fewer."""
        return max(most_outputs // power_of_two_at_least(self.outputs), 1) if self.may_divide_splits else 1

    @property
    def _workgroup_sizes(self) -> tuple[int, ...]:
        half = self.workgroup_size // 2
        return (half, self.workgroup_size) if half >= max(self.subgroup_size, 1) else (self.workgroup_size,)

    @cached_property
    def _invocations_at_once(self) -> int:
        return self.tuning.split_workgroups * self.workgroup_size

    @cached_property
    def _loads(self) -> float:
        """Loads that the runs are, if nothing else takes time."""
        return self.outputs * self.runs * self.vectors / self._invocations_at_once

    def _at_once(self, workgroup_size: int) -> float:
        """Return how many workgroups run at the same time."""
        at_once = self._invocations_at_once / workgroup_size
        if self.are_whole or workgroup_size == self.workgroup_size:
            return at_once
        return at_once * _HALF_SIZE_UNALIGNED_AT_ONCE

    def _waiting(self, own: int) -> float:
        """Return how long an invocation waits for so many vectors of a run, in loads."""
        return _BATCH[self.in_order] * ceil_div(own, _BATCH_VECTORS) + _FIRST[self.in_order]

    def _time(self, workgroup_size: int, lanes: int, splits: int, parts: int, blocks: int) -> float:
        """Return how long a division takes, in loads."""
        waves = blocks * splits / self._at_once(workgroup_size)
        apart = _APART_IN_BANKS if self.runs == 1 and self.run_bytes % _BANKS_BYTES == 0 else _APART
        time = self._loads * (1 + apart / lanes)
        if workgroup_size == self.workgroup_size:
            time *= _FULL_SIZE
        busy = waves * self.outputs * parts / (blocks * (workgroup_size // lanes))
        time *= max(1, _ENOUGH / busy)
        if waves > 1:
            time *= 1 + _LAST_WAVE * (-waves % 1) / waves
        # Where there are more splits than runs, each run is in several parts.
        shares = splits * parts
        own = math.ceil(self.vectors / (lanes * max(shares / self.runs, 1)))
        waiting = math.ceil(waves) * max(self.runs / shares, 1) * self._waiting(own)
        # The longer of both decides; the other one hardly counts.
        time = math.sqrt(math.hypot(time * time, waiting * waiting))
        time += _WAVE * waves
        if splits > 1:
            candidate_bytes = self.outputs * splits * candidate_words(self.element) * 4
            time += _COMBINING + _COMBINING_SPLIT * splits
            time += _CANDIDATES * candidate_bytes / (self._invocations_at_once * VECTOR_BYTES)
        return time
