"""`vkdml bench`: times kernels and calls, checks their results and compares them with other libraries."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

import typer
from rich.console import Console

from vkdml.bench import baseline, cases, measure, report, session, suites, sweep, sweep_run
from vkdml.bench.cases import Case
from vkdml.bench.check import WrongResult
from vkdml.bench.files import RecordFault
from vkdml.bench.libraries import peers
from vkdml.bench.record import ImpossibleTime, Record
from vkdml.cli import bench_options, options
from vkdml.cli.bench_files import Kept, check_outputs, loaded, said_where
from vkdml.cli.bench_options import READINGS, Given
from vkdml.cli.bench_progress import progress_shown
from vkdml.cli.opening import opened
from vkdml.plan.elements import ML_DTYPES_ELEMENTS


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
        accepted=", ".join(cases.MOVED_ELEMENTS),
    ),
    shape: str = options.text(
        "--shape",
        help="One array of this shape instead of a suite: 4096x65536.",
        metavar="SIZES",
        accepted="sizes of at least 1 such as 4096x65536",
    ),
    axis: str = options.text(
        "--axis",
        help="Only this axis; with --shape, the axes to reduce, such as `1`, `0,2` or `all`.",
        metavar="AXES",
        accepted="all, or distinct axes such as 1 or 0,2",
    ),
    device: str | None = typer.Option(
        None,
        "--device",
        help="Index, UUID or part of the name; default: VKDML_DEVICE, else the best device.",
        metavar="DEVICE",
    ),
    peers_text: str = typer.Option(
        "auto",
        "--peers",
        help="Libraries to compare with, separated by commas: auto, none, or any of "
        f"{', '.join(peers.NAMES)}. The report says how each is timed.",
        metavar="NAMES",
    ),
    peer_seconds: float = typer.Option(
        peers.PEER_SECONDS,
        "--peer-seconds",
        help="Time limit of each library of --peers.",
        metavar="SECONDS",
        parser=options.number,
    ),
    mib: int | None = typer.Option(
        None,
        "--mib",
        help=f"Largest input of a suite, in MiB: unless given, {measure.SOFTWARE_MIB} on software drivers "
        "and what the device holds on GPUs. Of the suite sweep, the largest size of its arrays: unless "
        f"given, {measure.SOFTWARE_MIB} on software drivers and {sweep_run.GPU_MIB} on GPUs.",
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
        "--readings",
        help=f"Readings of each case. Unless given, {READINGS}; with --resume, as many as its file has.",
        metavar="COUNT",
        parser=options.whole_number,
    ),
    seed: int | None = typer.Option(
        None,
        "--seed",
        help="Seed of the suite sweep: 0 unless given.",
        metavar="NUMBER",
        parser=options.whole_number,
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
    repeated: bool = typer.Option(
        False,
        "--repeated",
        help="A sweep copies repeats, windows that overlap and patches, which read memory several times.",
    ),
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
        help="Continue the run of this JSON file: time the cases and --peers that it does not have. If there "
        "is no such file, start the run. Not for sweeps.",
    ),
) -> int:
    """Time kernels on a device, check every result, and compare with other libraries.

    The exit status is 1 if a result was wrong, a time was impossible, or a case became slower than in
    --baseline by more than noise.
    """
    given = Given(
        suite=suite, op=op, dtype=dtype, shape=shape, axis=axis, device=device, peers=peers_text,
        peer_seconds=peer_seconds, mib=mib, index_dtype=index_dtype, readings=readings, seed=seed,
        cases=cases_count, case=case_number, windows=windows, repeated=repeated, data=data,
        json=json_file, plot=plot,
        baseline=baseline_file, compare_only=compare_only, merge=merge, resume=resume,
    )  # fmt: skip
    console = Console(highlight=False, markup=False)
    if suite == sweep.SUITE:
        bench_options.refuse_options_of_suites(given)
        return _run_sweep(given, console)
    bench_options.refuse_options_of_sweeps(given)
    if compare_only:
        bench_options.require_two_files_alone(given)
        new, old = loaded("--json", json_file), loaded("--baseline", baseline_file)
        return _compare(new, old, console)
    return _run_suite(given, console)


def _run_suite(given: Given, console: Console) -> int:
    """Run a suite or the user's own cases; the status is 1 if that failed or a case became slower."""
    try:
        before = loaded("--baseline", given.baseline) if given.baseline else None
        earlier = bench_options.earlier_run(given)
        check_outputs(given.written, given.plot, given.writing_option)
        if given.resume and earlier is not None:
            given = given.as_in(earlier)
        on = opened(given.device)
        chosen = bench_options.suite_options(given, on)
        if given.merge and earlier is not None:
            bench_options.require_mergeable(given, earlier, chosen)
        if before is not None:
            merged = earlier if given.merge else None
            names = baseline.names_in(merged) if merged else session.names_of_cases(on, chosen)
            bench_options.require_comparable(given, before, on, names)
    except (RecordFault, peers.PeerFault) as error:
        raise typer.BadParameter(str(error)) from None

    _say_which_are_skipped(chosen.left_out)
    if not given.merge:
        _say_which_lack_numpy(chosen.cases)

    keep = Kept(given.written)
    try:
        with progress_shown() as progress:
            if given.merge and earlier is not None:
                measured = session.merge(on, earlier, chosen, progress, keep)
            else:
                measured = session.run(on, chosen, progress, keep, earlier)
    except KeyboardInterrupt:
        return keep.said_when_stopped()
    except (WrongResult, ImpossibleTime, MemoryError) as error:
        print(f"vkdml: {error}", file=sys.stderr)
        return 1
    except RecordFault as error:
        raise typer.BadParameter(
            f"--resume {given.resume}: {error}" if given.resume else str(error)
        ) from None
    except peers.PeerFault as error:
        raise typer.BadParameter(str(error)) from None

    report.show(measured, console)
    said_where(measured, given.written, given.plot, console)
    return _compare(measured, before, console) if before is not None else 0


def _run_sweep(given: Given, console: Console) -> int:
    """Run a sweep; the status is 1 if a result was wrong or no case could run."""
    wanted = bench_options.sweep_options(given)
    try:
        check_outputs(given.json, given.plot, "--json")
        on = opened(given.device)
        chosen, left_out = sweep_run.chosen_peers(given.peers, on)
    except (RecordFault, peers.PeerFault) as error:
        raise typer.BadParameter(str(error)) from None
    _say_which_are_skipped(left_out)

    keep = Kept(given.json)
    try:
        with progress_shown() as progress:
            measured = sweep_run.run(on, replace(wanted, peers=chosen), progress, keep)
    except KeyboardInterrupt:
        return keep.said_when_stopped()
    except MemoryError as error:
        print(f"vkdml: {error}", file=sys.stderr)
        return 1
    except peers.PeerFault as error:
        raise typer.BadParameter(str(error)) from None
    report.show(measured, console)
    said_where(measured, given.json, given.plot, console)
    return 1 if any(row.wrong for row in measured.sweep) or all(row.refused for row in measured.sweep) else 0


def _compare(new: Record, old: Record, console: Console) -> int:
    try:
        changes = baseline.compare(new, old)
    except RecordFault as error:
        raise typer.BadParameter(str(error)) from None
    for line in baseline.describe(changes):
        console.print(line, soft_wrap=True)
    left_out = baseline.not_compared(new, old)
    if left_out:
        console.print(left_out, soft_wrap=True)
    return 1 if any(change.verdict == "slower" for change in changes) else 0


def _say_which_are_skipped(left_out: Mapping[str, str]) -> None:
    if not left_out:
        return
    names: dict[str, list[str]] = {}
    for name, why in left_out.items():
        names.setdefault(why.removeprefix(f"{name} is "), []).append(name)
    said = "; ".join(f"{', '.join(of_reason)} ({why})" for why, of_reason in names.items())
    columns = shutil.get_terminal_size().columns
    print(textwrap.fill(f"vkdml: not compared: {said}", columns), file=sys.stderr)


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
