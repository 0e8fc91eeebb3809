"""The plot of a sweep: which part of its cases is at or below a value."""

from __future__ import annotations

from typing import Any

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
from vkdml.bench.record import Record
from vkdml.bench.sweep_report import PEER, Measure, share, times_torch, values

_COLOURS = {"argmax": "#00798c", "argmin": "#66a182", "slice1": "#d1495b"}


def draw(record: Record) -> Any:
    """Return a figure with the share of cases below a value, for both measures; None without a sweep."""
    each: list[tuple[Measure, str]] = [
        (share, "rate as a share of the fastest read"),
        (times_torch, f"{PEER}'s time divided by vkdml's, logarithmic\n(above 1, vkdml is faster)"),
    ]
    shown = [(measure, label) for measure, label in each if values(record, measure)]
    if not shown:
        return None
    settings = record.settings
    rates = dict(read_rates(record))
    lines = [
        f"{len(record.sweep)} random arrays of up to {settings['mib']} MiB, seed {settings['seed']}; "
        "kernels alone, by the device's clock.",
    ]
    if OWN_READ in rates:
        sheet = f" ({DATA_SHEET}: {rates[DATA_SHEET]:.4g} GB/s)" if DATA_SHEET in rates else ""
        lines.append(f"{OWN_READ.capitalize()}: {rates[OWN_READ]:.4g} GB/s{sheet}.")
    title = f"{record.device['name']}: how many cases of a sweep reach a rate; further right is better"
    figure = page(3.2, title, [*lines, *measured(record)])
    for axes, (measure, label) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for kind, colour in _COLOURS.items():
            rows = [row for row in record.sweep if row.op == kind]
            known = values(record, measure, rows)
            if known:
                heights = [100 * place / len(known) for place in range(len(known) + 1)]
                axes.step([known[0], *known], heights, where="post", label=kind, color=colour)
        if measure is times_torch:
            label_log_axis(axes, 7.5 / len(shown))
            axes.axvline(1, color="#888888", linewidth=0.8)
        else:
            axes.set_xlim(left=0)
        axes.set_ylim(0, 100)
        axes.set_xlabel(label, fontsize=SMALL)
        axes.set_ylabel("% of cases at or below", fontsize=SMALL)
        axes.tick_params(labelsize=SMALL)
        axes.grid(which="major", linewidth=0.3)
    legend(figure)
    return figure
