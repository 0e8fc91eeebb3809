"""Columns in rows shorter than a line of a GPU's memory: which lanes had better read which positions.

The rows of neighbouring positions share lines there. Lanes that read such rows at the same time need each
line once; a lane that reads them one after another may need it again. 132 random shapes that this changed
take 0.86 of the time (H200). The numbers below are fitted to 500 shapes on that card.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import Dim
from vkdml.plan.plans import GPU_LINE_BYTES

# ---- The innermost dimension of positions lies far apart, and the next one, beside it, near. ----

# From so many positions along the near dimension on, so many lanes for each group.
_LANES_BESIDE = ((24, 8), (5, 4), (3, 2))
_LANES_BESIDE_OF_ELEMENTS = ((128, 16), (24, 8), (4, 2))
# One lane takes a far dimension of so many positions at most: there are too few lanes for longer ones.
_MOST_ACROSS = 256
# With fewer positions along both dimensions one lane reads them in turn: of wide elements, and of these for
# each 8 bytes of a row.
_FEWEST_WIDE, _FEWEST_WIDE_OF_8_BYTES = 12, 3
# Of bytes and halves, in rows of one vector, and of several.
_FEWEST_NARROW, _FEWEST_NARROW_OF_SEVERAL = 12, 64
# Of bytes, along the near dimension alone.
_FEWEST_BYTES_BESIDE = 12
# Of elements that are loaded one by one, and of these along the far dimension alone.
_FEWEST_ELEMENTS, _FEWEST_ELEMENTS_ACROSS = 48, 4
# Of these in inputs of less than so many bytes, along the near dimension alone.
_SMALL_BYTES, _FEWEST_ELEMENTS_OF_SMALL = 96 << 20, 24
# From so many positions along the near dimension on, neighbouring lanes read neighbouring positions.
_FEWEST_ADJACENT_BESIDE = 12

# ---- The innermost dimension is the near one: neighbouring lanes read neighbouring positions. ----

# From so many positions of each lane on, in rows of one vector, and of several.
_FEWEST_OF_LANE, _FEWEST_OF_LANE_OF_SEVERAL = 4, 16
# In rows of several vectors, from so many positions on.
_FEWEST_OF_SEVERAL = 64
# And in rows of up to so many bytes, by element width.
_LONGEST_ROW = {1: 0, 2: 64, 4: GPU_LINE_BYTES, 8: GPU_LINE_BYTES}
# Not with so many positions in inputs of fewer bytes: these have few groups of many lanes.
_MANY, _LARGE_BYTES = 2500, 128 << 20


@dataclass(frozen=True)
class NearColumns:
    """Columns that a GPU reads, as far as it matters here."""

    reduced: tuple[Dim, ...]
    nbytes: int
    """Of an element."""
    row: int
    """Elements side by side that belong to different outputs."""
    per_group: int
    """Elements that an invocation loads together: a vector, or 1."""
    input_bytes: int

    @property
    def _has_several(self) -> bool:
        """Whether a row has several vectors."""
        return self.row > self.per_group

    def _is_near(self, dim: Dim) -> bool:
        return 0 < abs(dim.input_stride) * self.nbytes < GPU_LINE_BYTES

    @cached_property
    def beside(self) -> int:
        """Positions near each other along the dimension next to an innermost one that lies far apart.

        If each lane takes a whole innermost dimension, lanes together read what is near. 0 if there are none,
        or if they are too few for that.
        """
        if len(self.reduced) < 2:
            return 0
        near, innermost = self.reduced[-2:]
        if not self._is_near(near) or self._is_near(innermost) or innermost.size > _MOST_ACROSS:
            return 0
        return near.size if self._are_enough(near.size, innermost.size) else 0

    def _are_enough(self, near: int, across: int) -> bool:
        if self.per_group == 1:
            is_small = self.input_bytes < _SMALL_BYTES and near < _FEWEST_ELEMENTS_OF_SMALL
            return near * across >= _FEWEST_ELEMENTS and across >= _FEWEST_ELEMENTS_ACROSS and not is_small
        if self.nbytes >= 4:
            return near * across >= max(_FEWEST_WIDE, self.row * self.nbytes // 8 * _FEWEST_WIDE_OF_8_BYTES)
        if self.nbytes == 1 and near < _FEWEST_BYTES_BESIDE:
            return False
        return near * across >= (_FEWEST_NARROW_OF_SEVERAL if self._has_several else _FEWEST_NARROW)

    @property
    def fewest_lanes(self) -> int:
        """Lanes of a group that read together what is near."""
        choices = _LANES_BESIDE_OF_ELEMENTS if self.per_group == 1 else _LANES_BESIDE
        return next((lanes for least, lanes in choices if self.beside >= least), 1)

    def are_adjacent(self, lanes: int, *, whole_segments: bool) -> bool:
        """Tell whether neighbouring invocations had better read neighbouring positions.

        Args:
            lanes: that share the positions of a group.
            whole_segments: whether each takes a whole innermost dimension.
        """
        if self.beside:
            if not whole_segments:
                return False
            is_vector = self.nbytes > 1 and not self._has_several and self.beside >= _FEWEST_ADJACENT_BESIDE
            return is_vector or self.per_group == 1
        if self.per_group == 1:
            return False
        size = self.reduced[-1].size
        if lanes == 1 or whole_segments or not self._is_near(self.reduced[-1]):
            return False
        if size >= _MANY and self.input_bytes < _LARGE_BYTES:
            return False
        if self._has_several:
            if self.row * self.nbytes > _LONGEST_ROW[self.nbytes]:
                return False
            return size >= max(_FEWEST_OF_SEVERAL, lanes * _FEWEST_OF_LANE_OF_SEVERAL)
        return self.nbytes >= 4 and size >= lanes * _FEWEST_OF_LANE
