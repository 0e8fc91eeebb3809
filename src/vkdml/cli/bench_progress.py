"""How far a run of `vkdml bench` is: a bar on a terminal, else a line for each step."""

from __future__ import annotations

import sys
import time

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

# Columns of the bar, of the time and between them.
_BAR_COLUMNS, _ELAPSED_COLUMNS, _GAPS, _LEAST_STEP_COLUMNS = 20, 7, 4, 8


class Lines:
    """Prints each step in a line, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._at = self._steps = 0

    def __enter__(self) -> Lines:
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


class Bar:
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

    def __enter__(self) -> Bar:
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


def progress_shown() -> Bar | Lines:
    """Return what shows the steps of a run, on standard error: the report alone goes to standard output."""
    console = Console(stderr=True, highlight=False, markup=False)
    return Bar(console) if console.is_terminal else Lines()
