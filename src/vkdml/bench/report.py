"""The tables of a record, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from vkdml.bench.record import Record, Row, best_peer, geometric_mean

SHORT_PEERS = {"onnxruntime": "ort"}


def show(record: Record, console: Console) -> None:
    """Print everything there is to say of a run."""
    for line in heading(record):
        console.print(line)
    if record.rows:
        console.print(case_table(record))
    if record.latency:
        console.print(latency_table(record))
    for line in notes(record):
        console.print(line)


def heading(record: Record) -> Iterator[str]:
    """Yield what was measured, where and when."""
    yield f"{record.device['name']} ({record.device['type']}), {record.device['driver']}"
    yield f"{record.machine['processor']}, {record.machine['cores']} cores; {record.date}"
    versions = [f"{name} {version}" for name, version in record.versions.items()]
    yield ", ".join(versions + [f"{name} {peer.version}" for name, peer in record.peers.items()])


def timed_peers(record: Record) -> list[str]:
    """Return the peers that timed any case."""
    return [
        name
        for name in record.peers
        if any(row.peers[name].us is not None for row in record.rows if name in row.peers)
    ]


def case_table(record: Record) -> Table:
    """Return one line a case: time, rate, share of the read ceiling, and how many times each peer's speed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), header_style="bold")
    table.add_column("case", overflow="fold", min_width=18)
    calls = any(row.call_us is not None for row in record.rows)
    for name in ("us", "GB/s", "%", "", *(["call us"] if calls else [])):
        table.add_column(" " + name if name else "", justify="right", no_wrap=True)
    peers = timed_peers(record)
    for name in peers:
        table.add_column(" " + SHORT_PEERS.get(name, name), justify="right", no_wrap=True)
    for row in record.rows:
        share = ""
        if record.ceiling_gb_per_s:
            share = f"{100 * row.gb_per_s / record.ceiling_gb_per_s:.0f}"
        table.add_row(
            row.case,
            f" {microseconds(row.us)}",
            f" {row.gb_per_s:.{0 if row.gb_per_s >= 100 else 1}f}",
            f" {share}",
            {True: " +", False: " -", None: ""}[row.met],
            *([f" {microseconds(row.call_us or 0)}"] if calls else []),
            *(" " + ratio(row, name) for name in peers),
        )
    return table


def ratio(row: Row, peer: str) -> str:
    """Say how many times faster than a peer a row is; nothing where that was not timed."""
    time = row.peers.get(peer)
    if time is None or time.us is None or row.compared_us <= 0:
        return ""
    times = time.us / row.compared_us
    return f"{times:.{2 if times < 10 else 1 if times < 100 else 0}f}"


def microseconds(us: float) -> str:
    return f"{us:.{2 if us < 10 else 1 if us < 1000 else 0}f}"


def latency_table(record: Record) -> Table:
    """Return one line a latency case: the median and the 99th percentile, ours and the peers' medians."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), header_style="bold")
    table.add_column("call to index on the host", overflow="fold", min_width=18)
    table.add_column(" p50 us", justify="right", no_wrap=True)
    table.add_column(" p99 us", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    peers = [name for name in record.peers if any(name in row.peers for row in record.latency)]
    for name in peers:
        table.add_column(" " + SHORT_PEERS.get(name, name), justify="right", no_wrap=True)
    for row in record.latency:
        others = [row.peers.get(name) for name in peers]
        table.add_row(
            row.case,
            f" {microseconds(row.ours.p50_us)}",
            f" {microseconds(row.ours.p99_us)}",
            {True: " +", False: " -", None: ""}[row.met],
            *(f" {microseconds(other.p50_us)}" if other and not other.why else "" for other in others),
        )
    return table


def notes(record: Record) -> Iterator[str]:
    """Yield the sums of a run and what its table leaves out."""
    if record.ceiling_gb_per_s:
        yield (
            f"%: of {record.ceiling_gb_per_s:.4g} GB/s, the fastest read of this run ({record.ceiling_case})"
        )
    if timed_peers(record):
        ours = "our call's" if any(row.call_us is not None for row in record.rows) else "ours"
        yield f"under a peer's name: its time as a multiple of {ours}"
    mean = geometric_mean(record)
    if mean is not None:
        yield f"geometric mean over {mean[1]} cases: {mean[0]:.2f} times as fast as each one's best peer"
        lost = [row for row in record.rows if (best := best_peer(record, row)) and best[1] < row.compared_us]
        if lost:
            yield f"slower than the best peer in {len(lost)}: {_listed(lost)}"
    verdicts = [*(row.met for row in record.rows), *(row.met for row in record.latency)]
    judged = [met for met in verdicts if met is not None]
    if judged:
        yield f"targets: {sum(judged)} of {len(judged)} met (+ met, - missed)"
    scaled = sum(row.scaled_from is not None for row in record.rows)
    if scaled:
        yield f"{scaled} of {len(record.rows)} cases were made smaller to fit (--mib or the device's limits)"
    for name, peer in record.peers.items():
        if peer.note:
            yield f"{name}: {peer.note}"


def _listed(rows: Sequence[Row], most: int = 8) -> str:
    names = [row.case for row in rows[:most]]
    return ", ".join(names) + (f" and {len(rows) - most} more" if len(rows) > most else "")
