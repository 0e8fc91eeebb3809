"""The other libraries: each does what a case does, and is timed by its own means. Runs in a child process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from vkdml.bench import latency
from vkdml.bench.cases import Case
from vkdml.bench.chains import CHAIN, CHAIN_READINGS
from vkdml.bench.contents import Bytes
from vkdml.bench.host_clock import time_calls
from vkdml.bench.latency import LatencyCase
from vkdml.bench.library import (
    NO_COPY,
    OUT_OF_TIME,
    READINGS,
    SPIN_CYCLES,
    WARM_SECONDS,
    Library,
    Unsupported,
    copied,
    one_line,
    single_axis,
    wall_clock,
    warm,
)
from vkdml.bench.onnx_libraries import OnnxRuntime, OnnxRuntimeWebGpu
from vkdml.bench.record import Latency, Times
from vkdml.bench.sweep import SweepCase, SweepWindow
from vkdml.bench.torch_library import Torch
from vkdml.bench.torch_vulkan import TorchVulkan
from vkdml.measuring import spread


class NumPy(Library):
    """NumPy, on the processor."""

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(False, most_bytes)

    @property
    def version(self) -> str:
        return str(np.__version__)

    def time(self, case: Case) -> list[float]:
        array = self.host_array(case)
        if case.op == "slice1":
            view = copied(array, case)
            # A copy even of what is contiguous.
            return wall_clock(lambda: view.copy(order="C"))
        shape, axis = single_axis(case)
        array = array.reshape(shape)[..., ::2] if case.alternate else array.reshape(shape)
        function = np.argmax if case.op == "argmax" else np.argmin
        with np.errstate(invalid="ignore"):
            return wall_clock(lambda: function(array, axis=axis))

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        if case.kind != "host":
            raise Unsupported("has no device arrays")
        arrays = latency.host_arrays(case, content)
        return lambda number: int(np.argmax(arrays[number % len(arrays)]))


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


class Cub(Library):
    """CUB's DeviceReduce::ArgMax, in a small program that nvcc builds into the user's cache folder."""

    method = "CUDA events, queued"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        compiler = nvcc()
        if not cuda or compiler is None:
            raise Unsupported("needs nvcc and a CUDA device")
        self._compiler = compiler
        self._program = subprocess.Popen(
            [build_cub(compiler)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def version(self) -> str:
        said = subprocess.run(
            [self._compiler, "--version"], capture_output=True, text=True, check=False
        ).stdout
        return next((word.strip("V,") for word in said.split() if word.startswith("V")), "unknown")

    def time(self, case: Case) -> list[float]:
        if case.op != "argmax" or len(case.axes) != len(case.shape) or case.alternate:
            raise Unsupported("reduces whole arrays")
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        count = case.input_bytes // case.element_bytes
        self._program.stdin.write(f"{case.element} {count} {READINGS} {WARM_SECONDS}\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise Unsupported("its program ended")
        said = json.loads(line)
        if "why" in said:
            raise Unsupported(str(said["why"]))
        return [float(us) for us in said["us"]]

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        raise Unsupported("is no Python library")


def nvcc() -> str | None:
    """Return CUDA's compiler, if it is here."""
    return shutil.which("nvcc") or next(
        (str(path) for path in (Path("/usr/local/cuda/bin/nvcc"),) if path.exists()), None
    )


def build_cub(compiler: str) -> str:
    """Compile the CUB program unless the user's cache folder has it; return its path.

    Raises:
        Unsupported: the compiler refused.
    """
    source = resources.files("vkdml.bench") / "cub_argmax.cu"
    text = source.read_bytes()
    folder = Path(os.environ.get("VKDML_CACHE_DIR") or _user_cache()) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"cub_argmax-{hashlib.sha256(text + compiler.encode()).hexdigest()[:16]}"
    if not program.exists():
        unfinished = folder / f"{program.name}.{os.getpid()}"
        command = [compiler, "-O3", "-std=c++17", "-arch=native", "-w", "-o", str(unfinished)]
        with resources.as_file(source) as path:
            # Older releases of CUB cannot compare halves.
            for halves in ([], ["-DWITHOUT_HALVES"]):
                built = subprocess.run(
                    [*command, *halves, str(path)], capture_output=True, text=True, check=False
                )
                if not built.returncode:
                    break
        if built.returncode:
            raise Unsupported(f"nvcc: {one_line(built.stderr)}")
        unfinished.rename(program)
    return str(program)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vkdml"


LIBRARIES: dict[str, type[Library]] = {
    "numpy": NumPy,
    "torch": Torch,
    "cupy": CuPy,
    "jax": Jax,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-webgpu": OnnxRuntimeWebGpu,
    "torchvulkan": TorchVulkan,
    "cub": Cub,
}


def case_from(plain: dict[str, Any]) -> Case:
    """Return a case as JSON has it."""
    axis = plain["axis"]
    return Case(**plain | {"shape": tuple(plain["shape"]), "axis": None if axis is None else tuple(axis)})


def sweep_case_from(plain: dict[str, Any]) -> SweepCase:
    """Return a case of a sweep as JSON has it."""
    window = plain["window"]
    lists = {name: tuple(plain[name]) for name in ("memory_shape", "permutation")}
    return SweepCase(
        **plain
        | lists
        | {
            "axis": None if plain["axis"] is None else tuple(plain["axis"]),
            "window": window and SweepWindow(**{name: tuple(values) for name, values in window.items()}),
        }
    )


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time what a request asks for; yield one answer about the library, then one for each case.

    A request has ``peer``, ``cuda``, ``seconds``, ``most_bytes``, ``cases``, ``latency`` and, for a sweep's
    cases, ``sweep`` (see :mod:`vkdml.bench.peers`).
    """
    cases = [case_from(case) for case in request["cases"]]
    latency_cases = [LatencyCase(**case) for case in request["latency"]]
    sweep = [sweep_case_from(case) for case in request.get("sweep", ())]
    sizes = [case.input_bytes for case in cases] + [case.nbytes for case in latency_cases]
    largest = max([*sizes, *(case.input_bytes for case in sweep)], default=0)
    try:
        library = LIBRARIES[request["peer"]](request["cuda"], largest)
        library.select(request.get("device", ""))
    except ModuleNotFoundError as error:
        yield {"missing": f"{error.name} is not installed"}
        return
    except Unsupported as error:
        yield {"missing": str(error)}
        return
    yield {"version": library.version, "runs_on": library.runs_on, "method": library.method}
    until = time.perf_counter() + request["seconds"]
    for number, latency_case in enumerate(latency_cases):
        yield {"latency": number, **_latency_answer(library, latency_case, until)}
    for number, case in enumerate(cases):
        if request["most_bytes"] is not None and case.input_bytes > request["most_bytes"]:
            yield {"case": number, "why": "too large for the processor"}
        else:
            yield {"case": number, **_case_answer(library, case, until)}
    for number, swept in enumerate(sweep):
        yield {"sweep": number, **_answer(partial(library.time_sweep, swept), until)}


def _case_answer(library: Library, case: Case, until: float) -> dict[str, Any]:
    """Return a case's times: by the library's own means, of its public call, and of a chain."""
    answer = _answer(partial(library.time, case), until)
    if "us" in answer and time.perf_counter() < until:
        answer["call"] = _times(lambda: _time_public_call(library, case))
        if case.is_chained:
            answer["chain"] = _times(lambda: library.time_chain(case))
    return answer


def _time_public_call(library: Library, case: Case) -> Times | None:
    call = library.public_call(case)
    return None if call is None else time_calls(call)


def _times(timed: Callable[[], Times | None]) -> dict[str, Any] | None:
    """Return times as JSON has them; None where the library has none."""
    try:
        times = timed()
    except Exception:  # whatever a library makes of what it does not have
        return None
    return None if times is None else asdict(times)


def _answer(timed: Callable[[], list[float]], until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": OUT_OF_TIME}
    try:
        median, low, high = spread(timed())
    except Unsupported as error:
        return {"why": str(error)}
    except Exception as error:  # whatever a library makes of a type that it does not have
        return {"why": one_line(error)}
    return {"us": median, "low_us": low, "high_us": high}


def _latency_answer(library: Library, case: LatencyCase, until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": OUT_OF_TIME}
    try:
        find = library.finder(case, library.host_bytes("numbers float32"))
        measured = latency.time_calls(find, case.calls, WARM_SECONDS)
    except Unsupported as error:
        return {"why": str(error)}
    except Exception as error:
        return {"why": one_line(error)}
    return _plain(measured)


def _plain(measured: Latency) -> dict[str, Any]:
    return {
        "p50_us": measured.p50_us,
        "p99_us": measured.p99_us,
        "calls": measured.calls,
        "quantiles_us": measured.quantiles_us,
    }
