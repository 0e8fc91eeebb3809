"""Plots of a record: rates against the peers, time against size, latencies, the sweep."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkdml.bench import sweep_plot
from vkdml.bench.cases import SHORT_NAMES
from vkdml.bench.files import write_whole
from vkdml.bench.plot_page import (
    DATA_SHEET,
    OWN_READ,
    SMALL,
    label_log_axis,
    legend,
    measured,
    page,
    read_rates,
)
from vkdml.bench.record import Record, Row
from vkdml.bench.report import LIBRARY_NAMES, latency_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")
PARTS = ("dtypes", "sizes", "latency", "sweep")
NOT_SUPPORTED = "not supported"
NOT_TIMED = "not timed"
_OURS = "vkdml"
_COLOURS = {
    _OURS: "#111111", "torch": "#d1495b", "jax": "#00798c", "cupy": "#edae49",
    "cub": "#66a182", "numpy": "#8d96a3", "onnxruntime": "#9b6fb0",
    "onnxruntime-webgpu": "#5f4b8b", "torchvulkan": "#e07a5f",
}  # fmt: skip
_DTYPE_ROWS = ("all axes", "last axis", "axis 0", "segmentation", "slice1")
_MOST_BARS = 15
# Why a case has no time of a library, although that could have run it.
_UNTIMED = ("out of time", "too large", "its process ended", "keeps on the host")
_COPY = "the driver's vkCmdCopyBuffer, read and written"
_STYLES = {
    OWN_READ: ("--", "dashed line"),
    _COPY: ("-.", "dash-dotted line"),
    DATA_SHEET: (":", "dotted line"),
}
# Share of a panel's height. Lower bars cannot be seen.
_LEAST_BAR = 0.02
_ABSENT_POINTS = 6.5
_AXES_INCHES = 7.8
# Characters of a small line above one of two panels side by side.
_CURVE_COLUMNS = 62


def figures(record: Record) -> dict[str, Figure]:
    """Return the figures that the record has data for, by the name of :data:`PARTS`."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "vkdml", "font.size": 9, "axes.spines.top": False,
                                "axes.spines.right": False})  # fmt: skip
    draws: tuple[Callable[[Record], Any], ...] = (_rates, _sizes, _latencies, sweep_plot.draw)
    drawn = {part: draw(record) for part, draw in zip(PARTS, draws, strict=True)}
    return {part: figure for part, figure in drawn.items() if figure is not None}


def file_of(path: str | Path, part: str) -> Path:
    """Return the name of the file that has one of :data:`PARTS`: ``NAME-dtypes.svg`` beside ``NAME.svg``."""
    target = Path(path)
    return target.with_name(f"{target.stem}-{part}{target.suffix}")


def write(record: Record, path: str | Path) -> list[Path]:
    """Write the plots that the record has data for, as ``NAME-dtypes.svg`` and so on beside ``NAME.svg``.

    Args:
        record: of a run.
        path: whose stem and suffix the files take.

    Returns:
        The files written.
    """
    target = Path(path)
    written = []
    for part, figure in figures(record).items():
        file = file_of(target, part)
        content = io.BytesIO()
        # Without a date the same record gives the same file.
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(content, format=target.suffix[1:], dpi=150, metadata=metadata)
        write_whole(file, content.getvalue())
        written.append(file)
    return written


# ---- rates ----------------------------------------------------------------------------------------


def _rates(record: Record) -> Any:
    """Bars of GB/s for the main cases, one panel a kind, with lines for what rates are measured against."""
    panels = [(_kind(rows[0]), rows) for kind in _DTYPE_ROWS if (rows := _plain_rows(record, kind))]
    if not panels:
        rows = [row for row in record.rows if row.as_case().is_compared][:_MOST_BARS]
        panels = [("cases", rows)] if rows else []
    if not panels:
        return None
    bounds = _bounds(record)
    floor = _log_floor(record, panels, [rate for _, rate in bounds])
    logarithmic = ", logarithmic" if floor else ""
    figure = page(
        1.75 * len(panels) + 0.5,
        f"{record.device['name']}: bytes read and written per second; higher is better",
        [_timed(record), _lines(bounds), *measured(record)],
    )
    for axes, (kind, rows) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        if floor:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        _bars(axes, record, rows)
        axes.set_title(kind, loc="left", fontsize=9, fontweight="bold")
        axes.set_ylabel(f"GB/s{logarithmic}", fontsize=SMALL)
        axes.tick_params(axis="y", labelsize=SMALL)
        for name, rate in bounds:
            axes.axhline(rate, color="#777777", linewidth=0.9, linestyle=_STYLES[name][0], zorder=0)
        if floor:
            axes.set_ylim(bottom=floor)
    legend(figure)
    return figure


def _kind(row: Row) -> str:
    return row.row if row.op == "slice1" else f"{row.op}, {row.row}"


def _timed(record: Record) -> str:
    """Say what the times of a record's rows are of."""
    if any(row.call_us is not None for row in record.rows):
        return "Whole calls, from host array to host array."
    return "Kernels alone, by the device's clock."


def _bounds(record: Record) -> list[tuple[str, float]]:
    """Return what rates are measured against: name, GB/s."""
    copy = [(_COPY, record.copy_gb_per_s)] if record.copy_gb_per_s else []
    return [*read_rates(record), *copy]


def _lines(bounds: list[tuple[str, float]]) -> str:
    """Say what the lines across a plot are."""
    said = "; ".join(f"{_STYLES[name][1]}: {name}, {rate:.4g} GB/s" for name, rate in bounds)
    return f"{said[:1].upper()}{said[1:]}."


def _log_floor(record: Record, panels: list[tuple[str, list[Row]]], bounds: list[float]) -> float | None:
    """Return where a logarithmic axis starts, if some bars could not be seen on a linear one."""
    names = [_OURS, *_shown_peers(record)]
    lowest = math.inf
    needed = False
    for _, rows in panels:
        rates = [rate for row in rows for name in names if (rate := _rate(row, name))]
        lowest = min(lowest, *rates)
        needed |= min(rates) < _LEAST_BAR * max([*rates, *bounds])
    return 10.0 ** math.floor(math.log10(lowest / 1.2)) if needed else None


def _shown_peers(record: Record) -> list[str]:
    """Return the peers that computed where vkdml did: beside a GPU the others' bars could not be seen."""
    software = record.device["type"] == "software"
    return [name for name, peer in record.peers.items() if software or peer.runs_on == "device"]


def _plain_rows(record: Record, kind: str) -> list[Row]:
    return [row for row in record.rows if row.row == kind and row.as_case().is_compared][:_MOST_BARS]


def _bars(axes: Axes, record: Record, rows: list[Row]) -> None:
    names = [_OURS, *(name for name in _shown_peers(record) if any(_us(row, name) for row in rows))]
    width = min(0.85 / len(names), 0.04 * len(rows))
    for place, name in enumerate(names):
        shift = (place - (len(names) - 1) / 2) * width
        there = [(number + shift, rate) for number, row in enumerate(rows) if (rate := _rate(row, name))]
        places, rates = zip(*there, strict=True)
        axes.bar(places, rates, width=width * 0.92, label=_label(name), color=_COLOURS[name])
    room = 72 * _AXES_INCHES * width / len(rows) > 1.2 * _ABSENT_POINTS
    for number, row in enumerate(rows):
        for first, last, why in _absent(row, names, each=room):
            middle = number + ((first + last) / 2 - (len(names) - 1) / 2) * width
            axes.text(
                middle, 0.03, why, transform=axes.get_xaxis_transform(), rotation=90,
                ha="center", va="bottom", fontsize=_ABSENT_POINTS, color="#444444",
            )  # fmt: skip
    axes.set_xticks(range(len(rows)), [_bar_label(row) for row in rows], fontsize=SMALL - 1)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(rows) - 0.5)


def _absent(row: Row, names: list[str], *, each: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last place of bars that are not there, and why.

    Args:
        row: whose bars they are.
        names: of the libraries, in the order of their bars.
        each: yield every one; else those that are side by side together.
    """
    group: tuple[int, int, str] | None = None
    for place, name in enumerate(names):
        why = "" if _us(row, name) else _why_absent(row.peers[name].why if name in row.peers else NOT_TIMED)
        if group and (each or why != group[2]):
            yield group
            group = None
        if why:
            group = (group[0] if group else place, place, why)
    if group:
        yield group


def _why_absent(why: str) -> str:
    return NOT_TIMED if why == NOT_TIMED or why.startswith(_UNTIMED) else NOT_SUPPORTED


def _label(name: str) -> str:
    return LIBRARY_NAMES.get(name, name)


def _bar_label(row: Row) -> str:
    short = SHORT_NAMES[row.element]
    if row.op == "slice1":
        return f"{short}\n{row.window}"
    if row.axis is None:
        return short
    return f"{short}\n" + "x".join(map(str, row.shape))


def _us(row: Row, name: str) -> float | None:
    if name == _OURS:
        return row.compared_us
    time = row.peers.get(name)
    return time.us if time else None


def _rate(row: Row, name: str) -> float:
    us = _us(row, name)
    return (row.read_bytes + row.written_bytes) / (us * 1e3) if us else 0.0


# ---- sizes ----------------------------------------------------------------------------------------


def _sizes(record: Record) -> Any:
    """Time against the size of the input on logarithmic axes, float32, all axes and one row."""
    rows = sorted(
        (
            row
            for row in record.rows
            if row.element == "float32" and row.op == "argmax" and row.as_case().is_compared
            and not row.alternate and row.axis is None
        ),
        key=lambda row: row.read_bytes,
    )  # fmt: skip
    if len(rows) < 3:
        return None
    title = f"{record.device['name']}: time of argmax over all axes of float32 by size; lower is better"
    bounds = list(read_rates(record))
    lines = [f"{_lines(bounds)[:-1]} of input."] if bounds else []
    figure = page(3.8, title, [_timed(record), *lines, *measured(record)])
    axes = figure.subplots()
    for name in [_OURS, *_shown_peers(record)]:
        points = [(row.read_bytes / (1 << 20), us) for row in rows if (us := _us(row, name))]
        if points:
            axes.plot(
                *zip(*points, strict=True), "o-", label=_label(name), color=_COLOURS[name], markersize=4
            )
    sizes = [row.read_bytes / (1 << 20) for row in rows]
    for name, rate in bounds:
        bound = [row.read_bytes / (rate * 1e3) for row in rows]
        axes.plot(sizes, bound, _STYLES[name][0], color="#777777", linewidth=0.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(labelsize=SMALL)
    axes.set_xlabel("input, MiB, logarithmic", fontsize=SMALL)
    axes.set_ylabel("microseconds, logarithmic", fontsize=SMALL)
    axes.grid(which="major", linewidth=0.3)
    legend(figure)
    return figure


# ---- latencies ------------------------------------------------------------------------------------


def _latencies(record: Record) -> Any:
    """The share of calls that are done within a time, one panel a kind of call."""
    rows = [row for row in record.latency if row.ours.quantiles_us]
    if not rows:
        return None
    shown = [name for name in record.peers if any(_curve(row, name) for row in rows)]
    notes = [f"{line[0].upper()}{line[1:]}" for line in latency_notes(record)]
    figure = page(
        1.95 * ((len(rows) + 1) // 2) + 0.4,
        f"{record.device['name']}: share of calls done within a time; further left is better",
        [*notes, *measured(record)],
    )
    grid = figure.subplots((len(rows) + 1) // 2, 2, squeeze=False).ravel()
    for axes in grid[len(rows) :]:
        axes.set_axis_off()
    for axes, row in zip(grid, rows, strict=False):
        absent: dict[str, list[str]] = {}
        for name in [_OURS, *shown]:
            times = _curve(row, name)
            if times:
                # The slowest percent is pauses of the system.
                axes.plot(times[:100], range(100), label=_label(name), color=_COLOURS[name], linewidth=1.3)
            else:
                why = _why_absent(row.peers[name].why if name in row.peers else NOT_TIMED)
                absent.setdefault(why, []).append(_label(name))
        label_log_axis(axes, _AXES_INCHES / 2 - 0.3)
        # Else they would depend on the resolution at which the page is drawn.
        axes.set_yticks(range(0, 101, 25))
        axes.tick_params(labelsize=SMALL)
        without = "; ".join(f"{why}: {', '.join(names)}" for why, names in absent.items())
        lines = textwrap.wrap(without, _CURVE_COLUMNS)
        pad = 6 + 9 * len(lines) if lines else None
        axes.set_title(row.case, loc="left", fontsize=9, fontweight="bold", pad=pad)
        if lines:
            place = {"xytext": (0, 4), "xycoords": "axes fraction", "textcoords": "offset points"}
            axes.annotate("\n".join(lines), (0, 1), **place, fontsize=SMALL - 1, color="#444444")
        axes.set_xlabel("microseconds from call to result, logarithmic", fontsize=SMALL)
        axes.set_ylabel("% of calls", fontsize=SMALL)
        axes.grid(which="major", linewidth=0.3)
    legend(figure)
    return figure


def _curve(row: Any, name: str) -> list[float]:
    """Return the quantiles of a library's time of a call; none where it was not timed."""
    if name == _OURS:
        return list(row.ours.quantiles_us)
    return list(row.peers[name].quantiles_us) if name in row.peers else []
