"""Whether two strided arrays share a byte of memory; also for memory that the host cannot read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Candidate solutions that NumPy's search examines before it gives up. Real layouts need a few.
SEARCH_STEPS = 10_000

# Any address but 0, for which NumPy would allocate memory.
_BASE_ADDRESS = 1 << 20


@dataclass(frozen=True)
class Layout:
    """The positions of elements in memory that the host cannot read.

    >>> Layout(16, (8, 4), (32, 4), 4).shape
    (8, 4)

    Args:
        start: byte of that memory where the first element starts, 0 or more.
        shape: elements in each dimension.
        byte_strides: bytes from one element to the next in each dimension.
        itemsize: bytes of an element.
    """

    start: int
    shape: tuple[int, ...]
    byte_strides: tuple[int, ...]
    itemsize: int

    @property
    def __array_interface__(self) -> dict[str, object]:
        """The layout for NumPy's functions that do not read the elements."""
        return {
            "version": 3,
            "data": (_BASE_ADDRESS + self.start, True),  # True: read-only
            "shape": self.shape,
            "strides": self.byte_strides,
            "typestr": f"|V{self.itemsize}",
        }


def may_share_bytes(first: npt.NDArray[Any] | Layout, second: npt.NDArray[Any] | Layout) -> bool:
    """Return whether two arrays share a byte; also True if the answer takes too long to find.

    >>> x = np.zeros(6)
    >>> may_share_bytes(x[::2], x[1::2]), may_share_bytes(x[::2], x[::3])
    (False, True)
    >>> left, right = Layout(0, (8, 4), (32, 4), 4), Layout(16, (8, 4), (32, 4), 4)
    >>> may_share_bytes(left, right), may_share_bytes(left, Layout(12, (8, 4), (32, 4), 4))
    (False, True)

    Args:
        first, second: two arrays, or two layouts in the same memory.
    """
    try:
        return np.shares_memory(first, second, max_work=SEARCH_STEPS)  # type: ignore[arg-type,unused-ignore]
    except (np.exceptions.TooHardError, OverflowError):
        return True
