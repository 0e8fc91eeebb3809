"""A mapping that keeps its newest entries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Newest(Generic[Value]):
    """Values by their keys, at most ``most`` of them; the oldest are dropped first.

    Threads share it. A look-up is a single read of a complete entry, so it takes no lock.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Value] = {}
        self._lock = threading.RLock()  # a signal handler may add something while something is added
        self.get: Callable[[Hashable], Value | None] = self._values.get
        """Return the value of a key, or None."""

    def __setitem__(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.pop(next(iter(self._values)), None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
