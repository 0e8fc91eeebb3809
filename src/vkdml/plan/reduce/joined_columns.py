"""Ways to read several columns of one output in vectors: short innermost dimensions, reduced or kept.

Elements that are side by side in memory make a run of columns. In a run one reduced dimension lies inside of
kept dimensions, or a part of one just outside of them, or both: their columns are joined to one output, after
each has been folded over all other positions. So memory is read in vectors where the adjacent elements of an
output, or of adjacent outputs, are too few for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan.layout import Dim, ReduceLayout, contiguous
from vkdml.plan.reduce.reductions import SHORT_ROW_OF_OUTPUTS

# The most vectors of adjacent columns of an output.
_MOST_VECTORS = 40
# The most vectors of a run of copies.
_MOST_COPIED_VECTORS = 10
# Short unaligned rows of outputs are joined if vectors that load them hold so many times as many elements.
_LOADED_IN_VAIN = 1.05
# Copies are joined if joining a whole dimension leaves fewer positions to fold, times the share of
# invocations that are busy then. With as many, joining it takes 0.66 (H100) and 0.59 (H200) of the time.
_MANY_POSITIONS = 16
# Columns of up to so many vectors are joined if that leaves many positions to fold, though vectors are full.
_MOST_FULL_VECTORS = 4
# Fewer columns are joined if that takes at most so many times the fewest loads.
_LOADS_IN_VAIN = 1.1


@dataclass(frozen=True)
class Joined:
    """How the columns of a run belong to outputs."""

    block: int
    """Columns side by side in memory, of whole outputs."""
    joined: int
    """Columns of an output in a block."""
    apart: int
    """Columns from one of these to the next."""
    step: int
    """Positions of the reduced dimensions within the joined one; of two the inner one."""
    folded: tuple[tuple[int, int], ...]
    """Sizes and input strides of the dimensions whose positions each column has."""
    copies: int = 1
    """Blocks of a run, along a part of a reduced dimension."""
    copies_step: int = 1
    """Positions of the reduced dimensions within that one, without the joined one."""
    overlap: int = 0
    """Copies that the last position of the last folded dimension shares with the one before."""
    inner: tuple[int, int] | None = None
    """Where two dimensions are joined, in another order than that of their positions: the columns along the
    inner one, and the positions of the others within the outer one."""

    @property
    def run(self) -> int:
        """Columns side by side in memory."""
        return self.block * self.copies

    @property
    def columns(self) -> int:
        """Columns of an output."""
        return self.joined * self.copies

    @property
    def unit(self) -> int:
        """Columns side by side that are not divided: they hold all columns of their outputs in a run."""
        return self.run if self.copies > 1 else self.joined * self.apart

    @property
    def positions(self) -> int:
        return math.prod(size for size, _ in self.folded)


def joined_columns(layout: ReduceLayout, per_vector: int, most_vectors: int) -> Joined | None:
    """Return how this layout's columns are joined, in runs of a vector or more; None if they are not.

    Args:
        layout: of the reduction.
        per_vector: elements of a vector.
        most_vectors: that the columns of an output may lie in, with the columns between them.

    >>> from vkdml.plan.layout import Dim
    >>> planes = ReduceLayout((Dim(500, 3, 1),), (Dim(40, 1500, 3), Dim(3, 1, 1)), 0, 0, 0, False)
    >>> joined = joined_columns(planes, 16, 128)
    >>> joined.block, joined.joined, joined.apart, joined.step, joined.folded
    (1500, 3, 1, 1, ((40, 1500),))
    """
    apart, in_row = contiguous(layout.kept)
    inside = _dim_at(layout.reduced, apart)
    # Short unaligned rows of outputs are loaded partly in vain, too.
    in_vain = apart <= SHORT_ROW_OF_OUTPUTS and round_up(apart, per_vector) >= apart * _LOADED_IN_VAIN
    are_parts = apart < per_vector or in_vain
    are_few = len(layout.reduced) > 1 and apart <= _MOST_FULL_VECTORS * per_vector
    if inside is None or not (are_parts or are_few):
        return None
    others = (*layout.reduced[:inside], *layout.reduced[inside + 1 :])
    joined, inner = layout.reduced[inside].size, None
    outside = _dim_at(others, apart * joined)
    if outside is not None and apart == 1:
        inner = joined, _positions(others[outside + 1 :])
        joined *= others[outside].size
        others = (*others[:outside], *others[outside + 1 :])
    block, _ = contiguous(layout.kept[: len(layout.kept) - in_row], apart * joined)
    step = _positions(layout.reduced[inside + 1 :])
    whole = Joined(block, joined, apart, step, _folded(others), inner=inner)
    if block == joined:  # rows
        return None
    fits = bool(others) and whole.unit <= _MOST_VECTORS * per_vector
    has_vectors = bool(others) and block >= per_vector
    if apart == 1:
        if has_vectors and fits:
            return whole
        return _copied(whole, others, per_vector) if fits else None
    vectors = ceil_div(whole.unit, per_vector)
    busy = most_vectors // vectors * vectors / most_vectors
    if has_vectors and whole.positions * busy >= _MANY_POSITIONS:
        return whole
    if not are_parts:
        return None
    copied = _copied(Joined(apart, 1, 1, 1, ()), layout.reduced, per_vector)
    return copied or (whole if has_vectors and fits and apart <= per_vector else None)


def _copied(alone: Joined, others: tuple[Dim, ...], per_vector: int) -> Joined | None:
    """Repeat a block along a part of the reduced dimension outside of it, so that few loads are in vain.

    Args:
        alone: the block as it is.
        others: the reduced dimensions, without the joined one.
        per_vector: elements of a vector.
    """
    place = _dim_at(others, alone.block)
    if place is None:
        return None
    size = others[place].size
    most = max(min(size // 2, _MOST_COPIED_VECTORS * per_vector // alone.block), 1)
    may_overlap = place == len(others) - 1
    choices = [
        copies
        for copies in range(ceil_div(per_vector, alone.block), most + 1)
        if may_overlap or size % copies == 0
    ]

    def loads(copies: int) -> int:
        return ceil_div(copies * alone.block, per_vector) * ceil_div(size, copies)

    # More columns take longer to join: a few loads more cost less.
    fewest = min(map(loads, choices), default=0)
    copies = next((copies for copies in choices if loads(copies) <= fewest * _LOADS_IN_VAIN), 0)
    if not copies:
        return None
    times = ceil_div(size, copies)
    folded = list(_folded(others))
    folded[place] = times, alone.block * copies
    return replace(
        alone,
        folded=tuple(folded),
        copies=copies,
        copies_step=_positions(others[place + 1 :]),
        overlap=times * copies - size,
    )


def _dim_at(dims: Iterable[Dim], stride: int) -> int | None:
    return next((number for number, dim in enumerate(dims) if dim.input_stride == stride), None)


def _positions(dims: Iterable[Dim]) -> int:
    return math.prod(dim.size for dim in dims)


def _folded(dims: Iterable[Dim]) -> tuple[tuple[int, int], ...]:
    return tuple((dim.size, dim.input_stride) for dim in dims)
