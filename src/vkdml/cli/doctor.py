"""`vkdml doctor`: prints findings about this machine and, for each problem, a remedy."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vkdml.cli import checks, probe
from vkdml.cli.text import count

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
) -> int:
    """Check the loader, drivers, layers, limits, memory and one computation on each device."""
    if as_json:
        facts = probe.gather()
        found = checks.findings(facts)
        said = {"status": checks.worst(found), "findings": [dataclasses.asdict(finding) for finding in found]}
        print(json.dumps(said, indent=2))
    else:
        console = Console(highlight=False, markup=False)
        if console.is_terminal:
            with console.status("checking") as status:
                facts = probe.gather(lambda doing: status.update(doing))
        else:
            facts = probe.gather()
        found = checks.findings(facts)
        show(found, console)
    return 1 if checks.worst(found) == "problem" else 0


def show(found: Sequence[checks.Finding], console: Console) -> None:
    """Print a line per finding and a line per remedy; on a terminal they wrap within their column."""
    subjects = max(len(finding.subject) for finding in found)
    for finding in found:
        label = Text(f"{finding.level:<7}", _STYLES[finding.level])
        _line(console, label, Text(f"{finding.subject:<{subjects}}"), Text(finding.detail))
        if finding.remedy is not None:
            _line(console, Text(" " * 7), Text(" " * subjects), Text(f"to fix: {finding.remedy}", "bold"))
    _line(console, Text(summary(found)))


def _line(console: Console, *cells: Text) -> None:
    if not console.is_terminal:
        print("  ".join(cell.plain for cell in cells).rstrip())
        return
    grid = Table.grid(padding=(0, 2))
    for cell in cells:
        grid.add_column(no_wrap=cell is not cells[-1], overflow="fold")
    grid.add_row(*cells)
    console.print(grid)


def summary(found: Sequence[checks.Finding]) -> str:
    """Return the last line: the numbers of problems and warnings, and whether vkdml works."""
    levels = [finding.level for finding in found]
    problems, warned = levels.count("problem"), levels.count("warning")
    works = "vkdml works here" if problems == 0 else "fix the problems above first"
    return f"{count(problems, 'problem')}, {count(warned, 'warning')}: {works}"
