"""The other libraries: each does what a case does, and is timed by its own means. Runs in a child process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from vkdml.bench import contents, latency
from vkdml.bench.cases import WINDOWS, Case, window_slices
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.record import Latency
from vkdml.bench.sweep import CONTENT, SweepCase, SweepWindow
from vkdml.bench.sweep_torch import torch_call, torch_refusal
from vkdml.measuring import spread

READINGS = 30
WARM_SECONDS = 0.25
# Enough for the host to queue all readings behind it; at 2 GHz, 10 ms.
SPIN_CYCLES = 20_000_000
# Wall-clock times on the processor.
CALL_PATIENCE_SECONDS = 1.0
FEWEST_CALLS = 3
NO_COPY = "shares the host's memory"
"""Why a library on the processor has no transfers to time."""


class Unsupported(Exception):
    """The library does not do this; the message says what, in a few words."""


class Library(ABC):
    """One library. ``cuda`` says whether it is to run on the CUDA device, or else on the processor."""

    method = "wall clock"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        self.cuda = cuda
        self.most_bytes = most_bytes
        self._host: dict[str, Bytes] = {}
        self._on_device: dict[str, Any] = {}

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    def runs_on(self) -> str:
        return "device" if self.cuda else "processor"

    @abstractmethod
    def time(self, case: Case) -> list[float]:
        """Return readings in microseconds.

        Raises:
            Unsupported: the library cannot do it.
        """

    def time_sweep(self, case: SweepCase) -> list[float]:
        """Return readings in microseconds.

        Raises:
            Unsupported: the library cannot do it.
        """
        raise Unsupported("is not timed beside a sweep")

    @abstractmethod
    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        """Return a function that finds the index in the array of a number, or that moves this array.

        Raises:
            Unsupported: the library has no such arrays.
        """

    def host_bytes(self, content: str) -> Bytes:
        """Return the bytes that vkdml ran on."""
        if content not in self._host:
            self._host[content] = contents.content(content, self.most_bytes + -self.most_bytes % 16)
        return self._host[content]

    def on_device(self, content: str, move: Callable[[Bytes], Any]) -> Any:
        """Return them where the library computes."""
        if content not in self._on_device:
            self._on_device[content] = move(self.host_bytes(content))
        return self._on_device[content]

    def host_array(self, case: Case) -> np.ndarray[Any, Any]:
        flat = self.host_bytes(self.content(case))[: case.input_bytes]
        return flat.view(numpy_dtype(case.element)).reshape(case.shape)

    def content(self, case: Case) -> str:
        """Return what to run on: the processor's libraries would stop at the first NaN of random bits."""
        if self.runs_on == "processor" and "float" in case.element and case.op != "slice1":
            return f"numbers {case.element}"
        return case.content


def numpy_dtype(element: str) -> np.dtype[Any]:
    if element == "bool" or hasattr(np, element):
        return np.dtype(element)
    try:
        extended: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), element))
        return extended
    except (ModuleNotFoundError, AttributeError):
        raise Unsupported(f"no {element} without ml_dtypes") from None


def single_axis(case: Case) -> tuple[tuple[int, ...], int]:
    """Return a shape, and its one reduced axis, with neighbouring reduced axes joined: a view, no copy."""
    axes = case.axes
    if list(axes) != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("reduces one axis at a time")
    joined = int(np.prod([case.shape[axis] for axis in axes]))
    return (*case.shape[: axes[0]], joined, *case.shape[axes[-1] + 1 :]), axes[0]


def wall_clock(call: Callable[[], object]) -> list[float]:
    """Time a call that returns when it is done."""
    call()
    readings: list[float] = []
    until = time.perf_counter() + CALL_PATIENCE_SECONDS
    while len(readings) < READINGS:
        start = time.perf_counter()
        call()
        readings.append((time.perf_counter() - start) * 1e6)
        if len(readings) >= FEWEST_CALLS and time.perf_counter() > until:
            break
    return readings


def warm(call: Callable[[], object], wait: Callable[[], object]) -> None:
    until = time.perf_counter() + WARM_SECONDS
    while True:
        call()
        wait()
        if time.perf_counter() > until:
            return


def cuts(case: Case) -> tuple[slice, ...]:
    """Return what a slice1 case copies as Python slices of its array (transposed where the case says so)."""
    window = WINDOWS[case.window](case.shape[0], case.shape[1])
    return window_slices(window.offsets, window.sizes, window.steps)


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
            view = array.T if case.window == "transposed" else array[cuts(case)]
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


class Torch(Library):
    """PyTorch, on the CUDA device or the processor."""

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        self.torch = importlib.import_module("torch")
        if cuda and not self.torch.cuda.is_available():
            raise Unsupported("sees no CUDA device")
        if cuda:
            self.method = "CUDA events, queued"
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
            view = array.t() if case.window == "transposed" else array[cuts(case)]
            return lambda: view.contiguous()
        shape, axis = single_axis(case)
        array = flat.view(shape)
        if case.alternate:
            array = array[..., ::2]
        function = self.torch.argmax if case.op == "argmax" else self.torch.argmin
        return lambda: function(array, dim=axis)

    def time(self, case: Case) -> list[float]:
        return self._readings(self._call(case))

    def time_sweep(self, case: SweepCase) -> list[float]:
        why = torch_refusal(case)
        if why:
            raise Unsupported(why)
        flat = self.on_device(CONTENT, self._moved)[: case.input_bytes]
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
        if not (self.cuda or case.finds_an_index):
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
            view = array.T if case.window == "transposed" else array[cuts(case)]
            return lambda: view.copy(order="C")
        if case.alternate:
            array = array[..., ::2]
        function = self.cupy.argmax if case.op == "argmax" else self.cupy.argmin
        axis: Any = case.axes if len(case.axes) < array.ndim else None
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        return lambda: function(array, axis=axis)

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

    CHAIN = 16
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
        self.method = f"host clock over queued calls; short ones {self.CHAIN} to a program"

    @property
    def version(self) -> str:
        return str(self.jax.__version__)

    def _function(self, case: Case) -> Callable[[Any], Any]:
        if case.op == "slice1":
            if case.window == "transposed":
                return lambda x: x.T
            if case.window == "copy":
                return lambda x: self.numpy.copy(x)
            return lambda x: x[cuts(case)]
        _, axis = single_axis(case)
        find = self.jax.lax.argmax if case.op == "argmax" else self.jax.lax.argmin
        if case.alternate:
            return lambda x: find(x[..., ::2], axis, self.numpy.int32)
        return lambda x: find(x, axis, self.numpy.int32)

    def time(self, case: Case) -> list[float]:
        function = self._function(case)
        shape = case.shape if case.op == "slice1" else single_axis(case)[0]
        array = self.jax.device_put(self.host_array(case).reshape(shape))
        once = self.jax.jit(function)
        self.jax.block_until_ready(once(array))
        if not self.cuda:
            return wall_clock(lambda: self.jax.block_until_ready(once(array)))
        readings = self._queued(once, array, 1)
        if case.op != "slice1" and spread(readings)[0] < self.SHORT_SECONDS * 1e6:
            zero = self.jax.device_put(np.int32(0))
            chained = self._queued(self.jax.jit(self._chain(function)), (array, zero), self.CHAIN)
            readings = min(readings, chained, key=lambda each: spread(each)[0])
        return readings

    def _chain(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a program of so many calls, one after the other: that leaves out the host's part.

        Each call's input has a zero added that only the call before it yields, or the compiler would make all
        calls one; the addition is a part of the same kernel.
        """

        def chain(inputs: tuple[Any, Any]) -> Any:
            x, zero = inputs
            added = zero
            for _ in range(self.CHAIN):
                found = function(x ^ added.astype(bool) if x.dtype == bool else x + added.astype(x.dtype))
                added = found.ravel()[0] * zero
            return found

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


class OnnxRuntime(Library):
    """ONNX Runtime's CPU provider."""

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(False, most_bytes)
        self.runtime = importlib.import_module("onnxruntime")
        self.onnx = importlib.import_module("onnx")
        self.helper = importlib.import_module("onnx.helper")
        self.numpy_helper = importlib.import_module("onnx.numpy_helper")

    @property
    def version(self) -> str:
        return str(self.runtime.__version__)

    def _session(self, node: Any, dtype: np.dtype[Any], shape: tuple[int, ...], copied: bool) -> Any:
        helper = self.helper
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        made = kind if copied else self.onnx.TensorProto.INT64
        constants = []
        if copied and node.op_type == "Slice":
            constants = [
                self.numpy_helper.from_array(np.asarray(values, np.int64), name)
                for name, values in self._cuts.items()
            ]
        graph = helper.make_graph(
            [node],
            "case",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info("y", made, None)],
            constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        try:
            return self.runtime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise Unsupported(one_line(error)) from None

    def time(self, case: Case) -> list[float]:
        if case.alternate:
            raise Unsupported("has no strided arrays")
        array = self.host_array(case)
        if case.element not in ("float32", "float64", "float16", "bool") and "int" not in case.element:
            raise Unsupported(f"no {case.element} from NumPy")
        if case.op == "slice1":
            node = self._copy_node(case)
        else:
            shape, axis = single_axis(case)
            array = array.reshape(shape)
            name = "ArgMax" if case.op == "argmax" else "ArgMin"
            node = self.helper.make_node(name, ["x"], ["y"], axis=axis, keepdims=0)
        session = self._session(node, array.dtype, array.shape, case.op == "slice1")
        return wall_clock(lambda: session.run(None, {"x": array}))

    def _copy_node(self, case: Case) -> Any:
        if case.window == "copy":
            return self.helper.make_node("Identity", ["x"], ["y"])
        if case.window == "transposed":
            return self.helper.make_node("Transpose", ["x"], ["y"])
        both = cuts(case)
        least = -(1 << 62)
        self._cuts = {
            "starts": [cut.start for cut in both],
            "ends": [least if cut.stop is None else cut.stop for cut in both],
            "axes": [0, 1],
            "steps": [cut.step for cut in both],
        }
        return self.helper.make_node("Slice", ["x", *self._cuts], ["y"])

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        if case.kind != "host":
            raise Unsupported("has no device arrays")
        arrays = latency.host_arrays(case, content)
        node = self.helper.make_node("ArgMax", ["x"], ["y"], axis=0, keepdims=0)
        session = self._session(node, arrays[0].dtype, arrays[0].shape, False)
        return lambda number: int(session.run(None, {"x": arrays[number % len(arrays)]})[0])


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


def one_line(error: object, most: int = 120) -> str:
    """Return the first line of an error that says something, cut short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:most]


LIBRARIES: dict[str, type[Library]] = {
    "numpy": NumPy,
    "torch": Torch,
    "cupy": CuPy,
    "jax": Jax,
    "onnxruntime": OnnxRuntime,
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
            yield {"case": number, **_answer(partial(library.time, case), until)}
    for number, swept in enumerate(sweep):
        yield {"sweep": number, **_answer(partial(library.time_sweep, swept), until)}


def _answer(timed: Callable[[], list[float]], until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": "out of time"}
    try:
        median, low, high = spread(timed())
    except Unsupported as error:
        return {"why": str(error)}
    except Exception as error:  # whatever a library makes of a type that it does not have
        return {"why": one_line(error)}
    return {"us": median, "low_us": low, "high_us": high}


def _latency_answer(library: Library, case: LatencyCase, until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": "out of time"}
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
