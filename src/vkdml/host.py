"""Host arrays as the memory they cover: which bytes to send, and how the elements lie in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml import _native
from vkdml.layout import extent

# A span of at most so many times the data is sent as it lies; a wider one is gathered on the host.
SPAN_LIMIT = 2
# From here on several threads copy faster than one.
SHARED_COPY_BYTES = 8 << 20


# Smaller results are not worth a look at what is free.
LARGE_RESULT_BYTES = 1 << 30


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a NumPy array for a result, of arbitrary elements.

    Raises:
        MemoryError: a large one that the free memory cannot hold. Systems that promise more memory than
            there is would give it, and end the process when it is filled.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes >= LARGE_RESULT_BYTES:
        free = _native.available_host_memory()
        if nbytes > free:
            raise MemoryError(
                f"the result of {nbytes} bytes does not fit in the {free} bytes of host memory that are free"
            )
    return np.empty(shape, dtype)


def copy_bytes(target: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> None:
    """Copy contiguous bytes."""
    if target.size < SHARED_COPY_BYTES:
        np.copyto(target, source)
    else:
        _native.copy_in_host_memory(target, source)


@dataclass(frozen=True)
class HostSpan:
    """A flat array of whole elements, and where in it the described array lies. Offsets count elements."""

    flat: npt.NDArray[Any]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: int


def host_span(x: npt.NDArray[Any]) -> HostSpan:
    """Return the span of a NumPy array without a 0 in its shape; copies only what is spread too widely.

    >>> host_span(np.arange(6.0).reshape(2, 3)[:, ::-1]).strides
    (3, -1)
    """
    itemsize = x.itemsize
    if x.flags.c_contiguous:
        strides = tuple(stride // itemsize for stride in x.strides)
        if any(size == 1 for size in x.shape):  # NumPy leaves the strides of such dimensions open
            strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, strides, strict=True))
        return HostSpan(x.reshape(-1), x.shape, strides, 0)
    # Repeated elements are sent once; dimensions of size 1 may have any stride.
    x = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides)]
    byte_strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, x.strides, strict=True))
    whole = all(stride % itemsize == 0 for stride in byte_strides)
    strides = tuple(stride // itemsize for stride in byte_strides)
    low, high = extent(x.shape, strides)
    if not whole or high - low > SPAN_LIMIT * x.size:
        compact = np.ascontiguousarray(x)
        strides = tuple(
            0 if size == 1 else s // itemsize for size, s in zip(x.shape, compact.strides, strict=True)
        )
        return HostSpan(compact.reshape(-1), x.shape, strides, 0)
    lowest_first = x[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    # As plain bytes, since NumPy cannot describe all extension types to itself.
    opaque = lowest_first.view(f"V{itemsize}")
    flat = np.lib.stride_tricks.as_strided(opaque, (high - low,), (itemsize,), writeable=False)
    return HostSpan(flat.view(x.dtype), x.shape, strides, -low)


def elements_overlap(x: npt.NDArray[Any]) -> bool:
    """Whether two elements of an array share a byte.

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
    # Dimensions that interleave may still miss each other: only the places themselves tell.
    places = np.zeros(1, np.int64)
    for stride, size in dims:
        places = (places[:, None] + np.arange(size) * stride).reshape(-1)
    places.sort()
    return bool((np.diff(places) < x.itemsize).any())
