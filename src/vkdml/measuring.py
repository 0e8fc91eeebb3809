"""Times plans on arrays that lie on a device, by the device's own clock: warm, many readings, medians.

For the benchmark and the tuner.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vkdml.plan.fixed_parameters import with_fixed_parameters
from vkdml.plan.plans import Plan, Step
from vkdml.runtime.device import Device
from vkdml.runtime.fixed_pipelines import RUNS_BETWEEN
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

Bytes = npt.NDArray[np.uint8]

FEWEST_READINGS = 9
"""At least so many readings are taken, however long they last."""
REPEATS = 4
"""How often a plan runs in one submission."""
OUTPUT_ROLES = ("indices", "values", "output")
POISON = 0xA5
"""What fills outputs before a kernel runs: a kernel that writes nothing must not find an old right answer."""
CHUNK_BYTES = 32 << 20


def filled(device: Device, content: Bytes) -> Memory:
    """Return memory that holds these bytes, where the device's kernels are fastest."""
    memory = Memory(device, content.size)
    memory.write(0, content)
    return memory


def poisoned(device: Device, nbytes: int) -> Memory:
    """Return memory full of bytes that no result consists of."""
    memory = Memory(device, nbytes)
    poison = np.full(min(nbytes, CHUNK_BYTES), POISON, np.uint8)
    for start in range(0, nbytes, CHUNK_BYTES):
        memory.write(start, poison[: nbytes - start])
    return memory


def content_of(memory: Memory, nbytes: int) -> Bytes:
    """Return the first bytes that it holds."""
    content = np.empty(nbytes, np.uint8)
    memory.read(0, content)
    return content


def build_kernels(
    device: Device, plans: Iterable[Plan], is_time_left: Callable[[], bool] = lambda: True
) -> None:
    """Build the kernels of plans with all cores: compilers of drivers take a large part of a second for each.

    Args:
        device: that the plans were made for.
        plans: what cannot be built says so when it is run.
        is_time_left: no kernel is begun where this is false.
    """

    def build(step: Step) -> None:
        with suppress(MemoryError, RuntimeError):
            if is_time_left():
                device.executions.pipelines.of(step)

    steps = {step.pipeline: step for plan in plans for step in plan.steps}
    with ThreadPoolExecutor() as threads:
        list(threads.map(build, steps.values()))


def settled(device: Device, plan: Plan) -> Plan:
    """Return the plan as it runs once calls have run it a few times: with pipelines of its own, if any."""
    return with_fixed_parameters(plan, device.limits.tuning)


def settle(device: Device, call: Callable[[], object]) -> None:
    """Call until the device has what it builds for calls that come again and again."""
    after = device.limits.tuning.fixed_parameters_after
    if not after or device.limits.tuning.is_processor:  # there, it would take longer than all the rest
        return
    for _ in range(after):
        call()
    device.executions.fixed_pipelines.wait()
    for _ in range(RUNS_BETWEEN):
        call()


class RecordedPlan:
    """A plan recorded once, or several times in one submission, on memory that it keeps alive.

    Nothing is uploaded or downloaded. One thread at a time.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        memories: Mapping[str, Memory],
        *,
        repeats: int = 1,
        timed: bool = False,
    ) -> None:
        """Record it.

        Args:
            device: that the plan was made for.
            plan: to run.
            memories: of the plan's roles, the workspace apart; last one that the plan writes.
            repeats: how often each :meth:`run` does the plan's steps.
            timed: each step, for :meth:`timings`.

        Raises:
            MemoryError: a workspace that the device cannot hold.
            DeviceError: the device failed, or has no timestamps.
        """
        executions = device.executions
        steps = recordable_steps(executions, plan)
        workspace = workspace_for(executions, plan)
        self._sequence = executions.device.sequence(repeats * len(steps) if timed else 0)
        regions = {role: (memory.buffer, 0) for role, memory in memories.items()}
        for _ in range(repeats):
            record_steps(self._sequence, steps, workspace, regions)
        self._spin_us = executions.tuning.spin_microseconds

    def run(self, *, spin_us: float | None = None) -> None:
        """Evaluate it and wait.

        Args:
            spin_us: of asking before the thread sleeps, and others may run; None for the device's own.
        """
        self._sequence.eval(None, self._spin_us if spin_us is None else spin_us)

    def timings(self) -> list[float]:
        """Return the nanoseconds of each step of the last run, one repeat after the other."""
        return self._sequence.timings()


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
    bound: Mapping[str, Memory],
    *,
    readings: int = 30,
    warm_seconds: float = 0.25,
    patience_seconds: float = 3.0,
    before: Callable[[], object] = lambda: None,
) -> Reading:
    """Run a plan again and again on memory of the device, and read the device's clock.

    >>> reading = time_plan(device, plan, {"input": memory})  # doctest: +SKIP
    >>> reading.median_ns  # doctest: +SKIP
    236544.0

    Args:
        device: on which to run.
        plan: made for that device.
        bound: memory of the plan's roles; the input at least.
        readings: how many runs to time.
        warm_seconds: of work before the first reading, since clocks fall when a device idles.
        patience_seconds: after so long no reading is added to the first nine.
        before: called once all is ready to run.

    Raises:
        DeviceError: the device failed or has no timestamps.
        MemoryError: a buffer that the device cannot hold.
    """
    sizes = {role: plan.bytes_of(role) for role in OUTPUT_ROLES if plan.bytes_of(role)}
    outputs = {role: poisoned(device, nbytes) for role, nbytes in sizes.items() if role not in bound}
    recorded = RecordedPlan(device, plan, {**bound, **outputs}, repeats=REPEATS, timed=True)

    before()
    warm_up(recorded.run, warm_seconds)
    totals: list[float] = []
    per_step: dict[str, list[float]] = {}
    patient_until = time.perf_counter() + patience_seconds
    count = len(plan.steps)
    while len(totals) < readings:
        if len(totals) >= FEWEST_READINGS and time.perf_counter() > patient_until:
            break
        recorded.run()
        timings = recorded.timings()
        # The first finds cold instruction caches; kernels that a library queues one after the other do not.
        for start in range(count, len(timings), count):
            ran: dict[str, float] = {}
            for step, nanoseconds in zip(plan.steps, timings[start : start + count], strict=True):
                ran[step.kernel] = ran.get(step.kernel, 0.0) + nanoseconds
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
        {role: content_of(memory, sizes[role]) for role, memory in outputs.items()},
    )


def warm_up(call: Callable[[], object], seconds: float) -> None:
    """Call once, and again until so long has passed."""
    until = time.perf_counter() + seconds
    call()
    while time.perf_counter() < until:
        call()


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers; of none, 1.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 10th and the 90th percentile.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    (3.0, 1.4, 4.6)
    """
    median, low, high = np.percentile(np.asarray(values, np.float64), [50, 10, 90])
    return float(median), float(low), float(high)
