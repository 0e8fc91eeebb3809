"""Columns in rows shorter than a line of a GPU's memory: which lanes had better read which positions.

The rows of neighbouring positions share lines there. So lanes that read those at the same time, and not one
after another, need each line once. Of 300 random shapes that this changes, with one to three reduced
dimensions, columns take 0.80 of the time on average (H200).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import Dim
from vkdml.plan.plans import GPU_LINE

# Lanes of a group whose innermost dimension lies far apart, by the positions along the next one: from so many
# on. Vectors and single elements.
_LANES = ((24, 8), (5, 4), (3, 2))
_LANES_OF_ELEMENTS = ((128, 16), (24, 8), (4, 2))
# Fewer positions of both dimensions together are read as they come: of words, and for each 8 bytes of a row;
# of what is narrower, and of that in rows of several vectors; of bytes, along the near dimension alone.
_FEWEST, _FEWEST_OF_8_BYTES = 12, 3
_FEWEST_NARROW, _FEWEST_NARROW_IN_ROW, _FEWEST_BYTES = 12, 64, 12
# The same of single elements, along the far dimension alone, and where they are few: along the near one.
_FEWEST_ELEMENTS, _FEWEST_ELEMENTS_ACROSS, _FEWEST_IN_SMALL = 48, 4, 24
_SMALL_BYTES = 96 << 20
# From so many positions along the near dimension on, neighbouring lanes read neighbouring ones.
_FEWEST_ADJACENT = 12
# The same of columns whose innermost dimension is the near one: positions of each lane, and of all, if rows
# are of one vector or of several. Of more positions than the last number, inputs of fewer bytes are divided
# among few groups of many lanes, which take longer so.
_FEWEST_OF_LANE, _FEWEST_OF_LANE_IN_ROW, _FEWEST_IN_ROW, _MANY = 4, 16, 64, 2500
_LARGE_BYTES = 128 << 20
# Bytes of the longest rows of several vectors that are read so, by element width.
_LONGEST_ROW = {1: 0, 2: 64, 4: GPU_LINE, 8: GPU_LINE}


@dataclass(frozen=True)
class NearColumns:
    """Columns that a GPU reads, as far as it matters here."""

    reduced: tuple[Dim, ...]
    nbytes: int
    """Of an element."""
    row: int
    """Elements side by side that belong to different outputs."""
    per_group: int
    """Of these, those that an invocation loads together."""
    input_bytes: int

    @property
    def _is_in_row(self) -> bool:
        return self.row > self.per_group

    def _is_near(self, dim: Dim) -> bool:
        return 0 < abs(dim.input_stride) * self.nbytes < GPU_LINE

    @cached_property
    def beside(self) -> int:
        """Positions near each other along the dimension next to an innermost one that lies far apart.

        If each lane takes a whole innermost dimension, lanes together read what is near. 0 if there are none,
        or if they are too few for that.
        """
        if len(self.reduced) < 2:
            return 0
        near, innermost = self.reduced[-2:]
        if not self._is_near(near) or self._is_near(innermost):
            return 0
        return near.size if self._are_enough(near.size, innermost.size) else 0

    def _are_enough(self, near: int, across: int) -> bool:
        if self.per_group == 1:
            is_small = self.input_bytes < _SMALL_BYTES and near < _FEWEST_IN_SMALL
            return near * across >= _FEWEST_ELEMENTS and across >= _FEWEST_ELEMENTS_ACROSS and not is_small
        if self.nbytes >= 4:
            return near * across >= max(_FEWEST, self.row * self.nbytes // 8 * _FEWEST_OF_8_BYTES)
        if self.nbytes == 1 and near < _FEWEST_BYTES:
            return False
        return near * across >= (_FEWEST_NARROW_IN_ROW if self._is_in_row else _FEWEST_NARROW)

    @property
    def fewest_lanes(self) -> int:
        """Lanes of a group that read together what is near."""
        choices = _LANES_OF_ELEMENTS if self.per_group == 1 else _LANES
        return next((lanes for least, lanes in choices if self.beside >= least), 1)

    def are_adjacent(self, lanes: int, *, whole_segments: bool) -> bool:
        """Tell whether neighbouring invocations had better read neighbouring positions.

        Args:
            lanes: that share the positions of a group.
            whole_segments: whether each takes a whole innermost dimension.
        """
        if self.per_group == 1:
            return self.beside > 0
        if self.beside:
            return self.nbytes > 1 and not self._is_in_row and self.beside >= _FEWEST_ADJACENT
        size = self.reduced[-1].size
        if lanes == 1 or whole_segments or not self._is_near(self.reduced[-1]):
            return False
        if size >= _MANY and self.input_bytes < _LARGE_BYTES:
            return False
        if self._is_in_row:
            if self.row * self.nbytes > _LONGEST_ROW[self.nbytes]:
                return False
            return size >= max(_FEWEST_IN_ROW, lanes * _FEWEST_OF_LANE_IN_ROW)
        return self.nbytes >= 4 and size >= lanes * _FEWEST_OF_LANE
