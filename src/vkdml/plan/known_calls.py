"""Public calls that succeeded, by everything that tells calls apart: an equal call is not checked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from vkdml.plan.plans import DeviceLimits, Plan


class KnownCall(NamedTuple):
    """A call that was right once: the next one of the kind need not be looked at again."""

    plan: Plan
    limits: DeviceLimits
    """Those that the plan was made for: on a device with others the call is not known."""
    shape: tuple[int, ...]
    """Of the indices."""
    index_dtype: np.dtype[Any]


class CallCache:
    """Known calls by all that tells calls apart, so many at most; the oldest make room.

    Threads share it. A look-up is a single read, and what it returns is complete in itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: dict[Hashable, KnownCall] = {}
        self._lock = threading.RLock()  # a signal handler may call in the middle of a call
        self.get: Callable[[Hashable], KnownCall | None] = self._calls.get
        """Return the known call of a key, or None."""

    def put(self, key: Hashable, call: KnownCall) -> None:
        """Remember a call."""
        with self._lock:
            self._calls[key] = call
            while len(self._calls) > self._most:
                self._calls.pop(next(iter(self._calls)), None)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._calls.clear()

    def __len__(self) -> int:
        return len(self._calls)


known_calls = CallCache(1024)
"""Of the public functions, on all devices."""
