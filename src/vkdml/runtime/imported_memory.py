"""Memory of the host's that kernels of a software device reach where it lies, so that nothing is copied."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.plan.plans import VECTOR_BYTES
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.host_memory import empty
from vkdml.runtime.recording import Region

# Kernels write whole vectors.


def lead_of(executions: ExecutionCache, content: npt.NDArray[Any], alignment: int) -> int | None:
    """Return how many elements lie between the place that a kernel is given and the start of the array.

    None: the array is to be copied, as it is small, or starts at an address that does not suit.

    Args:
        executions: of the device.
        content: compact.
        alignment: bytes; the address has to be a multiple of them.
    """
    if not executions.imports(content.nbytes):
        return None
    lead = int(content.ctypes.data % executions.device.offset_alignment)
    return None if lead % max(alignment, content.itemsize) else lead // content.itemsize


def region_around(executions: ExecutionCache, content: npt.NDArray[Any]) -> Region | None:
    """Return the memory of a compact array, and of its lead, as a kernel is given it; None: copy it.

    Raises:
        MemoryError: the driver cannot allocate the object that stands for it.
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
    result = empty(shape, dtype) if nbytes % VECTOR_BYTES == 0 else None
    if result is None or result.ctypes.data % alignment:
        around = empty((nbytes + VECTOR_BYTES + alignment,), np.uint8)
        begin = -around.ctypes.data % alignment
        result = around[begin : begin + nbytes].view(dtype).reshape(shape)
    region = region_around(executions, result)
    return None if region is None else (result, region)
