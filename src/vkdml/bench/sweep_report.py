"""What a sweep says: quantiles and the worst cases; at most 80 columns wide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.table import Table

from vkdml.bench.record import Record, Row, SweepRow
from vkdml.bench.sweep import DATA, command
from vkdml.measuring import geometric_mean

WORST = 20
QUANTILES = (("lowest", 0.0), ("1%", 0.01), ("10%", 0.1))
PEER = "torch"
_SAID_AGAIN = 5
SAID_OF_DATA = {"bits": "random bits", "flags": "random bytes 0 and 1", "constant": "equal elements"}


def share(record: Record, row: SweepRow) -> float | None:
    """Return the rate of a case, read and written, as a share of the run's fastest read."""
    if row.refused or row.wrong or not row.gb_per_s or not record.ceiling_gb_per_s:
        return None
    return row.gb_per_s / record.ceiling_gb_per_s


def times_torch(record: Record, row: SweepRow) -> float | None:
    """Return torch's time of a case divided by vkdml's: above 1, vkdml is faster."""
    time = row.peers.get(PEER)
    if row.refused or row.wrong or not row.us or time is None or not time.us:
        return None
    return time.us / row.us


Measure = Callable[[Record, SweepRow], float | None]


def values(record: Record, measure: Measure, rows: Sequence[SweepRow] | None = None) -> list[float]:
    """Return what is known of a sweep's rows, ascending."""
    each = (measure(record, row) for row in (record.sweep if rows is None else rows))
    return sorted(value for value in each if value is not None)


def quantile(ascending: Sequence[float], at: float) -> float:
    """Return the value that so large a part of all is below or equal to; never one between two of them.

    >>> [quantile([1.0, 2.0, 3.0, 4.0], at) for at in (0, 0.1, 0.3)]
    [1.0, 1.0, 2.0]
    """
    return ascending[max(math.ceil(at * len(ascending)) - 1, 0)]


def figure(value: float) -> str:
    """Say a share or a ratio.

    >>> [figure(value) for value in (0.0123, 0.123, 12.3)]
    ['0.012', '0.12', '12.30']
    """
    return f"{value:.{2 if value >= 0.0995 else 3}f}"


def faults(record: Record) -> list[SweepRow]:
    """Return the rows whose results were wrong."""
    return [row for row in record.sweep if row.wrong]


def quantile_table(record: Record) -> Table:
    """Return the quantiles of the share of the fastest read and of the ratio to torch."""
    table = _table("")
    with_torch = bool(values(record, times_torch))
    names = (*(name for name, _ in QUANTILES), "median", *(["mean"] if with_torch else []), "cases")
    for name in names:
        table.add_column(f" {name}", justify="right", no_wrap=True)
    kinds = {
        "all": record.sweep,
        "reductions": [row for row in record.sweep if row.op != "slice1" and not row.sizes],
        "of windows": [row for row in record.sweep if row.op != "slice1" and row.sizes],
        "slice1": [row for row in record.sweep if row.op == "slice1"],
    }
    for what, measure in (("share of the fastest read", share), ("times as fast as torch", times_torch)):
        for kind, rows in kinds.items():
            known = values(record, measure, rows)
            if known:
                mean = f" {figure(geometric_mean(known))}" if measure is times_torch else ""
                table.add_row(
                    f"{what}, {kind}",
                    *(f" {figure(quantile(known, at))}" for _, at in QUANTILES),
                    f" {figure(statistics.median(known))}",
                    *([mean] if with_torch else []),
                    f" {len(known)}",
                )
    return table


def worst_table(record: Record, measure: Measure) -> Table | None:
    """Return the worst cases by a measure; None where nothing was measured."""
    known = [(value, row) for row in record.sweep if (value := measure(record, row)) is not None]
    if not known:
        return None
    known.sort(key=lambda each: each[0])
    count = f"{min(WORST, len(known))} " if len(known) > 1 else ""
    by = "share of the fastest read" if measure is share else "ratio to torch"
    table = _table(f"the {count}worst by {by}")
    with_torch = bool(values(record, times_torch))
    for name in ("case", "us", "GB/s", "share", *(["torch"] if with_torch else [])):
        table.add_column(f" {name}", justify="right", no_wrap=True)
    for _, row in known[:WORST]:
        of_read, ratio = share(record, row), times_torch(record, row)
        cells = [
            row.case,
            f" {row.number}",
            f" {row.us:.1f}",
            f" {row.gb_per_s:.{0 if (row.gb_per_s or 0) >= 100 else 2}f}",
            "" if of_read is None else f" {figure(of_read)}",
        ]
        if with_torch:
            cells.append("" if ratio is None else f" {figure(ratio)}")
        table.add_row(*cells)
    return table


def _table(title: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), header_style="bold")
    table.add_column(title, overflow="fold", min_width=18)
    return table


def tables(record: Record) -> Iterator[Table]:
    """Yield the tables of a sweep."""
    if values(record, share):
        yield quantile_table(record)
    for measure in (share, times_torch):
        table = worst_table(record, measure)
        if table is not None:
            yield table


def notes(record: Record) -> Iterator[str]:
    """Yield what the tables leave out: what was refused or wrong, and how bytes are counted."""
    settings = record.settings
    windows, repeated = bool(settings.get("windows")), bool(settings.get("repeated"))
    what = "1 case" if len(record.sweep) == 1 else f"{len(record.sweep)} cases"
    what += ", windows reduced instead of copied," if windows else ""
    what += ", copies that read memory several times," if repeated else ""
    data = settings.get("data", DATA[0])  # not in records of earlier versions
    yield (
        f"seed {settings['seed']}: {what} of up to {settings['mib']} MiB of "
        f"{SAID_OF_DATA[data]}; "
        "times are those of the kernels, by the device's clock, and every result was checked"
    )
    yield (
        "GB/s: bytes read and written. A sector of 32 bytes counts whole and once if it holds an element "
        "that takes part."
    )
    if record.ceiling_gb_per_s:
        yield f"fastest read: {record.ceiling_gb_per_s:.4g} GB/s ({record.ceiling_case})"
    if values(record, times_torch):
        slower = [ratio for ratio in values(record, times_torch) if ratio < 1]
        cases = "1 case" if len(slower) == 1 else f"{len(slower)} cases"
        yield f"mean: geometric; torch: its time divided by vkdml's; it is faster in {cases}"
    yield from measured_again(record.sweep)
    refused = [row for row in record.sweep if row.refused]
    for row in refused:
        yield f"refused: {row.number}: {row.case}: {row.refused}"
    for row in faults(record):
        alone = command(
            *(settings["seed"], row.number, settings["mib"]), windows=windows, repeated=repeated, data=data
        )
        yield f"WRONG: {row.number}: {row.case}: {row.wrong}; it runs alone with {alone}"


def measured_again(rows: Sequence[Row] | Sequence[SweepRow]) -> Iterator[str]:
    """Yield which cases were measured more than once, with the medians in turn."""
    again = [row for row in rows if row.discarded_us]
    if not again:
        return
    said = [
        f"{row.case}: {', '.join(f'{us:.1f}' for us in row.discarded_us)}, then {row.us:.1f} us"
        for row in again[:_SAID_AGAIN]
    ]
    if len(again) > _SAID_AGAIN:
        said.append(f"and {len(again) - _SAID_AGAIN} more")
    yield (
        f"measured again, because readings spread or the device's clocks had fallen: {len(again)} of "
        f"{len(rows)} cases; {'; '.join(said)}"
    )
