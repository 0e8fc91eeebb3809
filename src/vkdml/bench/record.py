"""What a run of the benchmark leaves behind: rows, and where they were taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkdml.bench.cases import Case
from vkdml.measuring import geometric_mean

# The host's and the device's clock may count a little differently, and each in steps.
CLOCK_SHARE = 0.001
CLOCK_US = 1.0


class ImpossibleTime(Exception):
    """A whole call was shorter than its kernels, so that one of the two times is wrong."""


@dataclass(frozen=True)
class Times:
    """How long something took by the host's clock, in microseconds: the median and the spread."""

    us: float
    low_us: float
    """The 10th percentile."""
    high_us: float
    """The 90th percentile."""
    readings: int


@dataclass(frozen=True)
class PeerTime:
    """Another library's time of a row, or why there is none."""

    us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    why: str = ""
    call: Times | None = None
    """Its public call on an array where it computes, until the result is there; None where ``us`` is that."""
    chain: Times | None = None
    """An operation of a chain; see :mod:`vkdml.bench.chains`."""


@dataclass
class Row:
    """One case, timed and found right. Times are of all its kernels together, by the device's clock.

    On software devices the kernels are those of the timed calls; see :func:`vkdml.bench.timing.time_call`.
    """

    case: str
    row: str
    op: str
    element: str
    shape: list[int]
    axis: list[int] | None
    data: str
    direction: str
    nan_policy: str
    return_values: bool
    alternate: bool
    window: str
    scaled_from: list[int] | None
    """The shape that was meant, where ``shape`` is a smaller one that fits the run."""
    us: float
    low_us: float
    high_us: float
    readings: int
    kernels: dict[str, float]
    """Microseconds of each."""
    read_bytes: int
    written_bytes: int
    gb_per_s: float
    """Read and written bytes."""
    input_gb_per_s: float
    call_us: float | None = None
    """Of the public function, host array to host array; taken where the device is the host's processor."""
    peers: dict[str, PeerTime] = field(default_factory=dict)
    transposed: bool = False
    wide_indices: bool = False
    channels: int = 1
    array_call: Times | None = None
    """The public function on an :class:`vkdml.Array`, until the result is there; None for other elements
    than NumPy's."""
    host_call: Times | None = None
    """The public function from host array to host array, of small inputs of a GPU."""
    chain: Times | None = None
    """An operation of 256 that depend on each other; see :mod:`vkdml.bench.chains`."""
    independent: Times | None = None
    """An operation of 256 that may overlap."""
    discarded_us: list[float] = field(default_factory=list)
    """Medians of readings that were taken again: they spread, or the device's clocks fell meanwhile."""

    @property
    def over_kernel_us(self) -> float | None:
        """How much longer the public call on an Array takes than its kernels."""
        return None if self.array_call is None else self.array_call.us - self.us

    @property
    def compared_us(self) -> float:
        """What other libraries are compared with: the whole call where they too start from host arrays."""
        return self.us if self.call_us is None else self.call_us

    @property
    def full_shape(self) -> str:
        """The shape that was meant, as 4096x65536, if a smaller one was timed; else nothing."""
        return "x".join(map(str, self.scaled_from or ()))

    def as_case(self) -> Case:
        """Return what was timed."""
        return Case(
            self.row,
            self.op,
            self.element,
            tuple(self.shape),
            None if self.axis is None else tuple(self.axis),
            self.data,
            self.direction,
            self.nan_policy,
            self.return_values,
            self.alternate,
            self.window,
            tuple(self.scaled_from) if self.scaled_from else None,
            self.transposed,
            self.wide_indices,
            self.channels,
        )


def fields_of(case: Case) -> dict[str, Any]:
    """Return the fields of a row that say what was timed: :meth:`Row.as_case` reads them."""
    return {
        "case": case.name,
        "row": case.row,
        "op": case.op,
        "element": case.element,
        "shape": list(case.shape),
        "axis": None if case.axis is None else list(case.axis),
        "data": case.data,
        "direction": case.direction,
        "nan_policy": case.nan_policy,
        "return_values": case.return_values,
        "alternate": case.alternate,
        "window": case.window,
        "scaled_from": list(case.scaled_from) if case.scaled_from else None,
        "transposed": case.transposed,
        "wide_indices": case.wide_indices,
        "channels": case.channels,
    }


@dataclass
class SweepRow:
    """One case of a sweep: timed and found right, or refused, or wrong. Times as in :class:`Row`."""

    number: int
    case: str
    op: str
    element: str
    shape: list[int]
    """Of the array in memory."""
    permutation: list[int]
    axis: list[int] | None
    offsets: list[int]
    """Of the window, as are the next two; empty where the whole array takes part."""
    sizes: list[int]
    steps: list[int]
    input_bytes: int
    read_bytes: int
    """Of the 32-byte sectors that hold an element which takes part."""
    written_bytes: int
    us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    readings: int = 0
    kernels: dict[str, float] = field(default_factory=dict)
    gb_per_s: float | None = None
    """Read and written bytes."""
    refused: str = ""
    """Why it could not run on the device."""
    wrong: str = ""
    """What is wrong with its result."""
    peers: dict[str, PeerTime] = field(default_factory=dict)
    discarded_us: list[float] = field(default_factory=list)
    """As in :class:`Row`."""
    strides: list[int] = field(default_factory=list)
    """Of a view in which elements appear several times, in elements; ``sizes`` are its own then."""


@dataclass(frozen=True)
class Latency:
    """The distribution of one call's time on the host's clock, in microseconds."""

    p50_us: float
    p99_us: float
    calls: int
    quantiles_us: list[float]
    """At 0, 1, ... 100 percent."""
    why: str = ""


@dataclass
class LatencyRow:
    """How long the caller waits for one index."""

    case: str
    kind: str
    """See :class:`vkdml.bench.latency.LatencyCase`."""
    nbytes: int
    ours: Latency
    gb_per_s: float
    peers: dict[str, Latency] = field(default_factory=dict)


@dataclass
class Peer:
    """Another library, as it was timed."""

    version: str
    runs_on: str
    """``device`` or ``processor``."""
    method: str
    note: str = ""


@dataclass
class Record:
    """A whole run."""

    date: str
    suite: str
    versions: dict[str, str]
    machine: dict[str, Any]
    device: dict[str, Any]
    settings: dict[str, Any]
    ceiling_gb_per_s: float | None
    """The fastest read by vkdml itself in the run."""
    ceiling_case: str
    rows: list[Row]
    latency: list[LatencyRow]
    peers: dict[str, Peer] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each phase of the run."""
    copy_gb_per_s: float | None = None
    """Of the driver's vkCmdCopyBuffer between two buffers, read and written bytes."""
    copy_bytes: int = 0
    """In each of the two buffers."""
    sweep: list[SweepRow] = field(default_factory=list)


def require_possible(rows: Iterable[Row]) -> None:
    """Raise unless each call took at least as long as its kernels, within what two clocks differ.

    Raises:
        ImpossibleTime: naming the rows with their times.
    """
    wrong = [
        f"{row.case}: the whole call took {row.call_us:.1f} us, its kernels {row.us:.1f} us"
        for row in rows
        if row.call_us is not None and row.call_us * (1 + CLOCK_SHARE) + CLOCK_US < row.us
    ]
    if wrong:
        raise ImpossibleTime(
            "; ".join(wrong) + "; a call contains its kernels, so one of the two clocks is wrong"
        )


def best_peer(record: Record, row: Row) -> tuple[str, float] | None:
    """Return the fastest peer of a row that ran where vkdml ran, and its microseconds."""
    on_device = record.device.get("type") != "software"
    times = [
        (time.us, name)
        for name, time in row.peers.items()
        if time.us is not None and not (on_device and record.peers[name].runs_on != "device")
    ]
    if not times:
        return None
    us, name = min(times)
    return name, us


def mean_speedup(record: Record) -> tuple[float, int] | None:
    """Return the geometric mean of how many times as fast as the best peer rows are, and their number."""
    ratios = []
    for row in record.rows:
        best = best_peer(record, row)
        if best is not None and row.compared_us > 0:
            ratios.append(best[1] / row.compared_us)
    return (geometric_mean(ratios), len(ratios)) if ratios else None


def latency_of(seconds: Sequence[float]) -> Latency:
    """Return the distribution of so many calls' times."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    quantiles = [ordered[round(percent / 100 * last)] * 1e6 for percent in range(101)]
    return Latency(quantiles[50], quantiles[99], len(ordered), quantiles)
