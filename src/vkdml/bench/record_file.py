"""Records as JSON files: written, read in each format there was, and told apart by the run they are of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from vkdml.bench.files import RecordFault, write_whole
from vkdml.bench.record import Latency, LatencyRow, Peer, PeerTime, Record, Row, SweepRow, Times

FORMAT = 6
"""Format 1 holds software devices' calls and kernels timed apart, and former names of latency kinds.

Format 2 has no sweeps, format 3 no public calls on arrays of the device and no chains, format
4 no discarded readings, format 5 no strides of views.
"""

_FIRST_FORMAT = 1
_FORMER_KINDS = {"resident": "recorded", "resident in turn": "recorded in turn"}
_FORMER_FIELDS = ("target", "met", "target_us")
"""Fields of rows in which earlier versions stored goals for one device."""


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
        record = Record(**content)
        _require_types(record, "the record")
        for part, names in _KNOWN.items():
            for name in names:
                getattr(record, part)[name]
        return record
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordFault(f"{path}: not as vkdml bench --json writes it ({error})") from None


# What every run knows of where it was made.
_KNOWN = {"device": ("name", "type", "driver"), "machine": ("processor", "cores", "system")}


def _require_types(part: Any, name: str) -> None:
    """Raise a TypeError that names the first field whose value has not the type that it is declared with."""
    for field, hint in _hints_of(part.__class__).items():
        value = getattr(part, field)
        if not _is_a(value, hint):
            raise TypeError(f"a value of another type: {field} of {name} is {json.dumps(value, default=str)}")


@cache
def _hints_of(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields; evaluated once, as a record has thousands of rows."""
    return get_type_hints(kind)


def _is_a(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is_a(value, each) for each in arguments)
    if origin is list:
        return isinstance(value, list) and all(_is_a(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_a(each, arguments[1]) for each in value.values())
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            return False
        _require_types(value, getattr(value, "case", hint.__name__))
        return True
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


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
