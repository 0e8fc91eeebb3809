"""Runs a sweep on a device: the fastest read, each case timed and checked, then the other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vkdml.bench import contents, measure, sweep_check
from vkdml.bench.cases import MIB
from vkdml.bench.check import WrongResult
from vkdml.bench.clocks import WARM_SECONDS, clocks_of
from vkdml.bench.contents import Bytes
from vkdml.bench.libraries import peers
from vkdml.bench.record import Record, SweepRow
from vkdml.bench.session import Keep, NowAndThen, Progress, kept_when_stopped, phase
from vkdml.bench.sweep import DATA, SUITE, SweepCase, command, sweep_case
from vkdml.bench.sweep_views import repeated_case
from vkdml.errors import DeviceError
from vkdml.measuring import filled, settled, time_plan
from vkdml.runtime.device import Device
from vkdml.runtime.memory import Memory

GPU_MIB = 512
DEFAULT_CASES = 100
PATIENCE_SECONDS = 1.0
PEERS = ("torch",)
"""The libraries that are timed beside a sweep."""
# A library has so long for each case if that is more than it has for any run.
_PEER_SECONDS_OF_CASE = 1.0


@dataclass(frozen=True)
class SweepOptions:
    """What to run."""

    seed: int = 0
    windows: bool = False
    """Windows are reduced instead of copied."""
    repeated: bool = False
    """All cases are copies that read memory several times."""
    data: str = DATA[0]
    """What the arrays hold, one of :data:`vkdml.bench.sweep.DATA`."""
    numbers: Sequence[int] = range(DEFAULT_CASES)
    mib: int | None = None
    index_bytes: int = 4
    readings: int = 30
    peers: Sequence[str] = ()
    peers_named: bool = False
    peer_seconds: float = 0.0


def mib_of(device: Device, mib: int | None) -> int:
    """Return how large the arrays are, in MiB; only this depends on the device."""
    if mib is not None:
        return mib
    return measure.SOFTWARE_MIB if device.info.type == "software" else GPU_MIB


def run(
    device: Device,
    options: SweepOptions,
    progress: Progress,
    keep: Keep = lambda record: None,
) -> Record:
    """Time and check each case.

    Args:
        device: on which to run.
        options: what to run.
        progress: told of each step.
        keep: called with the record every ``session.KEEP_SECONDS``, when the cases are done, and after each
            peer: it is whole each time.

    Returns:
        A record whose ``sweep`` has a row for each case, those that were refused or wrong included.

    Raises:
        PeerFault: a named peer could not start.
        MemoryError: the device cannot hold the array that all cases read.
        DeviceError: the device failed; the message names the case.
    """
    mib = mib_of(device, options.mib)
    settings = {
        "seed": options.seed,
        "windows": options.windows,
        "repeated": options.repeated,
        "data": options.data,
        "numbers": list(options.numbers),
        "mib": mib,
        "index_dtype": f"int{8 * options.index_bytes}",
        "readings": options.readings,
        "warm_seconds": WARM_SECONDS,
    }
    record = measure.new_record(device, SUITE, settings)
    cases = [_case(options, number, mib * MIB) for number in options.numbers]
    bench = _Bench(device, options, [*cases, *_plain_reads(device, mib * MIB)])
    with phase(record, progress, "ceiling", 0):
        plain = [bench.timed(case)[0] for case in _plain_reads(device, mib * MIB)]
    with phase(record, progress, "kernels", 0):
        measure.build_ahead(
            device, (partial(case.plan, device.limits, options.index_bytes) for case in cases)
        )
    with (
        kept_when_stopped(record, keep),
        phase(record, progress, f"{SUITE}, seed {options.seed}", len(cases)),
    ):
        kept = NowAndThen(keep)
        for row in bench.run(cases, lambda row: progress.step(said_of(row))):
            record.sweep.append(row)
            record.ceiling_gb_per_s, record.ceiling_case = _fastest_read([*plain, *record.sweep])
            kept(record)
    del bench
    device.trim()
    keep(record)
    for name in options.peers:
        with kept_when_stopped(record, keep), phase(record, progress, name, len(cases)):
            peers.time_sweep(
                name,
                device,
                record,
                cases,
                named=options.peers_named,
                seconds=max(options.peer_seconds, _PEER_SECONDS_OF_CASE * len(cases)),
                done=progress.step,
            )
        keep(record)
    return record


def _case(options: SweepOptions, number: int, most_bytes: int) -> SweepCase:
    if options.repeated:
        return replace(repeated_case(options.seed, number, most_bytes), data=options.data)
    return sweep_case(options.seed, number, most_bytes, windows=options.windows, data=options.data)


def chosen_peers(text: str, device: Device) -> tuple[list[str], dict[str, str]]:
    """Return the libraries that ``--peers`` means beside a sweep, and why others of them are left out.

    Unless it is named, torch is timed where it computes on the GPU that vkdml computes on.

    Raises:
        PeerFault: a name that is none, or a named library that is not here.
    """
    names, left_out = peers.chosen(text, device)
    if text.strip() == "auto":
        names = [name for name in names if name in PEERS and peers.on_cuda(device)]
        return names, {name: why for name, why in left_out.items() if name in PEERS}
    for name in names:
        if name not in PEERS:
            raise peers.PeerFault(
                f"--peers {name}: accepted beside --suite {SUITE} are auto, none or {', '.join(PEERS)}"
            )
    return names, left_out


def _plain_reads(device: Device, most_bytes: int) -> list[SweepCase]:
    """Return what is timed to learn how fast the device reads, where it has room as much as the suites do."""
    if device.info.type != "software":
        most_bytes = max(most_bytes, measure.most_input_bytes(device, None))
    return [
        SweepCase(0, -1, case.op, case.element, case.shape, (0,))
        for case in measure.ceiling_cases(min(most_bytes, device.limits.max_storage_buffer_range))
    ]


def _fastest_read(rows: Sequence[SweepRow]) -> tuple[float | None, str]:
    """Return the fastest read of a run in GB/s, and the case that it was; a copy also writes."""
    rates = [
        (row.input_bytes / (row.us * 1e3), row.case)
        for row in rows
        if row.us and not row.sizes and not row.wrong
    ]
    return max(rates, default=(None, ""))


class _Bench:
    """The bytes that all cases read, once on the host and once on the device."""

    def __init__(self, device: Device, options: SweepOptions, cases: Sequence[SweepCase]) -> None:
        self._device = device
        self._options = options
        self._software = device.info.type == "software"
        limit = device.limits.max_storage_buffer_range
        held = [case.input_bytes for case in cases if case.input_bytes <= limit]
        nbytes = max(held, default=16)
        # Kernels read whole 16-byte vectors.
        self._content = contents.content(options.data, nbytes + -nbytes % 16)
        self._memory: Memory = filled(device, self._content)
        self._clocks = clocks_of(device)

    def run(self, cases: Sequence[SweepCase], done: Callable[[SweepRow], None]) -> Iterator[SweepRow]:
        """Yield the row of each case, in order.

        The host checks a case before the device runs the next: while the host is busy, submissions come late.
        """
        for case in cases:
            row, outputs = self.timed(case)
            if not row.refused:
                try:
                    self._clocks.busy_while(
                        partial(sweep_check.check, case, self._content, outputs, self._options.index_bytes)
                    )
                except WrongResult as error:
                    row.wrong = str(error)
            done(row)
            yield row

    def timed(self, case: SweepCase) -> tuple[SweepRow, dict[str, Bytes]]:
        """Time a case, or say why it cannot run; return also what it wrote.

        Raises:
            DeviceError: the device failed; the message names the case.
        """
        row = row_of(case, self._options.index_bytes)
        try:
            plan = settled(self._device, case.plan(self._device.limits, self._options.index_bytes))
            reading, discarded = self._clocks.steady(
                partial(
                    time_plan,
                    self._device,
                    plan,
                    {"input": self._memory},
                    readings=self._options.readings,
                    warm_seconds=measure.SOFTWARE_WARM_SECONDS
                    if self._software
                    else measure.KERNEL_WARM_SECONDS,
                    patience_seconds=min(PATIENCE_SECONDS, measure.SOFTWARE_PATIENCE_SECONDS)
                    if self._software
                    else PATIENCE_SECONDS,
                    before=self._clocks.raise_again,
                )
            )
        except (MemoryError, ValueError) as error:
            row.refused = str(error)
            return row, {}
        except DeviceError as error:
            mib = mib_of(self._device, self._options.mib)
            alone = command(
                *(case.seed, case.number, mib),
                windows=self._options.windows,
                repeated=self._options.repeated,
                data=self._options.data,
            )
            raise type(error)(f"{case.name}: {error}; it runs alone with {alone}") from None
        row.us, row.low_us, row.high_us = (
            ns / 1e3 for ns in (reading.median_ns, reading.low_ns, reading.high_ns)
        )
        row.readings = reading.readings
        row.discarded_us = [nanoseconds / 1e3 for nanoseconds in discarded]
        row.kernels = {name: nanoseconds / 1e3 for name, nanoseconds in reading.steps.items()}
        moved = row.read_bytes + row.written_bytes
        row.gb_per_s = moved / (row.us * 1e3) if row.us > 0 else 0.0
        return row, reading.outputs


def row_of(case: SweepCase, index_bytes: int) -> SweepRow:
    """Return the row of a case before it is timed."""
    window, view = case.window, case.view
    sizes = window.sizes if window else view.sizes if view else ()
    return SweepRow(
        number=case.number,
        case=case.name,
        op=case.op,
        element=case.element,
        shape=list(case.memory_shape),
        permutation=list(case.permutation),
        axis=None if case.axis is None else list(case.axis),
        offsets=list(window.offsets) if window else [],
        sizes=list(sizes),
        steps=list(window.steps) if window else [],
        input_bytes=case.input_bytes,
        read_bytes=case.read_bytes,
        written_bytes=case.written_bytes(index_bytes),
        strides=list(view.strides) if view else [],
    )


def said_of(row: SweepRow) -> str:
    """Say in a line what came of a case."""
    if row.refused:
        return f"{row.number}: {row.case}: refused: {row.refused}"
    if row.wrong:
        return f"{row.number}: {row.case}: WRONG: {row.wrong}"
    return f"{row.number}: {row.case}: {row.us:.1f} us, {row.gb_per_s:.4g} GB/s"
