"""Searches tuning settings on one device: coordinate descent, results checked bit for bit on the way."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import vkdml
from vkdml.measuring import build_kernels, filled, geometric_mean, time_plan
from vkdml.plan import kernels
from vkdml.plan.layout import canonical_copy, canonical_reduce, extent, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits, Plan, power_of_two_up_to
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.schema import ElementType
from vkdml.plan.slice.slice1 import plan_slice1
from vkdml.plan.tuning import SEARCH, Tuning
from vkdml.runtime.device import Device
from vkdml.runtime.device_info import DeviceInfo
from vkdml.runtime.memory import Memory
from vkdml.runtime.profile import Profile, driver_of

PASSES = 3
NOISE = 0.02
ELEMENTS = tuple(kernels.elements()[name] for name in ("float32", "float16", "int8", "int64"))
_MIB = 1 << 20
_INPUT_BYTES = {"discrete": 256 * _MIB, "software": 16 * _MIB}
_OTHER_INPUT_BYTES = 64 * _MIB
# Their outputs are as large as their inputs and go to the host to be checked.
_SLICE_BYTES = 64 * _MIB
_DIGEST_BYTES = 4 * _MIB


class ResultsDifferError(RuntimeError):
    """A tuning setting changed a result, which none may: the search fails and finds nothing."""


@dataclass(frozen=True)
class Case:
    """One operation whose time counts: its name, and its plan for given limits."""

    name: str
    plan: Callable[[DeviceLimits], Plan]


@dataclass(frozen=True)
class Measured:
    """What one plan took and gave."""

    nanoseconds: float
    results: bytes
    """Stands for all bytes of the outputs."""


Measure = Callable[[Plan], Measured]
Prepare = Callable[[Sequence[Plan], Callable[[], bool]], None]
"""Makes plans ready to be measured, for as long as the second argument says that there is time."""


@dataclass(frozen=True)
class Step:
    """How far a search is: the field and value tried next, or with no value the field's end and outcome."""

    pass_number: int
    field: str
    value: int | None
    kept: int
    """The field's value in the best settings so far."""
    done: int
    """Trials behind us in this pass."""
    total: int


@dataclass(frozen=True)
class CaseTimes:
    """Nanoseconds of a case with the class's settings and with those found."""

    name: str
    default_ns: float
    found_ns: float


@dataclass(frozen=True)
class Found:
    """What a search found."""

    default: Tuning
    values: dict[str, int]
    """Fields whose best value is not the default."""
    cases: tuple[CaseTimes, ...]
    """Empty if the time ran out before the defaults were measured."""
    complete: bool
    """Whether the search came to its end before its time ran out."""
    candidates: int = 0
    """Sets of settings that were measured, apart from the default one."""
    plans: int = 0
    """Different plans that these and the default one make, each of which was run."""

    @property
    def speed_up(self) -> float:
        """Geometric mean over the cases."""
        return geometric_mean([case.default_ns / case.found_ns for case in self.cases])


class _OutOfTimeError(Exception):
    pass


def search(
    cases: Sequence[Case],
    limits: DeviceLimits,
    measure: Measure,
    *,
    candidates: Mapping[str, Sequence[int]],
    prepare: Prepare = lambda plans, is_time_left: None,
    seconds: float = math.inf,
    report: Callable[[Step], None] = lambda step: None,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """Search the candidates one field after the other, starting from ``limits.tuning``, until none helps.

    A value is kept if the cases whose plans it changes become faster beyond noise, in the geometric mean, and
    do so again when measured side by side. Equal plans are measured once, so what the device's limits make
    equal costs nothing.

    Args:
        cases: to make faster, with distinct plans.
        limits: of the device, with the tuning settings to start from.
        measure: runs a plan, always on the same input.
        candidates: values to try, by field.
        prepare: is given the plans that are measured next.
        seconds: that the search may take; what it has found by then counts. The last comparison takes a
            little longer.
        report: is told of each trial.
        clock: in seconds.

    Raises:
        ResultsDifferError: a candidate changed a result.
    """
    return _Search(cases, limits, measure, candidates, prepare, clock() + seconds, report, clock).run()


class _Search:
    def __init__(
        self,
        cases: Sequence[Case],
        limits: DeviceLimits,
        measure: Measure,
        candidates: Mapping[str, Sequence[int]],
        prepare: Prepare,
        deadline: float,
        report: Callable[[Step], None],
        clock: Callable[[], float],
    ) -> None:
        self._cases = cases
        self._limits = limits
        self._measure_plan = measure
        self._candidates = candidates
        self._prepare = prepare
        self._deadline = deadline
        self._report = report
        self._clock = clock
        self._nanoseconds: dict[Plan, float] = {}
        self._results: dict[str, bytes] = {}
        self._tried: set[Tuning] = set()

    def run(self) -> Found:
        default = best = self._limits.tuning
        try:
            self._measure(default, "the default settings")
        except _OutOfTimeError:
            return Found(default, {}, (), complete=False)
        complete = True
        for pass_number in range(1, PASSES + 1):
            before = best
            done = 0
            for field in self._candidates:
                try:
                    best = self._best_of(field, best, pass_number, done)
                except _OutOfTimeError:
                    complete = False
                    break
                done += len(self._candidates[field])
            if not complete or best == before:
                break
        # Readings of different minutes do not compare.
        self._measure_side_by_side(default, best)
        if best != default and self._gain(default, best) <= 1:
            best = default
        values = {
            field: getattr(best, field)
            for field in self._candidates
            if getattr(best, field) != getattr(default, field)
        }
        times = zip(self._cases, self._plans(default), self._plans(best), strict=True)
        return Found(
            default,
            values,
            tuple(
                CaseTimes(case.name, self._nanoseconds[old], self._nanoseconds[new])
                for case, old, new in times
            ),
            complete,
            len(self._tried),
            len(self._nanoseconds),
        )

    def _best_of(self, field: str, best: Tuning, pass_number: int, done: int) -> Tuning:
        present = getattr(best, field)
        total = sum(map(len, self._candidates.values()))
        trials = []
        for value in self._candidates[field]:
            self._report(Step(pass_number, field, value, present, done, total))
            done += 1
            if value != present:
                change: dict[str, Any] = {field: value}
                trial = replace(best, **change)
                self._measure(trial, f"{field} = {value}")
                self._tried.add(trial)
                trials.append(trial)
        chosen = self._choose(best, trials)
        self._report(Step(pass_number, field, None, getattr(chosen, field), done, total))
        return chosen

    def _choose(self, best: Tuning, trials: Sequence[Tuning]) -> Tuning:
        """Return the fastest of the trials that is faster beyond noise also when measured side by side."""
        confirmed: set[Tuning] = set()
        while True:
            faster = [trial for trial in trials if self._gain(best, trial) > 1 + NOISE]
            if not faster:
                return best
            fastest = min(faster, key=self._mean)
            if fastest in confirmed:
                return fastest
            self._measure_side_by_side(best, fastest)
            confirmed.add(fastest)

    def _plans(self, settings: Tuning) -> list[Plan]:
        limits = replace(self._limits, tuning=settings)
        return [case.plan(limits) for case in self._cases]

    def _mean(self, settings: Tuning) -> float:
        return geometric_mean([self._nanoseconds[plan] for plan in self._plans(settings)])

    def _gain(self, old: Tuning, new: Tuning) -> float:
        """How much faster the cases are whose plans differ: cases that do not change would hide a gain."""
        pairs = zip(self._plans(old), self._plans(new), strict=True)
        return geometric_mean([self._nanoseconds[a] / self._nanoseconds[b] for a, b in pairs if a != b])

    def _measure(self, settings: Tuning, what: str) -> None:
        plans = self._plans(settings)
        new = [plan for plan in plans if plan not in self._nanoseconds]
        self._prepare(new, lambda: self._clock() < self._deadline)
        for case, plan in zip(self._cases, plans, strict=True):
            if plan in self._nanoseconds:
                continue
            if self._clock() >= self._deadline:
                raise _OutOfTimeError
            measured = self._measure_plan(plan)
            if measured.results != self._results.setdefault(case.name, measured.results):
                raise ResultsDifferError(f"{what} changes the result of '{case.name}'; nothing was stored")
            self._nanoseconds[plan] = measured.nanoseconds

    def _measure_side_by_side(self, old: Tuning, new: Tuning) -> None:
        for pair in zip(self._plans(old), self._plans(new), strict=True):
            if pair[0] != pair[1]:
                for plan in pair:
                    self._nanoseconds[plan] = self._measure_plan(plan).nanoseconds


def input_bytes_for(info: DeviceInfo) -> int:
    """Return the bytes of the cases' input: a power of two, large for a GPU, a small part of its memory."""
    wanted = _INPUT_BYTES.get(info.type, _OTHER_INPUT_BYTES)
    most = min(wanted, info.plan_limits.max_storage_buffer_range, info.largest_heap_bytes // 8)
    return power_of_two_up_to(most)


def representative_cases(input_bytes: int) -> list[Case]:
    """Return the cases: reductions of all axes, rows and columns, and copies; each of several element sizes.

    Args:
        input_bytes: of each case but the few that are small by nature; a power of two from 2 MiB on.
    """
    cases = []
    for element in ELEMENTS:
        count = input_bytes // element.nbytes
        cases += [
            _argmax_case("all axes", element, (count,), 0),
            _argmax_case("long rows", element, (count // 65536, 65536), 1),
            _argmax_case("short rows", element, (count // 256, 256), 1),
            _argmax_case("unaligned rows", element, (count // 511, 511), 1),
            _argmax_case("columns", element, (count // 4096, 4096), 0),
            _argmax_case("unaligned columns", element, (count // 4096, 4095), 0),
            _argmax_case("strided rows", element, (count // 4096, 2048), 1, strides=(4096, 2)),
            _argmax_case("strided columns", element, (count // 4096, 2048), 0, strides=(4096, 2)),
            _argmax_case("few rows", element, (8, 32768), 1),
        ]
    for element_bytes in (1, 2, 4, 8):
        rows = min(input_bytes, _SLICE_BYTES) // element_bytes // 2048
        cases += [
            _slice_case("flip", element_bytes, (rows, 2048), (-2048, -1), rows * 2048 - 1),
            _slice_case("transpose", element_bytes, (2048, rows), (1, 2048), 0),
        ]
    return cases


def _argmax_case(
    name: str, element: ElementType, shape: tuple[int, ...], axis: int, strides: tuple[int, ...] = ()
) -> Case:
    strides = strides or row_major_strides(shape)
    kept = tuple(1 if dimension == axis else size for dimension, size in enumerate(shape))
    layout = canonical_reduce(shape, strides, (axis,), row_major_strides(kept), take_last=False)
    input_elements = extent(shape, strides)[1]

    def plan(limits: DeviceLimits) -> Plan:
        order = Order(element.name)
        return plan_argreduce(layout, order, input_elements, limits, index_bytes=8, with_values=False)

    return Case(f"argmax {name} {element.name}", plan)


def _slice_case(
    name: str, element_bytes: int, shape: tuple[int, ...], strides: tuple[int, ...], base: int
) -> Case:
    layout = canonical_copy(shape, strides, row_major_strides(shape), input_base=base)
    return Case(
        f"slice1 {name} {element_bytes} B",
        lambda limits: plan_slice1(layout, element_bytes, math.prod(shape), limits),
    )


def measure_on(device: Device, input_bytes: int) -> Measure:
    """Return what measures plans on a device, on an input of random numbers that lies there."""
    bound = {"input": _random_input(device, input_bytes)}
    software = device.info.type == "software"
    worked_at = -math.inf

    def measure(plan: Plan) -> Measured:
        nonlocal worked_at
        # Clocks fall while a device waits: it works as long as it has waited, a quarter of a second at most.
        waited = time.monotonic() - worked_at
        warm_seconds = 0.0 if software else min(max(waited, 0.02), 0.25)
        reading = time_plan(device, plan, bound, readings=5 if software else 9, warm_seconds=warm_seconds)
        worked_at = time.monotonic()
        return Measured(max(reading.median_ns, 1.0), _digest(reading.outputs))

    return measure


def _digest(outputs: Mapping[str, npt.NDArray[np.uint8]]) -> bytes:
    """Return what stands for all bytes; several threads read them."""
    pieces = [
        output[start : start + _DIGEST_BYTES]
        for _, output in sorted(outputs.items())
        for start in range(0, output.size, _DIGEST_BYTES)
    ]
    with ThreadPoolExecutor() as threads:
        digests = threads.map(lambda piece: hashlib.blake2b(piece.data, digest_size=16).digest(), pieces)
        return hashlib.blake2b(b"".join(digests), digest_size=16).digest()


def _random_input(device: Device, nbytes: int) -> Memory:
    numbers = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    # Without the highest bit of the exponent no float is a NaN, which would end every comparison early.
    numbers[1::2] &= 0xBF
    return filled(device, numbers)


def tune(device: Device, seconds: float, report: Callable[[Step], None]) -> Found:
    """Search the best settings for a device, from those of its class on, whatever its profile says.

    Raises:
        ResultsDifferError: a candidate changed a result.
        MemoryError: the device cannot hold the cases' buffers.
        DeviceError: the device failed.
    """
    info = device.info
    input_bytes = input_bytes_for(info)
    return search(
        representative_cases(input_bytes),
        info.plan_limits,
        measure_on(device, input_bytes),
        candidates=SEARCH,
        prepare=partial(build_kernels, device),
        seconds=seconds,
        report=report,
    )


def profile_of(info: DeviceInfo, found: Found) -> Profile:
    """Return the profile to store for what was found on a device."""
    return Profile(
        device_uuid=info.uuid,
        device_name=info.name,
        driver=driver_of(info),
        vkdml_version=vkdml.__version__,
        date=date.today().isoformat(),
        values=found.values,
        candidates=found.candidates,
    )
