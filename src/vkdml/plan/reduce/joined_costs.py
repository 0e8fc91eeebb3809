"""How long a GPU takes to reduce joined columns, by how the work is divided: a model fitted to measurements.

Its unit is the load of one vector of 16 bytes by each invocation of ``Tuning.columns_workgroups / 2``
workgroups, as in ``column_costs.py``. The figures below come from 680 shapes of 8 MiB to 1 GiB, each divided
in up to 29 ways, on an H200. What the model chooses takes 1.023 of the time of the best of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan.plans import SECTOR_BYTES
from vkdml.plan.reduce.column_costs import CACHED_LOADS, load_bytes, most_at_once
from vkdml.plan.tuning import Tuning

# By the bytes of an element, the share of `columns_workgroups` that run at once with the registers they take.
_AT_ONCE = {1: 1 / 4, 2: 3 / 8, 4: 1 / 2, 8: 1 / 2}
# The share that reaches the memory's rate with loads that start at any element. Any share reaches a cache's.
_ENOUGH_UNALIGNED = 0.38
# Loads: how long an invocation waits for one of its own, how much longer if that starts at any element, and
# how long it takes to begin an innermost dimension.
_OWN_LOAD = 0.35
_UNALIGNED_LOAD = 0.14
_INNERMOST = 0.2
# Loads: to start a workgroup and to join its columns, and for each step of the exchange of its invocations.
_WORKGROUP = 8
_EXCHANGE_STEP = 1
# Loads: to start as many workgroups as run at the same time in the best case.
_START = 12
# Loads: to combine splits, for each of them, and for each candidate.
_COMBINING = 3.5
_COMBINING_SPLIT = 0.02
_COMBINING_CANDIDATE = 0.00027
# Pieces of memory take as long as if they had so many bytes more.
_BEYOND_PIECE = 50


@dataclass(frozen=True)
class Loads:
    """How a workgroup loads its columns."""

    is_aligned: bool
    """Whether all loads are of aligned vectors."""
    busy: float
    """Share of the invocations that have columns."""
    adjacent_bytes: int
    """Side by side in memory, that are loaded at the same time."""


@dataclass(frozen=True)
class JoinedWork:
    """A reduction of joined columns."""

    element_bytes: int
    elements: int
    outputs: int
    innermost: int
    """Positions of the innermost of several folded dimensions; 0 if there is one."""
    workgroup_size: int
    tuning: Tuning

    @cached_property
    def at_once(self) -> int:
        """Workgroups that run at the same time."""
        return max(int(self.tuning.columns_workgroups * _AT_ONCE[self.element_bytes]), 1)

    @cached_property
    def _loads(self) -> float:
        """Loads that the elements are, if nothing else takes time."""
        return self.elements * self.element_bytes / load_bytes(self.workgroup_size, self.tuning)

    def time(self, lanes: int, splits: int, blocks: int, share: int, loads: Loads) -> float:
        """Return how long a division takes, in loads.

        Args:
            lanes: that share the positions of a column.
            splits: of the positions.
            blocks: workgroups of each split.
            share: positions of a split.
            loads: of a workgroup.
        """
        workgroups, own = blocks * splits, ceil_div(share, lanes)
        together = min(workgroups, self.at_once)
        time = _WORKGROUP + own * (_OWN_LOAD if loads.is_aligned else _OWN_LOAD + _UNALIGNED_LOAD)
        if self.innermost:
            time += _INNERMOST * (max(share / self.innermost, 1) if lanes <= self.innermost else own)
        time += _EXCHANGE_STEP * math.log2(lanes)
        time *= ceil_div(workgroups, self.at_once)
        memory = self._loads * (1 + _BEYOND_PIECE / max(loads.adjacent_bytes, SECTOR_BYTES))
        if not loads.is_aligned and self._loads >= CACHED_LOADS:
            enough = self.tuning.columns_workgroups * _ENOUGH_UNALIGNED
            memory *= max(1, enough / (together * loads.busy))
        # The longer of both decides; the other one hardly counts.
        time = math.sqrt(math.hypot(time * time, memory * memory))
        time += _START * min(workgroups / most_at_once(self.tuning), 1)
        if splits > 1:
            time += _COMBINING + splits * (_COMBINING_SPLIT + _COMBINING_CANDIDATE * self.outputs)
        return time
