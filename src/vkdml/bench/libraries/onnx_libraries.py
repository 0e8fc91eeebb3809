"""ONNX Runtime as a library to compare with: its CPU provider, and its WebGPU provider on any Vulkan GPU."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkdml.bench import latency
from vkdml.bench.cases import Case, window_of
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import (
    CALL_PATIENCE_SECONDS,
    FEWEST_CALLS,
    READINGS,
    Library,
    cuts,
    numbers_of,
    one_line,
    require_right,
    single_axis,
    wall_clock,
    warm,
)
from vkdml.bench.unsupported import Unsupported

SMALLEST_SHARE = 0.5
"""The least share of the median that the tenth percentile of differences between runs must be."""


@dataclass(frozen=True)
class _Node:
    """A node of a model whose first input is ``x``."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, list[int]] = field(default_factory=dict)
    """The other inputs."""

    @property
    def copies(self) -> bool:
        """Whether the output has the input's elements, and not their indices."""
        return not self.name.startswith("Arg")


_ARGMAX_OF_ALL = _Node("ArgMax", {"axis": 0, "keepdims": 0})
# Elements of an array whose node takes no time beside all else of a run.
_HARDLY_ANY = 16


def _copy_node(case: Case) -> _Node:
    if case.window == "copy":
        return _Node("Identity")
    if case.window in ("transposed", "turned"):
        return _Node("Transpose", {"perm": list(window_of(case).axes(len(case.shape)))})
    if window_of(case).turned:
        raise Unsupported("two nodes: it has none that transposes a part")
    both = cuts(case)
    # The WebGPU provider takes bounds of 32 bits.
    least = -(1 << 31)
    constants = {
        "starts": [cut.start for cut in both],
        "ends": [least if cut.stop is None else cut.stop for cut in both],
        "axes": [0, 1],
        "steps": [cut.step for cut in both],
    }
    return _Node("Slice", constants=constants)


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

    def _session(self, node: _Node, array: np.ndarray[Any, Any]) -> Any:
        """Return a session of a model with one node, from the input ``x`` to ``y``."""
        helper = self.helper
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        made = kind if node.copies else self.onnx.TensorProto.INT64
        constants = [
            self.numpy_helper.from_array(np.asarray(values, np.int64), name)
            for name, values in node.constants.items()
        ]
        graph = helper.make_graph(
            [helper.make_node(node.name, ["x", *node.constants], ["y"], **node.attributes)],
            "case",
            [helper.make_tensor_value_info("x", kind, array.shape)],
            [helper.make_tensor_value_info("y", made, None)],
            constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        try:
            return self._session_of(model.SerializeToString())
        except Exception as error:
            raise Unsupported(self._refusal(node, array, error)) from None

    def _session_of(self, model: bytes) -> Any:
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        return self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def _refusal(self, node: _Node, array: np.ndarray[Any, Any], error: Exception) -> str:
        return one_line(error)

    def time(self, case: Case) -> list[float]:
        node, array = self._node_and_array(case)
        session = self._session(node, array)
        return wall_clock(lambda: session.run(None, {"x": array}))

    def _node_and_array(self, case: Case) -> tuple[_Node, np.ndarray[Any, Any]]:
        if case.alternate:
            raise Unsupported("has no strided arrays")
        array = self.host_array(case)
        if case.element not in ("float32", "float64", "float16", "bool") and "int" not in case.element:
            raise Unsupported(f"no {case.element} from NumPy")
        if case.op == "slice1":
            return _copy_node(case), array
        shape, axis = single_axis(case)
        name = "ArgMax" if case.op == "argmax" else "ArgMin"
        return _Node(name, {"axis": axis, "keepdims": 0}), array.reshape(shape)

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        if case.kind != "host":
            raise Unsupported("has no device arrays")
        arrays = latency.host_arrays(case, content)
        session = self._session(_ARGMAX_OF_ALL, arrays[0])
        return lambda number: int(session.run(None, {"x": arrays[number % len(arrays)]})[0])


class OnnxRuntimeWebGpu(OnnxRuntime):
    """ONNX Runtime's WebGPU provider, of the package onnxruntime-ep-webgpu: through Vulkan on Linux."""

    LONGEST_RUN_SECONDS = 0.1
    """Longer runs of a node are avoided: it reads an output's elements one by one, and minutes hang a GPU."""
    FEW_ELEMENTS = 1 << 20
    """A node is first run on so many elements of an output, to learn how long it takes on all."""
    method = (
        f"host clock, a run of one node less a run on {_HARDLY_ANY} elements, in turn; arrays on the device, "
        f"results checked; nodes of up to {LONGEST_RUN_SECONDS} s"
    )
    PROVIDER = "WebGpuExecutionProvider"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        plugin = importlib.import_module("onnxruntime_ep_webgpu")
        if not self._providers():
            try:
                self.runtime.register_execution_provider_library("webgpu", plugin.get_library_path())
            except Exception as error:
                raise Unsupported(one_line(error)) from None
        found = self._providers()
        if not found:
            raise Unsupported("finds no GPU: its provider takes hardware GPUs only")
        self._provider = found[0]
        self._memory = self._provider.memory_info(self.runtime.OrtDeviceMemoryType.DEFAULT)

    def _providers(self) -> list[Any]:
        return [each for each in self.runtime.get_ep_devices() if each.ep_name == self.PROVIDER]

    @property
    def version(self) -> str:
        return f"{self.runtime.__version__} (WebGPU {self._provider.ep_metadata.get('version', 'unknown')})"

    @property
    def runs_on(self) -> str:
        return "device"

    def content(self, case: Case) -> str:
        return numbers_of(case)

    def _session_of(self, model: bytes) -> Any:
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        # The node as it is written.
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Without these two it computes on the processor, without a word, what the GPU cannot.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices([self._provider], {})
        session = self.runtime.InferenceSession(model, options, enable_fallback=False)
        if session.get_providers()[0] != self.PROVIDER:
            raise Unsupported(f"runs on {session.get_providers()[0]}")
        return session

    def _refusal(self, node: _Node, array: np.ndarray[Any, Any], error: Exception) -> str:
        return f"no {node.name} of {array.dtype} on the GPU"

    def time(self, case: Case) -> list[float]:
        node, array = self._node_and_array(case)
        self._require_short(node, array)
        run_all, result = self._bound(node, array)
        run_all()
        require_right(case, self.host_bytes(self.content(case)), result.numpy())
        # Not several nodes in one run: a GPU runs them side by side, and they share what its cache holds.
        run_hardly, _ = self._bound(_ARGMAX_OF_ALL, np.zeros(_HARDLY_ANY, np.float32))
        run_hardly()
        warm(run_all, lambda: None)
        readings: list[float] = []
        until = time.perf_counter() + CALL_PATIENCE_SECONDS
        while len(readings) < READINGS:
            seconds = []
            for run in (run_hardly, run_all):
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
            readings.append((seconds[1] - seconds[0]) * 1e6)
            if len(readings) >= FEWEST_CALLS and time.perf_counter() > until:
                break
        # Runs differ by more than some nodes take.
        if np.percentile(readings, 10) <= max(0.0, np.median(readings) * SMALLEST_SHARE):
            raise Unsupported("too short to tell from the rest of a run")
        return readings

    def _require_short(self, node: _Node, array: np.ndarray[Any, Any]) -> None:
        """Refuse a node whose run would take too long, before it does."""
        axis = node.attributes.get("axis", 0)
        if node.copies or array.shape[axis] <= self.FEW_ELEMENTS:
            return
        few = np.ascontiguousarray(array.take(range(self.FEW_ELEMENTS), axis))
        run, _ = self._bound(node, few)
        run()
        start = time.perf_counter()
        run()
        seconds = (time.perf_counter() - start) * array.shape[axis] / self.FEW_ELEMENTS
        if seconds > self.LONGEST_RUN_SECONDS:
            raise Unsupported(f"a node takes about {seconds:.2g} s: more than {self.LONGEST_RUN_SECONDS} s")

    def public_call(self, case: Case) -> Callable[[], object] | None:
        return self._bound(*self._node_and_array(case))[0]

    def _new_value(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.runtime.OrtValue.ortvalue_from_shape_and_type(
            list(shape), dtype, memory_info=self._memory
        )

    def _uploaded(self, array: np.ndarray[Any, Any]) -> Any:
        value = self._new_value(array.shape, array.dtype.type)
        self.runtime.copy_tensors([self.runtime.OrtValue.ortvalue_from_numpy(array)], [value])
        return value

    def _bound(self, node: _Node, array: np.ndarray[Any, Any]) -> tuple[Callable[[], object], Any]:
        """Return a call that runs a node and waits, and the node's result on the device."""
        session = self._session(node, array)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", self._uploaded(array))
        shape, dtype = _output_of(node, array)
        result = self._new_value(shape, dtype.type)
        binding.bind_ortvalue_output("y", result)
        # Runs are queued. What is copied to the host after them waits for them; this is a few bytes.
        small = self._new_value((4,), np.float32)

        def run_and_wait() -> None:
            session.run_with_iobinding(binding)
            small.numpy()

        return run_and_wait, result

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        if case.kind not in ("host", "array"):
            raise Unsupported("is timed on one array only")
        arrays = latency.host_arrays(case, content)
        self._require_short(_ARGMAX_OF_ALL, arrays[0])
        if case.kind == "host":
            session = self._session(_ARGMAX_OF_ALL, arrays[0])
            return lambda number: int(session.run(None, {"x": arrays[number % len(arrays)]})[0])
        bound = [self._bound(_ARGMAX_OF_ALL, array) for array in arrays]

        def find(number: int) -> int:
            run, result = bound[number % len(bound)]
            run()
            return int(result.numpy())

        return find


def _output_of(node: _Node, array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of a node's output."""
    if not node.copies:
        axis = node.attributes["axis"]
        return array.shape[:axis] + array.shape[axis + 1 :], np.dtype(np.int64)
    if node.name == "Transpose":
        return tuple(array.shape[axis] for axis in node.attributes["perm"]), array.dtype
    if node.name == "Identity":
        return array.shape, array.dtype
    constants = node.constants
    lengths = [
        len(range(*slice(start, None if end < -size else end, step).indices(size)))
        for start, end, step, size in zip(
            constants["starts"], constants["ends"], constants["steps"], array.shape, strict=True
        )
    ]
    return tuple(lengths), array.dtype
