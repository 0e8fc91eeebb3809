"""What all plots have: their size, the heading that says what is shown, the legend below, ticks with room."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vkdml.bench.datasheets import published_rate
from vkdml.bench.record import Record
from vkdml.bench.report import libraries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.6
"""Inches: 826 pixels of a browser, which is what pages are wide."""
OWN_READ = "the fastest read that vkdml itself made in this run"
DATA_SHEET = "the data sheet of the device's memory"
SMALL = 8
"""Points, of what is not a panel's title."""
_TITLE = 10
_LINE = 1.35
"""From line to line, in sizes of the font."""
_COLUMNS = 132
_INCH = 72


def page(panels: float, title: str, lines: Iterable[str]) -> Figure:
    """Return an empty figure under a heading.

    Args:
        panels: the height of what is drawn, in inches.
        title: what is shown, its unit, and which direction is better.
        lines: how, when and with which versions it was measured.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    below = [part for line in lines for part in textwrap.wrap(line, _COLUMNS)]
    head = (_LINE * (_TITLE + SMALL * len(below)) + SMALL) / _INCH
    height = panels + head
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, panels / height))
    # A page may be dark: the plots are not to depend on what lies below them.
    figure = Figure(figsize=(WIDTH, height), layout=layout, facecolor="white")
    left = 0.06 / WIDTH
    figure.text(left, 1 - SMALL / 2 / _INCH / height, title, va="top", fontsize=_TITLE, fontweight="bold")
    start = (SMALL / 2 + _LINE * _TITLE) / _INCH
    for number, line in enumerate(below):
        at = 1 - (start + number * _LINE * SMALL / _INCH) / height
        figure.text(left, at, line, va="top", fontsize=SMALL, color="#444444")
    return figure


def measured(record: Record) -> Iterator[str]:
    """Yield when it was measured, with which versions and on which driver."""
    yield (
        f"Measured {record.date} with vkdml {record.versions['vkdml']}, Python {record.versions['python']}, "
        f"{libraries(record)}. Driver: {record.device['driver']}."
    )


def read_rates(record: Record) -> Iterator[tuple[str, float]]:
    """Yield the names and GB/s of what reads are compared with: this run's fastest, and the data sheet's."""
    published = published_rate(record.device["name"])
    if record.ceiling_gb_per_s:
        yield OWN_READ, record.ceiling_gb_per_s
    if published:
        yield DATA_SHEET, published.gb_per_s


def legend(figure: Figure) -> None:
    """Add one legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        entries.values(), entries, loc="outside lower center", ncols=len(entries), frameon=False,
        fontsize=SMALL, columnspacing=1.5,
    )  # fmt: skip


def label_log_axis(axes: Axes, inches: float) -> None:
    """Make the horizontal axis logarithmic, with as many labels as do not touch.

    Args:
        axes: with everything drawn, so that its limits are known.
        inches: the length of the axis.
    """
    axes.set_xscale("log")
    axes.minorticks_off()
    ticks = log_ticks(*axes.get_xlim(), inches, SMALL)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=SMALL)


def log_ticks(low: float, high: float, inches: float, points: float) -> list[float]:
    """Return the places of labels on a logarithmic axis, with space between them.

    >>> log_ticks(10, 400, 3.5, 8)
    [10, 20, 30, 50, 100, 200, 300]
    >>> log_ticks(10, 4000, 1, 8)
    [10, 100, 1000]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    several: tuple[Sequence[float], ...] = (
        (*(1 + step / 20 for step in range(20)), *(2 + step / 5 for step in range(15)), *range(5, 10)),
        (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,),
    )  # fmt: skip
    ticks: list[float] = []
    for factors in several:
        # Rounded: 3 times 0.1 is not 0.3.
        each = (float(f"{factor * 10.0**decade:.3g}") for decade in decades for factor in factors)
        ticks = [int(tick) if tick == int(tick) else tick for tick in each if low <= tick <= high]
        if _have_room(ticks, inches / math.log10(high / low), points):
            return ticks
    while not _have_room(ticks, inches / math.log10(high / low), points):
        ticks = ticks[::2]
    return ticks


def _have_room(ticks: Sequence[float], inches_per_decade: float, points: float) -> bool:
    """Return whether labels at these places are a letter apart."""
    widths = [len(f"{tick:g}") * 0.64 * points / _INCH for tick in ticks]
    return all(
        math.log10(ticks[at + 1] / ticks[at]) * inches_per_decade
        >= (widths[at] + widths[at + 1]) / 2 + points / _INCH
        for at in range(len(ticks) - 1)
    )
