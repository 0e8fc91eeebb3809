"""Records of the benchmark that were never measured, for tests of what is made from records."""

from __future__ import annotations

import io

from rich.console import Console

from vkdml.bench import record, report, suites
from vkdml.bench.cases import Case
from vkdml.bench.latency import latency_cases
from vkdml.bench.record import LatencyRow, Peer, PeerTime, Record, Row

PEERS = ("torch", "cupy", "jax", "cub", "numpy", "onnxruntime")
CASE = Case("", "argmax", "float32", (1 << 20,))


def row_of(case: Case, us: float, **peers: float) -> Row:
    written = case.written_bytes(4)
    return Row(
        **record.fields_of(case), us=us, low_us=us * 0.99, high_us=us * 1.01, readings=30,
        kernels={"argreduce_rows_float32": us}, read_bytes=case.read_bytes, written_bytes=written,
        gb_per_s=(case.read_bytes + written) / us / 1e3, input_gb_per_s=case.read_bytes / us / 1e3,
        peers={name: PeerTime(time, time, time) for name, time in peers.items()},
    )  # fmt: skip


def record_of(rows: list[Row], kind: str = "discrete", with_latency: bool = False) -> Record:
    latency = []
    for case in latency_cases(1 << 28) if with_latency else []:
        distribution = record.latency_of([1e-6 * (15 + call / 100) for call in range(200)])
        others = {"torch": distribution, "cub": record.Latency(0.0, 0.0, 0, [], "is no Python library")}
        latency.append(LatencyRow(case.name, case.kind, case.nbytes, distribution, 1.0, others))
    return Record(
        date="2026-01-31",
        suite="full",
        versions={"vkdml": "0.1.0", "python": "3.12.3", "numpy": "2.5.2"},
        machine={"processor": "A processor of a long name, Platinum 8480C", "cores": 16, "system": "Linux"},
        device={"name": "NVIDIA H200", "type": kind, "driver": "NVIDIA 580 Vulkan 1.4", "subgroup": 32},
        settings={},
        ceiling_gb_per_s=4550.0,
        ceiling_case="f32 256M all",
        rows=rows,
        latency=latency,
        peers={
            name: Peer("1.2.3", "processor" if name in ("numpy", "onnxruntime") else "device", "events")
            for name in PEERS
        },
    )


def full_record(with_latency: bool = True) -> Record:
    rows = []
    for number, case in enumerate(suites.suite("full")):
        us = case.read_bytes / 4.4e6 + 3
        times = {name: us * (1.1 + 0.1 * place + number % 7) for place, name in enumerate(PEERS)}
        rows.append(row_of(case, us, **(times if case.is_compared else {})))
    return record_of(rows, with_latency=with_latency)


def printed(made: Record) -> str:
    """What `vkdml bench` shows of a record."""
    console = Console(width=80, file=io.StringIO(), highlight=False)
    report.show(made, console)
    return console.file.getvalue()
