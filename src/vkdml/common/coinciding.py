"""Whether two elements of a strided array lie in one place, by its sizes and strides alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Limits of the two searches for coinciding elements: tens of milliseconds; about a second and 64 MiB.
_SEARCH_STEPS = 50_000
_SUMS = 1 << 21


def elements_coincide(sizes: Sequence[int], strides: Sequence[int]) -> bool | None:
    """Return whether two different coordinates address one element; None if the search takes too long.

    >>> elements_coincide((4, 3), (1, 5)), elements_coincide((4, 3), (1, 2))
    (False, True)

    Args:
        sizes: of the dimensions.
        strides: of the same, 0 or more.

    """
    # The difference of two such coordinates is a set of signed steps, not all zero and each smaller than its
    # dimension's size, whose offsets add up to 0. The search takes the dimensions from the largest stride
    # down. The dimensions that are left must cancel the sum so far, so their reach bounds the next step.
    dims = sorted(((t, size - 1) for size, t in zip(sizes, strides, strict=True) if size > 1), reverse=True)
    if dims and dims[-1][0] == 0:
        return True
    if math.prod(sizes) > 1 + sum(stride * steps for stride, steps in dims):  # more elements than places
        return True
    reach = [sum(stride * steps for stride, steps in dims[first:]) for first in range(len(dims) + 1)]
    steps_left = _SEARCH_STEPS

    def cancel(first: int, rest: int) -> bool:
        """Return whether steps in the dimensions from `first` on can add up to `rest`."""
        nonlocal steps_left
        steps_left -= 1
        if steps_left < 0:
            raise TimeoutError
        if first == len(dims):
            return rest == 0
        stride, steps = dims[first]
        low = max(-steps, -((reach[first + 1] - rest) // stride))
        high = min(steps, (reach[first + 1] + rest) // stride)
        return any(cancel(first + 1, rest - step * stride) for step in range(low, high + 1))

    try:
        return any(
            cancel(first + 1, step * stride)
            for first, (stride, steps) in reversed(list(enumerate(dims)))
            for step in range(1, min(steps, reach[first + 1] // stride) + 1)
        )
    except TimeoutError:
        return _sums_meet(dims)


def _sums_meet(dims: Sequence[tuple[int, int]]) -> bool | None:
    """Answer the same question by comparing all sums that each half of the dimensions can reach."""
    halves: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for dim in sorted(dims, key=lambda dim: -dim[1]):
        min(halves, key=_count_of_sums).append(dim)
    if max(map(_count_of_sums, halves)) > _SUMS:
        return None
    one, other = (_sums(half) for half in halves)
    # The sum 0 is reached by taking no step, and must be reached only so. Each sum also has its negative, so
    # the positive sums suffice.
    if any(np.count_nonzero(sums == 0) > 1 for sums in (one, other)):
        return True
    return bool(np.intersect1d(one[one > 0], other[other > 0]).size)


def _count_of_sums(half: Sequence[tuple[int, int]]) -> int:
    return math.prod(2 * steps + 1 for _, steps in half)


def _sums(half: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
    sums = np.zeros(1, np.int64)
    for stride, steps in half:
        sums = np.add.outer(sums, np.arange(-steps, steps + 1) * stride).reshape(-1)
    return sums


def elements_overlap(x: npt.NDArray[Any]) -> bool:
    """Whether two elements of an array share a byte; also True if the answer takes too long to find.

    >>> elements_overlap(np.broadcast_to(np.zeros(3), (2, 3)))
    True
    """
    if x.size < 2 or x.flags.forc:
        return False
    dims = sorted((abs(stride), size) for size, stride in zip(x.shape, x.strides, strict=True) if size > 1)
    covered = x.itemsize
    nested = True
    for stride, size in dims:
        nested &= stride >= covered
        covered += (size - 1) * stride
    if nested or x.size * x.itemsize > covered:
        return not nested
    # Dimensions that interleave may still miss each other. An element's bytes are one more dimension.
    sizes, strides = (size for _, size in dims), (stride for stride, _ in dims)
    return elements_coincide((*sizes, x.itemsize), (*strides, 1)) is not False
