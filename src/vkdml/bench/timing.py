"""Times plans by the device's own clock: warm, many readings, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vkdml import _native
from vkdml.bench import resident
from vkdml.bench.resident import Bytes
from vkdml.device import Device
from vkdml.execute import Execution
from vkdml.plan import Plan

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


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the 10th and the 90th percentile.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    (3.0, 1.4, 4.6)
    """
    median, low, high = np.percentile(np.asarray(values, np.float64), [50, 10, 90])
    return float(median), float(low), float(high)
