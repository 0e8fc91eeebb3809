"""Keeps the clocks of a GPU up during a run, and finds out whether they are, by a reference that it times.

A GPU that waits lowers its clocks, after seconds of waiting to a sixth, and raises them late. Readings taken
meanwhile are long, and alike, so that they do not show it themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from vkdml.bench.cases import MIB, Case, plan_of
from vkdml.measuring import OUTPUT_ROLES, Reading, RecordedPlan, poisoned
from vkdml.runtime.device import Device

WARM_SECONDS = 0.25
"""How long the GPU works without a pause after a pause of this length or more. After a shorter one, it works
as long as the pause was."""
FIRST_SECONDS = 1.0
"""How long the GPU works before the first readings of a run, to learn the reference's best time."""
PATIENCE_SECONDS = 3.0
"""A reference that has not come back to its best time by then has a new one: the device is slower now."""
TOLERANCE = 1.1
"""A reference that takes more than so many times its best time is too slow, and so are readings whose 90th
percentile is more than so many times their median."""
FALLEN = 1.25
"""Clocks fell during readings if the reference takes so many times its best after them.

A device at its limit of power lowers them a little, and that is how fast it is.
"""
MOST_AGAIN = 2
"""How often readings are taken again at most; readings that spread are taken again once."""
# Its rows are bound by instructions and lie in a cache, so that its time is the clock's.
_REFERENCE = Case("reference", "argmax", "int8", (16 * MIB // 256, 256), (1,))
_REFERENCE_NS = 2e6
_MOST_RUNS = 64
# Work on the host that is done by then does not let clocks fall.
_MOMENT_SECONDS = 1e-3

Result = TypeVar("Result")


class Clocks:
    """The clocks of one device. One thread at a time."""

    def __init__(
        self, reference: Callable[[], float] | None, now: Callable[[], float] = time.perf_counter
    ) -> None:
        """Know nothing of the device yet.

        Args:
            reference: does always the same work on the device and returns its time there; None for a device
                without clocks of its own.
            now: seconds.
        """
        self._reference = reference
        self._now = now
        self._best = math.inf
        self._worked_at = -math.inf
        self._host = ThreadPoolExecutor(1) if reference is not None else None

    def raise_again(self) -> None:
        """Let the device work until its clocks are up: after a pause for as long, and up to the best time."""
        if self._reference is None:
            return
        start = self._now()
        # Clocks that have not been seen at their best yet may rest on a low step.
        most = WARM_SECONDS if self._best < math.inf else FIRST_SECONDS
        enough = start + min(most, start - self._worked_at)
        while True:
            took = self._work()
            if self._worked_at >= start + PATIENCE_SECONDS:
                self._best = took
            if self._worked_at >= enough and took <= self._best * TOLERANCE:
                return

    def are_up(self) -> bool:
        """Whether the reference takes about as long as at its best."""
        return self._reference is None or self._work() <= self._best * FALLEN

    def busy_while(self, work: Callable[[], Result]) -> Result:
        """Return what work on the host returns; the device does not wait for it idly."""
        if self._host is None:
            return work()
        future = self._host.submit(work)
        wait([future], _MOMENT_SECONDS)
        while not future.done():
            self._work()
        return future.result()

    def steady(self, read: Callable[[], Reading]) -> tuple[Reading, list[float]]:
        """Take readings, and again if they spread or the clocks fell meanwhile.

        Returns:
            The last readings, and the medians in nanoseconds of those before them.
        """
        discarded: list[float] = []
        while True:
            reading = read()
            self._worked_at = self._now()
            if self._reference is None or len(discarded) == MOST_AGAIN:
                return reading, discarded
            spreads = reading.high_ns > reading.median_ns * TOLERANCE
            if self.are_up() and (discarded or not spreads):
                return reading, discarded
            discarded.append(reading.median_ns)

    def _work(self) -> float:
        assert self._reference is not None
        took = self._reference()
        self._best = min(self._best, took)
        self._worked_at = self._now()
        return took


def clocks_of(device: Device) -> Clocks:
    """Return the clocks of a device; on a processor there are none to raise.

    Raises:
        DeviceError: the device failed or has no timestamps.
        MemoryError: a buffer that the device cannot hold.
    """
    return Clocks(None) if device.info.type == "software" else reference_clocks(device)


def reference_clocks(device: Device) -> Clocks:
    """Return clocks that the device's own work says; raises as :func:`clocks_of`."""
    plan = plan_of(_REFERENCE, device.limits)
    roles = {role: plan.bytes_of(role) for role in ("input", *OUTPUT_ROLES) if plan.bytes_of(role)}
    memories = {role: poisoned(device, nbytes) for role, nbytes in roles.items()}

    def recorded(runs: int) -> Callable[[], float]:
        work = RecordedPlan(device, plan, memories, repeats=runs, timed=True)

        def reference() -> float:
            # The thread sleeps at once, so that threads which compute on the host get the interpreter.
            work.run(spin_us=0.0)
            return sum(work.timings())

        return reference

    once = recorded(1)
    took = min(once(), once())
    return Clocks(recorded(max(1, min(_MOST_RUNS, int(_REFERENCE_NS / max(took, 1.0))))))
