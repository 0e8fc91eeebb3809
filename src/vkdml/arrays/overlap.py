"""Whether two strided arrays have a byte of memory in common."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Steps of the search, after which arrays count as overlapping: those of real use take a few.
MOST_STEPS = 10_000


@dataclass(frozen=True)
class Box:
    """Elements in memory, in bytes; strides are not negative."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + 1 + sum(stride * steps for stride, steps in self.steps())

    def steps(self) -> list[tuple[int, int]]:
        """Return stride and most steps of each dimension that matters, the bytes of an element included."""
        dims = [*zip(self.strides, self.sizes, strict=True), (1, self.itemsize)]
        return [(stride, size - 1) for stride, size in dims if stride and size > 1]


def may_overlap(first: Box, second: Box) -> bool:
    """Tell whether two arrays share a byte; True, too, where finding out would take long.

    >>> left, right = Box(0, (8, 4), (32, 4), 4), Box(16, (8, 4), (32, 4), 4)
    >>> may_overlap(left, right), may_overlap(left, Box(12, (8, 4), (32, 4), 4))
    (False, True)
    """
    # Steps from the first's start up and from the second's last byte down must meet.
    terms = sorted(first.steps() + second.steps(), reverse=True)
    gap = second.start - first.start + sum(stride * steps for stride, steps in second.steps())
    reach = [sum(stride * steps for stride, steps in terms[k:]) for k in range(len(terms) + 1)]
    divisor = [math.gcd(*(stride for stride, _ in terms[k:])) for k in range(len(terms) + 1)]
    open_ends = [(0, gap)]
    for _ in range(MOST_STEPS):
        if not open_ends:
            return False
        k, rest = open_ends.pop()
        if rest < 0 or rest > reach[k]:
            continue
        if k == len(terms):
            return True
        if rest % divisor[k]:
            continue
        stride, steps = terms[k]
        fewest = max(-((reach[k + 1] - rest) // stride), 0)
        most = min(rest // stride, steps)
        if most - fewest > MOST_STEPS:
            return True
        open_ends += [(k + 1, rest - count * stride) for count in range(fewest, most + 1)]
    return True
