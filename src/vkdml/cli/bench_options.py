"""The options of `vkdml bench`: which go together, and what a run of a suite or a sweep does by them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import typer

import vkdml
from vkdml.bench import baseline, cases, files, measure, session, suites, sweep, sweep_run
from vkdml.bench.cases import Case
from vkdml.bench.libraries import peers
from vkdml.bench.record import Record
from vkdml.cli.bench_files import loaded

DEFAULT_SUITE = "quick"
INDEX_DTYPE = "int32"
READINGS = 30
_MOST_READINGS = 100_000
_LONG_NAMES = {short: name for name, short in cases.SHORT_NAMES.items()}


@dataclass(frozen=True)
class Given:
    """The options as the user gave them; "" and None stand for those that were left out."""

    suite: str
    op: str
    dtype: str
    shape: str
    axis: str
    device: str | None
    peers: str
    peer_seconds: float
    mib: int | None
    index_dtype: str
    readings: int | None
    seed: int | None
    cases: int | None
    case: int | None
    windows: bool
    repeated: bool
    data: str
    json: str
    plot: str
    baseline: str
    compare_only: bool
    merge: str
    resume: str

    @property
    def written(self) -> str:
        """The file that is written, if there is one."""
        return self.json or self.merge or self.resume

    @property
    def writing_option(self) -> str:
        """The option whose file is written."""
        return "--json" if self.json else "--merge" if self.merge else "--resume"

    @property
    def index_name(self) -> str:
        """Type of the indices."""
        return self.index_dtype or INDEX_DTYPE

    @property
    def index_bytes(self) -> int:
        """Of a type that is accepted."""
        return int(self.index_name[3:]) // 8

    @property
    def reading_count(self) -> int:
        """Readings of each case."""
        return READINGS if self.readings is None else self.readings

    def as_in(self, earlier: Record) -> Given:
        """Return them with those of an earlier run, which hold unless others are given.

        Raises:
            RecordFault: they are not in its file.
        """
        if earlier.suite == sweep.SUITE:
            raise files.RecordFault(
                f"--resume {self.resume}: is of the suite {sweep.SUITE}; accepted are records of the other "
                "suites"
            )
        own = earlier.suite == session.OWN_SUITE
        if own and not self.shape:
            raise files.RecordFault(
                f"--resume {self.resume}: is a run with --shape; give the same --shape, --op, --axis and "
                "--dtype again"
            )
        settings = earlier.settings
        filed = replace(
            self,
            index_dtype=self.index_dtype or settings.get("index_dtype", INDEX_DTYPE),
            readings=settings.get("readings") if self.readings is None else self.readings,
        )
        if self.shape:
            return filed
        mib = settings.get("mib") if self.mib is None else self.mib
        return replace(filed, suite=self.suite or earlier.suite, mib=mib)


# ---- which go together -------------------------------------------------------------------------------------


def refuse_options_of_suites(given: Given) -> None:
    """Raise for options that a sweep has not."""
    alien = {
        "--op": given.op, "--dtype": given.dtype, "--shape": given.shape, "--axis": given.axis,
        "--baseline": given.baseline, "--compare-only": given.compare_only, "--merge": given.merge,
        "--resume": given.resume,
    }  # fmt: skip
    for name, value in alien.items():
        if value:
            raise typer.BadParameter(
                f"{name}: not accepted beside --suite {sweep.SUITE}; accepted are --seed, --cases, --case, "
                "--windows, --repeated, --data, --mib, --peers, --readings, --index-dtype, --json and --plot"
            )


def refuse_options_of_sweeps(given: Given) -> None:
    """Raise for options that only a sweep has."""
    for name, number in (("--seed", given.seed), ("--cases", given.cases), ("--case", given.case)):
        if number is not None:
            raise typer.BadParameter(f"{name} {number}: accepted beside --suite {sweep.SUITE} only")
    for name, is_given in (
        ("--windows", given.windows),
        ("--repeated", given.repeated),
        (f"--data {given.data}", bool(given.data)),
    ):
        if is_given:
            raise typer.BadParameter(f"{name}: accepted beside --suite {sweep.SUITE} only")


def require_two_files_alone(given: Given) -> None:
    """Raise unless --compare-only has its two files, and nothing else."""
    besides = (
        *(given.suite, given.op, given.dtype, given.shape, given.axis, given.index_dtype),
        *(given.plot, given.merge, given.resume),
        *(given.device is not None, given.mib is not None, given.readings is not None),
        given.peers != "auto",
    )
    if any(besides) or not given.json or not given.baseline:
        raise typer.BadParameter(
            "--compare-only takes two files: --json NEW --baseline OLD; other options are not "
            "accepted beside it"
        )


def earlier_run(given: Given) -> Record | None:
    """Return the record that --merge or --resume goes on with, if there is one."""
    if given.merge and (given.suite or given.op or given.dtype or given.shape or given.axis):
        raise typer.BadParameter(
            "--merge times the file's cases; --suite, --op, --dtype, --shape "
            "and --axis are not accepted beside it"
        )
    if given.resume and given.merge:
        raise typer.BadParameter("--resume runs what a file has not; --merge is not accepted beside it")
    if given.merge:
        return loaded("--merge", given.merge)
    return loaded("--resume", given.resume) if given.resume and os.path.exists(given.resume) else None


def require_mergeable(given: Given, earlier: Record, chosen: session.Options) -> None:
    """Raise if --merge has no peers, or its file no cases that they could be timed on."""
    if earlier.suite == sweep.SUITE:
        raise files.RecordFault(
            f"--merge {given.merge}: is of the suite {sweep.SUITE}; accepted are records of the other suites"
        )
    if not chosen.peers:
        raise typer.BadParameter(f"--merge adds peers: accepted for --peers are {','.join(peers.NAMES)}")


def require_comparable(given: Given, before: Record, device: vkdml.Device, names: Set[str]) -> None:
    """Raise if the record of --baseline is of another device, or has none of the cases with these names."""
    try:
        baseline.check_device(before, device.name)
        baseline.check_cases(before, names)
    except files.RecordFault as fault:
        raise typer.BadParameter(f"--baseline {given.baseline}: {fault}") from None


# ---- what to run -------------------------------------------------------------------------------------------


def sweep_options(given: Given) -> sweep_run.SweepOptions:
    """Return what a sweep does, but for its peers."""
    _check_numbers(given)
    if given.windows and given.repeated:
        raise typer.BadParameter("--windows and --repeated are sweeps of their own: accepted is one of them")
    return sweep_run.SweepOptions(
        seed=given.seed or 0,
        windows=given.windows,
        repeated=given.repeated,
        data=_data(given.data),
        numbers=_sweep_numbers(given.cases, given.case),
        mib=given.mib,
        index_bytes=given.index_bytes,
        readings=given.reading_count,
        peers_named=given.peers != "auto",
        peer_seconds=given.peer_seconds,
    )


def suite_options(given: Given, device: vkdml.Device) -> session.Options:
    """Return what a run of a suite does, or of cases of the user's own."""
    if given.shape and given.suite:
        raise typer.BadParameter("--shape makes a case of your own; --suite is not accepted beside it")
    if given.shape and given.mib is not None:
        raise typer.BadParameter(
            "--shape is run as it is; --mib, which makes suites smaller, is not accepted beside it"
        )
    if given.suite == "latency" and (given.op or given.dtype or given.axis):
        raise typer.BadParameter(
            "--suite latency has no cases to choose from: --op, --dtype and --axis are not accepted"
        )
    suite = given.suite or DEFAULT_SUITE
    _accept("--suite", suite, (*suites.SUITES, sweep.SUITE))
    if given.op:
        _accept("--op", given.op, cases.OPS)
    _check_numbers(given)
    elements = _elements(given.dtype, given.op or ("argmax" if given.shape else ""))
    sizes = _sizes(given.shape) if given.shape else None
    axes = _axes(given.axis, None if sizes is None else len(sizes)) if given.axis else None
    if sizes is None:
        selected = _selected(suite, given, elements, axes)
    else:
        selected = _own_cases(given.op or "argmax", elements or ("float32",), sizes, axes)
        for case in selected:
            why = measure.refusal(device, case, given.index_bytes)
            if why is not None:
                raise typer.BadParameter(f"--shape {given.shape} of {case.element}: {why}")
    chosen, left_out = peers.chosen(given.peers, device)
    filtered = bool(given.op or elements or axes or sizes)
    return session.Options(
        suite=session.OWN_SUITE if sizes is not None else suite,
        cases=selected,
        with_latency=suite in ("latency", "full") and not filtered,
        mib=given.mib,
        index_bytes=given.index_bytes,
        readings=given.reading_count,
        peers=chosen,
        peers_named=given.peers != "auto",
        peer_seconds=given.peer_seconds,
        left_out=left_out,
    )


def _selected(
    suite: str, given: Given, elements: Sequence[str], axes: tuple[tuple[int, ...] | None] | None
) -> list[Case]:
    """Return the cases of a suite that --op, --dtype and --axis leave."""
    every = suites.suite(suite)
    selected = [
        case
        for case in every
        if (not given.op or case.op == given.op)
        and (not elements or case.element in elements)
        and (axes is None or (case.op != "slice1" and case.axis == axes[0]))
    ]
    if not selected and suite != "latency":
        options = {"--op": given.op, "--dtype": given.dtype, "--axis": given.axis}
        asked = " ".join(f"{option} {value}" for option, value in options.items() if value)
        ops = ", ".join(dict.fromkeys(case.op for case in every))
        types = ", ".join(dict.fromkeys(case.element for case in every))
        reduced = dict.fromkeys(case.axis for case in every if case.op != "slice1")
        named = [cases.axes_in_words(axis).removeprefix("ax ") for axis in reduced]
        of_axes = f" and --axis {' or '.join(named)}" if axes is not None else ""
        raise typer.BadParameter(
            f"{asked}: the suite {suite} has no such case; its cases have --op {ops}, --dtype "
            f"{types}{of_axes}; a --shape of your own is accepted too"
        )
    return selected


def _check_numbers(given: Given) -> None:
    _accept("--index-dtype", given.index_name, ("int32", "int64"))
    if given.mib is not None and given.mib < 1:
        raise typer.BadParameter(f"--mib {given.mib}: at least 1 is accepted")
    if given.reading_count < 1:
        raise typer.BadParameter(f"--readings {given.reading_count}: at least 1 is accepted")
    if given.reading_count > _MOST_READINGS:
        raise typer.BadParameter(f"--readings {given.reading_count}: at most {_MOST_READINGS} are accepted")
    if not 0 < given.peer_seconds <= threading.TIMEOUT_MAX:
        raise typer.BadParameter(
            f"--peer-seconds {given.peer_seconds:g}: more than 0 is accepted, up to {threading.TIMEOUT_MAX:g}"
        )


def _accept(option: str, value: str, accepted: Sequence[str], besides: str = "") -> None:
    if value not in accepted:
        raise typer.BadParameter(f"{option} {value!r}: accepted are {', '.join(accepted)}{besides}")


def _elements(text: str, op: str) -> tuple[str, ...]:
    accepted, besides = tuple(cases.MOVED_ELEMENTS), ""
    if op not in ("", "slice1"):  # some suites have cases of slice1
        accepted = cases.REDUCE_ELEMENTS
        moved = (name for name in cases.MOVED_ELEMENTS if name not in accepted)
        besides = f"; with --op slice1 also {', '.join(moved)}"
    named = [_LONG_NAMES.get(name.strip(), name.strip()) for name in text.split(",")] if text else []
    for name in named:
        _accept("--dtype", name, accepted, besides)
    return tuple(dict.fromkeys(named))


def _sizes(text: str) -> tuple[int, ...]:
    words = text.replace(",", "x").lower().split("x")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise typer.BadParameter(f"--shape {text!r}: accepted are sizes of at least 1 such as 4096x65536")
    return tuple(map(int, words))


def _axes(text: str, rank: int | None) -> tuple[tuple[int, ...] | None]:
    """Return the axes in a tuple of one entry; the entry None stands for all axes."""
    if text == "all":
        return (None,)
    wanted = "all, or distinct axes such as 1 or 0,2"
    try:
        axes = [int(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--axis {text!r}: accepted are {wanted}") from None
    if rank is not None:
        if not all(-rank <= axis < rank for axis in axes):
            raise typer.BadParameter(f"--axis {text!r}: accepted are {-rank} to {rank - 1} for this --shape")
        axes = [axis % rank for axis in axes]
    elif min(axes) < 0:
        raise typer.BadParameter(f"--axis {text!r}: negative ones are accepted with --shape only")
    if len(set(axes)) != len(axes):
        raise typer.BadParameter(f"--axis {text!r}: accepted are {wanted}")
    return (tuple(sorted(axes)),)


def _own_cases(
    op: str, elements: Sequence[str], sizes: tuple[int, ...], axes: tuple[tuple[int, ...] | None] | None
) -> list[Case]:
    if op == "slice1":
        windows = cases.windows_of_rank(len(sizes))
        if not windows or axes is not None:
            raise typer.BadParameter(
                "--op slice1: accepted is a --shape of two or three sizes, and no --axis"
            )
        return [
            Case(session.OWN_SUITE, op, element, sizes, window=name)
            for element in elements
            for name in windows
        ]
    return [Case(session.OWN_SUITE, op, element, sizes, axes[0] if axes else None) for element in elements]


def _sweep_numbers(count: int | None, number: int | None) -> Sequence[int]:
    """Return the numbers of a sweep's cases."""
    if count is not None and number is not None:
        raise typer.BadParameter(f"--case {number} is one case; --cases is not accepted beside it")
    if count is not None and count < 1:
        raise typer.BadParameter(f"--cases {count}: at least 1 is accepted")
    if number is not None and number < 0:
        raise typer.BadParameter(f"--case {number}: at least 0 is accepted")
    return range(sweep_run.DEFAULT_CASES if count is None else count) if number is None else [number]


def _data(text: str) -> str:
    """Return what the arrays of a sweep hold."""
    if text and text not in sweep.DATA:
        raise typer.BadParameter(f"--data {text}: accepted are {', '.join(sweep.DATA)}")
    return text or sweep.DATA[0]
