"""``progress=``: checking it, and reporting to a user's function or a bar on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from vkdml.common.wording import how_to_install, leave_as_raised

Report = Callable[[int, int], object]
"""Called with (done, total) bytes."""
Progress = bool | Report | None


def require_progress(progress: Any) -> None:
    """Raise TypeError for an invalid ``progress=``."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(
            f"progress must be True, a function of (done, total) bytes, or None, not {progress!r}"
        )


def is_reported(progress: Progress) -> bool:
    """Tell whether ``progress=`` asks for reports."""
    return progress is not None and progress is not False


def report_all(progress: Progress, total: int) -> None:
    """Report all bytes as done, for a call that needs no tile."""
    if is_reported(progress):
        with reporting(progress) as report:
            report(total, total)


@contextlib.contextmanager
def reporting(progress: Progress) -> Iterator[Report]:
    """Yield the function to call with (done, total) bytes."""
    require_progress(progress)
    if progress is True:
        with _bar() as report:
            yield report
    elif callable(progress):
        yield _passing_on_errors(progress)
    else:
        yield lambda done, total: None


def _passing_on_errors(report: Report) -> Report:
    """Return the user's function; what it raises is passed on, and not taken for a fault of ours."""

    def reported(done: int, total: int) -> None:
        try:
            report(done, total)
        except Exception as error:
            leave_as_raised(error)
            raise

    return reported


@contextlib.contextmanager
def _bar() -> Iterator[Report]:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    except ImportError as error:
        raise ImportError(
            "progress=True draws its bar with rich, which is not installed: " + how_to_install("rich", "cli"),
            name=error.name,
        ) from None
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
