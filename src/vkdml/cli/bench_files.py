"""The files of `vkdml bench`: records that it reads and goes on writing, and plots."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import typer
from rich.console import Console

from vkdml.bench import files, plots, record_file
from vkdml.bench.record import Record
from vkdml.cli import text
from vkdml.common.wording import how_to_install


class Kept:
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


def said_where(measured: Record, json_file: str, plot: str, console: Console) -> None:
    """Write the plots, and say which files there are."""
    if json_file:
        console.print(f"written to {json_file}", soft_wrap=True)
    if plot:
        for path in plots.write(measured, plot):
            console.print(f"written to {path}", soft_wrap=True)


def loaded(option: str, path: str) -> Record:
    """Return the record of an option's file."""
    try:
        return record_file.load(path)
    except files.RecordFault as error:
        raise typer.BadParameter(f"{option} {error}") from None


def _check_writable(option: str, path: str | Path) -> None:
    try:
        files.check_writable(path)
    except files.RecordFault as error:
        raise typer.BadParameter(f"{option} {error}") from None


def check_outputs(json_file: str, plot: str, json_option: str) -> None:
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
