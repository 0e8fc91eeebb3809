"""JAX as a library to compare with, on the CUDA device or the processor."""

from __future__ import annotations

import importlib
import os
import time
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
    Library,
    copied,
    one_line,
    single_axis,
    wall_clock,
    warm,
)
from vkdml.bench.record import Times
from vkdml.bench.unsupported import Unsupported
from vkdml.measuring import spread


class Jax(Library):
    """JAX, on the CUDA device or the processor; compiled, with 32-bit indices."""

    UNROLLED = 16
    """Calls of a program; a longer one repeats them in a loop, since its compilation takes seconds."""
    SHORT_SECONDS = 300e-6

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ["JAX_PLATFORMS"] = "cuda" if cuda else "cpu"
        self.jax = importlib.import_module("jax")
        self.jax.config.update("jax_enable_x64", True)
        self.numpy = importlib.import_module("jax.numpy")
        try:
            self.jax.devices()
        except RuntimeError as error:
            raise Unsupported(one_line(error)) from None
        self.method = (
            f"host clock over queued calls; short ones {self.UNROLLED} to a program; chains as one program"
        )
        self._last: tuple[Case, Callable[[Any], Any], Any] | None = None

    @property
    def version(self) -> str:
        return str(self.jax.__version__)

    def _function(self, case: Case) -> Callable[[Any], Any]:
        if case.op == "slice1":
            if case.window == "copy":
                return lambda x: self.numpy.copy(x)
            return lambda x: copied(x, case)
        _, axis = single_axis(case)
        find = self.jax.lax.argmax if case.op == "argmax" else self.jax.lax.argmin
        if case.alternate:
            return lambda x: find(x[..., ::2], axis, self.numpy.int32)
        return lambda x: find(x, axis, self.numpy.int32)

    def _compiled(self, case: Case) -> tuple[Callable[[Any], Any], Any]:
        """Return a case's compiled call and its array on the device; those of the last case are kept."""
        if self._last is None or self._last[0] != case:
            self._last = None
            shape = case.shape if case.op == "slice1" else single_axis(case)[0]
            array = self.jax.device_put(self.host_array(case).reshape(shape))
            self._last = case, self.jax.jit(self._function(case)), array
        return self._last[1:]

    def time(self, case: Case) -> list[float]:
        once, array = self._compiled(case)
        self.jax.block_until_ready(once(array))
        if not self.cuda:
            return wall_clock(lambda: self.jax.block_until_ready(once(array)))
        readings = self._queued(once, array, 1)
        if case.op != "slice1" and spread(readings)[0] < self.SHORT_SECONDS * 1e6:
            program = self.jax.jit(self._chain(self._function(case), 1))
            chained = self._queued(program, (array, self._zero()), self.UNROLLED)
            readings = min(readings, chained, key=lambda each: spread(each)[0])
        return readings

    def public_call(self, case: Case) -> Callable[[], object] | None:
        if not self.cuda:
            return None
        once, array = self._compiled(case)
        return lambda: self.jax.block_until_ready(once(array))

    def time_chain(self, case: Case) -> Times:
        _, array = self._compiled(case)
        chain = self.jax.jit(self._chain(self._function(case), CHAIN // self.UNROLLED))
        inputs = array, self._zero()
        return time_calls(
            lambda: self.jax.block_until_ready(chain(inputs)), readings=CHAIN_READINGS, operations=CHAIN
        )

    def _zero(self) -> Any:
        return self.jax.device_put(np.int32(0))

    def _chain(self, function: Callable[[Any], Any], rounds: int) -> Callable[[Any], Any]:
        """Return a program of 16 calls, so many times, one after the other: that leaves out the host's part.

        Each call's input has a zero added that only the call before it yields, or the compiler would make all
        calls one; the addition is a part of the same kernel.
        """

        def chain(inputs: tuple[Any, Any]) -> Any:
            x, zero = inputs

            def calls(_: Any, added: Any) -> Any:
                for _ in range(self.UNROLLED):
                    found = function(x ^ added.astype(bool) if x.dtype == bool else x + added.astype(x.dtype))
                    added = found.ravel()[0] * zero
                return added

            return calls(0, zero) if rounds == 1 else self.jax.lax.fori_loop(0, rounds, calls, zero)

        return chain

    def _queued(self, call: Callable[[Any], Any], inputs: Any, calls_of_one: int) -> list[float]:
        warm(lambda: self.jax.block_until_ready(call(inputs)), lambda: None)
        start = time.perf_counter()
        self.jax.block_until_ready(call(inputs))
        calls = max(2, min(100, int(4e-3 / (time.perf_counter() - start))))
        readings = []
        for _ in range(READINGS // 2):
            start = time.perf_counter()
            results = [call(inputs) for _ in range(calls)]
            self.jax.block_until_ready(results)
            readings.append((time.perf_counter() - start) * 1e6 / (calls * calls_of_one))
        return readings

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        arrays: list[Any] = list(latency.host_arrays(case, content))
        if not (self.cuda or case.finds_an_index):
            raise Unsupported(NO_COPY)
        if case.kind == "to host":
            raise Unsupported("keeps on the host what it copied once")
        if case.kind == "to device":
            put, done = self.jax.device_put, self.jax.block_until_ready
            return lambda number: done(put(arrays[number % len(arrays)]))
        if case.kind == "view":
            rows = self.jax.device_put(np.stack(arrays))
            return lambda number: int(self.numpy.argmax(rows[number % len(arrays)]))
        if case.kind != "host":
            arrays = [self.jax.device_put(array) for array in arrays]
        find = self.jax.jit(lambda x: self.jax.lax.argmax(x, 0, self.numpy.int32))
        return lambda number: int(find(arrays[number % len(arrays)]))
