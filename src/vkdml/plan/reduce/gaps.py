"""Reading memory with gaps in periods: whether that is faster than reading what takes part alone, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import Dim, contiguous
from vkdml.plan.plans import GPU_LINE_BYTES, LINE_BYTES, SECTOR_BYTES
from vkdml.plan.reduce.other_ways import OtherWays
from vkdml.plan.reduce.repetition import Repetition, ways_with_gaps

# The most bytes that are read for each byte that is needed, if the nearest elements compete for an output.
_MOST_IN_VAIN = 4.5
# The same if they are out of the order of positions.
_MOST_IN_VAIN_OUT_OF_ORDER = 8
# The same if the nearest elements belong to different outputs.
_MOST_IN_VAIN_OF_OUTPUTS = 1.5
# The same, counted in sectors, if single elements would be read otherwise, of which few share a load.
_MOST_IN_VAIN_SCATTERED = 1.2
# Bytes of needed sectors from which on these are read in periods. Two dispatches take 15 us (H200).
_SCATTERED_FROM = 64 << 20
# The most outputs side by side, and 8-byte positions, of which few share a load.
_FEW_OUTPUTS_BESIDE, _FEW_POSITIONS_BESIDE = 40, 8
# The fewest rows of outputs along several dimensions, with other elements between them, that are reduced to
# one in periods.
_MANY_ROWS_APART = 9000
# Rows of narrow outputs with other elements between these, along one dimension: the fewest that are reduced
# to one in periods, the bytes of needed sectors, and the most bytes from one row to the next if there is one
# matrix of them.
_MANY_NARROW_ROWS, _NARROW_ROWS_FROM, _LONGEST_NARROW_ROW = 1900, 32 << 20, 1860
# The fewest positions of a column if rows are out of order. With fewer, reading them as rows is faster.
_FEWEST_POSITIONS_OF_ROWS = 128
# How many times `gaps_from_bytes` are needed: of 8-byte elements, and if only stretches are apart.
_WIDEST_FROM, _STRETCHES_FROM = 4, 16
# If the innermost positions lie nearest to each other and are adjacent: the most bytes of a row, with the
# gaps that are read for it. Longer rows are read as rows.
_ROW_AND_GAP_BYTES = 4096
# If they are not adjacent: the most of them. More are read one by one.
_FEW_NEAREST = 1200
# Bytes that a processor reads in the time of one element that is read by itself: near the one before, or far
# from it.
_BYTES_PER_ELEMENT = (4, 8)
# The same in the time that it takes to begin a row, and to combine a column.
_BYTES_PER_ROW, _BYTES_PER_COLUMN = 300, 300
# The fewest bytes of a column of parts. With fewer, its candidate takes longer than reading the gaps.
# _COLUMN_OF_OUTPUTS_BYTES: outputs lie nearest. _COLUMN_BYTES: elements that compete for an output do.
# _COLUMN_OF_ROWS_BYTES: these are the innermost positions, too.
_COLUMN_OF_OUTPUTS_BYTES, _COLUMN_BYTES, _COLUMN_OF_ROWS_BYTES = 1200, 600, 300
# The fewest bytes of runs that are read as rows rather than with the gaps between them.
_LONG_RUN_OF_BYTES = 4096
# Bytes of the longest part of wide elements if outputs lie nearest.
_SHORT_PART_BYTES = 256
# The most positions along the innermost dimension, by whether outputs lie nearest and positions are in the
# order of memory, with which elements of several dimensions are slow to read by themselves; none: always.
_FEW_POSITIONS = {(False, False): None, (False, True): 20, (True, False): 8, (True, True): 10}
# Bytes that a GPU reads in the time of such an element, by whether outputs lie nearest and positions are in
# the order of memory; and of 8-byte elements that are.
_BYTES_PER_SLOW_ELEMENT = {(False, False): 35, (False, True): 35, (True, False): 17, (True, True): 10}
_BYTES_PER_SLOW_WIDE_ELEMENT = 47
# Parts of blocks take so many times as long as the model says, and in addition as long as to read so much.
_PARTS_TIMES, _PARTS_BYTES = 1.15, 50_000_000
# Of the time of elements, the most that they may be expected to take.
_WORTHWHILE_SHARE = 0.9
# The most bytes that parts of other wide elements read for each byte of the sectors that are needed: if rows
# or vectors would be read otherwise, and if single elements would be.
_MOST_IN_VAIN_OF_PARTS, _MOST_IN_VAIN_OF_SINGLE_PARTS = 2, 3


@dataclass(frozen=True)
class Gaps:
    """The ways to read a reduction in periods whose blocks have gaps, or have gaps between them."""

    others: OtherWays

    @cached_property
    def fastest(self) -> Repetition | None:
        """The fastest way, if it takes less time than other kernels."""
        is_faster = self._is_faster_to_processors if self._is_processor else self._is_faster
        if self._is_processor or self.others.runs is None:
            return self.fastest_of(self.ways) if any(map(is_faster, self.ways)) else None
        if not self.ways:
            return None
        # If a GPU would read rows instead, it is not enough that another way is faster than these.
        fastest = self.fastest_of(self.ways)
        if self._are_long_runs_of_bytes and not fastest.part:
            return None
        return fastest if is_faster(fastest) else None

    @property
    def _are_long_runs_of_bytes(self) -> bool:
        """Whether the single bytes of an output lie in long runs, which a GPU reads faster as rows.

        They take 0.59 to 1.12 of the time so, 0.83 in the mean of 60 shapes (H200). Halves take 0.55 to 2.49,
        1.02 in the mean, and wide elements as long.
        """
        order = self.others.layout.memory_order
        return self._nbytes == 1 and order is not None and contiguous(order.dims)[0] >= _LONG_RUN_OF_BYTES

    @cached_property
    def ways(self) -> tuple[Repetition, ...]:
        """All ways, the slow ones, too."""
        layout, element, input_bytes = self.others.layout, self.others.element, self.others.input_bytes
        return tuple(ways_with_gaps(layout, element, input_bytes, unaligned=not self._is_processor))

    @property
    def instead_of_elements(self) -> Repetition | None:
        """The fastest way if a GPU reads it faster than elements of several dimensions by themselves.

        It takes 0.12 to 1.06 of the time, 0.47 in the mean (58 of 198 windows of 512 MiB, H200).
        """
        each = self._bytes_per_slow_element
        if not each or not self.ways:
            return None
        fastest = self.fastest_of(self.ways)
        time = _PARTS_TIMES * fastest.time(self._nbytes, is_processor=False) + _PARTS_BYTES
        return fastest if time <= _WORTHWHILE_SHARE * each * fastest.elements else None

    @property
    def _bytes_per_slow_element(self) -> int:
        """How much a GPU reads in the time of an element by itself; 0 where this is not slow."""
        if self._is_processor or len(self._reduced) < 2:
            return 0
        nearest, nearest_output = self.others.nearest
        last = self._reduced[-1]
        order = nearest_output < nearest, abs(last.input_stride) == nearest
        few = _FEW_POSITIONS[order]
        if few is not None and last.size > few:
            return 0
        if all(order):
            return _BYTES_PER_SLOW_ELEMENT[order] if self.others.is_narrow else 0
        is_wide_in_order = self._nbytes == 8 and order[1]
        return _BYTES_PER_SLOW_WIDE_ELEMENT if is_wide_in_order else _BYTES_PER_SLOW_ELEMENT[order]

    def fastest_of(self, ways: Iterable[Repetition]) -> Repetition:
        """Return the one that is expected to take the least time."""
        return min(ways, key=lambda way: way.time(self._nbytes, is_processor=self._is_processor))

    @property
    def _is_processor(self) -> bool:
        return self.others.limits.tuning.is_processor

    @property
    def _nbytes(self) -> int:
        return self.others.element.nbytes

    @property
    def _reduced(self) -> tuple[Dim, ...]:
        return self.others.layout.reduced

    @property
    def _from_bytes(self) -> int:
        return self.others.limits.tuning.periods.gaps_from_bytes

    def _needed_bytes(self, way: Repetition, piece: int) -> int:
        """Return the bytes of the pieces of memory, each of so many, that hold what takes part."""
        return way.elements * min(min(self.others.nearest) * self._nbytes, piece)

    def _is_faster(self, way: Repetition) -> bool:
        """Whether a GPU reads memory faster so than by kernels that read what takes part alone.

        What :meth:`_are_scattered`, :meth:`_are_many_rows` and :meth:`_are_narrow_rows` say takes 0.14 to 1.2
        of the time (H200, 150 windows of 512 MiB).
        """
        sector_bytes = way.sector_bytes(self._nbytes)
        in_vain = way.read_bytes(self._nbytes) / sector_bytes
        is_dense = sector_bytes >= _SCATTERED_FROM and in_vain <= _MOST_IN_VAIN_SCATTERED
        if is_dense and (self._are_scattered or self._are_many_rows):
            return True
        if (
            sector_bytes >= _NARROW_ROWS_FROM
            and in_vain <= _MOST_IN_VAIN_OF_OUTPUTS
            and self._are_narrow_rows
        ):
            return True
        return self._are_parts_faster(way) if way.part else self._is_whole_faster(way)

    @cached_property
    def _are_scattered(self) -> bool:
        """Whether single elements of several dimensions would be read, of which few share a load."""
        nearest, nearest_output = self.others.nearest
        share_sectors = 2 * min(nearest, nearest_output) * self._nbytes <= SECTOR_BYTES
        if len(self._reduced) < 2 or not (share_sectors and self.others.are_elements):
            return False
        if nearest_output < nearest:
            return self._outputs_beside <= _FEW_OUTPUTS_BESIDE
        return self._nbytes == 8 and self._reduced[-1].size <= _FEW_POSITIONS_BESIDE

    @property
    def _outputs_beside(self) -> int:
        """How many outputs have elements beside each other, with less than a sector between two of them."""
        number, extent = 1, 1
        for dim in reversed(self.others.layout.kept):
            if (dim.input_stride - extent) * self._nbytes >= SECTOR_BYTES:
                break
            number *= dim.size
            extent += (dim.size - 1) * dim.input_stride
        return number

    @cached_property
    def _are_many_rows(self) -> bool:
        """Whether many rows of outputs along several dimensions, read in vectors, would be reduced to one."""
        others = self.others
        if len(self._reduced) < 2 or others.layout.reduce_count < _MANY_ROWS_APART:
            return False
        return others.runs is None and not others.are_elements

    @cached_property
    def _are_narrow_rows(self) -> bool:
        """Whether many rows of narrow outputs would be read element by element and reduced to one."""
        rows, kept = self._reduced[0], self.others.layout.kept
        are_many = len(self._reduced) == 1 and rows.size >= _MANY_NARROW_ROWS
        are_nearest = self.others.nearest[1] <= rows.input_stride
        if not (self.others.is_narrow and are_many and are_nearest and self.others.are_elements):
            return False
        row_bytes = rows.input_stride * self._nbytes
        if any(dim.input_stride > rows.input_stride for dim in kept):
            return row_bytes <= GPU_LINE_BYTES
        return row_bytes <= _LONGEST_NARROW_ROW or (self._nbytes == 1 and row_bytes % GPU_LINE_BYTES == 0)

    def _is_whole_faster(self, way: Repetition) -> bool:
        """Whether a GPU reads whole blocks faster than element by element, or in short rows.

        It does where positions lie in another order than memory (0.01 to 0.96 of the time, H100), where the
        nearest ones are few (0.08 to 0.93), and where outputs lie nearest and little is read in vain (0.12 to
        1.04). One reduced dimension takes as long or longer so.
        """
        reduced, nbytes = self._reduced, self._nbytes
        nearest, nearest_output = self.others.nearest
        if len(reduced) < 2:
            return False
        needed = self._needed_bytes(way, SECTOR_BYTES)
        times = _WIDEST_FROM if nbytes == 8 else 1 if way.has_gaps else _STRETCHES_FROM
        if needed < times * self._from_bytes or not (way.has_gaps or self.others.is_narrow):
            return False
        in_vain = way.read * nbytes / needed
        if nearest_output < nearest:
            return in_vain <= _MOST_IN_VAIN_OF_OUTPUTS
        last = reduced[-1]
        if abs(last.input_stride) != nearest:
            if in_vain > _MOST_IN_VAIN_OUT_OF_ORDER:
                return False
            is_whole = nearest > 1 or not self.others.layout.kept
            return is_whole or way.elements >= _FEWEST_POSITIONS_OF_ROWS * way.columns
        if nearest == 1:
            return last.size * nbytes * in_vain <= _ROW_AND_GAP_BYTES
        return nbytes < 8 and last.size <= _FEW_NEAREST and in_vain <= _MOST_IN_VAIN

    def _are_parts_faster(self, way: Repetition) -> bool:
        """Whether a GPU reads parts of blocks faster than what takes part alone.

        It does if short pieces lie near each other, and if columns have many positions (0.15 to 0.97 of the
        time, H100). Columns of wide elements, and long rows, take as long or longer so.
        """
        reduced, nbytes = self._reduced, self._nbytes
        nearest, nearest_output = self.others.nearest
        column_bytes = way.size * nbytes
        needed = self._needed_bytes(way, SECTOR_BYTES)
        if needed < self._from_bytes or way.block * nbytes <= SECTOR_BYTES:
            return False
        if nearest_output < nearest:
            if self.others.is_narrow:
                are_pieces = len(reduced) > 1 or nearest_output == 1
            else:
                are_pieces = nearest_output == 1 and way.part * nbytes <= _SHORT_PART_BYTES
            least = _COLUMN_OF_OUTPUTS_BYTES * (2 if nbytes == 8 else 1)
            return are_pieces and column_bytes >= least
        if len(reduced) < 2 or nearest * nbytes > SECTOR_BYTES:
            return False
        most = _MOST_IN_VAIN_OF_SINGLE_PARTS if self.others.are_elements else _MOST_IN_VAIN_OF_PARTS
        if not self.others.is_narrow and way.read_bytes(nbytes) > most * way.sector_bytes(nbytes):
            return False
        innermost = min(reduced, key=lambda dim: abs(dim.input_stride))
        if nearest == 1 and innermost.size * nbytes > _ROW_AND_GAP_BYTES:
            return False
        if innermost is not reduced[-1]:
            return column_bytes >= _COLUMN_BYTES
        are_few = nearest == 1 or (nbytes < 8 and innermost.size <= _FEW_NEAREST)
        return are_few and column_bytes >= _COLUMN_OF_ROWS_BYTES

    def _is_faster_to_processors(self, way: Repetition) -> bool:
        """Whether a processor reads blocks with gaps faster so than element by element.

        An element takes 2 ns by itself, 25 ns more to find in rows of up to eight, and less in longer ones
        (lavapipe). In that time it reads as many bytes as the numbers at the top of this file say.
        """
        reduced, nbytes = self._reduced, self._nbytes
        nearest, nearest_output = self.others.nearest
        if not way.has_gaps or self._needed_bytes(way, LINE_BYTES) < self._from_bytes:
            return False
        # Outputs side by side are loaded in vectors.
        if nearest_output == 1 or (len(reduced) == 1 and nearest_output < nearest):
            return False
        last, step = reduced[-1], abs(reduced[-1].input_stride)
        # Adjacent elements are loaded in vectors, too.
        by_itself = nbytes if step == 1 else _BYTES_PER_ELEMENT[step * nbytes >= LINE_BYTES]
        worth = by_itself + _BYTES_PER_ROW / max(last.size, 8)
        return way.read_bytes(nbytes) + _BYTES_PER_COLUMN * way.columns <= worth * way.elements
