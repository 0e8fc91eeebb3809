"""Times public calls and copies: calls by the host's clock, what lies within them by the device's own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vkdml.bench.host_clock import call_times
from vkdml.common.read_only import fix
from vkdml.measuring import FEWEST_READINGS, REPEATS, poisoned, spread, warm_up
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.execution import Execution
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import NativeSequence, Region, record_steps, recordable_steps, workspace_for


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

    ran: list[_TimedExecution | _TimedRun] = field(default_factory=list)
    nanoseconds: dict[str, float] = field(default_factory=dict)

    def add(self, execution: _TimedExecution | _TimedRun) -> None:
        for kernel, nanoseconds in execution.kernel_times():
            self.nanoseconds[kernel] = self.nanoseconds.get(kernel, 0.0) + nanoseconds

    def collect(self) -> dict[str, float]:
        """Return nanoseconds by kernel since the last time."""
        for execution in self.ran:
            self.add(execution)
        collected, self.nanoseconds = self.nanoseconds, {}
        self.ran.clear()
        return collected


class _TimedExecution(Execution):
    """An execution with timestamps that says to a clock when it ran."""

    def __init__(self, cache: ExecutionCache, plan: Plan) -> None:
        super().__init__(cache, plan)
        # What is recorded, in order: a kernel's name, or None for a copy.
        self._operations: list[str | None] = [None] * len(self.uploaded)
        self._operations += [step.kernel for step in plan.steps]
        self._operations += [None] * len(self.downloaded)
        assert isinstance(cache, _TimedExecutions)
        self._clock = cache.clock

    def run(self) -> None:
        super().run()
        # Its timestamps are read after the call, whose time they would add to.
        self._clock.ran.append(self)

    def wait(self) -> None:
        super().wait()
        # It may run again before the call ends: large arrays go through it in tiles.
        self._clock.add(self)

    def kernel_times(self) -> list[tuple[str, float]]:
        """Return (kernel, nanoseconds) for each dispatch of the last run."""
        pairs = zip(self._operations, self._sequence.timings(), strict=True)
        return [(kernel, nanoseconds) for kernel, nanoseconds in pairs if kernel is not None]


class _TimedRun:
    """A plan with timestamps, on buffers that are given for each run."""

    def __init__(self, cache: _TimedExecutions, plan: Plan) -> None:
        self._kernels = [step.kernel for step in plan.steps]
        self._steps = recordable_steps(cache, plan)
        self._workspace = workspace_for(cache, plan)
        self._sequence = cache.sequence(len(plan.steps))

    def run(self, regions: Mapping[str, Region]) -> None:
        self._sequence.clear()
        record_steps(self._sequence, self._steps, self._workspace, regions)
        self._sequence.eval()

    def kernel_times(self) -> list[tuple[str, float]]:
        """Return (kernel, nanoseconds) for each dispatch of the last run."""
        return list(zip(self._kernels, self._sequence.timings(), strict=True))


class _TimedExecutions(ExecutionCache):
    """Executions of a device that say to a clock when they ran."""

    execution_type = _TimedExecution

    def __init__(self, device: Device, clock: _KernelClock) -> None:
        super().__init__(device.native, device.info.unified_memory, device.limits.tuning)
        self.pipelines = device.executions.pipelines
        self.fixed_pipelines = device.executions.fixed_pipelines
        self._runs: dict[Plan, _TimedRun] = {}
        self.clock = clock

    def sequence(self, operations: int) -> NativeSequence:
        return self.device.sequence(operations)

    def run(self, plan: Plan, regions: Mapping[str, Region]) -> None:
        timed = self._runs.get(plan)
        if timed is None:
            timed = self._runs[plan] = _TimedRun(self, plan)
        timed.run(regions)
        self.clock.ran.append(timed)


@contextmanager
def _kernels_timed(device: Device) -> Iterator[_KernelClock]:
    """Let calls on the device run executions with timestamps, for the time of the block."""
    clock = _KernelClock()
    ordinary = device.executions
    ordinary.clear()  # memory for two of each might be too much
    fix(device, "executions", _TimedExecutions(device, clock))
    try:
        yield clock
    finally:
        fix(device, "executions", ordinary)


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
        warm_up(call, warm_seconds)
        collect()
        collected: list[dict[str, float]] = []
        taken = call_times(
            call, readings, FEWEST_READINGS, patience_seconds, lambda: collected.append(collect())
        )
        return taken, collected

    calls, _ = timed(dict)
    with _kernels_timed(device) as clock:
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
    source, target = poisoned(device, nbytes), Memory(device, nbytes)
    sequence = device.native.sequence(REPEATS)
    for _ in range(REPEATS):
        sequence.copy(source.buffer, target.buffer, nbytes)
    warm_up(sequence.eval, warm_seconds)
    taken: list[float] = []
    while len(taken) < readings:
        sequence.eval()
        taken += sequence.timings()[1:]
    return statistics.median(taken)
