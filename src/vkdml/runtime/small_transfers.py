"""Small transfers to and from memory that the host does not see, through staging memory that is kept."""

from __future__ import annotations

import math
from collections.abc import Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml.plan.plans import power_of_two_at_least
from vkdml.runtime.recording import Buffer, NativeSequence

if TYPE_CHECKING:
    from vkdml.runtime.execution_cache import ExecutionCache

Bytes = npt.NDArray[np.uint8]

SMALL_BYTES = 1 << 20
"""The most bytes of a transfer, and of a buffer whose upload is not waited for."""
LEAST_STAGING_BYTES = 64 << 10
MOST_IDLE = 16
"""Pieces that are kept."""
REUSED_FROM = 8
"""Pieces that are kept, from which on the oldest one is taken for another transfer."""
PROBABLY_DONE = 4
"""An upload after which there were so many others has most probably ended."""


class _Piece(NamedTuple):
    """Staging memory, with the sequence that copies from or to it."""

    sequence: NativeSequence
    staging: Buffer
    content: npt.NDArray[Any]
    """What the sequence copies, as the host sees it."""


class SmallTransfers:
    """Pieces of staging memory; a transfer that one of them made last is not recorded again. Thread-safe.

    An upload returns when it is submitted: what comes later on the device comes after it. Until it is done,
    its piece keeps the memory that it writes, so uploads to large buffers are waited for.
    """

    def __init__(self, cache: ExecutionCache) -> None:
        self._cache = cache
        self._spin_us = cache.tuning.spin_microseconds
        # By what they copied; those used, or found done, longest ago come first. A dictionary's own methods
        # are atomic, so threads need no lock.
        self._idle: dict[Hashable, _Piece] = {}

    def upload(self, source: Bytes, target: Buffer, start: int, *, waits: bool = False) -> None:
        """Copy bytes to a buffer, from a byte on; ``waits``: return when they have arrived."""
        key = "upload", target.id, start, source.size
        piece = self._idle.pop(key, None)
        if piece is not None and not piece.sequence.wait(0.0, 0.0):
            self._idle[key] = piece  # another will be free sooner
            piece = None
        if piece is None:
            sequence, staging, whole = self._taken(source.size)
            sequence.copy(staging, target, source.size, 0, start)
            piece = _Piece(sequence, staging, whole[: source.size])
        np.copyto(piece.content, source)
        piece.sequence.submit([piece.staging, target])
        if waits or target.capacity > SMALL_BYTES:
            piece.sequence.wait(None, self._spin_us)
        if len(self._idle) >= PROBABLY_DONE:
            self._note_oldest_done()
        self._give_back(key, piece)

    def download(
        self, source: Buffer, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> npt.NDArray[Any]:
        """Return a new array of elements that lie one after the other in a buffer, from a byte on."""
        key = "download", source.id, start, shape, dtype
        piece = self._idle.pop(key, None)
        if piece is None:
            nbytes = math.prod(shape) * dtype.itemsize
            sequence, staging, whole = self._taken(nbytes)
            sequence.copy(source, staging, nbytes, start, 0)
            piece = _Piece(sequence, staging, whole[:nbytes].view(dtype).reshape(shape))
        piece.sequence.eval(None, self._spin_us, [source, piece.staging])
        result: npt.NDArray[Any] = piece.content.copy()
        self._give_back(key, piece)
        return result

    def settle(self) -> None:
        """Wait for what is still copied."""
        for key in tuple(self._idle):
            piece = self._idle.pop(key, None)
            if piece is not None:
                with suppress(RuntimeError, MemoryError):  # what fails is dropped
                    piece.sequence.wait(None, self._spin_us)
                    self._give_back(key, piece)

    def clear(self) -> bool:
        """Drop all that is kept; False when there was nothing."""
        self.settle()
        dropped, self._idle = self._idle, {}
        return bool(dropped)

    def _taken(self, nbytes: int) -> tuple[NativeSequence, Buffer, Bytes]:
        """Return a piece that nobody uses, with an empty sequence. One whose transfer fails is dropped."""
        piece = None
        if len(self._idle) >= REUSED_FROM:
            with suppress(StopIteration, RuntimeError):  # another thread came between
                piece = self._idle.pop(next(iter(self._idle)), None)
        if piece is None or piece.staging.nbytes < nbytes:
            staging = self._cache.buffer(
                max(power_of_two_at_least(nbytes), LEAST_STAGING_BYTES), visible=True
            )
            sequence = self._cache.take_sequence()
        else:
            sequence, staging, _ = piece
            sequence.wait(None, self._spin_us)
        sequence.clear()
        return sequence, staging, staging.view()

    def _note_oldest_done(self) -> None:
        """Let go of the memory that the oldest transfer wrote: the next array may have it."""
        with suppress(StopIteration, RuntimeError, MemoryError):  # another thread came between; or it failed
            key = next(iter(self._idle))
            piece = self._idle.pop(key, None)
            if piece is not None:
                piece.sequence.wait(0.0, 0.0)
                self._give_back(key, piece)

    def _give_back(self, key: Hashable, piece: _Piece) -> None:
        if len(self._idle) < MOST_IDLE:
            self._idle[key] = piece
