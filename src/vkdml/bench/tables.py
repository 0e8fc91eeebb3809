"""Prints tables so that no number is cut: where the console is too narrow for one, its lines are longer."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDE = 10_000
"""Columns: more than any table has."""
ALL_FIT = 80
"""Columns in which rich fits each of our tables without cutting a number."""


def console_of_whole_lines() -> Console:
    """Return standard output, whose lines are not wrapped where it is no terminal: programs read them."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def print_whole(console: Console, table: Table) -> None:
    """Print a table as wide as the console, but no narrower than its numbers and its longest words."""
    if console.width >= ALL_FIT:
        console.print(table)
        return
    wrapping = [0]
    for column in table.columns:
        texts = [str(text) for text in (column.header, *column.cells)]
        parts = [part for text in texts for part in (text.split("\n") if column.no_wrap else text.split())]
        column.min_width = max(column.min_width or 1, *map(cell_len, parts))
        if not column.no_wrap:
            wrapping.append(column.min_width)
    least = Measurement.get(console, console.options.update(max_width=_WIDE), table).minimum
    # rich makes wrapping columns equally narrow before it heeds what each needs.
    least += sum(max(wrapping) - each for each in wrapping[1:])
    given = console.width
    console.width = max(given, least)
    try:
        console.print(table)
    finally:
        console.width = given
