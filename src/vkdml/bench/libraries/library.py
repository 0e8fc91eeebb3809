"""What every other library is asked for, and how its calls are timed."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.bench import contents
from vkdml.bench.cases import Case, window_of
from vkdml.bench.check import right_indices
from vkdml.bench.contents import Bytes, numpy_dtype
from vkdml.bench.host_clock import call_times
from vkdml.bench.latency import LatencyCase
from vkdml.bench.record import Times
from vkdml.bench.sweep import SweepCase
from vkdml.bench.unsupported import Unsupported
from vkdml.common import windows

READINGS = 30
WARM_SECONDS = 0.25
REST_SECONDS = 2.0
"""After longer without a warm-up a device may take more time to raise its clocks."""
RESTED_TIMES = 4
"""So many times as long it is warmed then."""
_warmed_at = -math.inf
# Wall-clock times on the processor.
CALL_PATIENCE_SECONDS = 1.0
FEWEST_CALLS = 3
# Of calls that are queued before the host waits for them.
QUEUE_SECONDS = 4e-3
# Enough for the host to queue all readings behind it; at 2 GHz, 10 ms.
SPIN_CYCLES = 20_000_000
OUT_OF_TIME = "out of time"
"""Why a case that a library's time did not reach has none."""
# Of an error that is told in one line.
_MOST_CHARACTERS = 120
NO_COPY = "shares the host's memory"
"""Why a library on the processor has no transfers to time."""


class Library(ABC):
    """One library. ``cuda`` says whether it is to run on the CUDA device, or else on the processor."""

    method = "wall clock"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        self.cuda = cuda
        self.most_bytes = most_bytes
        self._host: dict[str, Bytes] = {}
        self._on_device: dict[str, Any] = {}

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    def runs_on(self) -> str:
        return "device" if self.cuda else "processor"

    def select(self, device_name: str) -> None:
        """Take the device of this name, where the library numbers Vulkan's devices itself.

        Raises:
            Unsupported: it does not have it.
        """
        return

    @abstractmethod
    def time(self, case: Case) -> list[float]:
        """Return readings in microseconds.

        Raises:
            Unsupported: the library cannot do it.
        """

    def public_call(self, case: Case) -> Callable[[], object] | None:
        """Return the library's public call on an array where it computes, which waits for the result.

        None where :meth:`time` times that, or where there is none.
        """
        return None

    def time_chain(self, case: Case) -> Times:
        """Time an operation of a chain; see :mod:`vkdml.bench.chains`.

        Raises:
            Unsupported: the library has no such chains.
        """
        raise Unsupported("has no chain of operations in one submission")

    def time_sweep(self, case: SweepCase) -> list[float]:
        """Return readings in microseconds.

        Raises:
            Unsupported: the library cannot do it.
        """
        raise Unsupported("is not timed beside a sweep")

    @abstractmethod
    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        """Return a function that finds the index in the array of a number, or that moves this array.

        Raises:
            Unsupported: the library has no such arrays.
        """

    def host_bytes(self, content: str) -> Bytes:
        """Return the bytes that vkdml ran on."""
        if content not in self._host:
            self._host[content] = contents.content(content, self.most_bytes + -self.most_bytes % 16)
        return self._host[content]

    def on_device(self, content: str, move: Callable[[Bytes], Any]) -> Any:
        """Return them where the library computes."""
        if content not in self._on_device:
            self._on_device[content] = move(self.host_bytes(content))
        return self._on_device[content]

    def host_array(self, case: Case) -> np.ndarray[Any, Any]:
        flat = self.host_bytes(self.content(case))[: case.input_bytes]
        return flat.view(numpy_dtype(case.element)).reshape(case.shape)

    def content(self, case: Case) -> str:
        """Return what to run on: the processor's libraries would stop at the first NaN of random bits."""
        if self.runs_on == "processor" and case.op != "slice1":
            return numbers_of(case)
        return case.content


def numbers_of(case: Case) -> str:
    """Return a content without NaNs for floats, and the case's own for others."""
    return f"numbers {case.element}" if "float" in case.element else case.content


def require_right(case: Case, content: Bytes, result: np.ndarray[Any, Any]) -> None:
    """Raise unless a library's result is that of the case.

    Raises:
        Unsupported: the result is wrong, and so its time means nothing.
    """
    if case.op == "slice1":
        array = content[: case.input_bytes].view(numpy_dtype(case.element)).reshape(case.shape)
        right = copied(array, case)
        same = right.shape == result.shape and right.tobytes() == result.tobytes()
    else:
        same = np.array_equal(result.reshape(-1), right_indices(case, content[: case.input_bytes]))
    if not same:
        raise Unsupported("its result is wrong")


def single_axis(case: Case) -> tuple[tuple[int, ...], int]:
    """Return a shape, and its one reduced axis, with neighbouring reduced axes joined: a view, no copy."""
    axes = case.axes
    if list(axes) != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("reduces one axis at a time")
    joined = int(np.prod([case.shape[axis] for axis in axes]))
    return (*case.shape[: axes[0]], joined, *case.shape[axes[-1] + 1 :]), axes[0]


def wall_clock(call: Callable[[], object]) -> list[float]:
    """Time a call that returns when it is done."""
    call()
    return call_times(call, READINGS, FEWEST_CALLS, CALL_PATIENCE_SECONDS)


def warm(call: Callable[[], object], wait: Callable[[], object]) -> None:
    """Call until the device's clocks are up; for longer where it has waited for long."""
    global _warmed_at
    start = time.perf_counter()
    rested = start - _warmed_at > REST_SECONDS
    until = start + WARM_SECONDS * (RESTED_TIMES if rested else 1)
    while True:
        call()
        wait()
        _warmed_at = time.perf_counter()
        if _warmed_at > until:
            return


def queued(call: Callable[[], object], wait: Callable[[], object]) -> list[float]:
    """Time calls that the host queues, many at a time, by the host's clock."""
    warm(call, wait)
    start = time.perf_counter()
    call()
    wait()
    calls = max(2, min(100, int(QUEUE_SECONDS / (time.perf_counter() - start))))
    readings: list[float] = []
    until = time.perf_counter() + CALL_PATIENCE_SECONDS
    while len(readings) < READINGS // 2:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        readings.append((time.perf_counter() - start) * 1e6 / calls)
        if len(readings) >= FEWEST_CALLS and time.perf_counter() > until:
            break
    return readings


def cuts(case: Case) -> tuple[slice, ...]:
    """Return what a slice1 case copies as Python slices of its array (transposed where the case says so)."""
    window = window_of(case)
    return tuple(map(windows.as_slice, window.offsets, window.sizes, window.steps))


def copied(array: Any, case: Case) -> Any:
    """Return the view of a library's array that a slice1 case copies."""
    return (array.swapaxes(0, 1) if window_of(case).turned else array)[cuts(case)]


def one_line(error: object) -> str:
    """Return the first line of an error that says something, cut short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_MOST_CHARACTERS]
