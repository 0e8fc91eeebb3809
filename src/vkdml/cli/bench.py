"""`vkdml bench`: times kernels and calls, checks their results and compares them with other libraries."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

import vkdml
from vkdml.bench import (
    baseline,
    cases,
    files,
    measure,
    peers,
    plots,
    record_file,
    report,
    session,
    suites,
    sweep,
    sweep_run,
)
from vkdml.bench.cases import Case
from vkdml.bench.check import WrongResult
from vkdml.bench.record import ImpossibleTime, Record
from vkdml.cli import options, text
from vkdml.cli.opening import opened
from vkdml.common.wording import how_to_install
from vkdml.plan.elements import ML_DTYPES_ELEMENTS

DEFAULT_SUITE = "quick"
INDEX_DTYPE = "int32"
READINGS = 30
_LONG_NAMES = {short: name for name, short in cases.SHORT_NAMES.items()}


def bench(
    suite: str = options.text(
        "--suite",
        help="quick (the default), full, latency, slice, real, short or sweep.",
        metavar="NAME",
        accepted=", ".join((*suites.SUITES, sweep.SUITE)),
    ),
    op: str = options.text(
        "--op",
        help="Only this operator: argmax, argmin or slice1.",
        metavar="NAME",
        accepted=", ".join(cases.OPS),
    ),
    dtype: str = options.text(
        "--dtype",
        help="Only these element types, separated by commas.",
        metavar="NAMES",
        accepted=", ".join(cases.REDUCE_ELEMENTS),
    ),
    shape: str = options.text(
        "--shape",
        help="One array of this shape instead of a suite: 4096x65536.",
        metavar="SIZES",
        accepted="sizes of at least 1 such as 4096x65536",
    ),
    axis: str = options.text(
        "--axis",
        help="Only this axis; with --shape, the axes to reduce: 1, 0,2 or all.",
        metavar="AXES",
        accepted="all, or distinct axes such as 1 or 0,2",
    ),
    device: str | None = typer.Option(
        None, help="Index, UUID or part of the name of a device.", metavar="DEVICE"
    ),
    peers_text: str = typer.Option(
        "auto",
        "--peers",
        help="Libraries to compare with, separated by commas: auto, none, or any of "
        f"{', '.join(peers.NAMES)}. The report says how each is timed.",
        metavar="NAMES",
    ),
    peer_seconds: float = typer.Option(
        peers.PEER_SECONDS, help="Time limit of each peer.", metavar="SECONDS", parser=options.number
    ),
    mib: int | None = typer.Option(
        None,
        help=f"Largest input of a suite, in MiB: unless given, {measure.SOFTWARE_MIB} on software drivers "
        "and what the device holds on GPUs. Of the suite sweep, the size of its arrays: "
        f"{measure.SOFTWARE_MIB} or {sweep_run.GPU_MIB}.",
        metavar="MIB",
        parser=options.whole_number,
    ),
    index_dtype: str = options.text(
        "--index-dtype",
        help="Type of the indices: int32, unless int64 is given.",
        metavar="NAME",
        accepted="int32, int64",
    ),
    readings: int | None = typer.Option(
        None,
        help=f"Readings of each case. Unless given, {READINGS}; with --resume, as many as its file has.",
        metavar="COUNT",
        parser=options.whole_number,
    ),
    seed: int | None = typer.Option(
        None, help="Of the suite sweep: 0 unless given.", metavar="NUMBER", parser=options.whole_number
    ),
    cases_count: int | None = typer.Option(
        None,
        "--cases",
        help=f"How many cases the suite sweep has: {sweep_run.DEFAULT_CASES} unless given.",
        metavar="COUNT",
        parser=options.whole_number,
    ),
    case_number: int | None = typer.Option(
        None,
        "--case",
        help="Only the case of this number of a sweep.",
        metavar="NUMBER",
        parser=options.whole_number,
    ),
    windows: bool = typer.Option(False, "--windows", help="A sweep reduces windows instead of copying them."),
    data: str = options.text(
        "--data",
        help="What the arrays of a sweep hold: random bits, unless flags (random bytes 0 and 1) or constant "
        "is given. Where many elements are equal, the index decides.",
        metavar="NAME",
        accepted=", ".join(sweep.DATA),
    ),
    json_file: str = options.file("--json", help="Write all numbers to this file."),
    plot: str = options.file("--plot", help="Write plots: FILE.svg writes FILE-dtypes.svg and others."),
    baseline_file: str = options.file("--baseline", help="Print what changed since this JSON file."),
    compare_only: bool = typer.Option(
        False, "--compare-only", help="Run nothing; compare --json with --baseline."
    ),
    merge: str = options.file(
        "--merge", help="Run only --peers on the cases of this JSON file, and add their times to it."
    ),
    resume: str = options.file(
        "--resume",
        help="Go on with the run whose JSON file this is: time the cases and --peers that it has not. Where "
        "there is no such file, the run begins.",
    ),
) -> int:
    """Time kernels on a device, check every result, and compare with other libraries.

    The exit status is 1 if a result was wrong, a time was impossible, or a case became slower than in
    --baseline by more than noise.
    """
    console = Console(highlight=False, markup=False)
    if suite == sweep.SUITE:
        alien = {
            "--op": op, "--dtype": dtype, "--shape": shape, "--axis": axis, "--baseline": baseline_file,
            "--compare-only": compare_only, "--merge": merge, "--resume": resume,
        }  # fmt: skip
        for name, given in alien.items():
            if given:
                raise typer.BadParameter(f"{name}: not accepted beside --suite {sweep.SUITE}")
        index_dtype, readings = index_dtype or INDEX_DTYPE, READINGS if readings is None else readings
        _check_numbers(index_dtype, mib, readings, peer_seconds)
        of_sweep = sweep_run.SweepOptions(
            seed=seed or 0,
            windows=windows,
            data=_data_of(data),
            numbers=_sweep_numbers(cases_count, case_number),
            mib=mib,
            index_bytes=int(index_dtype[3:]) // 8,
            readings=readings,
            peers_named=peers_text != "auto",
            peer_seconds=peer_seconds,
        )
        return _sweep(of_sweep, device, peers_text, json_file, plot, console)
    for name, number in (("--seed", seed), ("--cases", cases_count), ("--case", case_number)):
        if number is not None:
            raise typer.BadParameter(f"{name} {number}: accepted beside --suite {sweep.SUITE} only")
    for name, is_given in (("--windows", windows), (f"--data {data}", bool(data))):
        if is_given:
            raise typer.BadParameter(f"{name}: accepted beside --suite {sweep.SUITE} only")
    try:
        if compare_only:
            besides = (
                *(suite, op, dtype, shape, axis, index_dtype, plot, merge, resume),
                *(device is not None, mib is not None, readings is not None, peers_text != "auto"),
            )
            if any(besides) or not json_file or not baseline_file:
                raise typer.BadParameter(
                    "--compare-only takes two files: --json NEW --baseline OLD; other options are not "
                    "accepted beside it"
                )
            return _compare(_loaded("--json", json_file), _loaded("--baseline", baseline_file), console)
        before = _loaded("--baseline", baseline_file) if baseline_file else None
        if merge and (suite or op or dtype or shape or axis):
            raise typer.BadParameter(
                "--merge times the file's cases; --suite, --op, --dtype, --shape "
                "and --axis are not accepted beside it"
            )
        if resume and merge:
            raise typer.BadParameter("--resume runs what a file has not; --merge is not accepted beside it")
        goes_on_with = merge or (resume if resume and os.path.exists(resume) else "")
        earlier = _loaded("--merge" if merge else "--resume", goes_on_with) if goes_on_with else None
        _check_outputs(json_file or merge or resume, plot, _json_option(json_file, merge))
        if resume and earlier is not None:
            filed = _filed_options(earlier, resume, shape)
            if not shape:
                suite = suite or filed.suite
                mib = filed.mib if mib is None else mib
            index_dtype = index_dtype or filed.index_dtype
            readings = filed.readings if readings is None else readings
        index_dtype = index_dtype or INDEX_DTYPE
        readings = READINGS if readings is None else readings
        on = opened(device)
        if before is not None:
            baseline.check_device(before, on.name)
        chosen = _options(
            suite, op, dtype, shape, axis, mib, index_dtype, readings, peers_text, peer_seconds, on
        )
        if merge and earlier is not None and earlier.suite == sweep.SUITE:
            raise files.RecordFault(
                f"--merge {merge}: is of the suite {sweep.SUITE}; accepted are records of the other suites"
            )
        if merge and not chosen.peers:
            raise typer.BadParameter(f"--merge adds peers: accepted for --peers are {','.join(peers.NAMES)}")
    except (files.RecordFault, peers.PeerFault) as error:
        raise typer.BadParameter(str(error)) from None

    for name, why in chosen.left_out.items():
        print(f"vkdml: {name} is skipped: {why}", file=sys.stderr)
    if not merge:
        _say_which_lack_numpy(chosen.cases)

    keep = _Kept(json_file or merge or resume)
    try:
        with _progress() as progress:
            if merge and earlier is not None:
                measured = session.merge(on, earlier, chosen, progress, keep)
            else:
                measured = session.run(on, chosen, progress, keep, earlier)
    except KeyboardInterrupt:
        return keep.said_when_stopped()
    except (WrongResult, ImpossibleTime, MemoryError) as error:
        print(f"vkdml: {error}", file=sys.stderr)
        return 1
    except files.RecordFault as error:
        raise typer.BadParameter(f"--resume {resume}: {error}" if resume else str(error)) from None
    except peers.PeerFault as error:
        raise typer.BadParameter(str(error)) from None

    report.show(measured, console)
    _said_where(measured, json_file or merge or resume, plot, console)
    return _compare(measured, before, console) if before is not None else 0


def _sweep_numbers(count: int | None, number: int | None) -> Sequence[int]:
    """Return the numbers of a sweep's cases."""
    if count is not None and number is not None:
        raise typer.BadParameter(f"--case {number} is one case; --cases is not accepted beside it")
    if count is not None and count < 1:
        raise typer.BadParameter(f"--cases {count}: at least 1 is accepted")
    if number is not None and number < 0:
        raise typer.BadParameter(f"--case {number}: at least 0 is accepted")
    return range(sweep_run.DEFAULT_CASES if count is None else count) if number is None else [number]


def _data_of(text: str) -> str:
    """Return what the arrays of a sweep hold."""
    if text and text not in sweep.DATA:
        raise typer.BadParameter(f"--data {text}: accepted are {', '.join(sweep.DATA)}")
    return text or sweep.DATA[0]


def _sweep(
    wanted: sweep_run.SweepOptions,
    device: str | None,
    peers_text: str,
    json_file: str,
    plot: str,
    console: Console,
) -> int:
    """Run a sweep; the status is 1 if a result was wrong or no case could run."""
    try:
        _check_outputs(json_file, plot, "--json")
        on = opened(device)
        chosen, left_out = sweep_run.chosen_peers(peers_text, on)
    except (files.RecordFault, peers.PeerFault) as error:
        raise typer.BadParameter(str(error)) from None
    for name, why in left_out.items():
        print(f"vkdml: {name} is skipped: {why}", file=sys.stderr)
    wanted = replace(wanted, peers=chosen)

    keep = _Kept(json_file)
    try:
        with _progress() as progress:
            measured = sweep_run.run(on, wanted, progress, keep)
    except KeyboardInterrupt:
        return keep.said_when_stopped()
    except MemoryError as error:
        print(f"vkdml: {error}", file=sys.stderr)
        return 1
    except peers.PeerFault as error:
        raise typer.BadParameter(str(error)) from None
    report.show(measured, console)
    _said_where(measured, json_file, plot, console)
    return 1 if any(row.wrong for row in measured.sweep) or all(row.refused for row in measured.sweep) else 0


class _Kept:
    """Writes records to a file, if there is one, and knows what it wrote last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._cases: int | None = None

    def __call__(self, measured: Record) -> None:
        if self._path:
            record_file.save(measured, self._path)
            self._cases = len(measured.rows) + len(measured.latency) + len(measured.sweep)

    def said_when_stopped(self) -> int:
        """Say what the file of an interrupted run holds; return the status."""
        wrote = "nothing was written"
        if self._cases is not None:
            wrote = f"{self._path} has {text.count(self._cases, 'case')}"
        print(f"vkdml: stopped; {wrote}", file=sys.stderr)
        return 130


def _said_where(measured: Record, json_file: str, plot: str, console: Console) -> None:
    """Write the plots, and say which files there are."""
    if json_file:
        console.print(f"written to {json_file}", soft_wrap=True)
    if plot:
        for path in plots.write(measured, plot):
            console.print(f"written to {path}", soft_wrap=True)


def _compare(new: Record, old: Record, console: Console) -> int:
    try:
        changes = baseline.compare(new, old)
    except files.RecordFault as error:
        raise typer.BadParameter(str(error)) from None
    for line in baseline.describe(changes):
        console.print(line, soft_wrap=True)
    return 1 if any(change.verdict == "slower" for change in changes) else 0


def _loaded(option: str, path: str) -> Record:
    """Return the record of an option's file."""
    try:
        return record_file.load(path)
    except files.RecordFault as error:
        raise typer.BadParameter(f"{option} {error}") from None


def _json_option(json_file: str, merge: str) -> str:
    """Return the option whose file is written."""
    return "--json" if json_file else "--merge" if merge else "--resume"


def _check_writable(option: str, path: str | Path) -> None:
    try:
        files.check_writable(path)
    except files.RecordFault as error:
        raise typer.BadParameter(f"{option} {error}") from None


def _check_outputs(json_file: str, plot: str, json_option: str) -> None:
    """Raise an error for outputs that cannot be written, before anything runs."""
    if json_file:
        _check_writable(json_option, json_file)
    if plot:
        if Path(plot).suffix not in plots.FORMATS:
            raise typer.BadParameter(
                f"--plot {plot}: accepted are names that end in {', '.join(plots.FORMATS)}"
            )
        if importlib.util.find_spec("matplotlib") is None:
            raise typer.BadParameter(f"--plot needs matplotlib: {how_to_install('matplotlib', 'bench')}")
        for part in plots.PARTS:
            _check_writable("--plot", plots.file_of(plot, part))


def _say_which_lack_numpy(of: Sequence[Case]) -> None:
    """Name the types of which there are no host arrays, and so neither calls nor NumPy's times."""
    lacking = dict.fromkeys(case.element for case in of if case.element in ML_DTYPES_ELEMENTS)
    if lacking and importlib.util.find_spec("ml_dtypes") is None:
        verb = "is" if len(lacking) == 1 else "are"
        print(
            f"vkdml: {', '.join(lacking)} {verb} timed by {'its' if verb == 'is' else 'their'} kernels only: "
            "ml_dtypes is not installed (pip install ml_dtypes)",
            file=sys.stderr,
        )


@dataclass(frozen=True)
class _Filed:
    """Options of the run whose file is given."""

    suite: str
    mib: int | None
    index_dtype: str
    readings: int | None


def _filed_options(earlier: Record, path: str, shape: str) -> _Filed:
    """Return the options of an earlier run, which hold unless others are given.

    Raises:
        RecordFault: they are not in its file.
    """
    if earlier.suite == sweep.SUITE:
        raise files.RecordFault(
            f"--resume {path}: is of the suite {sweep.SUITE}; accepted are records of the other suites"
        )
    own = earlier.suite == session.OWN_SUITE
    if own and not shape:
        raise files.RecordFault(
            f"--resume {path}: is of cases of your own; accepted is the same --shape beside it"
        )
    settings = earlier.settings
    return _Filed(
        "" if own else earlier.suite,
        settings.get("mib"),
        settings.get("index_dtype", INDEX_DTYPE),
        settings.get("readings"),
    )


# ---- what to run --------------------------------------------------------------------------------


def _options(
    suite: str,
    op: str,
    dtype: str,
    shape: str,
    axis: str,
    mib: int | None,
    index_dtype: str,
    readings: int,
    peers_text: str,
    peer_seconds: float,
    device: vkdml.Device,
) -> session.Options:
    if shape and suite:
        raise typer.BadParameter("--shape makes a case of your own; --suite is not accepted beside it")
    if shape and mib is not None:
        raise typer.BadParameter(
            "--shape is run as it is; --mib, which makes suites smaller, is not accepted beside it"
        )
    if suite == "latency" and (op or dtype or axis):
        raise typer.BadParameter(
            "--suite latency has no cases to choose from: --op, --dtype and --axis are not accepted"
        )
    suite = suite or DEFAULT_SUITE
    _accept("--suite", suite, (*suites.SUITES, sweep.SUITE))
    if op:
        _accept("--op", op, cases.OPS)
    _check_numbers(index_dtype, mib, readings, peer_seconds)
    elements = _elements(dtype, op or ("argmax" if shape else ""))
    sizes = _sizes(shape) if shape else None
    axes = _axes(axis, None if sizes is None else len(sizes)) if axis else None
    if sizes is not None:
        selected = _own_cases(op or "argmax", elements or ("float32",), sizes, axes)
        for case in selected:
            why = measure.refusal(device, case, int(index_dtype[3:]) // 8)
            if why is not None:
                raise typer.BadParameter(f"--shape {shape} of {case.element}: {why}")
    else:
        selected = [
            case
            for case in suites.suite(suite)
            if (not op or case.op == op)
            and (not elements or case.element in elements)
            and (axes is None or (case.op != "slice1" and case.axis == axes[0]))
        ]
        if not selected and suite != "latency":
            raise typer.BadParameter(
                f"--op, --dtype and --axis leave no case of the suite {suite}; --shape makes one of your own"
            )
    chosen, left_out = peers.chosen(peers_text, device)
    filtered = bool(op or elements or axes or sizes)
    return session.Options(
        suite=session.OWN_SUITE if sizes is not None else suite,
        cases=selected,
        with_latency=suite in ("latency", "full") and not filtered,
        mib=mib,
        index_bytes=int(index_dtype[3:]) // 8,
        readings=readings,
        peers=chosen,
        peers_named=peers_text != "auto",
        peer_seconds=peer_seconds,
        left_out=left_out,
    )


def _check_numbers(index_dtype: str, mib: int | None, readings: int, peer_seconds: float) -> None:
    _accept("--index-dtype", index_dtype, ("int32", "int64"))
    if mib is not None and mib < 1:
        raise typer.BadParameter(f"--mib {mib}: at least 1 is accepted")
    if readings < 1:
        raise typer.BadParameter(f"--readings {readings}: at least 1 is accepted")
    if not 0 < peer_seconds <= threading.TIMEOUT_MAX:
        raise typer.BadParameter(
            f"--peer-seconds {peer_seconds:g}: more than 0 is accepted, up to {threading.TIMEOUT_MAX:g}"
        )


def _accept(option: str, value: str, accepted: Sequence[str], besides: str = "") -> None:
    if value not in accepted:
        raise typer.BadParameter(f"{option} {value!r}: accepted are {', '.join(accepted)}{besides}")


def _elements(text: str, op: str) -> tuple[str, ...]:
    accepted, besides = tuple(cases.SLICE_ELEMENTS), ""
    if op != "slice1":
        accepted, besides = cases.REDUCE_ELEMENTS, "; with --op slice1 complex128, too"
    named = [name.strip() for name in text.split(",")] if text else []
    for name in named:
        long = _LONG_NAMES.get(name, name)
        if op or long != "complex128":  # some suites have cases of slice1
            _accept("--dtype", long, accepted, besides)
    return tuple(dict.fromkeys(_LONG_NAMES.get(name, name) for name in named))


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
        if len(sizes) != 2 or axes is not None:
            raise typer.BadParameter("--op slice1: accepted is a --shape of two sizes, and no --axis")
        return [
            Case(session.OWN_SUITE, op, element, sizes, window=name)
            for element in elements
            for name in cases.WINDOWS
        ]
    return [Case(session.OWN_SUITE, op, element, sizes, axes[0] if axes else None) for element in elements]


# ---- progress -----------------------------------------------------------------------------------


class _Lines:
    """Prints each step in a line, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._at = self._steps = 0

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def phase(self, name: str, steps: int) -> None:
        self._at, self._steps = 0, steps
        self._print(name)

    def step(self, text: str) -> None:
        self._at += 1
        self._print(f"  {self._at}/{self._steps} {text}")

    def _print(self, text: str) -> None:
        print(f"[{time.perf_counter() - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)


class _Bar:
    """A progress bar that is removed at the end. What a step says is cut where the line ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_COLUMNS),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[step]}", style="dim", markup=False),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def phase(self, name: str, steps: int) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=steps or None, step="")
        counts = 2 * len(str(steps)) + 1 if steps else len("0/?")
        self._fixed = cell_len(name) + _BAR_COLUMNS + counts + _ELAPSED_COLUMNS + _GAPS

    def step(self, text: str) -> None:
        assert self._task is not None
        room = self._console.width - self._fixed
        # Without room, the bar and the numbers are of more use.
        said = Text(text if room >= _LEAST_STEP_COLUMNS else "")
        said.truncate(max(room, 0), overflow="ellipsis")
        self._bars.update(self._task, advance=1, step=said.plain)


# Columns of the bar, of the time and between them.
_BAR_COLUMNS, _ELAPSED_COLUMNS, _GAPS, _LEAST_STEP_COLUMNS = 20, 7, 4, 8


def _progress() -> _Bar | _Lines:
    """Return what shows the steps of a run, on standard error: the report alone goes to standard output."""
    console = Console(stderr=True, highlight=False, markup=False)
    return _Bar(console) if console.is_terminal else _Lines()
