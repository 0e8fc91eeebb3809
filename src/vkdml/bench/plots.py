"""Plots of a record: rates against the peers, time against size, latencies."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkdml.bench import sweep_report
from vkdml.bench.cases import SHORT_NAMES
from vkdml.bench.datasheets import published_rate
from vkdml.bench.record import Record, Row, write_whole
from vkdml.bench.report import LIBRARY_NAMES, latency_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png", ".pdf")
PARTS = ("dtypes", "sizes", "latency", "sweep")
_OURS = "vkdml"
_COLOURS = {
    _OURS: "#111111", "torch": "#d1495b", "jax": "#00798c", "cupy": "#edae49",
    "cub": "#66a182", "numpy": "#8d96a3", "onnxruntime": "#9b6fb0",
}  # fmt: skip
_DTYPE_ROWS = ("all axes", "last axis", "axis 0", "segmentation", "slice1")
_MOST_BARS = 15
# What rates are measured against, by how it is drawn.
_OWN_READ, _COPY, _DATA_SHEET = "--", "-.", ":"


def write(record: Record, path: str | Path) -> list[Path]:
    """Write the plots that the record has data for, as ``NAME-dtypes.svg`` and so on beside ``NAME.svg``.

    Args:
        record: of a run.
        path: whose stem and suffix the files take.

    Returns:
        The files written.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "vkdml", "font.size": 9, "axes.spines.top": False,
                                "axes.spines.right": False})  # fmt: skip
    target = Path(path)
    written = []
    draws: tuple[Callable[[Record], Any], ...] = (_rates, _sizes, _latencies, sweep_report.draw)
    for name, draw in zip(PARTS, draws, strict=True):
        figure = draw(record)
        if figure is None:
            continue
        file = target.with_name(f"{target.stem}-{name}{target.suffix}")
        content = io.BytesIO()
        # Without a date the same record gives the same file.
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(content, format=target.suffix[1:], dpi=150, metadata=metadata, bbox_inches="tight")
        write_whole(file, content.getvalue())
        written.append(file)
    return written


def _rates(record: Record) -> Any:
    """Bars of GB/s for the main cases, one panel a kind, with lines for what rates are measured against."""
    from matplotlib.figure import Figure

    panels = [(kind, rows) for kind in _DTYPE_ROWS if (rows := _plain_rows(record, kind))]
    if not panels:
        rows = [row for row in record.rows if row.as_case().is_compared][:_MOST_BARS]
        panels = [("cases", rows)] if rows else []
    if not panels:
        return None
    bounds = _bounds(record)
    figure = Figure(figsize=(9, 2.3 * len(panels)), layout="constrained")
    for axes, (kind, rows) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        _bars(axes, record, rows)
        axes.set_title(kind, loc="left", fontweight="bold")
        axes.set_ylabel("GB/s (more is faster)")
        for name, style, rate in bounds:
            axes.axhline(rate, color="#888888", linewidth=0.8, linestyle=style, zorder=0, label=name)
    _legend(figure)
    timed = "whole calls, host array to host array" if _times_calls(record) else "kernels"
    figure.suptitle(f"{record.device['name']}: {timed}", x=0.01, ha="left", fontsize=9)
    return figure


def _times_calls(record: Record) -> bool:
    return any(row.call_us is not None for row in record.rows)


def _bounds(record: Record) -> list[tuple[str, str, float]]:
    """Return what rates are measured against: name, style of the line, GB/s."""
    published = published_rate(record.device["name"])
    rates = (
        ("fastest read by vkdml's kernels in this run", _OWN_READ, record.ceiling_gb_per_s),
        ("the driver's vkCmdCopyBuffer", _COPY, record.copy_gb_per_s),
        ("data sheet", _DATA_SHEET, published.gb_per_s if published else None),
    )
    return [(f"{name}: {rate:.4g} GB/s", style, rate) for name, style, rate in rates if rate]


def _legend(figure: Any) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = min(len(entries), 4)
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)


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
        at = [number + (place - (len(names) - 1) / 2) * width for number in range(len(rows))]
        rates = [_rate(row, name) for row in rows]
        axes.bar(at, rates, width * 0.92, label=_label(name), color=_COLOURS[name])
    axes.set_xticks(range(len(rows)), [_bar_label(row) for row in rows], fontsize=7)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(rows) - 0.5)


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


def _sizes(record: Record) -> Any:
    """Time against the size of the input on logarithmic axes, float32, all axes and one row."""
    from matplotlib.figure import Figure

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
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name in [_OURS, *_shown_peers(record)]:
        points = [(row.read_bytes / (1 << 20), us) for row in rows if (us := _us(row, name))]
        if points:
            axes.plot(
                *zip(*points, strict=True), "o-", label=_label(name), color=_COLOURS[name], markersize=4
            )
    sizes = [row.read_bytes / (1 << 20) for row in rows]
    for name, style, rate in _bounds(record):
        if style != _COPY:
            bound = [row.read_bytes / (rate * 1e3) for row in rows]
            axes.plot(sizes, bound, style, color="#888888", linewidth=0.8, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("input, MiB")
    axes.set_ylabel("microseconds (less is faster)")
    axes.set_title(f"argmax of float32, all axes; {record.device['name']}", loc="left", fontsize=9)
    axes.grid(which="major", linewidth=0.3)
    axes.legend(frameon=False)
    return figure


def _latencies(record: Record) -> Any:
    """The share of calls that are done within a time, one panel a kind of call."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    rows = [row for row in record.latency if row.ours.quantiles_us]
    if not rows:
        return None
    figure = Figure(figsize=(9, 2.6 * ((len(rows) + 1) // 2)), layout="constrained")
    grid = figure.subplots((len(rows) + 1) // 2, 2, squeeze=False).ravel()
    for axes in grid[len(rows) :]:
        axes.set_axis_off()
    for axes, row in zip(grid, rows, strict=False):
        for name, measured in ((_OURS, row.ours), *row.peers.items()):
            if measured.quantiles_us:
                # The slowest percent is pauses of the system.
                axes.plot(
                    measured.quantiles_us[:100],
                    range(100),
                    label=_label(name),
                    color=_COLOURS[name],
                    linewidth=1.3,
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
        axes.xaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="x", which="both", labelsize=7)
        axes.set_title(row.case, loc="left", fontsize=9)
        axes.set_xlabel("microseconds from call to result")
        axes.set_ylabel("% of calls")
        axes.grid(which="major", linewidth=0.3)
    _legend(figure)
    notes = "\n".join(latency_notes(record))
    figure.suptitle(f"{record.device['name']}\n{notes}", x=0.01, ha="left", fontsize=8)
    return figure
