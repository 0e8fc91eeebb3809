"""One run of the benchmark: ceiling, cases, latencies, peers, in this order, into a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from vkdml.bench import latency, measure
from vkdml.bench.cases import Case, fitted_suite, plan_of
from vkdml.bench.clocks import WARM_SECONDS, clocks_of
from vkdml.bench.files import RecordFault
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.peers import PEER_SECONDS, rows_for_peer, time_peer
from vkdml.bench.record import LatencyRow, Record, Row, require_possible
from vkdml.bench.record_file import difference
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


def run(
    device: Device,
    options: Options,
    progress: Progress,
    keep: Keep = lambda record: None,
    earlier: Record | None = None,
) -> Record:
    """Measure everything, or what an earlier run has left.

    Args:
        device: on which to run.
        options: what to run.
        progress: told of each step.
        keep: called with the record every ``KEEP_SECONDS``, when the cases are done, after each peer and
            where the run is interrupted. It is whole each time.
        earlier: what an interrupted run left; it is completed and returned. Cases that it has are not timed
            again, nor with the libraries that were timed on them.

    Raises:
        RecordFault: the earlier run is of another device, version or suite, or has other settings or cases.
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
    cases = _fitted(options, most)
    if earlier is not None:
        _require_same_run(earlier, record, cases)
        record = earlier
    _time_cases(device, record, cases, options, most, progress, keep)
    if options.with_latency:
        _time_latency(device, record, most, progress, keep)
    device.trim()
    time_peers(device, record, options, progress, keep, missing_only=earlier is not None)
    return record


def _fitted(options: Options, most_bytes: int) -> list[Case]:
    return list(options.cases) if options.as_given else fitted_suite(options.cases, most_bytes)


def names_of_cases(device: Device, options: Options) -> set[str]:
    """Return the names that the cases of a run have in its record."""
    most = measure.most_input_bytes(device, options.mib)
    calls = latency.latency_cases(most) if options.with_latency else []
    return {case.name for case in _fitted(options, most)} | {call.name for call in calls}


def _time_cases(
    device: Device,
    record: Record,
    cases: Sequence[Case],
    options: Options,
    most: int,
    progress: Progress,
    keep: Keep,
) -> None:
    """Add the rows of those cases that the record has not, and the fastest read."""
    timed = {row.case for row in record.rows}
    left = [case for case in cases if case.name not in timed]
    if not left:
        return
    with phase(record, progress, "ceiling", 0):
        clocks = clocks_of(device)
        ceiling = measure.measure(
            device, measure.ceiling_cases(most), readings=options.readings, kernels_only=True, clocks=clocks
        )
        if record.copy_gb_per_s is None:
            record.copy_gb_per_s, record.copy_bytes = measure.copy_rate(device, most, options.readings)

    def note_ceiling() -> None:
        rate, case = measure.read_ceiling([*ceiling, *record.rows], most)
        if rate is not None and rate > (record.ceiling_gb_per_s or 0.0):
            record.ceiling_gb_per_s, record.ceiling_case = rate, case

    with phase(record, progress, "kernels", 0):
        measure.build_ahead(
            device, (partial(plan_of, case, device.limits, options.index_bytes) for case in left)
        )
    with kept_when_stopped(record, keep), phase(record, progress, f"{options.suite} suite", len(left)):
        kept = NowAndThen(keep)

        def done(row: Row) -> None:
            progress.step(_said_of(row))
            record.rows.append(row)
            note_ceiling()
            kept(record)

        measure.measure(
            device, left, done, index_bytes=options.index_bytes, readings=options.readings, clocks=clocks
        )
    require_possible([*ceiling, *record.rows])
    note_ceiling()
    places = {case.name: place for place, case in enumerate(cases)}
    record.rows.sort(key=lambda row: places[row.case])


def _time_latency(device: Device, record: Record, most: int, progress: Progress, keep: Keep) -> None:
    """Add the rows of those calls whose latency the record has not."""
    known = {row.case for row in record.latency}
    left = [case for case in latency.latency_cases(most) if case.name not in known]
    if not left:
        return

    def done(row: LatencyRow) -> None:
        progress.step(f"{row.case}: p50 {row.ours.p50_us:.1f} us")
        record.latency.append(row)

    with kept_when_stopped(record, keep), phase(record, progress, "latency", len(left)):
        measure.measure_latency(device, left, done)


def _require_same_run(earlier: Record, record: Record, cases: Sequence[Case]) -> None:
    """Raise RecordFault unless a run of these cases, whose record is new, can complete the earlier one."""
    accepted = "accepted is a file of the same run"
    differs = difference(earlier, record)
    if differs:
        raise RecordFault(f"{differs}; {accepted}")
    names = {case.name for case in cases}
    for row in earlier.rows:
        if row.case not in names:
            raise RecordFault(f"the file has the case {row.case}, and this run has not; {accepted}")


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


def time_peers(
    device: Device,
    record: Record,
    options: Options,
    progress: Progress,
    keep: Keep,
    *,
    missing_only: bool = False,
) -> None:
    """Time the peers one after the other; all of their times, or only those that the record has not."""
    keep(record)
    for name in options.peers:
        rows, latency_rows = rows_for_peer(record, name, missing_only=missing_only)
        if missing_only and not rows and not latency_rows:
            continue
        steps = len(rows) + len(latency_rows)
        with kept_when_stopped(record, keep), phase(record, progress, name, steps):
            kept = NowAndThen(keep)

            def done(said: str, kept: NowAndThen = kept) -> None:
                progress.step(said)
                kept(record)

            time_peer(
                name,
                device,
                record,
                rows,
                list(zip(latency_cases_of(latency_rows), latency_rows, strict=True)),
                named=options.peers_named,
                mib=options.mib,
                seconds=options.peer_seconds,
                done=done,
            )
        keep(record)


class NowAndThen:
    """Keeps a record when it was not kept for ``KEEP_SECONDS``."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._kept = time.monotonic()

    def __call__(self, record: Record) -> None:
        if time.monotonic() - self._kept >= KEEP_SECONDS:
            self._keep(record)
            self._kept = time.monotonic()


def _said_of(row: Row) -> str:
    return f"{row.case}: {row.us:.1f} us, {row.gb_per_s:.4g} GB/s"


def latency_cases_of(rows: Sequence[LatencyRow]) -> list[LatencyCase]:
    """Return what a record's rows timed, one for each row."""
    known = {case.name: case for case in latency.latency_cases(max((row.nbytes for row in rows), default=0))}
    return [known.get(row.case) or LatencyCase(row.kind, row.nbytes, 1, row.ours.calls) for row in rows]


@contextmanager
def kept_when_stopped(record: Record, keep: Keep) -> Iterator[None]:
    """Keep what is done where Ctrl-C ends a part of a run."""
    try:
        yield
    except KeyboardInterrupt:
        if record.rows or record.latency or record.sweep:
            keep(record)
        raise


@contextmanager
def phase(record: Record, progress: Progress, name: str, steps: int) -> Iterator[None]:
    progress.phase(name, steps)
    start = time.perf_counter()
    yield
    record.seconds[name] = record.seconds.get(name, 0.0) + time.perf_counter() - start
