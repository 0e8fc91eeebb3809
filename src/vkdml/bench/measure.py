"""Times and checks cases on one device, over buffers that stay there and are shared."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vkdml
from vkdml.bench import contents, latency
from vkdml.bench.calls import (
    HOST_CALL_BYTES,
    device_array,
    host_array,
    outputs_of,
    public_call,
    require_same,
)
from vkdml.bench.cases import MIB, Case, plan_of
from vkdml.bench.chains import time_chain
from vkdml.bench.check import Checker
from vkdml.bench.clocks import WARM_SECONDS, Clocks, clocks_of
from vkdml.bench.contents import Bytes, cores
from vkdml.bench.host_clock import time_calls
from vkdml.bench.latency import LatencyCase
from vkdml.bench.record import LatencyRow, Record, Row, Times, fields_of
from vkdml.bench.timing import CallReading, time_call, time_copy
from vkdml.bench.unsupported import Unsupported
from vkdml.measuring import Reading, build_kernels, filled, settle, settled, time_plan
from vkdml.plan.plans import Plan
from vkdml.runtime import host_memory
from vkdml.runtime.device import Device
from vkdml.runtime.memory import Memory
from vkdml.runtime.profile import driver_of

SOFTWARE_MIB = 4
# Of the kernels to be timed, on a device that works already: their code comes into caches.
KERNEL_WARM_SECONDS = 0.02
# Processors have no clocks to wait for, but pages to touch and code to load.
SOFTWARE_WARM_SECONDS = 0.02
SOFTWARE_PATIENCE_SECONDS = 0.5
CEILING_BYTES = 1 << 30
# Input, output and what is kept for reuse must fit beside each other.
HEAP_SHARE = 6
# The content, and the keys that are made of it to check a result.
HOST_COPIES = 3


class Contents:
    """Each content once on the host and once on the device, for as long as a case is left that needs it."""

    def __init__(self, device: Device, cases: Iterable[Case], clocks: Clocks) -> None:
        self._device = device
        self._clocks = clocks
        self._left = Counter[str]()
        self._nbytes: dict[str, int] = {}
        for case in cases:
            self._left[case.content] += 1
            self._nbytes[case.content] = max(self._nbytes.get(case.content, 0), case.input_bytes)
        self._held: dict[str, tuple[Bytes, Memory]] = {}

    def of(self, case: Case) -> tuple[Bytes, Memory]:
        """Return the case's content on the host and on the device."""
        name = case.content
        if name not in self._held:
            # Kernels read whole 16-byte vectors.
            nbytes = self._nbytes[name] + -self._nbytes[name] % 16
            host = self._clocks.busy_while(partial(contents.content, name, nbytes))
            self._held[name] = host, filled(self._device, host)
        return self._held[name]

    def done(self, case: Case) -> bool:
        """Count a case off; True when it was the last of its content."""
        self._left[case.content] -= 1
        if self._left[case.content]:
            return False
        del self._held[case.content]
        return True


def most_input_bytes(device: Device, mib: int | None) -> int:
    """Return the largest input that this run may use: as asked for, within what the device can hold."""
    limits = device.limits.max_storage_buffer_range
    if device.info.type == "software":
        return min(limits, (SOFTWARE_MIB if mib is None else mib) * MIB)
    most = min(limits, device.info.largest_heap_bytes // HEAP_SHARE)
    return most if mib is None else min(most, mib * MIB)


def measure(
    device: Device,
    cases: Sequence[Case],
    done: Callable[[Row], None] = lambda row: None,
    *,
    index_bytes: int = 4,
    readings: int = 30,
    kernels_only: bool = False,
    clocks: Clocks | None = None,
) -> list[Row]:
    """Time each case, its kernels and its public call, and check its results.

    Args:
        device: on which to run.
        cases: that fit it.
        done: called with each row as soon as it is there.
        index_bytes: 4 or 8.
        readings: of each case.
        kernels_only: leave out the public calls on arrays of the device, and the chains.
        clocks: of the device, where they are known already.

    Raises:
        WrongResult: a kernel's result is wrong.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.
    """
    checker = Checker()
    clocks = clocks or clocks_of(device)
    store = Contents(device, cases, clocks)
    rows = []
    for case in cases:
        content, memory = store.of(case)
        plan = settled(device, plan_of(case, device.limits, index_bytes))
        of_index = case.index_bytes(index_bytes)
        planned = _Planned(case, plan, content, memory, of_index)
        reading, discarded, times = _timed_and_checked(device, clocks, checker, planned, readings)
        more = {} if kernels_only else _calls_and_chains(device, clocks, planned, reading)
        written = case.written_bytes(index_bytes)
        row = Row(
            **fields_of(case),
            discarded_us=[nanoseconds / 1e3 for nanoseconds in discarded],
            **times,
            **more,
            read_bytes=case.read_bytes,
            written_bytes=written,
            gb_per_s=_rate(case.read_bytes + written, times["us"]),
            input_gb_per_s=_rate(case.read_bytes, times["us"]),
        )
        rows.append(row)
        if store.done(case):
            checker.forget(case.content)
        done(row)
    return rows


class _Planned(NamedTuple):
    """A case, its plan, and its input on the host and on the device."""

    case: Case
    plan: Plan
    content: Bytes
    memory: Memory
    index_bytes: int


def _timed_and_checked(
    device: Device, clocks: Clocks, checker: Checker, planned: _Planned, readings: int
) -> tuple[Reading, list[float], dict[str, Any]]:
    """Time a case and check its results; return the plan's reading, those discarded, and a row's times.

    On software devices the times are those of the public call; the plan runs only to be checked there: on
    outputs filled with other bytes.
    """
    case, plan, content, memory, of_index = planned
    software = device.info.type == "software"
    call = _host_call(device, case, content, of_index) if software else None
    warm_seconds = SOFTWARE_WARM_SECONDS if software else KERNEL_WARM_SECONDS
    patience_seconds = SOFTWARE_PATIENCE_SECONDS if software else 3.0
    read = partial(
        time_plan,
        device,
        plan,
        {"input": memory},
        readings=readings if call is None else 1,
        warm_seconds=warm_seconds if call is None else 0.0,
        patience_seconds=patience_seconds,
        before=clocks.raise_again,
    )
    reading, discarded = clocks.steady(read)
    clocks.busy_while(partial(checker.check, case, content, reading.outputs, of_index))
    if call is None:
        return reading, discarded, _times_of_plan(reading)
    timed = time_call(
        device, call, readings=readings, warm_seconds=warm_seconds, patience_seconds=patience_seconds
    )
    checker.check(case, content, outputs_of(timed.result), of_index)
    return reading, discarded, _times_of_call(timed)


def build_ahead(device: Device, makers: Iterable[Callable[[], Plan]]) -> None:
    """Build the kernels of a GPU's plans before any is timed; a plan that is refused is left out.

    Software drivers compile on the cores that they run on, and for as long as the cases take.
    """
    if device.info.type == "software":
        return
    plans = []
    for make in makers:
        with suppress(MemoryError, ValueError):
            plans.append(settled(device, make()))
    build_kernels(device, plans)


def _host_call(device: Device, case: Case, content: Bytes, index_bytes: int) -> Callable[[], Any] | None:
    """Return the public call on the case's host array; None for elements that NumPy does not have."""
    try:
        return public_call(case, host_array(case, content), index_bytes, device)
    except Unsupported:
        return None


def _calls_and_chains(device: Device, clocks: Clocks, planned: _Planned, reading: Reading) -> dict[str, Any]:
    """Time what else is timed of a case, and check it against outputs that were found right."""
    case, plan, content, memory, index_bytes = planned
    right, times = reading.outputs, dict[str, Any]()
    try:
        array = device_array(case, memory)
    except Unsupported:
        pass
    else:
        times["array_call"] = _checked_call(
            "the public call on an Array", device, clocks, case, array, index_bytes, right
        )
        if device.info.type != "software" and case.input_bytes <= HOST_CALL_BYTES:
            host = host_array(case, content)
            what = "the public call on a host array"
            times["host_call"] = _checked_call(
                what, device, clocks, case, host, index_bytes, right, on_host=True
            )
    if case.is_chained:
        kernel_us = reading.median_ns / 1e3
        for name in ("chain", "independent"):
            clocks.raise_again()
            times[name] = time_chain(
                device, case, plan, memory, right, kernel_us, independent=name == "independent"
            )
    return times


def _checked_call(
    what: str,
    device: Device,
    clocks: Clocks,
    case: Case,
    array: Any,
    index_bytes: int,
    right: dict[str, Bytes],
    *,
    on_host: bool = False,
) -> Times:
    call = public_call(case, array, index_bytes, device if on_host else None)
    settle(device, call)
    clocks.busy_while(partial(require_same, what, case, outputs_of(call()), right))
    clocks.raise_again()
    return time_calls(call)


def _times_of_plan(reading: Reading) -> dict[str, Any]:
    """Return the fields of a row that hold times."""
    return {
        "us": reading.median_ns / 1e3,
        "low_us": reading.low_ns / 1e3,
        "high_us": reading.high_ns / 1e3,
        "readings": reading.readings,
        "kernels": {name: nanoseconds / 1e3 for name, nanoseconds in reading.steps.items()},
    }


def _times_of_call(reading: CallReading) -> dict[str, Any]:
    return {
        "us": reading.kernels_us,
        "low_us": reading.low_us,
        "high_us": reading.high_us,
        "readings": reading.readings,
        "kernels": reading.steps,
        "call_us": reading.call_us,
    }


def _rate(nbytes: int, microseconds: float) -> float:
    return nbytes / (microseconds * 1e3) if microseconds > 0 else 0.0


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:{'.0f' if nbytes >= 100 * MIB else '.4g'}} MiB"


def refusal(device: Device, case: Case, index_bytes: int) -> str | None:
    """Say which limit a case that must run as it is would exceed; None where it can run."""
    limits = device.limits
    if case.input_bytes > limits.max_storage_buffer_range:
        return (
            f"an input of {_mib(case.input_bytes)} is more than one buffer of {device.name} can hold; "
            f"accepted are at most {_mib(limits.max_storage_buffer_range)}"
        )
    if case.op != "slice1":
        greatest = math.prod(case.sizes[axis] for axis in case.axes) - 1
        index_bytes = case.index_bytes(index_bytes)
        if greatest >= 1 << (8 * index_bytes - 1):
            return (
                f"indices up to {greatest} do not fit int{8 * index_bytes}; accepted is --index-dtype int64"
            )
    try:
        plan = plan_of(case, limits, index_bytes)
    except (MemoryError, ValueError) as error:
        return str(error)
    needed = sum(nbytes for _, nbytes in plan.buffer_bytes)
    software = device.info.type == "software"
    if not software:
        largest_heap = device.info.largest_heap_bytes
        if needed > largest_heap:
            return (
                f"buffers of {_mib(needed)} are more than the memory of {device.name}; accepted are at most "
                f"{_mib(largest_heap)}"
            )
    # The content, and what is made of it to check the result; the buffers lie there too on software devices.
    on_host = HOST_COPIES * case.input_bytes + (2 * needed if software else 0)
    free = host_memory.available()
    if on_host > free:
        return f"a run needs {_mib(on_host)} of host memory, and {_mib(free)} are free"
    return None


def ceiling_cases(most_bytes: int) -> list[Case]:
    """Return what is timed to learn how fast the device reads: one element type of each size."""
    nbytes = min(CEILING_BYTES, most_bytes)
    return [
        Case("ceiling", "argmax", element, (nbytes // size,))
        for element, size in (("float32", 4), ("uint16", 2), ("uint8", 1))
    ]


def read_ceiling(rows: Iterable[Row], most_bytes: int = CEILING_BYTES) -> tuple[float | None, str]:
    """Return the fastest read of a run in GB/s, and the case that it was.

    Only the largest inputs count, since smaller ones come out of caches, and only whole ones. Those of
    ``ceiling_cases(most_bytes)`` are large enough.
    """
    reduced = [row for row in rows if row.op != "slice1" and not row.alternate]
    largest = min(max((row.read_bytes for row in reduced), default=0), CEILING_BYTES, most_bytes)
    fastest = max(
        (row for row in reduced if row.read_bytes * 2 > largest),
        key=lambda row: row.input_gb_per_s,
        default=None,
    )
    return (fastest.input_gb_per_s, fastest.case) if fastest else (None, "")


def copy_rate(device: Device, most_bytes: int, readings: int) -> tuple[float | None, int]:
    """Return GB/s, read and written, of the driver's own copy from buffer to buffer, and the bytes copied."""
    nbytes = min(CEILING_BYTES, most_bytes) // 16 * 16
    warm = SOFTWARE_WARM_SECONDS if device.info.type == "software" else WARM_SECONDS
    nanoseconds = time_copy(device, nbytes, readings=readings, warm_seconds=warm)
    return (2 * nbytes / nanoseconds if nanoseconds > 0 else None), nbytes


def measure_latency(
    device: Device, cases: Sequence[LatencyCase], done: Callable[[LatencyRow], None] = lambda row: None
) -> list[LatencyRow]:
    """Time latency cases; the same errors as :func:`measure`."""
    rows: list[LatencyRow] = []
    if not cases:
        return rows
    warm = SOFTWARE_WARM_SECONDS if device.info.type == "software" else WARM_SECONDS
    content = contents.content("numbers float32", max(case.nbytes for case in cases))
    for case in cases:
        ours = latency.measure(device, case, content, warm)
        rate = case.nbytes / (ours.p50_us * 1e3) if ours.p50_us else 0.0
        rows.append(LatencyRow(case.name, case.kind, case.nbytes, ours, rate))
        done(rows[-1])
    return rows


def new_record(device: Device, suite: str, settings: dict[str, Any]) -> Record:
    """Return an empty record that says where it was taken."""
    versions = {"vkdml": vkdml.__version__, "python": platform.python_version(), "numpy": np.__version__}
    machine = {"processor": _processor(), "cores": cores(), "system": platform.system()}
    about = {
        "name": device.name,
        "type": device.info.type,
        "driver": driver_of(device.info),
        "subgroup": device.info.subgroup["size"],
    }
    tuning = asdict(device.limits.tuning)
    return Record(
        date=date.today().isoformat(),
        suite=suite,
        versions=versions,
        machine=machine,
        device=about,
        settings={**settings, "tuning": tuning},
        ceiling_gb_per_s=None,
        ceiling_case="",
        rows=[],
        latency=[],
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
