"""Compares two records of one device: what became slower or faster by more than the readings vary."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from vkdml.bench.files import RecordFault
from vkdml.bench.record import Record

LEAST_CHANGE = 0.02
"""Smaller changes are never said to be any: two runs of the same program differ by as much."""


@dataclass(frozen=True)
class Spread:
    """A median and the 10th and 90th percentile, in microseconds."""

    us: float
    low_us: float
    high_us: float


@dataclass(frozen=True)
class Change:
    """A case in two records."""

    case: str
    old: Spread
    new: Spread

    @property
    def ratio(self) -> float:
        """How many times as long it takes now."""
        return self.new.us / self.old.us

    @property
    def verdict(self) -> str:
        """``slower`` or ``faster`` if the middle 80% of both do not overlap; else ``same``."""
        if self.new.low_us > self.old.high_us and self.ratio > 1 + LEAST_CHANGE:
            return "slower"
        if self.new.high_us < self.old.low_us and self.ratio < 1 / (1 + LEAST_CHANGE):
            return "faster"
        return "same"


def compare(new: Record, old: Record) -> list[Change]:
    """Return the cases that both records have, the most slowed first.

    Raises:
        RecordFault: they are of different devices, or have no case in common.
    """
    check_device(old, new.device["name"])
    check_cases(old, names_in(new))
    before = dict(_spreads(old))
    changes = [Change(case, before[case], now) for case, now in _spreads(new) if case in before]
    return sorted(changes, key=lambda change: -change.ratio)


def check_device(old: Record, name: str) -> None:
    """See that a baseline is of the device with this name.

    Raises:
        RecordFault: it is of another one.
    """
    if old.device["name"] != name:
        raise RecordFault(
            f"the baseline is of {old.device['name']}, the run of {name}; accepted is a record of the same "
            "device"
        )


def check_cases(old: Record, names: Set[str]) -> None:
    """See that a baseline has one of a run's cases.

    Raises:
        RecordFault: it has none of them.
    """
    if names.isdisjoint(names_in(old)):
        raise RecordFault(
            "the baseline and the run have no case in common; accepted is a record of the same suite"
        )


def not_compared(new: Record, old: Record) -> str:
    """Say how many cases only one of both has; an empty text if there is none."""
    now, before = names_in(new), names_in(old)
    only = ((len(now - before), "of the run"), (len(before - now), "of the baseline"))
    counts = [f"{number} {of}" for number, of in only if number]
    return f"not compared, since the other has no such case: {' and '.join(counts)}" if counts else ""


def names_in(record: Record) -> set[str]:
    """Return the cases of a record that can be compared."""
    return {case for case, _ in _spreads(record)}


def _spreads(record: Record) -> Iterator[tuple[str, Spread]]:
    for row in record.rows:
        times = row if row.us > 0 else row.host_call or row.array_call  # without work there is no kernel
        if times is not None:
            yield row.case, Spread(times.us, times.low_us, times.high_us)
    for case in record.sweep:
        if case.us is not None and case.low_us is not None and case.high_us is not None:
            yield case.case, Spread(case.us, case.low_us, case.high_us)
    for latency in record.latency:
        quantiles = latency.ours.quantiles_us
        yield latency.case, Spread(latency.ours.p50_us, quantiles[10], quantiles[90])


def describe(changes: list[Change]) -> Iterator[str]:
    """Yield a line for each change beyond noise, and the sum."""
    counts = {"slower": 0, "faster": 0, "same": 0}
    for change in changes:
        counts[change.verdict] += 1
        if change.verdict != "same":
            yield (
                f"{change.verdict}: {change.case}: {change.old.us:.1f} us "
                f"({change.old.low_us:.1f} to {change.old.high_us:.1f}) before, {change.new.us:.1f} us "
                f"({change.new.low_us:.1f} to {change.new.high_us:.1f}) now"
            )
    yield (
        f"against the baseline: {counts['slower']} slower, {counts['faster']} faster, {counts['same']} the "
        "same within noise"
    )
