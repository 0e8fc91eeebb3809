"""Elements of an output along several dimensions, in the order of memory: see ``shaders/short_walk.glsl``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import NO_DIM, Dim, MemoryOrder, ReduceLayout
from vkdml.plan.plans import LINE_BYTES, words

# Dimensions that a walk may have.
_WALK_DIMS = 3


@dataclass(frozen=True)
class Walk:
    """The reduced elements of an output in the order of memory."""

    order: MemoryOrder
    """At most ``_WALK_DIMS`` dimensions; the last one is a run."""
    joined: Dim = NO_DIM
    """Elements beside each other that are read as columns, of which the best is one output's."""
    apart: bool = False
    """Runs along the outermost dimension have segments of shared memory of their own."""

    @property
    def run(self) -> Dim:
        return self._dims[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the dimensions, the innermost first."""
        return tuple(dim.size for dim in self._dims)

    @property
    def runs(self) -> int:
        """How many there are that are not side by side."""
        return math.prod(dim.size for dim in self.order.dims[: len(self.order.dims) - self.order.run_dims])

    def pitch(self, nbytes: int) -> int:
        """Bytes from one of these runs to the next that shares no line with it; 0 if there is one."""
        outside = self.order.dims[: len(self.order.dims) - self.order.run_dims]
        pitches = (dim.input_stride * nbytes for dim in outside)
        return min((pitch for pitch in pitches if pitch >= LINE_BYTES), default=0)

    def lines(self, nbytes: int) -> int:
        """Return about how many lines of memory it reads where each of these runs is in one."""
        lines = 1
        for dim in reversed(self.order.dims[: len(self.order.dims) - self.order.run_dims]):
            dim_bytes = lines * dim.size * min(dim.input_stride * nbytes, LINE_BYTES)
            lines = max(ceil_div(dim_bytes, LINE_BYTES), 1)
        return lines

    @property
    def words(self) -> tuple[int, ...]:
        """What the kernel reads of it."""
        dims = (word for dim in self._dims for word in (dim.size, dim.input_stride, dim.output_stride))
        joined = (self.joined.output_stride,) if self.joined.size > 1 else ()
        return words((self.order.input_offset, self.order.position, *dims, *joined))

    @property
    def starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where runs start."""
        return (self.order.input_offset, *(dim.input_stride for dim in self._dims[1:]))

    @property
    def _dims(self) -> tuple[Dim, ...]:
        inner, outer = self.order.dims[self.apart :][::-1], self.order.dims[: self.apart]
        return (*inner, *(NO_DIM,) * (_WALK_DIMS - len(self.order.dims)), *outer)


def walk_of(layout: ReduceLayout, *, join: bool = False) -> Walk | None:
    """Return how to walk through the elements of an output; None if no kernel does.

    It takes indices that are multiples of positions: all but those of some parts of larger reductions. With
    ``join``, the innermost elements of an output are columns if those of the next output follow.
    """
    order, joined = layout.reading_order, NO_DIM
    *outer, innermost = order.dims
    if join and outer and layout.kept[-1].input_stride == innermost.size and innermost.input_stride == 1:
        order, joined = replace(order, dims=tuple(outer)), innermost
    if len(order.dims) > _WALK_DIMS:
        return None
    step, weight = 1, layout.reduced[-1].output_stride
    for dim in reversed(layout.reduced):
        if dim.output_stride != step * weight:
            return None
        step *= dim.size
    return Walk(order, joined)
