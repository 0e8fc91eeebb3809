"""Whether workgroups that follow each other have shares of different parts of a copy's output.

Parts whose short rows lie side by side in the input read the same memory, such as those of
``x.transpose(1, 0, 2)``. So do parts that overlap, such as those of an array that is repeated. Copied one
after the other, each reads it anew, since no cache holds all that a part reads. Workgroups that follow each
other run at the same time, or soon after each other; if they take turns in the parts, a cache holds what
these share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.plan.layout import CopyLayout, span_of
from vkdml.plan.plans import SECTOR_BYTES, DeviceLimits
from vkdml.plan.tuning import TurnTuning

# GPUs read this much of their memory at least, and processors a line.
_READ_BYTES = 2 * SECTOR_BYTES
# Rows of whole reads share none. From so many parts on they are faster in turn all the same, if they are one
# read long: 0.81 to 0.97 of the time (H200).
_PARTS_OF_WHOLE_READS = 8
# More parts in turn take up to 1.05 times as long (H200).
_MOST_PARTS = 8
# Of so few parts, rows of any elements are gathered in turn faster than boxes copy them.
_FEW_PARTS = 4
# By element width, bytes of rows whose elements lie apart, from which on they are, of any number of parts;
# and the most bytes of such rows of narrow elements.
_LEAST_SPREAD_BYTES = {2: 8, 8: 32}
_MOST_NARROW_SPREAD_BYTES = 64
# Of a part. Workgroups that run at the same time have the whole of smaller ones.
_LEAST_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Turns:
    """Of how many parts workgroups have shares in turn, and how many parts the output has."""

    in_turn: int = 1
    parts: int = 1

    @property
    def constants(self) -> dict[str, int]:
        return {"parts_in_turn": self.in_turn}

    def push(self, shares: int) -> dict[str, int]:
        """Return the push constants of a copy whose workgroups have so many shares of the output."""
        return {"shares_in_turn": max(shares // self.parts, 1)}


IN_ORDER = Turns()
"""Workgroups have one share of the output after the other."""


def turns_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Turns:
    """Return the turns of a copy into one run.

    A part is one coordinate of the dimension along which what is copied lies nearest in the input.

    >>> from vkdml.plan.device_classes import DISCRETE
    >>> from vkdml.plan.layout import Dim
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> dims = Dim(3, 12, 12_000_000), Dim(1_000_000, 36, 12), Dim(12, 1, 1)
    >>> turns_of(CopyLayout(dims, 0, 0), 4, limits)
    Turns(in_turn=3, parts=3)
    """
    dims, tuning = layout.dims, limits.tuning.slice1.turns
    if tuning is None:
        return IN_ORDER
    beside = [place for place, dim in enumerate(dims) if abs(dim.input_stride) < span_of(dims[place + 1 :])]
    place = min(beside, key=lambda place: abs(dims[place].input_stride), default=None)
    if place is None or span_of(dims[place:]) * element_bytes < tuning.from_bytes:
        return IN_ORDER
    all_parts = math.prod(dim.size for dim in dims[: place + 1])
    is_large = layout.count // all_parts * element_bytes >= _LEAST_PART_BYTES
    parts = dims[place].size
    fewest, most = tuning.parts
    if not (is_large and fewest <= parts <= most and _share_reads(layout, place, element_bytes, tuning)):
        return IN_ORDER
    in_turn = max(range(2, min(parts, _MOST_PARTS) + 1), key=lambda n: parts // n * (n - 1))
    return Turns(in_turn, all_parts)


def are_few_rows_in_turn(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether workgroups take turns in few parts, in rows of adjacent elements.

    Rows of adjacent narrow elements take 0.47 to 0.83 of the time of boxes, others 0.83 to 1.04 (H200, 208
    copies of 2 to 4 parts).
    """
    is_adjacent = abs(layout.dims[-1].input_stride) == 1
    return is_adjacent and 1 < turns_of(layout, element_bytes, limits).in_turn <= _FEW_PARTS


def are_spread_rows_in_turn(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Whether workgroups take turns so that rows are faster than boxes though their elements lie apart.

    That is so where no other dimension shares reads than the one of the parts: bytes take 0.84 of the time of
    boxes (33 copies on an H200, 0.50 to 1.23), halves 0.84 (32, 0.62 to 1.58), 8 bytes 0.78 (14, 0.53 to
    0.98).
    """
    in_turn = turns_of(layout, element_bytes, limits).in_turn
    row_bytes = layout.dims[-1].size * element_bytes
    if in_turn < 2 or element_bytes == 4:
        return False
    if element_bytes < 4 and row_bytes > _MOST_NARROW_SPREAD_BYTES:
        return False
    if element_bytes < 4 and in_turn <= _FEW_PARTS:
        return True
    least = _LEAST_SPREAD_BYTES.get(element_bytes)
    return least is not None and row_bytes >= least


def _share_reads(layout: CopyLayout, place: int, element_bytes: int, tuning: TurnTuning) -> bool:
    """Whether most reads of a part are of memory that the next part along the dimension reads, too."""
    inner, pitch = layout.dims[place + 1 :], abs(layout.dims[place].input_stride)
    row = span_of([dim for dim in inner if abs(dim.input_stride) <= pitch])
    if row > pitch:  # The parts overlap.
        return True
    starts = layout.input_base, *(dim.input_stride for dim in layout.dims if abs(dim.input_stride) >= pitch)
    if any(elements * element_bytes % _READ_BYTES for elements in (row, *starts)):
        longest = tuning.longest_row_of_bytes if element_bytes == 1 else tuning.longest_row_bytes
        return row * element_bytes <= longest
    return row * element_bytes == _READ_BYTES and layout.dims[place].size >= _PARTS_OF_WHOLE_READS
