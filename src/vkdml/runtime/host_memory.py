"""Memory of the host: results that fit it, and fast copies within it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml import _native

# From here on several threads copy faster than one.
SHARED_COPY_BYTES = 2 << 20
# Smaller results are not worth a look at what is free.
LARGE_RESULT_BYTES = 1 << 30


def available() -> int:
    """Return the bytes of host memory that this process can still have.

    >>> available() > 0
    True
    """
    return _native.available_host_memory()


def require_host_memory(what: str, nbytes: int) -> None:
    """Raise MemoryError for so many bytes at once, if they are many and more than are free."""
    if nbytes >= LARGE_RESULT_BYTES:
        free = available()
        if nbytes > free:
            raise MemoryError(
                f"{what} of {nbytes} bytes does not fit in the {free} bytes of host memory that are free"
            )


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a NumPy array for a result, of arbitrary elements.

    Raises:
        MemoryError: a large one that the free memory cannot hold. Systems that promise more memory than
            there is would give it, and end the process when it is filled.
    """
    element = np.dtype(dtype)
    require_host_memory("the result", math.prod(shape) * element.itemsize)
    return np.empty(shape, element)


def copy_bytes(target: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> None:
    """Copy contiguous bytes, many of them with several threads."""
    if target.size < SHARED_COPY_BYTES:
        np.copyto(target, source)
    else:
        _native.copy_in_host_memory(target, source)
