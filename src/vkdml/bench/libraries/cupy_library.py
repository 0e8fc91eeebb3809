"""CuPy as a library to compare with, on the CUDA device."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.bench import latency
from vkdml.bench.cases import Case
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import READINGS, SPIN_CYCLES, Library, copied, warm
from vkdml.bench.unsupported import Unsupported


class CuPy(Library):
    """CuPy, on the CUDA device."""

    method = "CUDA events, queued"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        self.cupy = importlib.import_module("cupy")
        if not cuda or self.cupy.cuda.runtime.getDeviceCount() == 0:
            raise Unsupported("needs a CUDA device")
        self._spin = self.cupy.RawKernel(
            'extern "C" __global__ void spin(long long cycles) {'
            " long long start = clock64(); while (clock64() - start < cycles) {} }",
            "spin",
        )

    @property
    def version(self) -> str:
        return str(self.cupy.__version__)

    def _call(self, case: Case) -> Callable[[], object]:
        if case.element != "bool" and not hasattr(np, case.element):
            raise Unsupported(f"no {case.element}")
        array = self.on_device(self.content(case), self.cupy.asarray)[: case.input_bytes]
        array = array.view(case.element).reshape(case.shape)
        if case.op == "slice1":
            view = copied(array, case)
            return lambda: view.copy(order="C")
        if case.alternate:
            array = array[..., ::2]
        function = self.cupy.argmax if case.op == "argmax" else self.cupy.argmin
        axis: Any = case.axes if len(case.axes) < array.ndim else None
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        return lambda: function(array, axis=axis)

    def public_call(self, case: Case) -> Callable[[], object] | None:
        call, wait = self._call(case), self.cupy.cuda.get_current_stream().synchronize

        def call_and_wait() -> None:
            call()
            wait()

        return call_and_wait

    def time(self, case: Case) -> list[float]:
        call = self._call(case)
        cuda = self.cupy.cuda
        wait = cuda.get_current_stream().synchronize
        call()
        warm(call, wait)
        events = [(cuda.Event(), cuda.Event()) for _ in range(READINGS)]
        self._spin((1,), (1,), (np.int64(SPIN_CYCLES),))
        for start, end in events:
            start.record()
            call()
            end.record()
        wait()
        return [cuda.get_elapsed_time(start, end) * 1e3 for start, end in events]

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        arrays = latency.host_arrays(case, content)
        if case.kind == "host":
            return lambda number: int(self.cupy.argmax(self.cupy.asarray(arrays[number % len(arrays)])))
        if case.kind == "to device":
            return lambda number: self.cupy.asarray(arrays[number % len(arrays)])
        if case.kind == "view":
            rows = self.cupy.asarray(np.stack(arrays))
            return lambda number: int(self.cupy.argmax(rows[number % len(arrays)]))
        resident = [self.cupy.asarray(array) for array in arrays]
        if case.kind == "to host":
            return lambda number: self.cupy.asnumpy(resident[number % len(resident)])
        return lambda number: int(self.cupy.argmax(resident[number % len(resident)]))
