"""Which division of columns that are read by phases takes a GPU the least time: a model of it.

Its unit is that of ``column_costs.py``: the load of one vector by each invocation of as many workgroups as
run at once in the best case. The figures come from 460 shapes of 8 to 512 MiB, each divided in up to 50 ways,
on an H200 and an H100. What the model chooses takes 1.01 to 1.03 of the time of the best of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan.plans import VECTOR_BYTES
from vkdml.plan.reduce.column_costs import WORKGROUPS_OF_MULTIPROCESSOR, load_bytes
from vkdml.plan.tuning import Tuning

# Invocations of a workgroup by which the figures count.
_COUNTED = 256
# Of these workgroups, so many run at once on a multiprocessor: fewer of bytes, which have more registers than
# in larger workgroups.
_AT_ONCE = 4
_AT_ONCE_OF_BYTES = 3
# A multiprocessor by itself takes as long for a workgroup as a device for so many, relative to its number of
# multiprocessors: at best, and if it has only two of the counted workgroups.
_ALONE = 2 / 3
_ALONE_IF_IDLE = 8 / 7
# Of the invocations of a block without columns.
_IDLE = 3 / 4
# Loads to exchange what a wave has found, by element width: by itself, for each lane, for each counted part
# of a workgroup.
_EXCHANGE = {1: (1.0, 0.06, 0.2), 2: (0.7, 0.025, 0.4), 4: (0.3, 0.015, 0.7)}
# Loads to combine splits, and for a million candidates.
_COMBINING = 3
_CANDIDATES = 12
_WAVES = (1, 2, 3, 4)


@dataclass(frozen=True)
class PhaseWork:
    """Columns of unaligned rows."""

    columns: int
    """Side by side."""
    rows_of_outputs: int
    positions: int
    element_bytes: int
    tuning: Tuning

    @property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.element_bytes

    def block_columns(self, workgroup_size: int, lanes: int) -> int:
        """Return the columns of a workgroup: a vector less than it reads."""
        return (workgroup_size // lanes - 1) * self._per_vector

    def blocks(self, workgroup_size: int, lanes: int) -> int:
        """Return how many workgroups all columns are divided among."""
        return self.rows_of_outputs * ceil_div(self.columns, self.block_columns(workgroup_size, lanes))

    @property
    def _multiprocessors(self) -> int:
        return max(self.tuning.columns_workgroups // WORKGROUPS_OF_MULTIPROCESSOR, 1)

    def _wave(self, workgroup_size: int) -> int:
        """Return how many workgroups run at once."""
        is_crowded = self.element_bytes == 1 and workgroup_size <= _COUNTED
        at_once = (_AT_ONCE_OF_BYTES if is_crowded else _AT_ONCE) * _COUNTED // workgroup_size
        return self._multiprocessors * max(at_once, 1)

    def full_waves(self, workgroup_size: int) -> list[int]:
        """Return numbers of workgroups that keep all multiprocessors equally busy."""
        return [self._wave(workgroup_size) * waves for waves in _WAVES]

    def _imbalance(self, workgroups: int, workgroup_size: int) -> float:
        """Return how many times as long a device takes because some multiprocessors have a workgroup more.

        When the others are done, these have one each: all that the device still reads.
        """
        last = workgroups % self._wave(workgroup_size)
        if last == 0:
            return 1
        before = (last - 1) // self._multiprocessors
        parts = (before + 1) * workgroup_size / _COUNTED
        alone = max(_ALONE, 2 * _ALONE_IF_IDLE / parts)
        return (workgroups - last + max(last, (before + alone) * self._multiprocessors)) / workgroups

    def time(self, workgroup_size: int, lanes: int, splits: int) -> float:
        """Return how long this division takes, in loads."""
        columns, blocks = self.rows_of_outputs * self.columns, self.blocks(workgroup_size, lanes)
        workgroups = blocks * splits
        loaded = (columns / self._per_vector + blocks) * self.positions
        time = loaded * VECTOR_BYTES / load_bytes(_COUNTED, self.tuning)
        time *= self._imbalance(workgroups, workgroup_size)
        time *= 1 + _IDLE * (blocks * self.block_columns(workgroup_size, lanes) / columns - 1)
        parts = workgroup_size / _COUNTED
        waves = workgroups * parts / (self._multiprocessors * _AT_ONCE)
        alone, of_lane, of_part = _EXCHANGE[self.element_bytes]
        time += max(waves, 1 / 2) * (alone + of_lane * lanes + of_part * parts)
        if splits > 1:
            time += _COMBINING + _CANDIDATES * splits * columns / 1e6
        return time
