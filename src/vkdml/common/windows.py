"""Windows of slice1: ``size`` elements from ``offset`` on, of which every ``step``-th is taken.

A negative step begins at the window's end.
"""

from __future__ import annotations

from collections.abc import Iterable


def taken(size: int, step: int) -> int:
    """Return how many elements are taken.

    >>> taken(7, 3), taken(7, -3), taken(0, 2)
    (3, 3, 0)
    """
    return 1 + (size - 1) // abs(step)


def first(offset: int, size: int, step: int) -> int:
    """Return the place of the element that is taken first.

    >>> first(2, 7, 3), first(2, 7, -3)
    (2, 8)
    """
    return offset + size - 1 if step < 0 else offset


def as_slice(offset: int, size: int, step: int) -> slice:
    """Return a window as Python's slice.

    >>> as_slice(2, 7, 3), as_slice(0, 7, -3)
    (slice(2, 9, 3), slice(6, None, -3))
    """
    if step > 0 or size == 0:
        return slice(offset, offset + size, step)
    return slice(first(offset, size, step), offset - 1 if offset else None, step)


def placed(
    offsets: Iterable[int], sizes: Iterable[int], steps: Iterable[int], strides: Iterable[int]
) -> tuple[int, tuple[int, ...]]:
    """Return how far the first element lies from the array's, and the strides between those that are taken.

    >>> placed((1, 0), (2, 4), (1, -2), (4, 1))
    (7, (4, -2))
    """
    base, stepped = 0, []
    for offset, size, step, stride in zip(offsets, sizes, steps, strides, strict=True):
        base += first(offset, size, step) * stride
        stepped.append(stride * step)
    return base, tuple(stepped)
