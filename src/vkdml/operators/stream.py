"""Host arrays of any size: the decision to use tiles, and the operators in tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vkdml.arguments import Reduction, Window
from vkdml.arrays.chunked import ChunkedArray
from vkdml.operators.progress import Progress, reporting
from vkdml.operators.tile_jobs import TiledReduction, tiled_chunk_copy, tiled_copy
from vkdml.operators.tile_ring import run_in_tiles
from vkdml.operators.tile_source import AnyArray
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.tiles import CANDIDATE_INDEX_BYTES
from vkdml.runtime.device import Device
from vkdml.runtime.host_memory import empty, require_host_memory


def wanted(buffers: Iterable[int], limits: DeviceLimits) -> bool:
    """Tell whether a call on host arrays is processed in tiles, by the size in bytes of each buffer.

    >>> wanted([1 << 40, 8], vkdml.default_device().limits)
    True
    """
    largest = max(buffers)
    return largest >= limits.tuning.stream_from_bytes or largest > limits.max_storage_buffer_range


def reduce(
    x: AnyArray | ChunkedArray, reduction: Reduction, *, devices: Sequence[Device], progress: Progress = None
) -> tuple[AnyArray, AnyArray | None]:
    """Return indices, and values if wanted, of the elements that win.

    >>> from vkdml.arguments import ReduceRequest
    >>> x = np.array([[1, 5, 5], [7, 2, 7]], np.int16)
    >>> request = ReduceRequest("argmax", 1, direction="decreasing", return_values=True)
    >>> reduce(x, request.checked(x.shape, x.dtype), devices=[vkdml.default_device()])
    (array([[2],
           [2]]), array([[5],
           [7]], dtype=int16))

    Args:
        x: of any shape without a 0, any strides and either byte order; or an array in chunks.
        reduction: what to do with it.
        devices: that share the work.
        progress: called as ``progress(done, total)`` in bytes, by the calling thread, after each tile; True
            draws a bar on standard error.

    Returns:
        Fresh arrays of the shape of ``x`` with the reduced axes kept as 1: int64 indices (uint64 where int64
        cannot count the elements), and values in the machine's byte order or None.

    Raises:
        MemoryError: tiles of a mebibyte, or the result, are too much.
        DeviceError: a device failed; with several, the message names it.
        ImportError: ``progress=True`` without rich.
    """
    # Before arrays in chunks are cut at these, which takes memory for each piece.
    require_host_memory("the result", math.prod(reduction.kept_shape) * CANDIDATE_INDEX_BYTES)
    with reporting(progress) as report:
        return run_in_tiles(
            lambda tile_bytes: TiledReduction(x, reduction, tile_bytes), devices, report
        ).result()


def copy(x: AnyArray, *, devices: Sequence[Device], progress: Progress = None) -> AnyArray:
    """Return a compact copy of a strided array whose elements have 1, 2, 4, 8 or 16 bytes, bit for bit.

    >>> copy(np.arange(6).reshape(2, 3)[::-1, ::2], devices=[vkdml.default_device()])
    array([[3, 5],
           [0, 2]])

    Args:
        x: of any shape without a 0 and any strides: slice1's window, its steps taken by indexing.
        devices: that share the work.
        progress: as for :func:`reduce`.

    Returns:
        A fresh array of the shape and dtype of ``x``.

    Raises:
        MemoryError, DeviceError, ImportError: as :func:`reduce`.
    """
    with reporting(progress) as report:
        target = empty(x.shape, x.dtype)
        run_in_tiles(lambda tile_bytes: tiled_copy(x, target, tile_bytes), devices, report)
        return target


def copy_chunks(
    x: AnyArray | ChunkedArray,
    window: Window,
    out: ChunkedArray | None,
    *,
    devices: Sequence[Device],
    progress: Progress = None,
) -> AnyArray | None:
    """Copy slice1's window of an array in chunks, or of any array to one in chunks.

    Args:
        x: to read, its chunks at most once unless those of ``out`` lie otherwise, or a chunk is very large.
        window: of a shape without a 0.
        out: to write to, its chunks at most once unless very much is read for one; None makes a new array.
        devices: that share the work.
        progress: as for :func:`reduce`.

    Returns:
        A fresh array of the shape of the window and the dtype of ``x``, or None if ``out`` was written.

    Raises:
        MemoryError, DeviceError, ImportError: as :func:`reduce`.
        Exception: what reading and writing raise. What was written to ``out`` before stays there.
    """
    with reporting(progress) as report:
        target = empty(window.shape, x.dtype) if out is None else out
        run_in_tiles(lambda tile_bytes: tiled_chunk_copy(x, window, target, tile_bytes), devices, report)
        return None if isinstance(target, ChunkedArray) else target
