"""The tables of a record, at most 80 columns wide."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from vkdml.bench import sweep_report
from vkdml.bench.chains import CHAIN
from vkdml.bench.datasheets import published_rate
from vkdml.bench.record import PeerTime, Record, Row, Times, best_peer, mean_speedup
from vkdml.bench.tables import print_whole

LIBRARY_NAMES = {
    "numpy": "NumPy", "torch": "torch", "cupy": "CuPy", "jax": "JAX", "onnxruntime": "ONNX Runtime",
    "cub": "CUB", "onnxruntime-webgpu": "ONNX Runtime on WebGPU", "torchvulkan": "torchvulkan",
}  # fmt: skip
SHORT_NAMES = {
    **LIBRARY_NAMES,
    "onnxruntime": "ORT",
    "onnxruntime-webgpu": "WebGPU",
    "torchvulkan": "torchvk",
}
"""As they head columns."""


def show(record: Record, console: Console) -> None:
    """Print everything there is to say of a run."""
    for line in heading(record):
        console.print(line)
    if record.rows:
        print_whole(console, case_table(record))
        for table in (call_table(record), chain_table(record)):
            if table is not None:
                print_whole(console, table)
    if record.latency:
        print_whole(console, latency_table(record))
    if record.sweep:
        for table in sweep_report.tables(record):
            print_whole(console, table)
    for line in sweep_report.notes(record) if record.sweep else notes(record):
        # Brackets are indices.
        console.print(line, markup=False)


def heading(record: Record) -> Iterator[str]:
    """Yield what was measured, where and when."""
    yield f"{record.device['name']} ({record.device['type']}), {record.device['driver']}"
    yield f"{record.machine['processor']}, {record.machine['cores']} cores; {record.date}"
    yield f"Python {record.versions['python']}, vkdml {record.versions['vkdml']}; {libraries(record)}"


def libraries(record: Record) -> str:
    """Return NumPy, which vkdml is used with, and the libraries that it is compared with, each once.

    >>> libraries(record)  # doctest: +SKIP
    'NumPy 2.5.2; compared with torch 2.11.0, JAX 0.11.2'
    """
    compared = [f"{LIBRARY_NAMES[name]} {peer.version}" for name, peer in record.peers.items()]
    used = f"NumPy {record.versions['numpy']}"
    said = [] if used in compared else [used]
    if compared:
        said.append(f"compared with {', '.join(compared)}")
    return "; ".join(said)


def ceiling(record: Record) -> str:
    """Say what rates are measured against: vkdml's own fastest read, a plain copy, the data sheet."""
    if not record.ceiling_gb_per_s:
        return ""
    said = [f"Fastest read in this run: {record.ceiling_gb_per_s:.4g} GB/s"]
    if record.copy_gb_per_s:
        mib = record.copy_bytes / (1 << 20)
        said.append(
            f"the driver's vkCmdCopyBuffer of {mib:.4g} MiB: {record.copy_gb_per_s:.4g} GB/s read and written"
        )
    published = published_rate(record.device["name"])
    if published:
        said.append(f"data sheet: {published.gb_per_s:.4g} GB/s")
    return "; ".join(said)


def sums(record: Record) -> Iterator[str]:
    """Yield how vkdml compares with the other libraries over all cases."""
    mean = mean_speedup(record)
    if mean is None:
        return
    cases = f"{mean[1]} case{'' if mean[1] == 1 else 's'}"
    yield (
        f"Geometric mean over {cases}: vkdml is {mean[0]:.2f} times as fast as the fastest other "
        "library of each."
    )
    lost = [row for row in record.rows if (best := best_peer(record, row)) and best[1] < row.compared_us]
    if lost:
        yield f"Another library is faster in {len(lost)} of them."


def over_kernels(record: Record) -> str:
    """Say how much longer public calls on Arrays take than their kernels; nothing of software devices.

    There both are shares of the same processor's time, which changes from one to the other.
    """
    over = [(row.over_kernel_us, row.case) for row in record.rows if row.over_kernel_us is not None]
    if not over or record.device["type"] == "software":
        return ""
    greatest, case = max(over)
    median = statistics.median(us for us, _ in over)
    cases = f"{len(over)} case{'' if len(over) == 1 else 's'}"
    return (
        f"The public call on an Array takes {median:.1f} us longer than its kernels (median of {cases}), and "
        f"at most {greatest:.1f} us longer ({case})."
    )


def timed_peers(record: Record) -> list[str]:
    """Return the peers that timed any case."""
    return [
        name
        for name in record.peers
        if any(row.peers[name].us is not None for row in record.rows if name in row.peers)
    ]


def case_table(record: Record) -> Table:
    """Return a row for each case: time, rate, share of the fastest read, times as fast as each library."""
    table = _plain_table("case")
    calls = any(_call_us(row) is not None for row in record.rows)
    for name in ("us", "GB/s", "%", *(["call us"] if calls else [])):
        table.add_column(" " + name, justify="right", no_wrap=True)
    peers = timed_peers(record)
    for name in peers:
        table.add_column(" " + SHORT_NAMES[name], justify="right", no_wrap=True)
    for row in record.rows:
        share = ""
        if record.ceiling_gb_per_s:
            share = f"{100 * row.gb_per_s / record.ceiling_gb_per_s:.0f}"
        table.add_row(
            f"{row.case}\n  from {row.full_shape}" if row.full_shape else row.case,
            f" {microseconds(row.us)}",
            f" {rate(row.gb_per_s)}",
            f" {share}",
            *([_cell(_call_us(row))] if calls else []),
            *(" " + ratio(row, name) for name in peers),
        )
    return table


def _call_us(row: Row) -> float | None:
    """Return the time of a public call: on a host array where only that was timed, else on an Array."""
    if row.call_us is not None:
        return row.call_us
    return None if row.array_call is None else row.array_call.us


def _cell(us: float | None) -> str:
    return "" if us is None else f" {microseconds(us)}"


def call_table(record: Record) -> Table | None:
    """Return a row for each public call on an Array, beside the other libraries' calls on their arrays."""
    rows = [row for row in record.rows if row.array_call is not None]
    if not rows or record.device["type"] == "software":
        return None
    table = _plain_table("public call to result, us")
    host = any(row.host_call is not None for row in rows)
    for name in ("kernels", "Array", "over", *(["host"] if host else [])):
        table.add_column(" " + name, justify="right", no_wrap=True)
    peer_cells = _add_peers(table, record, rows, lambda peer: peer.call)
    for row in rows:
        table.add_row(
            row.case,
            _cell(row.us),
            _cell(_median(row.array_call)),
            _cell(row.over_kernel_us),
            *([_cell(_median(row.host_call))] if host else []),
            *peer_cells(row),
        )
    return table


def chain_table(record: Record) -> Table | None:
    """Return a row for each chain of operations, beside the other libraries' chains."""
    rows = [row for row in record.rows if row.chain is not None]
    if not rows:
        return None
    table = _plain_table(f"{CHAIN} operations, us each")
    for name in ("kernels", "chain", "independent"):
        table.add_column(" " + name, justify="right", no_wrap=True)
    peer_cells = _add_peers(table, record, rows, lambda peer: peer.chain)
    for row in rows:
        table.add_row(
            row.case,
            _cell(row.us),
            _cell(_median(row.chain)),
            _cell(_median(row.independent)),
            *peer_cells(row),
        )
    return table


def _add_peers(
    table: Table, record: Record, rows: Sequence[Row], times_of: Callable[[PeerTime], Times | None]
) -> Callable[[Row], list[str]]:
    """Add a column for each library that has such a time; return what gives a row's cells in them."""
    names = [name for name in record.peers if any(name in r.peers and times_of(r.peers[name]) for r in rows)]
    for name in names:
        table.add_column(" " + SHORT_NAMES[name], justify="right", no_wrap=True)

    def cells(row: Row) -> list[str]:
        peers = row.peers
        return [_cell(_median(times_of(peers[name]))) if name in peers else "" for name in names]

    return cells


def _median(times: Times | None) -> float | None:
    return None if times is None else times.us


def _plain_table(heading: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), header_style="bold")
    table.add_column(heading, overflow="fold", min_width=18)
    return table


def ratio(row: Row, peer: str) -> str:
    """Say how many times as fast as a peer vkdml is; nothing where that was not timed."""
    time = row.peers.get(peer)
    if time is None or time.us is None or row.compared_us <= 0:
        return ""
    return times_as_fast(time.us / row.compared_us)


def times_as_fast(times: float) -> str:
    """Say how many times as fast as another library vkdml is.

    >>> [times_as_fast(times) for times in (0.0034, 0.98, 12.34)]
    ['0.003', '0.98', '12.3']
    """
    if times < 0.095:
        return f"{times:.1g}"
    return f"{times:.{2 if times < 10 else 1 if times < 100 else 0}f}"


def rate(gb_per_s: float) -> str:
    """Say a rate in GB/s.

    >>> [rate(value) for value in (4389.07, 8.15, 0.0412)]
    ['4389', '8.2', '0.04']
    """
    return f"{gb_per_s:.{0 if gb_per_s >= 100 else 1 if gb_per_s >= 1 else 2}f}"


def microseconds(us: float) -> str:
    return f"{us:.{2 if us < 10 else 1 if us < 1000 else 0}f}"


def latency_table(record: Record) -> Table:
    """Return a row for each latency case: median and 99th percentile of vkdml, medians of the others."""
    table = _plain_table("call to result, us")
    table.add_column(" vkdml p50", justify="right", no_wrap=True)
    table.add_column(" p99", justify="right", no_wrap=True)
    peers = [name for name in record.peers if any(name in row.peers for row in record.latency)]
    for name in peers:
        table.add_column(" " + SHORT_NAMES[name], justify="right", no_wrap=True)
    for row in record.latency:
        others = [row.peers.get(name) for name in peers]
        table.add_row(
            row.case,
            f" {microseconds(row.ours.p50_us)}",
            f" {microseconds(row.ours.p99_us)}",
            *(f" {microseconds(other.p50_us)}" if other and not other.why else "" for other in others),
        )
    return table


def notes(record: Record) -> Iterator[str]:
    """Yield the sums of a run and what its table leaves out."""
    if record.ceiling_gb_per_s:
        yield "GB/s: bytes read and written"
        yield f"%: of the fastest read in this run ({record.ceiling_case})"
        yield ceiling(record)
    if any(row.call_us is not None for row in record.rows):
        yield "us, GB/s, %: of the kernels; call us: of the public call, host array to host array"
    elif any(row.array_call is not None for row in record.rows):
        yield "us, GB/s, %: of the kernels; call us: of the public call on an Array"
    yield from call_notes(record)
    if timed_peers(record):
        ours = "its call" if any(row.call_us is not None for row in record.rows) else "its kernels"
        yield f"columns of libraries: the library's time divided by that of vkdml ({ours})"
    yield from sums(record)
    if record.latency:
        yield "columns of libraries, call to result: microseconds, p50"
        yield from latency_notes(record)
    scaled = sum(row.scaled_from is not None for row in record.rows)
    if scaled:
        were = "was" if scaled == 1 else "were"
        yield (
            f"{scaled} of {len(record.rows)} cases {were} made smaller, from the shape below each (--mib or "
            f"the device's limits){limit(record)}"
        )
    yield from sweep_report.measured_again(record.rows)
    for name, peer in record.peers.items():
        yield f"how {LIBRARY_NAMES[name]} was timed: {peer.method}"
        if peer.note:
            yield f"{name}: {peer.note}"


def call_notes(record: Record) -> Iterator[str]:
    """Yield what public calls and chains are."""
    if call_table(record) is not None:
        yield (
            "public call to result: p50 of vkdml.argmax, argmin or slice1 on an Array and, for small inputs, "
            "on a host array; columns of libraries: its call on its own array on the device, until the "
            "result is there. over: call less kernels."
        )
        yield over_kernels(record)
    if chain_table(record) is not None:
        yield (
            f"{CHAIN} operations: the time of {CHAIN} in one submission, divided by {CHAIN}, by the host's "
            "clock. vkdml: a recorded sequence; in a chain each operation waits for the one before, "
            "independent ones may overlap. JAX: one compiled program in which each operation needs the one "
            "before; torch: one CUDA graph."
        )


def limit(record: Record) -> str:
    """Say how large the inputs of a run's suite could be; nothing where the record does not tell."""
    most = record.settings.get("most_input_bytes") or (record.settings.get("mib") or 0) << 20
    return f": inputs have at most {most / (1 << 20):.4g} MiB" if most else ""


def latency_notes(record: Record) -> Iterator[str]:
    """Yield what tells the kinds of calls apart."""
    kinds = {row.kind for row in record.latency}
    if "array" in kinds:
        yield "array on the device: the public call, int(a.argmax()), of vkdml and of each library."
    if "view" in kinds:
        yield "row of an array on the device: the same on a view that each call makes, int(a[i].argmax())."
    if kinds & {"to device", "to host"}:
        yield (
            "host to device, device to host: asarray(x) and a.numpy(), and what the other libraries have for "
            "them."
        )
    if kinds & {"recorded", "recorded in turn"}:
        yield (
            "recorded sequence: vkdml runs again what was recorded before; the other libraries make their "
            "public call on an array on the device."
        )
