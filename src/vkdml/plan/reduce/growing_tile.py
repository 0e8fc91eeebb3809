"""A tile of short rows or a short stack while it grows, as far as a workgroup has room for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES
from vkdml.plan.reduce.reductions import FOUR
from vkdml.plan.reduce.short_tile import BOX_DIMS, ShortTile, folds_of, pitch_of, tile_of_counts
from vkdml.plan.reduce.tiles_in_place import even_count

# A segment starts and ends within vectors that it may not share with its neighbours.
SEGMENT_MARGIN = 2 * VECTOR_BYTES
# Outputs in an aligned sector of indices.
OUTPUTS_OF_SECTOR = 8


def gap_of(nbytes: int) -> int:
    """Return the most elements between two that are read as one segment."""
    return 2 * SECTOR_BYTES // nbytes


def margin_of(nbytes: int) -> int:
    return SEGMENT_MARGIN // nbytes


@dataclass(frozen=True)
class Room:
    """What a workgroup has for a tile."""

    workgroup_size: int
    elements: int
    """Of shared memory; of each position, if positions have segments of their own."""
    positions_apart: bool
    """Whether positions lie too far apart to be read with all that is between them."""
    is_far: bool
    """Whether outputs side by side lie so far apart in the input that a small tile would have few of them."""


@dataclass
class Box:
    """A tile while it grows."""

    layout: ReduceLayout
    fast: Dim
    """The dimension along which outputs are written side by side."""
    nbytes: int
    packed: bool
    direct: bool
    """Elements are read where they are, not in shared memory."""
    are_dense: bool
    """Narrow rows lie one after the other, so that an invocation may fold four of them."""
    room: Room
    side_by_side: int
    """Outputs along ``fast`` for which room is left, if that is not the input's innermost dimension."""
    extent: int
    """Elements of shared memory that it takes so far, of each position if these are apart."""
    outputs: int
    """How many times as many outputs it may have."""
    counts: dict[Dim, int] = field(default_factory=dict)
    segments_along: Dim | None = None
    shared_pitch: int = 0

    @property
    def _near(self) -> Dim:
        return self.layout.kept[-1]

    @property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.nbytes

    @property
    def _is_complete(self) -> bool:
        """Whether it has all of each dimension that it has a part of."""
        return all(count == dim.size for dim, count in self.counts.items())

    @property
    def _folds(self) -> int:
        """How many outputs, or words of columns, are folded so far."""
        number = prod(self.counts.values())
        return folds_of(number, self.counts.get(self._near, 1), self.nbytes, self.packed)

    def _take(self, dim: Dim, count: int, pitch: int) -> None:
        self.counts[dim] = count
        self.extent += (count - 1) * pitch
        self.outputs = max(self.outputs // count, 1)

    def take_contiguous(self) -> None:
        """Take dimensions from the innermost on, while they are contiguous or nearly so."""
        permuted = self.fast is not self._near
        self.outputs = max(self.outputs // self.side_by_side, 1)
        room = self.room.elements
        if self.side_by_side > 1:
            room = room // self.side_by_side - margin_of(self.nbytes) - self._per_vector
        for dim in reversed(self.layout.kept):
            apart = dim is not self._near and dim.input_stride > self.extent + gap_of(self.nbytes)
            is_for_later = dim is self.fast and self.side_by_side > 1
            if is_for_later or apart or len(self.counts) == BOX_DIMS - permuted:
                return
            count = self._contiguous_count(dim, room)
            self._take(dim, count, dim.input_stride)
            if count < dim.size:
                return

    def _contiguous_count(self, dim: Dim, room: int) -> int:
        """Return how many of a dimension fit so many elements."""
        reach = (dim.size - 1) * dim.input_stride
        # What lies between two positions is read in any case.
        wide = self.room.elements if reach < self.layout.reduced[0].input_stride else room
        fitting = 1 + max(wide - self.extent, 0) // max(dim.input_stride, 1)
        count = max(min(dim.size, fitting, self.outputs), 1)
        if count == dim.size:
            return count
        if self.direct and self.packed:
            return even_count(dim.size, count, self._per_vector)
        in_turn = self.room.workgroup_size * (FOUR if self.are_dense else 1)
        return of_whole_rounds(count, self._folds * self.side_by_side, in_turn, self._per_vector)

    def take_others(self) -> None:
        """Take ``fast``, and the next dimensions while those before are whole; one may be of segments."""
        self.outputs *= self.side_by_side
        while self.segments_along is None and len(self.counts) < BOX_DIMS:
            rest = [dim for dim in self.layout.kept if dim not in self.counts]
            if self.fast in rest:
                self._take_part(self.fast)
            elif rest and self._is_complete:
                self._take_part(rest[-1])
            else:
                return

    def _take_part(self, dim: Dim) -> None:
        """Take as much of a dimension as there is room for."""
        count, room = min(dim.size, self.outputs), self.room.elements
        if dim.input_stride <= self.extent + gap_of(self.nbytes):
            count = min(count, 1 + (room - self.extent) // max(dim.input_stride, 1))
        else:
            least = self.extent + margin_of(self.nbytes)
            self.shared_pitch = pitch_of(least, dim.input_stride, self._per_vector)
            self.segments_along = dim
            count = min(count, room // self.shared_pitch)
        count = max(count, 1)
        if count < dim.size:
            multiple = OUTPUTS_OF_SECTOR if dim is self.fast and dim is not self._near else 1
            count = of_whole_rounds(count, self._folds, self.room.workgroup_size, multiple)
        self._take(dim, count, self.shared_pitch or dim.input_stride)

    def tile(self) -> ShortTile:
        """Return what has grown."""
        positions, extent, position_pitch = self.layout.reduced[0], self.extent, 0
        if self.room.positions_apart and not self.direct:
            least = extent + margin_of(self.nbytes)
            position_pitch = pitch_of(least, positions.input_stride, self._per_vector)
            extent += (positions.size - 1) * position_pitch
        return tile_of_counts(
            self.layout.kept,
            self.counts,
            self.segments_along,
            shared_pitch=self.shared_pitch,
            position_pitch=position_pitch,
            shared_elements=extent + margin_of(self.nbytes) + self._per_vector,
            workgroup_size=self.room.workgroup_size,
        )


def of_whole_rounds(most: int, each: int, workgroup_size: int, multiple: int) -> int:
    """Return which count up to ``most``, of ``each`` outputs, leaves the fewest invocations idle.

    Args:
        most: of an array's dimension, at least 1.
        each: folds of one.
        workgroup_size: invocations, each of which folds in turn.
        multiple: of which the count is, if it is not small.
    """
    if most >= 4 * workgroup_size:
        return most - most % workgroup_size
    multiple = multiple if most >= 2 * multiple else 1
    first = most - most % multiple

    def idle(count: int) -> float:
        return ceil_div(count * each, workgroup_size) * workgroup_size / (count * each)

    return min(range(first, max(first // 2, multiple) - 1, -multiple), key=idle)
