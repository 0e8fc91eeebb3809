"""Reductions in periods, a part of the outputs at a time: where the candidates of all do not fit in memory.

The parts use the same scratch memory, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import Plan
from vkdml.plan.reduce.periods import plan_repetition
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import Results
from vkdml.plan.reduce.repetition import Repetition, all_ways, parts_that_fit
from vkdml.plan.schema import ElementType

_MOST_PARTS = 6
# Bytes that are read in the time of the two dispatches of a part.
_DISPATCHES_BYTES = 22_000_000
# What the model of ways leaves out, and how much longer each further part takes: its pieces of memory are
# shorter.
_TIMES, _EACH_PART = 1.15, 0.22
# What any reduction in periods takes, in the unit of ``InParts.time``.
LEAST_TIME = _TIMES * _DISPATCHES_BYTES


@dataclass(frozen=True)
class InParts:
    """Parts of a reduction, and how each of them is read."""

    layouts: tuple[ReduceLayout, ...]
    repetition: Repetition

    def time(self, nbytes: int) -> float:
        """Return about how long it takes a GPU, as the bytes of elements of so many that are read meanwhile.

        138 shapes took 0.57 to 2.3 times as long, 1.03 in the median (H200).
        """
        count = len(self.layouts)
        each = self.repetition.time(nbytes, is_processor=False) + _DISPATCHES_BYTES
        return _TIMES * (1 + _EACH_PART * (count - 1)) * count * each


def fastest_in_parts(
    layout: ReduceLayout, element: ElementType, input_bytes: int, most: int = _MOST_PARTS
) -> InParts | None:
    """Return the way that is expected to take the least time; None if none fits in so many parts.

    Args:
        layout: of the reduction.
        element: what is reduced.
        input_bytes: of the input buffer.
        most: parts.
    """
    return min(
        _choices(layout, element, input_bytes, most), key=lambda way: way.time(element.nbytes), default=None
    )


def _choices(layout: ReduceLayout, element: ElementType, input_bytes: int, most: int) -> Iterator[InParts]:
    ways = _ways(layout, element, input_bytes)
    fewest = min((count for count, _ in ways), default=most + 1)
    if fewest > most:
        return
    whole = _fastest(ways, element)
    if whole is not None:
        yield InParts((layout,), whole)
    for number, dim in enumerate(layout.kept):
        for count in range(max(fewest, 2), min(dim.size, most) + 1):
            parts = _parts(layout, number, count)
            way = _fastest(_ways(parts[0], element, input_bytes), element)
            if way is not None:
                yield InParts(parts, way)
                break


def _ways(layout: ReduceLayout, element: ElementType, input_bytes: int) -> list[tuple[int, Repetition]]:
    """Return all ways, and into how many parts their candidates would have to be divided."""
    return [(parts_that_fit(way, element, input_bytes), way) for way in all_ways(layout, element)]


def _fastest(ways: Iterable[tuple[int, Repetition]], element: ElementType) -> Repetition | None:
    """Return the fastest of those that need no parts; None if there is none."""
    fitting = (way for count, way in ways if count == 1)
    return min(fitting, key=lambda way: way.time(element.nbytes, is_processor=False), default=None)


def _parts(layout: ReduceLayout, number: int, count: int) -> tuple[ReduceLayout, ...]:
    """Return equal parts of a kept dimension. If they do not divide it, the last begins in the one before."""
    dim = layout.kept[number]
    size = ceil_div(dim.size, count)
    part = (replace(dim, size=size),) if size > 1 else ()
    origins = [min(first, dim.size - size) for first in range(0, dim.size, size)]
    return tuple(
        replace(
            layout,
            kept=(*layout.kept[:number], *part, *layout.kept[number + 1 :]),
            input_base=layout.input_base + origin * dim.input_stride,
            output_base=layout.output_base + origin * dim.output_stride,
        )
        for origin in origins
    )


def plan_in_parts(in_parts: InParts, reduction: Reduction, results: Results) -> Plan:
    """Plan the parts one after the other.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    way, whole = in_parts.repetition, Reduction.of(reduction)
    plans = [plan_repetition(way, replace(whole, layout=part), results) for part in in_parts.layouts]
    # They differ in where they begin, and so in the push constants alone.
    return replace(plans[0], steps=tuple(step for plan in plans for step in plan.steps))
