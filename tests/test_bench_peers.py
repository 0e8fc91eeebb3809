"""Other libraries' calls and chains, and those that run through Vulkan, on stand-ins for what is not here."""

from __future__ import annotations

import itertools
import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import vkdml
from vkdml.bench import host_clock, measure, record
from vkdml.bench.cases import WINDOWS, Case
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries import by_name as libraries
from vkdml.bench.libraries import library, onnx_libraries, peers
from vkdml.bench.libraries.torch_vulkan import TorchVulkan
from vkdml.bench.record import Times
from vkdml.bench.unsupported import Unsupported

SMALL = Case("small", "argmax", "float32", (20, 64), (1,))
PLAIN = Case("", "argmax", "float32", (20, 64), (0,))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    for module in (library, onnx_libraries):
        monkeypatch.setattr(module, "CALL_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(library, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(host_clock, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(host_clock, "PATIENCE_SECONDS", 0.0)


# ---- calls and chains ---------------------------------------------------------------------------


class Stub(libraries.NumPy):
    """Has public calls and chains, but no chain of int8."""

    def public_call(self, case):
        return lambda: None

    def time_chain(self, case):
        if case.element == "int8":
            raise Unsupported("no int8")
        return Times(1.5, 1.0, 2.0, 9)


def request_of(*cases: Case, peer: str = "numpy") -> dict:
    plain = [peers._plain(case) for case in cases]
    return json.loads(
        json.dumps(
            {"peer": peer, "cuda": False, "seconds": 60, "most_bytes": None, "cases": plain, "latency": []}
        )
    )


def test_a_librarys_calls_are_timed_for_all_cases_and_chains_for_short_ones(monkeypatch):
    monkeypatch.setitem(libraries.LIBRARIES, "numpy", Stub)
    short_int8 = Case("small", "argmax", "int8", (20, 64), (1,))
    _, short, plain, narrow = libraries.answers(request_of(SMALL, PLAIN, short_int8))
    assert short["chain"] == {"us": 1.5, "low_us": 1.0, "high_us": 2.0, "readings": 9}
    assert 0 <= short["call"]["low_us"] <= short["call"]["us"]
    assert "chain" not in plain
    assert plain["call"]
    assert narrow["chain"] is None
    assert narrow["us"] > 0


def test_a_library_on_the_processor_has_no_call_beside_its_time():
    _, answer = libraries.answers(request_of(PLAIN))
    assert answer["call"] is None
    assert answer["us"] > 0


def test_what_a_library_answers_is_put_into_the_row(device, monkeypatch, tmp_path):
    stub = tmp_path / "python"
    times = {"us": 3, "low_us": 2, "high_us": 4, "readings": 5}
    case = {"case": 0, "us": 9, "low_us": 8, "high_us": 10, "call": times, "chain": times}
    said = [{"version": "1", "runs_on": "device", "method": "none"}, case]
    lines = "\n".join(json.dumps(line) for line in said)
    stub.write_text(f"#!{sys.executable}\nimport sys\nsys.stdin.read()\nprint('''{lines}''')\n")
    stub.chmod(0o755)
    made = measure.new_record(device, "own", {})
    made.rows = measure.measure(device, [PLAIN], readings=1, kernels_only=True)
    monkeypatch.setattr(peers.sys, "executable", str(stub))
    peers.time_peer("numpy", device, made, made.rows, [], named=True)
    time = made.rows[0].peers["numpy"]
    assert time == record.PeerTime(9, 8, 10, call=Times(3, 2, 4, 5), chain=Times(3, 2, 4, 5))


@pytest.mark.parametrize(
    ("us", "gib", "device_type", "is_time"),
    [
        (300.0, 2, "discrete", False),
        (600.0, 2, "discrete", True),
        (300.0, 2, "software", True),
        (3.0, 0.1, "discrete", True),
    ],
)
def test_less_time_than_the_memory_takes_is_no_time(device, us, gib, device_type, is_time):
    """Large arrays are read from memory at 3 TB/s at most; small ones may be in a cache."""
    made = measure.new_record(device, "own", {})
    made.ceiling_gb_per_s = 3000.0
    made.device["type"] = device_type
    (row,) = measure.measure(device, [PLAIN], readings=1, kernels_only=True)
    row.read_bytes, row.written_bytes = int(gib * (1 << 30)), 0
    time = peers._possible(record.PeerTime(us, us, us), row, made)
    assert (time.us == us) == is_time
    if not is_time:
        assert time == record.PeerTime(why="measured 300 us, less than its bytes take (572.7 us)")


# ---- ONNX Runtime -------------------------------------------------------------------------------


class Value:
    """A tensor on the device."""

    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


class Session:
    """ONNX's reference implementation in the place of ONNX Runtime's."""

    runs_on = onnx_libraries.OnnxRuntimeWebGpu.PROVIDER
    breaks = False

    def __init__(self, model, options, providers=None, enable_fallback=True):
        assert providers or not enable_fallback
        self._evaluator = ReferenceEvaluator(model)
        self.ran = 0

    def get_providers(self):
        return [self.runs_on, "CPUExecutionProvider"]

    def run(self, names, feeds):
        self.ran += 1
        return self._evaluator.run(names, feeds)

    def io_binding(self):
        bound = SimpleNamespace(inputs={}, outputs={})
        bound.bind_ortvalue_input = bound.inputs.__setitem__
        bound.bind_ortvalue_output = bound.outputs.__setitem__
        return bound

    def run_with_iobinding(self, bound):
        results = self.run(list(bound.outputs), {name: value.array for name, value in bound.inputs.items()})
        for value, result in zip(bound.outputs.values(), results, strict=True):
            assert value.array.shape == result.shape
            assert value.array.dtype == result.dtype
            value.array[...] = result
            value.array.reshape(-1)[:1] = 77 if self.breaks else value.array.reshape(-1)[:1]


@pytest.fixture
def runtime(monkeypatch):
    """Stand-ins for the modules onnxruntime and onnxruntime_ep_webgpu."""
    found: list = []
    device = SimpleNamespace(
        ep_name=Session.__dict__["runs_on"],
        ep_metadata={"version": "0.4.0"},
        memory_info=lambda kind: "the GPU's",
    )

    class Options:
        def __init__(self):
            self.entries = {}

        def add_session_config_entry(self, name, value):
            self.entries[name] = value

        def add_provider_for_devices(self, devices, options):
            assert devices == [device]
            assert self.entries == {"session.disable_cpu_ep_fallback": "1"}
            assert self.graph_optimization_level == "none"

    made = ModuleType("onnxruntime")
    made.__version__ = "1.31.1"
    made.SessionOptions, made.InferenceSession = Options, Session
    made.GraphOptimizationLevel = SimpleNamespace(ORT_DISABLE_ALL="none")
    made.OrtDeviceMemoryType = SimpleNamespace(DEFAULT=0)
    made.OrtValue = SimpleNamespace(
        ortvalue_from_shape_and_type=lambda shape, dtype, memory_info: Value(np.zeros(shape, dtype)),
        ortvalue_from_numpy=Value,
    )
    made.copy_tensors = lambda sources, targets: targets[0].array.__setitem__(..., sources[0].array)
    made.get_ep_devices = lambda: list(found)
    made.register_execution_provider_library = lambda name, path: found.append(device)
    plugin = ModuleType("onnxruntime_ep_webgpu")
    plugin.get_library_path = lambda: "/the/library.so"
    monkeypatch.setitem(sys.modules, "onnxruntime", made)
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_webgpu", plugin)
    return made


ONNX_CASES = [
    SMALL,
    Case("", "argmin", "float16", (20, 64), (0,)),
    Case("", "argmax", "int32", (6, 7, 8), (0, 1)),
    Case("", "argmax", "uint32", (6, 7, 8), None),
    *(
        Case("slice1", "slice1", "float32", (11, 12, 3) if window == "turned" else (11, 12), window=window)
        for window in WINDOWS
        if not window.startswith("transposed [")
    ),
]


@pytest.mark.parametrize("case", ONNX_CASES, ids=lambda case: case.name)
def test_nodes_on_webgpu_are_timed_and_found_right(runtime, monkeypatch, case):
    clock = iter(range(10**6))
    monkeypatch.setattr(onnx_libraries.time, "perf_counter", lambda: float(next(clock)))
    made = onnx_libraries.OnnxRuntimeWebGpu(False, case.input_bytes)
    assert made.version == "1.31.1 (WebGPU 0.4.0)"
    assert made.runs_on == "device"
    with pytest.raises(Unsupported, match="too short to tell"):
        made.time(case)  # a run on the whole array takes as long as one on hardly any here
    assert made.public_call(case)() is None
    assert libraries.OnnxRuntime(False, case.input_bytes).time(case)


def test_the_time_of_a_node_is_what_a_run_takes_longer_than_one_on_hardly_any_elements(runtime, monkeypatch):
    """Runs of one node each: a GPU would run several of one array side by side."""
    now = [0.0]

    def run(session, names, feeds):
        assert len(names) == 1
        now[0] += 10e-6 + (4e-6 if feeds["x"].size > 16 else 0.0)
        return session._evaluator.run(names, feeds)

    monkeypatch.setattr(Session, "run", run)
    monkeypatch.setattr(onnx_libraries.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(onnx_libraries, "warm", lambda call, wait: call())
    readings = onnx_libraries.OnnxRuntimeWebGpu(False, SMALL.input_bytes).time(SMALL)
    assert readings == pytest.approx([4.0] * len(readings))


@pytest.mark.parametrize("shortest", [-9e-6, 2e-6])
def test_a_node_that_takes_less_than_runs_differ_by_has_no_time(runtime, monkeypatch, shortest):
    now, longer = [0.0], itertools.cycle((9e-6, 9e-6, shortest))

    def run(session, names, feeds):
        now[0] += 10e-6 + (next(longer) if feeds["x"].size > 16 else 0.0)
        return session._evaluator.run(names, feeds)

    monkeypatch.setattr(Session, "run", run)
    monkeypatch.setattr(onnx_libraries.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(onnx_libraries, "warm", lambda call, wait: call())
    with pytest.raises(Unsupported, match="too short to tell"):
        onnx_libraries.OnnxRuntimeWebGpu(False, SMALL.input_bytes).time(SMALL)


def test_a_node_that_takes_too_long_on_webgpu_is_not_run(runtime, monkeypatch):
    now, longest = [0.0], [0]

    def run(session, names, feeds):
        longest[0] = max(longest[0], feeds["x"].size)
        now[0] += 1e-3 * feeds["x"].size
        return session._evaluator.run(names, feeds)

    monkeypatch.setattr(Session, "run", run)
    monkeypatch.setattr(onnx_libraries.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(onnx_libraries.OnnxRuntimeWebGpu, "FEW_ELEMENTS", 8)
    case = Case("", "argmax", "float32", (512,), None)
    made = onnx_libraries.OnnxRuntimeWebGpu(False, case.input_bytes)
    found = LatencyCase("host", case.input_bytes, 1, 20)
    for asked in (lambda: made.time(case), lambda: made.finder(found, np.zeros(case.input_bytes, np.uint8))):
        with pytest.raises(Unsupported, match=r"a node takes about 0\.51 s: more than 0\.1 s"):
            asked()
    assert longest == [8]


def test_a_wrong_result_on_webgpu_has_no_time(runtime, monkeypatch):
    monkeypatch.setattr(Session, "breaks", True)
    made = onnx_libraries.OnnxRuntimeWebGpu(False, SMALL.input_bytes)
    for case in (SMALL, ONNX_CASES[-1]):
        with pytest.raises(Unsupported, match="its result is wrong"):
            made.time(case)


def test_no_node_transposes_a_part(runtime):
    case = Case("slice1", "slice1", "float32", (11, 12), window="transposed [::2]")
    with pytest.raises(Unsupported, match="none that transposes a part"):
        onnx_libraries.OnnxRuntimeWebGpu(False, case.input_bytes).time(case)


def test_a_session_that_fell_back_to_the_processor_has_no_time(runtime, monkeypatch):
    made = onnx_libraries.OnnxRuntimeWebGpu(False, SMALL.input_bytes)
    monkeypatch.setattr(Session, "runs_on", "CPUExecutionProvider")
    with pytest.raises(Unsupported, match="no ArgMax of float32 on the GPU"):
        made.time(SMALL)


def test_without_a_gpu_webgpu_is_missing(runtime, monkeypatch):
    runtime.register_execution_provider_library = lambda name, path: None
    (missing,) = libraries.answers(request_of(SMALL, peer="onnxruntime-webgpu"))
    assert missing == {"missing": "finds no GPU: its provider takes hardware GPUs only"}


# ---- libraries that choose a Vulkan device themselves ---------------------------------------------


def test_torchvulkan_takes_the_device_of_the_same_name():
    made = object.__new__(TorchVulkan)
    names = ["AMD Radeon", "llvmpipe"]
    made.vulkan = SimpleNamespace(device_count=lambda: 2, get_device_name=names.__getitem__)
    made.select("llvmpipe")
    assert made.device == "vulkan:1"
    with pytest.raises(Unsupported, match="does not have SwiftShader; its devices are AMD Radeon, llvmpipe"):
        made.select("SwiftShader")


@pytest.mark.parametrize(
    ("name", "lacking"), [("onnxruntime-webgpu", "onnxruntime_ep_webgpu"), ("torchvulkan", "torch")]
)
def test_what_such_a_library_needs_is_named(device, monkeypatch, name, lacking):
    gpu = SimpleNamespace(name="a GPU", info=SimpleNamespace(type="discrete", vendor_id=0x1002))
    monkeypatch.setattr(
        peers.importlib.util, "find_spec", lambda module: None if module == lacking else object()
    )
    with pytest.raises(peers.PeerFault, match=f"--peers {name}: {lacking} is not installed"):
        peers.chosen(name, gpu)
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda module: object())
    assert peers.chosen(name, gpu) == ([name], {})
    software = SimpleNamespace(name="llvmpipe", info=SimpleNamespace(type="software", vendor_id=0x10005))
    if name == "onnxruntime-webgpu":
        with pytest.raises(peers.PeerFault, match="takes GPUs only, and this is llvmpipe"):
            peers.chosen(name, software)
    else:
        assert peers.chosen(name, software) == ([name], {})


def test_names_of_devices_reach_the_library(device, monkeypatch, tmp_path):
    asked = tmp_path / "asked"
    stub = tmp_path / "python"
    stub.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(asked)!r}, 'w').write(sys.stdin.read())\n"
        'print(\'{"version": "1", "runs_on": "device", "method": "none"}\')\n'
    )
    stub.chmod(0o755)
    monkeypatch.setattr(peers.sys, "executable", str(stub))
    made = measure.new_record(device, "own", {})
    peers.time_peer("numpy", device, made, made.rows, [], named=True)
    assert json.loads(asked.read_text())["device"] == vkdml.Device().name
