"""Which way to read elements along several dimensions takes a GPU the least time: a model of it.

Its unit is the time in which a GPU reads four bytes. There are three ways: one element after the other, run
after run (``argreduce_rows``), or in tiles that are copied to shared memory and walked there
(``argreduce_short``). The figures come from 330 shapes of 8 to 512 MiB, each read in all three ways on two
GPUs (H100, H200). What the model chooses takes 0.83 of the time of the first way, and 1.05 of the best.
They are in ``bench/results/before_after/nvidia-several-places.json``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import SECTOR_BYTES

# Up to so many elements along the innermost dimension are loaded together, which takes so long for all of
# them. Longer dimensions do not let an invocation wait.
_AT_ONCE = 8
_WAIT = 9
# An element out of the order of memory takes at least so long if all of them are more than a cache holds.
_OUT_OF_ORDER = 2
_FEWEST_BYTES_OUT_OF_CACHE = 96 << 20
# It takes longer for each byte of an output's sectors above so many, until each element reads a sector anew.
_CACHED_BYTES = 140
_NOT_CACHED_PER_BYTE = 1 / 20
_NOT_CACHED = 13
# Rows: a run of so many bytes reaches so large a share of the memory's rate.
_RATE_OF_RUN_BYTE = 1 / 100
# Tiles: the share of it for outputs of few bytes. An invocation walks alone: more bytes take it longer each.
_RATE_OF_TILES = 0.62
_SHORT_WALK_BYTES, _LONG_WALK = 180, 0.55
# Outputs in another order than their elements take so many times as long: a tile is divided along both.
_OTHER_ORDER = 1.3
# Outputs of more bytes are not walked. If less is read in all, a cache holds it, in any order.
_LONGEST_WALK_BYTES = 640
_FEWEST_BYTES = 80 << 20


@dataclass(frozen=True)
class ElementCosts:
    """What reading an element takes, if the nearest elements compete for one output, along several axes."""

    layout: ReduceLayout
    nbytes: int

    @property
    def is_walked(self) -> bool:
        """Whether walking in tiles takes the least time."""
        return self._is_modelled and self._walking < min(self._one_by_one, self._in_rows)

    @property
    def is_in_rows(self) -> bool:
        """Whether reading runs takes less time than reading their elements one after the other."""
        return self._is_modelled and self._in_rows < self._one_by_one

    @property
    def _is_modelled(self) -> bool:
        others = (abs(dim.input_stride) for dim in self.layout.kept if dim.input_stride)
        is_nearest = all(self._nearest < stride for stride in others)
        read = self._outputs * self._output_bytes
        return len(self.layout.reduced) > 1 and is_nearest and read >= _FEWEST_BYTES

    @cached_property
    def _outputs(self) -> int:
        """How many have elements of their own: others repeat these."""
        return math.prod(dim.size for dim in self.layout.kept if dim.input_stride)

    @cached_property
    def _nearest(self) -> int:
        """Elements of memory from one that competes for an output to the nearest other."""
        return min(abs(dim.input_stride) for dim in self.layout.reduced)

    @property
    def _element_bytes(self) -> int:
        """What is read of memory for each element."""
        return min(self._nearest * self.nbytes, SECTOR_BYTES)

    @property
    def _output_bytes(self) -> int:
        """The same for all that compete for an output."""
        return self.layout.reduce_count * self._element_bytes

    @property
    def _is_out_of_order(self) -> bool:
        """Whether more is read than a cache holds before the next element of the same sector."""
        needed = self._outputs * self.layout.reduce_count * self.nbytes
        innermost = abs(self.layout.reduced[-1].input_stride)
        return innermost != self._nearest and needed >= _FEWEST_BYTES_OUT_OF_CACHE

    @property
    def _one_by_one(self) -> float:
        innermost = self.layout.reduced[-1].size
        waiting = _WAIT / innermost if innermost <= _AT_ONCE else 0
        if not self._is_out_of_order:
            return waiting
        not_cached = (self._output_bytes - _CACHED_BYTES) * _NOT_CACHED_PER_BYTE
        return max(waiting, _OUT_OF_ORDER, min(not_cached, _NOT_CACHED))

    @property
    def _in_rows(self) -> float:
        order = self.layout.reading_order
        if not (order.run_dims and self._is_out_of_order and self._output_bytes >= _CACHED_BYTES):
            return math.inf
        return self._element_bytes / 4 / min(order.run_length * self.nbytes * _RATE_OF_RUN_BYTE, 1)

    @property
    def _walking(self) -> float:
        walk_bytes = self.layout.reduce_count * self.nbytes
        if walk_bytes > _LONGEST_WALK_BYTES:
            return math.inf
        longer = math.pow(max(walk_bytes / _SHORT_WALK_BYTES, 1), _LONG_WALK)
        order = 1 if self.layout.outputs_follow_input else _OTHER_ORDER
        return self._element_bytes / 4 * longer * order / _RATE_OF_TILES
