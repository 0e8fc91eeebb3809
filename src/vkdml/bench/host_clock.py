"""Times what returns when it is done, by the host's clock; vkdml and the other libraries alike."""

from __future__ import annotations

import time
from collections.abc import Callable

from vkdml.bench.record import Times
from vkdml.measuring import spread, warm_up

CALLS = 60
"""Readings of a call."""
WARM_SECONDS = 0.02
PATIENCE_SECONDS = 0.1
FEWEST = 5
"""At least so many readings are taken, however long they last."""


def time_calls(call: Callable[[], object], *, readings: int = CALLS, operations: int = 1) -> Times:
    """Time a call again and again.

    Args:
        call: returns when its result is there.
        readings: how many to take; fewer, but at least :data:`FEWEST`, if they take longer than a moment.
        operations: of one call, by whose number its time is divided.
    """
    warm_up(call, WARM_SECONDS)
    taken = [us / operations for us in call_times(call, readings, FEWEST, PATIENCE_SECONDS)]
    return Times(*spread(taken), len(taken))


def call_times(
    call: Callable[[], object],
    readings: int,
    fewest: int,
    patience_seconds: float,
    after_each: Callable[[], object] = lambda: None,
) -> list[float]:
    """Return the microseconds of so many calls; after ``patience_seconds`` of the fewest.

    The time of ``after_each`` is not counted.
    """
    taken: list[float] = []
    patient_until = time.perf_counter() + patience_seconds
    while len(taken) < readings:
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e6)
        after_each()
        if len(taken) >= fewest and time.perf_counter() > patient_until:
            break
    return taken
