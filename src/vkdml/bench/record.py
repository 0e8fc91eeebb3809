"""What a run of the benchmark leaves behind: rows, where they were taken, and their JSON file."""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vkdml.bench.cases import Case

FORMAT = 5
"""Format 1 holds software devices' calls and kernels timed apart, and former names of latency kinds.

Format 2 has no sweeps, format 3 no public calls on arrays of the device and no chains, format
4 no discarded readings.
"""
_FIRST_FORMAT = 1
_FORMER_KINDS = {"resident": "recorded", "resident in turn": "recorded in turn"}
_FORMER_FIELDS = ("target", "met", "target_us")
"""Fields of rows in which earlier versions stored goals for one device."""
# The host's and the device's clock may count a little differently, and each in steps.
CLOCK_SHARE = 0.001
CLOCK_US = 1.0


class RecordFault(ValueError):
    """A file that cannot be used; the message is one line."""


class WriteError(OSError):
    """A file that cannot be written; the message is one line."""


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
        )


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


def geometric_mean(record: Record, rows: Iterable[Row] | None = None) -> tuple[float, int] | None:
    """Return how many times faster than the best peer of each row, and of how many rows."""
    logs = []
    for row in record.rows if rows is None else rows:
        best = best_peer(record, row)
        if best is not None and row.compared_us > 0:
            logs.append(math.log(best[1] / row.compared_us))
    return (math.exp(sum(logs) / len(logs)), len(logs)) if logs else None


_OF_A_RUN = ("suite", "device", "machine", "versions", "settings")


def difference(old: Record, new: Record) -> str:
    """Say in what two records are not of one run: its suite, its device, its versions or its settings.

    The old one may come from a file, which rounds numbers. Nothing is said of records of the same run.
    """
    before, now = (
        {place: leaf for name in _OF_A_RUN for place, leaf in _leaves(name, getattr(record, name))}
        for record in (old, new)
    )
    for place in [*before, *now]:
        if before.get(place) != now.get(place):
            said = (leaves.get(place, "not known") for leaves in (before, now))
            option = _OPTIONS.get(place)
            if option is not None:
                said = ("not given" if leaf == "null" else leaf.strip('"') for leaf in said)
            return f"{option or place} was {next(said)} and is {next(said)}"
    return ""


_OPTIONS = {
    "settings.mib": "--mib", "settings.index_dtype": "--index-dtype", "settings.readings": "--readings"
}  # fmt: skip
"""What a user gives, by the setting that it makes."""


def _leaves(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield what a value consists of, as a file has it, each with its place."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(f"{place}.{key}", each)
    else:
        yield place, json.dumps(_rounded(value))


# ---- files --------------------------------------------------------------------------------------


def load(path: str | Path) -> Record:
    """Read a record.

    Raises:
        RecordFault: there is none, or it is something else.
    """
    try:
        content = json.loads(Path(path).read_text())
    except OSError as error:
        raise RecordFault(f"{path}: {error.strerror or error}") from None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") not in range(_FIRST_FORMAT, FORMAT + 1):
        raise RecordFault(
            f"{path}: accepted is a file that vkdml bench --json wrote (format {_FIRST_FORMAT} to {FORMAT})"
        )
    try:
        for row in [*content["rows"], *content["latency"]]:
            for name in _FORMER_FIELDS:
                row.pop(name, None)
        if content.pop("format") == _FIRST_FORMAT:
            for row in content["latency"]:
                row["kind"] = _FORMER_KINDS.get(row["kind"], row["kind"])
                row["case"] = row["case"].replace("resident array", "recorded sequence")
        content["rows"] = [
            Row(**{**_with_times(row, _ROW_TIMES), "peers": _peer_times(row)}) for row in content["rows"]
        ]
        content["sweep"] = [
            SweepRow(**{**row, "peers": _peer_times(row)}) for row in content.get("sweep", [])
        ]
        content["latency"] = [
            LatencyRow(
                **{
                    **row,
                    "ours": Latency(**row["ours"]),
                    "peers": {name: Latency(**peer) for name, peer in row["peers"].items()},
                }
            )
            for row in content["latency"]
        ]
        content["peers"] = {name: Peer(**peer) for name, peer in content["peers"].items()}
        for part in ("device", "machine", "settings", "versions"):
            if not isinstance(content[part], dict):
                raise TypeError(f"{part} is {json.dumps(content[part])}")
        return Record(**content)
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordFault(f"{path}: not as vkdml bench --json writes it ({error})") from None


_ROW_TIMES = ("array_call", "host_call", "chain", "independent")


def peer_time(plain: dict[str, Any]) -> PeerTime:
    """Return another library's time as JSON has it."""
    return PeerTime(**_with_times(plain, ("call", "chain")))


def _peer_times(row: dict[str, Any]) -> dict[str, PeerTime]:
    return {name: peer_time(time) for name, time in row["peers"].items()}


def _with_times(plain: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields with these ones, where they are given, as times."""
    given = {name: Times(**plain[name]) for name in names if plain.get(name) is not None}
    return {**plain, **given}


def save(record: Record, path: str | Path) -> None:
    """Write a record, whole or not at all."""
    plain = {"format": FORMAT, **asdict(record)}
    # One line a row: a person can read it, and a difference of two runs too.
    parts = []
    for key, value in plain.items():
        if key in ("rows", "latency", "sweep"):
            lines = ",\n".join("  " + json.dumps(_rounded(row)) for row in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]" if value else f" {json.dumps(key)}: []")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(_rounded(value))}")
    write_whole(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it. Links stay, and a file's permissions.

    Raises:
        RecordFault: another thing than a file has this name.
        WriteError: it cannot be written, for instance because the disk is full.
    """
    try:
        _write_whole(_plain_file(path), content)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}") from None


def _write_whole(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        else:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path: str | Path) -> None:
    """Find out before a long run whether a file can be written.

    Raises:
        RecordFault: it cannot.
    """
    try:
        target = _plain_file(path)
        if target.exists() and not os.access(target, os.W_OK):
            raise RecordFault(f"{path}: cannot be written: the file is read-only")
        with tempfile.NamedTemporaryFile(prefix=_TEMPORARY, dir=target.parent):
            pass
    except OSError as error:
        raise RecordFault(f"{path}: cannot be written: {error.strerror or error}") from None


_TEMPORARY = ".vkdml-"


def _plain_file(path: str | Path) -> Path:
    """Return the file that a name stands for, be it there or not, with all links followed.

    Raises:
        OSError: links go round in a circle, or the name is too long.
        RecordFault: it is a folder, a device, a pipe, or an open file of this process.
    """
    target = Path(path)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise RecordFault(f"{path}: this is a folder; accepted is a file's name")
    while target.is_symlink() and not _is_of_processes(target):
        target = target.parent / os.readlink(target)
    # A file renamed onto these would take the place of the device, or not be the one that is open.
    if not stat.S_ISREG(mode) or _is_of_processes(target):
        raise RecordFault(f"{path}: this is a device or a pipe; accepted is a file's name")
    return target


def _is_of_processes(path: Path) -> bool:
    return os.path.realpath(path.parent).startswith("/proc/")


def latency_of(seconds: Sequence[float]) -> Latency:
    """Return the distribution of so many calls' times."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    quantiles = [ordered[round(percent / 100 * last)] * 1e6 for percent in range(101)]
    return Latency(quantiles[50], quantiles[99], len(ordered), quantiles)
