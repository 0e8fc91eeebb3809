"""Tiles of arrays in chunks: a thread reads the next pieces while devices work on those before.

All pieces of an array are read in one thread, one after the other: in the caller's where there is one piece,
or where what reads would wait for the caller.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays.chunked import ChunkedArray
from vkdml.operators.tile_source import BITS, AnyArray, Copier, first_elements, staged_strides
from vkdml.plan.layout import row_major_strides
from vkdml.plan.tiles import PiecewiseTiling, Steps, Tile

# Pieces that are read, or being read, before a device asks for them.
PIECES_AHEAD = 2


class ChunkedSource:
    """A window of an array in chunks, whose tiles are copied to staging memory, compact."""

    def __init__(
        self, array: ChunkedArray, steps: Sequence[Steps], tiling: PiecewiseTiling, *, native: bool
    ) -> None:
        """Begin to read with the first call of :meth:`stage`.

        Args:
            array: to read.
            steps: what is taken along each dimension; negative ones are mirrored by the device.
            tiling: of the window.
            native: whether to stage in the machine's byte order, or in the other one.
        """
        self.sizes = tiling.sizes
        self.itemsize = array.itemsize
        self.byte_strides = tuple(
            -stride * self.itemsize if dim.step < 0 else stride * self.itemsize
            for dim, stride in zip(steps, row_major_strides(self.sizes), strict=True)
        )
        self.single = (False,) * len(self.sizes)
        self._array, self._steps, self._tiling, self._native = array, steps, tiling, native
        self._unread = iter(tiling.pieces)
        self._pieces: dict[tuple[int, ...], _Piece] = {}
        self._lock = threading.Lock()
        self.reads_here = len(tiling.pieces) == 1 or _would_wait_for_caller()
        """Whether pieces are read by whoever stages their tiles, which the caller has to do then."""
        self._reader = ThreadPoolExecutor(1, "vkdml read")
        # What libraries keep for the caller's context, such as Dask's client, is that of the reader, too.
        self._context = contextvars.copy_context()

    def staged(self, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return how a tile of these sizes lies in staging memory: strides in elements, and its base."""
        return staged_strides(sizes, range(len(sizes)), self.single, self.byte_strides)

    def stage(self, tile: Tile, target: npt.NDArray[np.uint8], copier: Copier) -> None:
        """Wait for the piece that holds a tile, and copy the tile to staging memory."""
        around = self._tiling.pieces.around(tile)
        piece = self._asked(around)
        read = piece.read.result()
        bits = np.dtype(BITS[self.itemsize])
        if read.dtype.isnative != self._native:
            bits = bits.newbyteorder("S")
        boxes = zip(self._steps, around.start, around.sizes, tile.start, tile.sizes, strict=True)
        # The ellipsis keeps an array also without dimensions.
        inside: tuple[Any, ...] = (*(_inside(*dims) for dims in boxes), ...)
        box = read.view(bits)[inside]
        staged = first_elements(target, box.size, np.dtype(BITS[self.itemsize])).reshape(box.shape)
        copier.copy(staged, box)
        with self._lock:
            piece.tiles_left -= 1
            if not piece.tiles_left:
                del self._pieces[around.start]

    def close(self) -> None:
        """Read no more; returns when nothing is being read."""
        self._reader.shutdown(cancel_futures=True)
        self._pieces.clear()

    def _asked(self, around: Tile) -> _Piece:
        """Return a piece that is read or will be, and have the next ones read."""
        with self._lock:
            while around.start not in self._pieces:
                if not self._read_next():
                    raise RuntimeError(
                        f"no piece of the array begins at {around.start}; was the reader closed?"
                    )
            piece = self._pieces[around.start]
            piece.asked = True
            ahead = 0 if self.reads_here else PIECES_AHEAD
            while sum(not each.asked for each in self._pieces.values()) < ahead:
                if not self._read_next():
                    break
            return piece

    def _read_next(self) -> bool:
        piece = next(self._unread, None)
        if piece is None:
            return False
        tiles = len(self._tiling.within(piece.sizes))
        self._pieces[piece.start] = _Piece(self._reading(piece), tiles)
        return True

    def _reading(self, piece: Tile) -> Future[AnyArray]:
        if not self.reads_here:
            try:
                return self._reader.submit(self._context.run, self._read_to_keep, piece)
            except RuntimeError:  # the interpreter ends, and starts no more threads
                self.reads_here = True
        done: Future[AnyArray] = Future()
        done.set_result(self._read(piece))
        return done

    def _read_to_keep(self, piece: Tile) -> AnyArray:
        """Read what stays as it is while the next pieces are read."""
        read = self._read(piece)
        return read if self._array.is_of_known_library else read.copy()

    def _read(self, piece: Tile) -> AnyArray:
        spans = zip(self._steps, piece.start, piece.sizes, strict=True)
        return self._array.read(tuple(dim.reading(begin, begin + size) for dim, begin, size in spans))


def _would_wait_for_caller() -> bool:
    """Tell whether another thread that reads would wait for this one.

    It would in a task of Dask's workers, whose place a computation takes that the task itself waits for, and
    in what visits the objects of an HDF5 file, where h5py holds its lock.
    """
    in_task = getattr(sys.modules.get("distributed.worker"), "thread_state", None)
    if hasattr(in_task, "execution_state"):
        return True
    lock = getattr(sys.modules.get("h5py._objects"), "phil", None)
    is_owned = getattr(lock, "_is_owned", None)
    return bool(is_owned is not None and is_owned())


class _Piece:
    def __init__(self, read: Future[AnyArray], tiles_left: int) -> None:
        self.read = read
        self.tiles_left = tiles_left
        self.asked = False


def _inside(dim: Steps, piece_start: int, piece_size: int, start: int, size: int) -> slice:
    """Return where the elements of a tile lie in what was read for its piece, in ascending order."""
    begin = start - piece_start
    if dim.step < 0:
        begin = piece_size - begin - size
    step = dim.read_per_element
    return slice(begin * step, (begin + size - 1) * step + 1, step)


def chunk_steps(array: ChunkedArray) -> list[Steps]:
    """Return steps that take a whole array."""
    return [Steps(0, 1, size, chunk) for size, chunk in zip(array.shape, array.chunks, strict=True)]
