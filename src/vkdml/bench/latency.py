"""How long a caller waits, on the host's clock: public calls, transfers and recorded sequences."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import vkdml
from vkdml.bench.cases import MIB, Case, plan_of
from vkdml.bench.check import WrongResult, right_indices
from vkdml.bench.contents import Bytes
from vkdml.bench.record import Latency, latency_of
from vkdml.measuring import RecordedPlan, filled, settle, settled, warm_up
from vkdml.runtime.device import Device
from vkdml.runtime.memory import Memory

Floats = npt.NDArray[np.float32]

SMALL_BYTES = 4096
MEDIUM_BYTES = 128 << 10
LARGE_BYTES = 256 * MIB


@dataclass(frozen=True)
class LatencyCase:
    """One way to ask for the index of the greatest of so many float32, or to move so many."""

    kind: str
    """``host`` or ``array``: the public call on an array of the host or of the device.

    ``view``: the public call on a row of an array of the device; each call makes its view.
    ``to device`` and ``to host``: an array of the device from one of the host, and back.
    ``recorded``: vkdml runs again a sequence that it recorded before; ``recorded in turn``: several of them.
    There, other libraries make their public call on an array of the device.
    """
    nbytes: int
    arrays: int
    calls: int

    @property
    def name(self) -> str:
        count = self.nbytes // 4
        return {
            "host": f"host array, {count} f32",
            "array": f"array on the device, {count} f32",
            "view": f"row of an array on the device, {count} f32",
            "to device": f"host to device, {count} f32",
            "to host": f"device to host, {count} f32",
            "recorded": f"recorded sequence, {count} f32",
            "recorded in turn": f"{self.arrays} recorded sequences in turn, {count} f32",
        }[self.kind]

    @property
    def finds_an_index(self) -> bool:
        """Whether the call returns an index, and not the array that it moved."""
        return not self.kind.startswith("to ")


def latency_cases(most_bytes: int) -> list[LatencyCase]:
    """Return the cases, the largest as large as the device's buffers allow."""
    large = min(LARGE_BYTES, most_bytes // 4 * 4)
    return [
        LatencyCase("array", SMALL_BYTES, 1, 2000),
        LatencyCase("view", SMALL_BYTES, 100, 2000),
        LatencyCase("recorded", SMALL_BYTES, 1, 2000),
        LatencyCase("host", SMALL_BYTES, 1, 2000),
        LatencyCase("to device", SMALL_BYTES, 1, 2000),
        LatencyCase("to device", MEDIUM_BYTES, 1, 2000),
        LatencyCase("to host", SMALL_BYTES, 1, 2000),
        LatencyCase("to host", MEDIUM_BYTES, 1, 2000),
        LatencyCase("recorded in turn", SMALL_BYTES, 100, 2000),
        LatencyCase("host", large, 1, 20),
    ]


def host_arrays(case: LatencyCase, content: Bytes) -> list[Floats]:
    """Return the case's arrays, each of its own bytes where there are enough."""
    arrays = []
    for number in range(case.arrays):
        start = number * case.nbytes % max(content.size - case.nbytes + 1, 1)
        arrays.append(content[start : start + case.nbytes].copy().view(np.float32))
    return arrays


def time_calls(call: Callable[[int], object], calls: int, warm_seconds: float) -> Latency:
    """Time ``call(0)``, ``call(1)``, ... one by one."""
    warm = itertools.count()
    warm_up(lambda: call(next(warm)), warm_seconds)
    seconds = []
    for number in range(calls):
        start = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - start)
    return latency_of(seconds)


def measure(device: Device, case: LatencyCase, content: Bytes, warm_seconds: float) -> Latency:
    """Time a case on a device and check each distinct answer.

    Raises:
        WrongResult: an index that is not the right one.
    """
    arrays = host_arrays(case, content)
    makers: dict[str, Callable[[Device, Sequence[Floats]], Callable[[int], Any]]] = {
        "host": _host_calls,
        "array": _array_calls,
        "view": _view_calls,
        "to device": _uploads,
        "to host": _downloads,
    }
    find = makers.get(case.kind, _recorded_calls)(device, arrays)
    if not case.finds_an_index:
        for number, array in enumerate(arrays):
            moved = np.asarray(find(number))
            different = np.flatnonzero(moved.view(np.uint32) != array.view(np.uint32))
            if different.size:
                raise WrongResult(
                    f"{case.name}: element {different[0]} is {moved[different[0]]}, expected is "
                    f"{array[different[0]]}"
                )
        return time_calls(find, case.calls, warm_seconds)
    one = Case("", "argmax", "float32", (case.nbytes // 4,))
    for number, array in enumerate(arrays):
        got = find(number)
        (expected,) = right_indices(one, array.view(np.uint8))
        if got != expected:
            raise WrongResult(f"{case.name}: array {number}: index is {got}, expected is {expected}")
    settle(device, lambda: find(0))
    return time_calls(find, case.calls, warm_seconds)


def _host_calls(device: Device, arrays: Sequence[Floats]) -> Callable[[int], int]:
    return lambda number: int(vkdml.argmax(arrays[number % len(arrays)], device=device))


def _array_calls(device: Device, arrays: Sequence[Floats]) -> Callable[[int], int]:
    resident_arrays = [vkdml.asarray(array, device=device) for array in arrays]
    return lambda number: int(resident_arrays[number % len(resident_arrays)].argmax())


def _view_calls(device: Device, arrays: Sequence[Floats]) -> Callable[[int], int]:
    resident = vkdml.asarray(np.stack(arrays), device=device)
    return lambda number: int(resident[number % len(arrays)].argmax())


def _uploads(device: Device, arrays: Sequence[Floats]) -> Callable[[int], vkdml.Array]:
    return lambda number: vkdml.asarray(arrays[number % len(arrays)], device=device)


def _downloads(device: Device, arrays: Sequence[Floats]) -> Callable[[int], npt.NDArray[Any]]:
    resident_arrays = [vkdml.asarray(array, device=device) for array in arrays]
    return lambda number: resident_arrays[number % len(resident_arrays)].numpy()


def _recorded_calls(device: Device, arrays: Sequence[Floats]) -> Callable[[int], int]:
    plan = settled(device, plan_of(Case("", "argmax", "float32", (arrays[0].size,)), device.limits))
    runs = []
    for array in arrays:
        indices = Memory(device, plan.bytes_of("indices"), near_host=True)
        memories = {"input": filled(device, array.view(np.uint8)), "indices": indices}
        index = indices.visible()
        assert index is not None
        runs.append((RecordedPlan(device, plan, memories), index.view(np.int32)))

    def find(number: int) -> int:
        recorded, index = runs[number % len(runs)]
        recorded.run()
        return int(index[0])

    return find
