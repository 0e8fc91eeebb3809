"""PyTorch as a library to compare with, on the CUDA device or the processor."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.bench import latency
from vkdml.bench.cases import Case
from vkdml.bench.chains import CHAIN, CHAIN_READINGS
from vkdml.bench.contents import Bytes
from vkdml.bench.host_clock import time_calls
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import (
    NO_COPY,
    READINGS,
    SPIN_CYCLES,
    Library,
    copied,
    single_axis,
    wall_clock,
    warm,
)
from vkdml.bench.record import Times
from vkdml.bench.sweep import SweepCase
from vkdml.bench.sweep_torch import torch_call, torch_refusal
from vkdml.bench.unsupported import Unsupported


class Torch(Library):
    """PyTorch, on the CUDA device or the processor."""

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        self.torch = importlib.import_module("torch")
        if cuda and not self.torch.cuda.is_available():
            raise Unsupported("sees no CUDA device")
        if cuda:
            self.method = "CUDA events, queued; chains as one CUDA graph"
        self.device = "cuda" if cuda else "cpu"

    @property
    def version(self) -> str:
        return str(self.torch.__version__)

    def _moved(self, array: np.ndarray[Any, Any]) -> Any:
        return self.torch.from_numpy(array).to(self.device)

    def _call(self, case: Case) -> Callable[[], object]:
        dtype = getattr(self.torch, case.element, None)
        if dtype is None:
            raise Unsupported(f"no {case.element}")
        flat = self.on_device(self.content(case), self._moved)[: case.input_bytes].view(dtype)
        if case.op == "slice1":
            array = flat.view(case.shape)
            if case.window == "copy":
                return lambda: array.clone()
            if case.window == "flip":
                return lambda: array.flip((0, 1))
            view = copied(array, case)
            return lambda: view.contiguous()
        shape, axis = single_axis(case)
        array = flat.view(shape)
        if case.alternate:
            array = array[..., ::2]
        function = self.torch.argmax if case.op == "argmax" else self.torch.argmin
        return lambda: function(array, dim=axis)

    def time(self, case: Case) -> list[float]:
        return self._readings(self._call(case))

    def _wait(self) -> None:
        self.torch.cuda.synchronize()

    def public_call(self, case: Case) -> Callable[[], object] | None:
        if not self.cuda:
            return None
        return self._waiting(self._call(case))

    def _waiting(self, call: Callable[[], object]) -> Callable[[], object]:
        def call_and_wait() -> None:
            call()
            self._wait()

        return call_and_wait

    def time_chain(self, case: Case) -> Times:
        if not self.cuda:
            raise Unsupported("has no graphs on the processor")
        call, cuda = self._call(case), self.torch.cuda
        stream = cuda.Stream()
        with cuda.stream(stream):  # what is captured must have run before
            call()
        stream.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=stream):
            for _ in range(CHAIN):
                call()

        def replay() -> None:
            graph.replay()
            cuda.synchronize()

        return time_calls(replay, readings=CHAIN_READINGS, operations=CHAIN)

    def time_sweep(self, case: SweepCase) -> list[float]:
        why = torch_refusal(case)
        if why:
            raise Unsupported(why)
        flat = self.on_device(case.data, self._moved)[: case.input_bytes]
        return self._readings(torch_call(self.torch, flat, case))

    def _readings(self, call: Callable[[], object]) -> list[float]:
        if not self.cuda:
            return wall_clock(call)
        cuda = self.torch.cuda
        call()
        warm(call, cuda.synchronize)
        events = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(READINGS)]
        cuda._sleep(SPIN_CYCLES)
        for start, end in events:
            start.record()
            call()
            end.record()
        cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in events]

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        arrays = latency.host_arrays(case, content)
        if not (self.runs_on == "device" or case.finds_an_index):
            raise Unsupported(NO_COPY)
        if case.kind == "host":
            return lambda number: int(self._moved(arrays[number % len(arrays)]).argmax().item())
        if case.kind == "to device":
            return lambda number: self._moved(arrays[number % len(arrays)])
        if case.kind == "view":
            rows = self._moved(np.stack(arrays))
            return lambda number: int(rows[number % len(arrays)].argmax().item())
        resident = [self._moved(array) for array in arrays]
        if case.kind == "to host":
            return lambda number: resident[number % len(resident)].cpu().numpy()
        return lambda number: int(resident[number % len(resident)].argmax().item())
