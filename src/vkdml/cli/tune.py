"""`vkdml tune`: searches for the fastest tuning settings of a device, shows the gain and stores them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import vkdml
from vkdml.bench.tables import console_of_whole_lines, print_whole
from vkdml.cli import options
from vkdml.cli.opening import opened
from vkdml.cli.text import count
from vkdml.plan.tuning import SEARCH, Tuning
from vkdml.runtime import profile
from vkdml.tune import Found, ResultsDifferError, Step, profile_of
from vkdml.tune import tune as search

_SECONDS = 300


def tune(
    device: str | None = typer.Option(
        None,
        "--device",
        help="Index, UUID or part of the name; default: VKDML_DEVICE, else the best device.",
        metavar="DEVICE",
    ),
    seconds: int = typer.Option(
        _SECONDS,
        "--seconds",
        help="Time limit of the search.",
        metavar="SECONDS",
        parser=options.whole_number,
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Search and print, but store nothing."),
    reset: bool = typer.Option(False, "--reset", help="Delete the stored profile."),
    show: bool = typer.Option(False, "--show", help="Print the stored profile."),
) -> int:
    """Find the fastest tuning settings for a device and store them; no result changes."""
    if dry_run + reset + show > 1:
        raise typer.BadParameter("--dry-run, --reset and --show exclude each other; accepted: one of them")
    if seconds < 1:
        raise typer.BadParameter(f"--seconds {seconds}: at least 1 is accepted")
    console = console_of_whole_lines()
    try:
        if show or reset:
            info = _opened(device).info
            return _show(info, console) if show else _reset(info, console)
        if not dry_run:
            profile.make_directory()
        return _tune(_opened(device), seconds, dry_run, console)
    except (profile.CannotStoreError, ResultsDifferError) as error:
        return _complain(str(error))
    except MemoryError as error:
        return _complain(f"not enough memory for tuning: {error}")


def _opened(selector: str | None) -> vkdml.Device:
    with warnings.catch_warnings():
        # This command replaces the stored profile, so warnings about it do not help.
        warnings.simplefilter("ignore", vkdml.ProfileWarning)
        return opened(selector)


def _show(info: vkdml.DeviceInfo, console: Console) -> int:
    path = profile.path_of(info)
    try:
        stored = profile.load(info)
    except profile.ProfileFault as fault:
        return _complain(f"{path} is ignored: {fault} (run 'vkdml tune', or 'vkdml tune --reset')")
    if stored is None:
        _print_if_off()
        console.print(f"no profile is stored for {info.name}; 'vkdml tune' stores one")
        return 0
    tried = "" if stored.candidates is None else f", of {count(stored.candidates, 'candidate')}"
    console.print(f"{info.name}, {stored.driver}\nfound {stored.date} by vkdml {stored.vkdml_version}{tried}")
    _print_path(path)
    print_whole(console, values_table(info.plan_limits.tuning, stored.values))
    _print_if_off()
    return 0


def _reset(info: vkdml.DeviceInfo, console: Console) -> int:
    path = profile.remove(info)
    if path is None:
        console.print(f"no profile is stored for {info.name}")
    else:
        print(f"deleted {path}")
    return 0


def _tune(device: vkdml.Device, seconds: int, dry_run: bool, console: Console) -> int:
    info = device.info
    print(f"tuning {info.name} for at most {seconds} s; Ctrl-C stores nothing", flush=True)
    try:
        with _reporting(console) as report:
            found = search(device, seconds, report)
    except KeyboardInterrupt:
        _complain("stopped; nothing was stored")
        return 130
    if not found.cases:
        return _complain(
            f"{seconds} s is too short to measure the defaults; nothing was stored: give more --seconds "
            f"(without it, the search takes up to {_SECONDS} s)"
        )
    console.print(
        f"tried {count(found.candidates, 'candidate')} beside the defaults, "
        f"{count(found.plans, 'different plan')} in all"
    )
    print_whole(console, cases_table(found))
    print_whole(console, values_table(found.default, found.values))
    if not found.complete:
        console.print(f"the search did not finish in {seconds} s; more --seconds may find faster settings")
    if dry_run:
        console.print("nothing was stored (--dry-run)")
    else:
        _print_path(profile.store(info, profile_of(info, found)), "stored ")
        _print_if_off()
    return 0


@contextmanager
def _reporting(console: Console) -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows the steps of a search: a bar on a terminal, else a line per field."""
    if not console.is_terminal:
        yield lambda step: print(outcome(step), flush=True) if step.value is None else None
        return
    columns = (TextColumn("{task.description}"), BarColumn(None), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("measuring the defaults", total=None)

        def report(step: Step) -> None:
            if step.value is None:
                progress.console.print(outcome(step), highlight=False)
            else:
                progress.update(
                    task,
                    description=f"pass {step.pass_number}: {step.field} = {step.value}",
                    completed=step.done,
                    total=step.total,
                )

        yield report


def outcome(step: Step) -> str:
    """Return a line with the value that a field has after its search.

    >>> outcome(Step(1, "tile_bytes", None, 32768, 40, 60))
    'pass 1: tile_bytes = 32768 (40 of 60)'
    """
    return f"pass {step.pass_number}: {step.field} = {step.kept} ({step.done} of {step.total})"


def values_table(default: Tuning, values: dict[str, int]) -> Table:
    """Return a table with a row per field: the default of the device's class, and the value found."""
    result = _table("field", "default", "found")
    for field in SEARCH:
        found = values.get(field)
        result.add_row(
            field,
            str(getattr(default, field)),
            "same" if found is None else str(found),
            style=None if found is None else "bold",
        )
    return result


def cases_table(found: Found) -> Table:
    """Return a table with a row per case: kernel times in microseconds, default and found, and speed-up."""
    result = _table("case", "default us", "found us", "speed-up")
    for case in found.cases:
        speed_up = case.default_ns / case.found_ns
        result.add_row(
            case.name, f"{case.default_ns / 1e3:.1f}", f"{case.found_ns / 1e3:.1f}", f"{speed_up:.2f}"
        )
    result.add_row("geometric mean", "", "", f"{found.speed_up:.2f}", style="bold")
    return result


def _table(first: str, *numbers: str) -> Table:
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold")
    result.add_column(first, no_wrap=True)
    for heading in numbers:
        result.add_column(heading, justify="right", no_wrap=True)
    return result


def _print_path(path: str | None, before: str = "") -> None:
    # rich would wrap the path, which then could not be copied.
    print(f"{before}{path}")


def _print_if_off() -> None:
    if not profile.in_use():
        print(
            f"the profile is not used while {profile.ENVIRONMENT_SWITCH} is "
            f"{os.environ[profile.ENVIRONMENT_SWITCH]}"
        )


def _complain(message: str) -> int:
    print("vkdml: " + " ".join(message.split()), file=sys.stderr)
    return 1
