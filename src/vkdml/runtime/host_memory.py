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
MOST_DIMENSIONS = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""The most dimensions of a NumPy array."""
_MOST_BYTES = int(np.iinfo(np.intp).max)


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


def require_numpy_has(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise ValueError for a shape that no NumPy array can have, however much memory there is."""
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(
            f"a shape of {len(shape)} dimensions; accepted are at most {MOST_DIMENSIONS}, as in NumPy"
        )
    if 0 not in shape:  # others have more bytes than any device
        return
    nbytes = dtype.itemsize * math.prod(size for size in shape if size)
    if nbytes > _MOST_BYTES:
        raise ValueError(
            f"shape {shape} of {dtype}, which has no elements, has {nbytes} bytes without its zeros; "
            f"accepted are at most {_MOST_BYTES}, as in NumPy"
        )


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a NumPy array for a result, of arbitrary elements.

    Raises:
        ValueError: a shape that no NumPy array can have.
        MemoryError: a large one that the free memory cannot hold. Systems that promise more memory than
            there is would give it, and end the process when it is filled.
    """
    element = np.dtype(dtype)
    require_numpy_has(shape, element)
    require_host_memory("the result", math.prod(shape) * element.itemsize)
    return np.empty(shape, element)


def copy_bytes(target: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> None:
    """Copy contiguous bytes, many of them with several threads."""
    if target.size < SHARED_COPY_BYTES:
        np.copyto(target, source)
    else:
        _native.copy_in_host_memory(target, source)
