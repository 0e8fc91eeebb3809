"""Which bytes of an array in the host's memory are sent to a device, and where its elements lie in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.common.bits import opaque
from vkdml.plan.layout import extent

# A span is sent unchanged if it is at most this many times the data; else the host gathers the data.
SPAN_LIMIT = 2


@dataclass(frozen=True)
class HostSpan:
    """A flat array of whole elements, and where in it the described array lies. Offsets count elements."""

    flat: npt.NDArray[Any]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: int
    lead: int = 0
    """Elements before the flat array that a kernel is given, too; ``base`` counts them."""

    @property
    def size(self) -> int:
        """Elements that a kernel is given."""
        return self.lead + self.flat.size


def host_span(x: npt.NDArray[Any]) -> HostSpan:
    """Return the span of a NumPy array without a 0 in its shape; only a widely spread array is copied.

    >>> host_span(np.arange(6.0).reshape(2, 3)[:, ::-1]).strides
    (3, -1)
    """
    itemsize = x.itemsize
    if x.flags.c_contiguous:
        strides = tuple(stride // itemsize for stride in x.strides)
        if any(size == 1 for size in x.shape):  # NumPy leaves the strides of such dimensions open
            strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, strides, strict=True))
        return HostSpan(x.reshape(-1), x.shape, strides, 0)
    x = _once(x)
    stretch = _stretch(x)
    if stretch is None:
        compact = np.ascontiguousarray(x)
        strides = tuple(
            0 if size == 1 else s // itemsize for size, s in zip(x.shape, compact.strides, strict=True)
        )
        return HostSpan(compact.reshape(-1), x.shape, strides, 0)
    strides, low, high = stretch
    lowest_first = x[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    flat = np.lib.stride_tricks.as_strided(opaque(lowest_first), (high - low,), (itemsize,), writeable=False)
    return HostSpan(flat.view(x.dtype), x.shape, strides, -low)


def sent_bytes(x: npt.NDArray[Any]) -> int:
    """Return the bytes of the span that :func:`host_span` would return; copies nothing.

    >>> x = np.zeros((100, 10), np.int8)
    >>> sent_bytes(x), sent_bytes(x[:, ::2]), sent_bytes(x[:, ::5])
    (1000, 999, 200)
    """
    if x.flags.c_contiguous:
        return x.nbytes
    x = _once(x)
    stretch = _stretch(x)
    if stretch is None:
        return x.nbytes
    _, low, high = stretch
    return (high - low) * x.itemsize


def _once(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with elements that a stride of 0 repeats taken once."""
    once: npt.NDArray[Any] = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides)]
    return once


def _stretch(x: npt.NDArray[Any]) -> tuple[tuple[int, ...], int, int] | None:
    """Return strides and extent, in elements, of an array that is sent as it lies; None: it is gathered."""
    # Dimensions of size 1 may have any stride.
    byte_strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, x.strides, strict=True))
    strides = tuple(stride // x.itemsize for stride in byte_strides)
    low, high = extent(x.shape, strides)
    if any(stride % x.itemsize for stride in byte_strides) or high - low > SPAN_LIMIT * x.size:
        return None
    return strides, low, high
