"""Small transfers to and from memory that the host does not see, through staging memory that is kept."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vkdml.runtime.recording import Buffer, NativeSequence

if TYPE_CHECKING:
    from vkdml.runtime.executions import ExecutionCache

Bytes = npt.NDArray[np.uint8]

SMALL_BYTES = 256 << 10
"""The most bytes of a transfer, and of a buffer whose upload is not waited for."""
MOST_IDLE = 8
_Piece = tuple[NativeSequence, Buffer, Bytes]


class SmallTransfers:
    """Pieces of staging memory, each with the sequence that copies from or to it. Thread-safe.

    An upload returns when it is submitted: what comes later on the device comes after it. Until then its
    piece keeps the memory that it writes, so uploads to large buffers are waited for.
    """

    def __init__(self, cache: ExecutionCache) -> None:
        self._cache = cache
        self._spin_us = cache.tuning.spin_microseconds
        # Those used longest ago first. Its own methods are atomic, so threads need no lock.
        self._idle: deque[_Piece] = deque(maxlen=MOST_IDLE)

    def upload(self, source: Bytes, target: Buffer, start: int) -> None:
        """Copy bytes to a buffer, from a byte on."""
        piece = sequence, staging, view = self._take()
        view[: source.size] = source
        sequence.copy(staging, target, source.size, 0, start)
        sequence.submit()
        if target.capacity > SMALL_BYTES:
            sequence.wait(None, self._spin_us)
        self._idle.append(piece)

    def download(self, source: Buffer, start: int, target: Bytes) -> None:
        """Copy bytes from a buffer, from a byte on, and wait."""
        piece = sequence, staging, view = self._take()
        sequence.copy(source, staging, target.size, start, 0)
        sequence.eval(None, self._spin_us)
        target[:] = view[: target.size]
        self._idle.append(piece)

    def settle(self) -> None:
        """Wait for what is still copied."""
        for _ in range(len(self._idle)):
            with suppress(IndexError, RuntimeError, MemoryError):  # what fails is dropped
                piece = self._idle.popleft()
                piece[0].wait(None, self._spin_us)
                self._idle.append(piece)

    def clear(self) -> bool:
        """Drop all that is kept; False when there was nothing."""
        self.settle()
        dropped = bool(self._idle)
        self._idle.clear()
        return dropped

    def _take(self) -> _Piece:
        """Return a piece that nobody uses, with an empty sequence. One whose transfer fails is dropped."""
        try:
            piece = self._idle.popleft()
        except IndexError:
            buffer = self._cache.buffer(SMALL_BYTES, visible=True)
            piece = self._cache.take_sequence(), buffer, buffer.view()
        piece[0].wait(None, self._spin_us)
        piece[0].clear()
        return piece
