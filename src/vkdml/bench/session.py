"""One run of the benchmark: ceiling, cases, latencies, peers, in this order, into a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from vkdml.bench import latency, measure
from vkdml.bench.cases import Case, fitted_suite
from vkdml.bench.clocks import WARM_SECONDS
from vkdml.bench.latency import LatencyCase
from vkdml.bench.peers import PEER_SECONDS, time_peer
from vkdml.bench.record import LatencyRow, Record, RecordFault, Row, require_possible
from vkdml.runtime.device import Device

KEEP_SECONDS = 30.0
"""A run of several minutes that is ended from outside loses at most the cases of so long a time."""
OWN_SUITE = "own"
"""The name of a run of cases that the user described."""


class Progress(Protocol):
    """Told what a run does."""

    def phase(self, name: str, steps: int) -> None:
        """A part of the run begins; it has so many steps."""

    def step(self, said: str) -> None:
        """One step is done."""


@dataclass(frozen=True)
class Options:
    """What to run."""

    suite: str
    cases: Sequence[Case]
    with_latency: bool
    mib: int | None = None
    index_bytes: int = 4
    readings: int = 30
    peers: Sequence[str] = ()
    peers_named: bool = False
    peer_seconds: float = PEER_SECONDS
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def as_given(self) -> bool:
        """Whether the cases are the user's own, which run as they are or not at all."""
        return self.suite == OWN_SUITE


Keep = Callable[[Record], None]


def run(device: Device, options: Options, progress: Progress, keep: Keep = lambda record: None) -> Record:
    """Measure everything.

    Args:
        device: on which to run.
        options: what to run.
        progress: told of each step.
        keep: called with the record every ``KEEP_SECONDS``, when the cases are done and after each peer. It
            is whole each time.

    Raises:
        WrongResult: a kernel's result is wrong.
        ImpossibleTime: a whole call was shorter than its kernels.
        PeerFault: a named peer could not start.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.
    """
    most = measure.most_input_bytes(device, options.mib)
    settings = {
        "mib": options.mib,
        "most_input_bytes": None if options.as_given else most,
        "index_dtype": f"int{8 * options.index_bytes}",
        "readings": options.readings,
        "warm_seconds": WARM_SECONDS,
    }
    record = measure.new_record(device, options.suite, settings)
    cases = list(options.cases) if options.as_given else fitted_suite(options.cases, most)
    if cases:
        with phase(record, progress, "ceiling", 0):
            ceiling = measure.measure(
                device, measure.ceiling_cases(most), readings=options.readings, kernels_only=True
            )
            record.copy_gb_per_s, record.copy_bytes = measure.copy_rate(device, most, options.readings)
        with phase(record, progress, f"{options.suite} suite", len(cases)):
            kept = time.monotonic()

            def done(row: Row) -> None:
                nonlocal kept
                progress.step(_said_of(row))
                record.rows.append(row)
                if time.monotonic() - kept >= KEEP_SECONDS:
                    known = measure.read_ceiling([*ceiling, *record.rows], most)
                    record.ceiling_gb_per_s, record.ceiling_case = known
                    keep(record)
                    kept = time.monotonic()

            record.rows = measure.measure(
                device, cases, done, index_bytes=options.index_bytes, readings=options.readings
            )
        require_possible([*ceiling, *record.rows])
        record.ceiling_gb_per_s, record.ceiling_case = measure.read_ceiling([*ceiling, *record.rows], most)
    if options.with_latency:
        with phase(record, progress, "latency", len(latency.latency_cases(most))):
            record.latency = measure.measure_latency(
                device, most, lambda row: progress.step(f"{row.case}: p50 {row.ours.p50_us:.1f} us")
            )
    device.trim()
    time_peers(device, record, options, progress, keep)
    return record


def merge(
    device: Device,
    record: Record,
    options: Options,
    progress: Progress,
    keep: Keep = lambda record: None,
) -> Record:
    """Time peers on the cases of an earlier run and add them to its record; otherwise as :func:`run`.

    Raises:
        RecordFault: the record is of another device.
    """
    if record.device["name"] != device.name:
        raise RecordFault(
            f"--merge: the record is of {record.device['name']}, this is {device.name}; accepted is a record "
            "of the same device"
        )
    time_peers(device, record, options, progress, keep)
    return record


def time_peers(device: Device, record: Record, options: Options, progress: Progress, keep: Keep) -> None:
    """Time the peers one after the other."""
    keep(record)
    latency_cases = latency_cases_of(record.latency)
    steps = sum(row.as_case().is_compared for row in record.rows) + len(latency_cases)
    for name in options.peers:
        with phase(record, progress, name, steps):
            time_peer(
                name,
                device,
                record,
                latency_cases,
                named=options.peers_named,
                mib=options.mib,
                seconds=options.peer_seconds,
                done=progress.step,
            )
        keep(record)


def _said_of(row: Row) -> str:
    smaller = f" (made smaller, from {row.full_shape})" if row.full_shape else ""
    return f"{row.case}{smaller}: {row.us:.1f} us, {row.gb_per_s:.4g} GB/s"


def latency_cases_of(rows: Sequence[LatencyRow]) -> list[LatencyCase]:
    """Return what a record's rows timed, one for each row."""
    known = {case.name: case for case in latency.latency_cases(max((row.nbytes for row in rows), default=0))}
    return [known.get(row.case) or LatencyCase(row.kind, row.nbytes, 1, row.ours.calls) for row in rows]


@contextmanager
def phase(record: Record, progress: Progress, name: str, steps: int) -> Iterator[None]:
    progress.phase(name, steps)
    start = time.perf_counter()
    yield
    record.seconds[name] = time.perf_counter() - start
