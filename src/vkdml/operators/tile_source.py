"""Copying boxes of host arrays to staging memory, compact and in memory order."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.common.mapped_files import mapping_behind
from vkdml.plan.tiles import Tile, memory_order
from vkdml.runtime.host_memory import copy_bytes

AnyArray = npt.NDArray[Any]

# A smaller copy of a tile is not shared between threads.
SHARED_TILE_BYTES = 4 << 20
MOST_COPY_THREADS = 8
# Types whose copies change no bit (no NaN is quieted) and do not hold the interpreter lock.
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class TileSource:
    """An array whose boxes are copied to staging memory, compact and in memory order."""

    reads_here = False

    def __init__(self, x: AnyArray) -> None:
        self._file = MappedFile.behind(x)
        x = np.asarray(x)
        # Repeated elements are taken once, and dimensions of size 1 may have any stride.
        self.single = tuple(size == 1 or s == 0 for size, s in zip(x.shape, x.strides, strict=True))
        once = (*(slice(1) if single else slice(None) for single in self.single), ...)
        x = x[once]
        strides = tuple(0 if single else s for single, s in zip(self.single, x.strides, strict=True))
        self.sizes = x.shape
        self.byte_strides = strides
        self.itemsize = x.itemsize
        self.order = memory_order(strides)
        ascending = (*(slice(None, None, -1) if s < 0 else slice(None) for s in strides), ...)
        self._bits = np.dtype(BITS[x.itemsize])
        # Bytes in the other order are swapped by the copy, as those of integers.
        as_they_lie = self._bits if x.dtype.isnative else self._bits.newbyteorder("S")
        self._upright = x[ascending].view(as_they_lie).transpose(self.order)

    def staged(self, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return how a box of these sizes lies in staging memory: strides in elements, and its base."""
        return staged_strides(sizes, self.order, self.single, self.byte_strides)

    def close(self) -> None:
        """Nothing is to be ended."""

    def stage(self, tile: Tile, target: npt.NDArray[np.uint8], copier: Copier) -> None:
        """Copy a box to staging memory."""
        inside = (*(self._slice(dim, tile) for dim in self.order), ...)
        box = self._upright[inside]
        staged = first_elements(target, box.size, self._bits).reshape(box.shape)
        copier.copy(staged, box)
        if self._file is not None:
            self._file.drop(box)

    def _slice(self, dim: int, tile: Tile) -> slice:
        if self.single[dim]:
            return slice(1)
        start, size = tile.start[dim], tile.sizes[dim]
        if self.byte_strides[dim] < 0:
            start = self.sizes[dim] - start - size
        return slice(start, start + size)


def staged_strides(
    sizes: tuple[int, ...], order: Sequence[int], single: Sequence[bool], byte_strides: Sequence[int]
) -> tuple[tuple[int, ...], int]:
    """Return strides and base, in elements, of a box that is staged compactly and in ascending order."""
    strides = [0] * len(sizes)
    base = 0
    stride = 1
    for dim in reversed(order):
        if single[dim]:
            continue
        strides[dim] = stride
        if byte_strides[dim] < 0:
            strides[dim] = -stride
            base += (sizes[dim] - 1) * stride
        stride *= sizes[dim]
    return tuple(strides), base


def first_elements(raw: npt.NDArray[np.uint8], count: int, dtype: np.dtype[Any]) -> AnyArray:
    return raw[: count * dtype.itemsize].view(dtype)


class Copier:
    """Copies in host memory, large ones with several threads."""

    def __init__(self) -> None:
        self._threads = min(os.cpu_count() or 1, MOST_COPY_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def copy(self, target: AnyArray, source: AnyArray) -> None:
        """Copy elements of one type and shape, in either byte order."""
        if target.nbytes < SHARED_TILE_BYTES or self._threads == 1:
            np.copyto(target, source)
        elif source.dtype.isnative and source.flags.c_contiguous and target.flags.c_contiguous:
            copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))
        else:
            self._share_out(target, source)

    def _share_out(self, target: AnyArray, source: AnyArray) -> None:
        axis = next((axis for axis, size in enumerate(source.shape) if size >= self._threads), None)
        if axis is None:
            axis = int(np.argmax(source.shape))
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads - 1, "vkdml copy")
        bounds = [source.shape[axis] * part // self._threads for part in range(self._threads + 1)]
        parts = [(slice(None),) * axis + (slice(low, high),) for low, high in itertools.pairwise(bounds)]
        try:
            others = [self._pool.submit(np.copyto, target[part], source[part]) for part in parts[1:]]
        except RuntimeError:  # the interpreter ends, and starts no more threads
            np.copyto(target, source)
            return
        np.copyto(target[parts[0]], source[parts[0]])
        for other in others:
            other.result()


class MappedFile:
    """The mapping behind a ``numpy.memmap``, whose pages go back to the system once they were read.

    They stay in the system's cache as long as it has room for them, but count for this process no more.
    Private mappings are left alone: written pages of theirs exist nowhere else.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._address = np.frombuffer(mapping, np.uint8).ctypes.data

    @classmethod
    def behind(cls, x: AnyArray) -> MappedFile | None:
        owner, mapping = mapping_behind(x) or (None, None)
        if owner is None or mapping is None or owner.mode not in ("r", "r+", "w+"):
            return None
        return cls(mapping) if hasattr(mmap, "MADV_DONTNEED") else None

    def drop(self, box: AnyArray) -> None:
        """Give back the whole pages that a box with positive strides spans."""
        low = box.__array_interface__["data"][0] - self._address
        reach = sum((size - 1) * stride for size, stride in zip(box.shape, box.strides, strict=True))
        first = -(-low // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (low + reach + box.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE
        if 0 <= first < last:
            with contextlib.suppress(OSError, ValueError):  # locked pages, or a mapping closed meanwhile
                self._mapping.madvise(mmap.MADV_DONTNEED, first, last - first)
