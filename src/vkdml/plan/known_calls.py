"""Public calls that succeeded, by everything that tells calls apart: an equal call is not checked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Known = TypeVar("Known")


class CallCache(Generic[Known]):
    """Known calls by their key, at most ``most`` of them; the oldest are dropped first.

    Threads share the cache. A look-up is a single read of a complete entry, so it takes no lock.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: dict[Hashable, Known] = {}
        self._lock = threading.RLock()  # a signal handler may call in the middle of a call
        self.get: Callable[[Hashable], Known | None] = self._calls.get
        """Return the known call of a key, or None."""

    def put(self, key: Hashable, call: Known) -> None:
        """Add a call."""
        with self._lock:
            self._calls[key] = call
            while len(self._calls) > self._most:
                self._calls.pop(next(iter(self._calls)), None)

    def clear(self) -> None:
        """Drop all calls."""
        with self._lock:
            self._calls.clear()

    def __len__(self) -> int:
        return len(self._calls)


MOST_CALLS = 1024
"""The most calls that a device knows."""
