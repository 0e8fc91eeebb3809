"""Times plans, public calls and copies by the device's own clock: warm, many readings, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkdml import _native
from vkdml.bench import resident
from vkdml.bench.resident import Bytes
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.execution import Execution, ExecutionCache

FEWEST_READINGS = 9
"""So many are taken however long they last."""
REPEATS = 4
"""How often a plan runs in one submission."""
OUTPUT_ROLES = ("indices", "values", "output")


@dataclass(frozen=True)
class Reading:
    """The time of a plan's dispatches together, in nanoseconds, and what they wrote."""

    median_ns: float
    low_ns: float
    """The 10th percentile."""
    high_ns: float
    """The 90th percentile."""
    readings: int
    steps: dict[str, float]
    """Median of each kernel."""
    outputs: dict[str, Bytes]
    """Role to the bytes in the buffer after the last run."""


def time_plan(
    device: Device,
    plan: Plan,
    bound: Mapping[str, _native.Buffer],
    *,
    readings: int = 30,
    warm_seconds: float = 0.25,
    patience_seconds: float = 3.0,
) -> Reading:
    """Run a plan again and again on buffers that lie on the device, and read the device's clock.

    >>> reading = time_plan(device, plan, {"input": buffer})  # doctest: +SKIP
    >>> reading.median_ns  # doctest: +SKIP
    236544.0

    Args:
        device: on which to run.
        plan: made for that device.
        bound: buffers of the plan's roles; the input at least.
        readings: how many runs to time.
        warm_seconds: of work before the first reading, since clocks fall when a device idles.
        patience_seconds: after so long no reading is added to the first nine.

    Raises:
        DeviceError: the device failed or has no timestamps.
        MemoryError: a buffer that the device cannot hold.
    """
    sizes = {role: plan.bytes_of(role) for role in OUTPUT_ROLES if plan.bytes_of(role)}
    outputs = {role: resident.allocate(device, nbytes) for role, nbytes in sizes.items() if role not in bound}
    for buffer in outputs.values():
        resident.poison(device, buffer)
    execution = Execution(
        device.executions,
        plan,
        uploads=(),
        downloads=(),
        timestamps=True,
        bound={**bound, **outputs},
        repeats=REPEATS,
    )

    warm_until = time.perf_counter() + warm_seconds
    execution.run()
    while time.perf_counter() < warm_until:
        execution.run()

    totals: list[float] = []
    per_step: dict[str, list[float]] = {}
    kernels = {step.kernel for step in plan.steps}
    patient_until = time.perf_counter() + patience_seconds
    while len(totals) < readings:
        if len(totals) >= FEWEST_READINGS and time.perf_counter() > patient_until:
            break
        execution.run()
        timings = [timing for timing in execution.timings() if timing[0] in kernels]
        # The first finds cold instruction caches; kernels that a library queues one after the other do not.
        for start in range(len(plan.steps), len(timings), len(plan.steps)):
            ran: dict[str, float] = {}
            for label, nanoseconds in timings[start : start + len(plan.steps)]:
                ran[label] = ran.get(label, 0.0) + nanoseconds
            totals.append(sum(ran.values()))
            for label, nanoseconds in ran.items():
                per_step.setdefault(label, []).append(nanoseconds)

    median, low, high = spread(totals)
    return Reading(
        median,
        low,
        high,
        len(totals),
        {label: statistics.median(times) for label, times in per_step.items()},
        {role: resident.download(device, buffer, sizes[role]) for role, buffer in outputs.items()},
    )


@dataclass(frozen=True)
class CallReading:
    """The times of a public call and of the kernels within it, in microseconds."""

    call_us: float
    """Median of the call as users make it, without timestamps."""
    kernels_us: float
    """Of the call's kernels together; 0 for a call that needs none."""
    low_us: float
    """The kernels' time in a call at the 10th percentile."""
    high_us: float
    """The kernels' time in a call at the 90th percentile."""
    readings: int
    steps: dict[str, float]
    """Of each kernel."""
    result: Any
    """What the call returned."""


@dataclass
class _KernelClock:
    """Adds up what the kernels of a call took."""

    ran: list[_TimedExecution] = field(default_factory=list)
    nanoseconds: dict[str, float] = field(default_factory=dict)

    def add(self, execution: _TimedExecution) -> None:
        for label, nanoseconds in execution.timings():
            if label in execution.kernels:
                self.nanoseconds[label] = self.nanoseconds.get(label, 0.0) + nanoseconds

    def collect(self) -> dict[str, float]:
        """Return nanoseconds by kernel since the last time."""
        for execution in self.ran:
            self.add(execution)
        collected, self.nanoseconds = self.nanoseconds, {}
        self.ran.clear()
        return collected


class _TimedExecution(Execution):
    """An execution with timestamps that says to a clock when it ran."""

    def __init__(self, cache: ExecutionCache, plan: Plan, clock: _KernelClock) -> None:
        super().__init__(cache, plan, timestamps=True)
        self.kernels = {step.kernel for step in plan.steps}
        self._clock = clock

    def run(self) -> None:
        super().run()
        # Its timestamps are read after the call, whose time they would add to.
        self._clock.ran.append(self)

    def wait(self) -> None:
        super().wait()
        # It may run again before the call ends: large arrays go through it in tiles.
        self._clock.add(self)


@contextmanager
def _kernels_timed(cache: ExecutionCache) -> Iterator[_KernelClock]:
    """Give every execution that calls make or take from the cache timestamps, for the time of the block."""
    clock = _KernelClock()
    ordinary = cache.make_execution
    cache.clear()
    cache.make_execution = lambda cache, plan: _TimedExecution(cache, plan, clock)
    try:
        yield clock
    finally:
        cache.make_execution = ordinary
        cache.clear()


def time_call(
    device: Device,
    call: Callable[[], Any],
    *,
    readings: int = 30,
    warm_seconds: float = 0.02,
    patience_seconds: float = 1.0,
) -> CallReading:
    """Time a public call, and the kernels within it by their share of the same call with timestamps.

    Drivers on a processor change their speed by a factor of two for tens of calls at a time, as the system
    places their threads on one core or on several, and timestamps lengthen what they enclose (on lavapipe by
    60 us). So a kernel and a call that are timed one after the other do not compare, and the call can seem
    shorter than its kernel. The kernels' share of one call is free of both.

    Args:
        device: on which the call computes.
        call: what to time; it returns when it is done.
        readings: how many calls to time, each way.
        warm_seconds: of calls before the first reading.
        patience_seconds: after so long no reading is added to the first nine, each way.

    Raises:
        DeviceError: the device failed or has no timestamps.
        MemoryError: a buffer that the device cannot hold.
    """

    result = call()

    def timed(collect: Callable[[], dict[str, float]]) -> tuple[list[float], list[dict[str, float]]]:
        warm_until = time.perf_counter() + warm_seconds
        call()
        while time.perf_counter() < warm_until:
            call()
        collect()
        taken: list[float] = []
        collected: list[dict[str, float]] = []
        patient_until = time.perf_counter() + patience_seconds
        while len(taken) < readings:
            if len(taken) >= FEWEST_READINGS and time.perf_counter() > patient_until:
                break
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e6)
            collected.append(collect())
        return taken, collected

    calls, _ = timed(dict)
    with _kernels_timed(device.executions) as clock:
        stamped, kernels = timed(clock.collect)
    median, low, high = spread(calls)

    def share(labels: Collection[str]) -> float:
        """Return which part of a call these kernels take."""
        took = [sum(times.get(label, 0.0) for label in labels) / 1e3 for times in kernels]
        return statistics.median(took_us / call_us for took_us, call_us in zip(took, stamped, strict=True))

    labels = kernels[-1].keys()
    whole = share(labels)
    return CallReading(
        call_us=median,
        kernels_us=median * whole,
        low_us=low * whole,
        high_us=high * whole,
        readings=len(calls),
        steps={label: median * share([label]) for label in labels},
        result=result,
    )


def time_copy(device: Device, nbytes: int, *, readings: int = 30, warm_seconds: float = 0.25) -> float:
    """Return the median nanoseconds in which the driver copies one buffer to another (vkCmdCopyBuffer)."""
    source, target = (resident.allocate(device, nbytes) for _ in range(2))
    resident.poison(device, source)
    sequence = device.native.sequence(REPEATS)
    for _ in range(REPEATS):
        sequence.copy(source, target, nbytes)
    warm_until = time.perf_counter() + warm_seconds
    sequence.eval()
    while time.perf_counter() < warm_until:
        sequence.eval()
    taken: list[float] = []
    while len(taken) < readings:
        sequence.eval()
        taken += sequence.timings()[1:]
    return statistics.median(taken)


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 10th and the 90th percentile.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    (3.0, 1.4, 4.6)
    """
    median, low, high = np.percentile(np.asarray(values, np.float64), [50, 10, 90])
    return float(median), float(low), float(high)
