"""Memory of the host's that kernels of a software device reach where it lies, so that nothing is copied."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.runtime.executions import ExecutionCache
from vkdml.runtime.host_memory import empty
from vkdml.runtime.recording import Region

# Kernels write whole vectors.
_VECTOR_BYTES = 16


def lead_of(executions: ExecutionCache, content: npt.NDArray[Any], alignment: int) -> int | None:
    """Return the elements between where a kernel can be given this memory and where the array begins.

    None: the array is to be copied, as its kernels would be slower, or there is no whole number of elements.

    Args:
        executions: of the device.
        content: compact.
        alignment: bytes of which these elements have to be a multiple.
    """
    if not executions.imports(content.nbytes):
        return None
    lead = int(content.ctypes.data % executions.device.offset_alignment)
    return None if lead % max(alignment, content.itemsize) else lead // content.itemsize


def region_around(executions: ExecutionCache, content: npt.NDArray[Any]) -> Region | None:
    """Return a compact array's memory as a kernel is given it, from its lead on; None: it can only be copied.

    Raises:
        MemoryError: the driver has no room for what it notes of it.
    """
    native = executions.device
    flat = content.reshape(-1).view(np.uint8)
    found = executions.insist(lambda: native.imported(flat))
    if found is None:
        return None
    buffer, begin = found
    return buffer, begin - begin % native.offset_alignment


def result_region(
    executions: ExecutionCache, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], Region] | None:
    """Return a new array for a kernel's result, and its memory as the kernel is given it, or None.

    Raises:
        MemoryError: the host has not so much.
    """
    alignment = executions.device.offset_alignment
    nbytes = math.prod(shape) * dtype.itemsize
    result = empty(shape, dtype)
    if nbytes % _VECTOR_BYTES or result.ctypes.data % alignment:
        around = empty((nbytes + _VECTOR_BYTES + alignment,), np.uint8)
        begin = -around.ctypes.data % alignment
        result = around[begin : begin + nbytes].view(dtype).reshape(shape)
    region = region_around(executions, result)
    return None if region is None else (result, region)
