"""Models and single nodes of ONNX: what runs, on what, and what is refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vkdml
import vkdml.onnx
from vkdml.integrations.onnx_operators import ArgReduction

ONNX_TYPES = (
    "float16",
    "float32",
    "float64",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
)


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def arg_node(operator: str = "ArgMax", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, ["x"], ["y"], **attributes)


def run(node: onnx.NodeProto, *inputs: Any, **options: Any) -> Any:
    (result,) = vkdml.onnx.run_node(node, list(inputs), **options)
    return result


def slice_of(x: Any, starts: Sequence[int], ends: Sequence[int], *more: Sequence[int]) -> Any:
    names = ["x", "starts", "ends", "axes", "steps"][: 3 + len(more)]
    return run(helper.make_node("Slice", names, ["y"]), x, starts, ends, *more)


# ---- types and values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ONNX_TYPES, "bfloat16"])
def test_arguments_of_every_type_that_onnx_allows(name: str, device: vkdml.Device) -> None:
    """ONNX Runtime refuses int16, uint16, uint32 and uint64 on the processor."""
    x = np.random.default_rng(1).integers(0, 100, (3, 50)).astype(np.dtype(name))
    for operator, numpy_s in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        found = run(arg_node(operator, axis=1), x)
        assert found.dtype == np.int64
        assert found.tolist() == numpy_s(x.astype(np.float64), axis=1, keepdims=True).tolist()


@pytest.mark.parametrize("name", [*ONNX_TYPES, "bool", "complex64", "complex128", "bfloat16"])
def test_slices_of_every_type_that_onnx_allows_but_strings(name: str, device: vkdml.Device) -> None:
    x = np.arange(20).reshape(4, 5).astype(np.dtype(name))
    got = slice_of(x, [3, 1], [-(2**63), 4], [0, 1], [-2, 1])
    assert got.dtype == x.dtype
    assert got.tobytes() == x[3::-2, 1:4].tobytes()


def test_strings_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"the Slice node that makes y: elements of type <U1; accepted by Slice of"
    ):
        slice_of(np.array(["a", "b"]), [0], [1])


def test_nans_are_as_in_onnxs_reference_unless_directmls_rule_is_asked_for(device: vkdml.Device) -> None:
    x = np.float32([[1, np.nan, 5, np.nan]])
    for last, propagated, omitted in ((0, 1, 2), (1, 3, 2)):
        node = arg_node(axis=1, select_last_index=last)
        assert run(node, x).tolist() == [[propagated]]
        assert run(node, x, nan_policy="omit").tolist() == [[omitted]]
        assert vkdml.dml.run(vkdml.onnx.lower(node, [x]), x).tolist() == [[omitted]]
    graph = model_of("g (float[1, 4] x) => (int64[1, 1] y) { y = ArgMax <axis = 1> (x) }")
    assert vkdml.onnx.prepare(graph).run(x).y.tolist() == [[1]]
    assert vkdml.onnx.prepare(graph, nan_policy="omit").run(x).y.tolist() == [[2]]
    with pytest.raises(ValueError, match="nan_policy is 'drop'; accepted are 'propagate' and 'omit'"):
        vkdml.onnx.prepare(graph, nan_policy="drop")  # type: ignore[arg-type]


def test_results_of_no_dimensions_are_arrays(device: vkdml.Device) -> None:
    result = run(arg_node(keepdims=0), np.float32([1, 3, 2]))
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype, result.item()) == ((), np.dtype(np.int64), 1)


def test_empty_results_are_empty_arrays(device: vkdml.Device) -> None:
    x = np.zeros((3, 4), np.int16)
    for starts, ends, steps, shape in (
        ([2], [1], [1], (0, 4)),
        ([5], [9], [1], (0, 4)),
        ([0], [2], [-1], (0, 4)),
        ([-9], [0], [-1], (0, 4)),
    ):
        got = slice_of(x, starts, ends, [0], steps)
        assert (got.shape, got.dtype) == (shape, x.dtype)
    assert run(arg_node(axis=1), np.zeros((0, 4), np.float32)).shape == (0, 1)
    with pytest.raises(
        ValueError, match=r"the ArgMax node that makes y: argmax of \(0, 4\) float32: .* hold no element"
    ):
        run(arg_node(axis=0), np.zeros((0, 4), np.float32))


# What ONNX Runtime 1.32's CPU provider gives.
@pytest.mark.parametrize(
    ("size", "start", "end", "step", "expected"),
    [
        (3, -4, -5, -1, [0]),
        (3, -4, -100, -1, [0]),
        (3, -4, -1000, -2, [0]),
        (3, -(2**63), -(2**63), -1, [0]),
        (3, -4, -4, -1, [0]),
        (3, -4, -3, -1, []),
        (3, -4, 1, -1, []),
        (3, -3, -4, -1, [0]),
        (0, -4, -100, -1, []),
        (0, 5, -100, -1, []),
    ],
)
def test_a_start_below_the_first_element_means_the_first(
    size: int, start: int, end: int, step: int, expected: list[int], device: vkdml.Device
) -> None:
    x = np.arange(size, dtype=np.float32)
    assert slice_of(x, [start], [end], [0], [step]).tolist() == expected
    if expected:
        node = helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])
        desc = vkdml.onnx.lower(node, [x, [start], [end], [0], [step]])
        assert vkdml.dml.run(desc, x).tolist() == expected


def test_more_dimensions_than_directml_has(device: vkdml.Device) -> None:
    x = np.arange(3 * 2**10, dtype=np.uint16).reshape((2,) * 9 + (6,))
    assert np.array_equal(run(arg_node(axis=-1, keepdims=0), x), x.argmax(-1))
    assert np.array_equal(slice_of(x, [1], [0], [-1], [-1]), x[..., 1:0:-1])


# ---- models ------------------------------------------------------------------------------------------------

TAIL = """tail (float[N, 21, H, W] logits) => (uint8[N, h, w] labels)
    <int64[2] starts = {1, 0}, int64[2] ends = {1000, 9223372036854775807}, int64[2] axes = {-2, -1}>
    {
        kept = Identity (logits)
        steps = Constant <value_ints = [2, 3]> ()
        window = Slice (kept, starts, ends, axes, steps)
        index = ArgMax <axis = 1, keepdims = 0> (window)
        labels = Cast <to = 2> (index)
    }"""


def test_the_tail_of_a_segmentation_model(device: vkdml.Device) -> None:
    logits = np.random.default_rng(0).standard_normal((2, 21, 17, 19)).astype(np.float32)
    want = logits[:, :, 1:1000:2, ::3].argmax(1).astype(np.uint8)
    tail = vkdml.onnx.prepare(model_of(TAIL))
    assert (tail.inputs, tail.outputs) == (("logits",), ("labels",))
    for given in ([logits], logits, {"logits": logits}):
        outputs = tail.run(given)
        assert outputs.labels.dtype == np.uint8  # type: ignore[attr-defined]
        assert np.array_equal(outputs[0], want)
    again = logits[:1, :, :5]
    assert np.array_equal(tail.run([again])[0], again[:, :, 1::2, ::3].argmax(1))


def test_arrays_on_the_device_stay_there(device: vkdml.Device) -> None:
    logits = np.random.default_rng(0).standard_normal((1, 21, 9, 9)).astype(np.float16)
    graph = model_of("""g (float16[1, 21, H, W] x) => (int32[1, H, w] y) {
        starts = Constant <value_ints = [2]> () ends = Constant <value_ints = [7]> ()
        axes = Constant <value_ints = [3]> ()
        window = Slice (x, starts, ends, axes)
        index = ArgMax <axis = 1, keepdims = 0> (window)
        y = Cast <to = 6> (index) }""")
    (found,) = vkdml.onnx.run_model(graph, [vkdml.asarray(logits)])
    assert isinstance(found, vkdml.Array)
    assert found.dtype == np.int32
    assert np.array_equal(found.numpy(), logits[..., 2:7].argmax(1))


def test_arrays_in_shards_are_taken_as_the_public_functions_take_them(device: vkdml.Device) -> None:
    x = np.float32([[1, 3, 2], [9, 8, 7]])
    shards = vkdml.asarray(x, device=[device])
    graph = model_of("""g (float[2, 3] x) => (int64[2] y, float[2, 2] z) {
        y = ArgMax <axis = 1, keepdims = 0> (x)
        starts = Constant <value_ints = [0, 1]> () ends = Constant <value_ints = [2, 3]> ()
        z = Slice (x, starts, ends) }""")
    y, z = vkdml.onnx.run_model(graph, [shards])
    assert type(y) is type(vkdml.argmax(shards, axis=1))
    assert type(z) is type(vkdml.slice1(shards, (0, 1), (2, 2), (1, 1)))
    assert (y.tolist(), z.tolist()) == ([1, 0], x[:, 1:].tolist())


def test_many_threads_run_one_model(device: vkdml.Device) -> None:
    prepared = vkdml.onnx.prepare(model_of(TAIL))
    inputs = [np.random.default_rng(n).standard_normal((1, 21, 6, 5)).astype(np.float32) for n in range(24)]
    with ThreadPoolExecutor(4) as pool:
        for x, result in zip(inputs, pool.map(prepared.run, inputs), strict=True):
            assert np.array_equal(result[0], x[:, :, 1::2, ::3].argmax(1))


def test_a_prepared_model_says_what_it_is_and_why_it_is_not_pickled(device: vkdml.Device) -> None:
    model = model_of(TAIL)
    prepared = vkdml.onnx.prepare(model)
    assert repr(prepared) == "<vkdml.onnx.PreparedModel logits -> labels device=default>"
    assert repr(vkdml.onnx.prepare(model, device)).endswith(f" device={device!r}>")
    with pytest.raises(TypeError, match="cannot be pickled; accepted: the model itself, to be prepared"):
        pickle.dumps(prepared)
    assert copy.copy(prepared) is copy.deepcopy(prepared) is prepared


def test_a_cast_to_an_index_type_is_taken_into_the_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[np.dtype[Any]] = []
    from vkdml import ops

    def argmax(x: Any, **options: Any) -> Any:
        asked.append(options["dtype"])
        return real(x, **options)

    real = ops.argmax
    monkeypatch.setattr(ops, "argmax", argmax)
    x = np.float32([1, 3, 2])
    bodies = {
        "i = ArgMax (x) y = Cast <to = 12> (i)": "uint32",
        "i = ArgMax (x) y = Cast <to = 2> (i)": "int64",  # no index type
        "i = ArgMax (x) j = Identity (i) y = Cast <to = 12> (j)": "int64",  # not next to it
        "i = ArgMax (x) k = Identity (i) y = Cast <to = 12> (i)": "int64",  # not alone
        "i = ArgMax (x) j = Cast <to = 6> (i) y = Cast <to = 12> (j)": "int32",  # the first may lose bits
    }
    for body in bodies:
        kind = "uint8" if "to = 2>" in body else "uint32"
        y = vkdml.onnx.run_model(model_of(f"g (float[3] x) => ({kind}[1] y) {{ {body} }}"), [x])[0]
        assert (y.tolist(), y.dtype.name) == ([1], kind)
    assert [str(dtype) for dtype in asked] == list(bodies.values())
    both = model_of("g (float[3] x) => (int64[1] i, uint32[1] y) { i = ArgMax (x) y = Cast <to = 12> (i) }")
    assert [result.dtype.name for result in vkdml.onnx.run_model(both, [x])] == ["int64", "uint32"]


def test_indices_that_do_not_fit_a_cast_are_cast_as_onnx_does(monkeypatch: pytest.MonkeyPatch) -> None:
    large = ArgReduction("argmax", (2**31 + 1,), 0, keepdims=True, take_last=False)
    assert not large.fits(np.dtype(np.int32))
    assert large.fits(np.dtype(np.uint32))
    assert replace(large, sizes=(2**31,)).fits(np.dtype(np.int32))
    monkeypatch.setattr(ArgReduction, "fits", lambda self, dtype: False)
    graph = model_of("g (float[3] x) => (uint32[1] y) { i = ArgMax (x) y = Cast <to = 12> (i) }")
    for x in (np.float32([1, 3, 2]), vkdml.asarray(np.float32([1, 3, 2]))):
        (y,) = vkdml.onnx.run_model(graph, [x])
        assert (type(y), y.dtype.name, y.tolist()) == (type(x), "uint32", [1])


def test_bounds_may_be_computed_and_may_be_inputs(device: vkdml.Device) -> None:
    graph = model_of("""g (float[N] x, int64[1] stop) => (float[n] y) {
        peak = ArgMax (x)
        y = Slice (x, peak, stop) }""")
    x = np.float32([1, 2, 9, 3, 4, 5])
    assert vkdml.onnx.run_model(graph, [x, np.int64([5])])[0].tolist() == [9, 3, 4]
    on_device = vkdml.onnx.run_model(graph, [vkdml.asarray(x), np.int64([5])])[0]
    assert on_device.tolist() == [9, 3, 4]


@pytest.mark.parametrize("opset", [1, 6, 9, 10, 11, 12, 13, 17, 20])
def test_every_opset_runs(opset: int, device: vkdml.Device) -> None:
    bounds = "<starts = [1], ends = [9], axes = [1]> (x)" if opset < 10 else "(x, starts, ends, axes)"
    constants = "" if opset < 10 else "<int64[1] starts = {1}, int64[1] ends = {9}, int64[1] axes = {1}>"
    to = '"INT32"' if opset < 6 else "6"
    graph = model_of(
        f"g (float[2, 4] x) => (int32[2, 1] y) {constants} {{"
        f"w = Slice {bounds} i = ArgMin <axis = 1> (w) y = Cast <to = {to}> (i) }}",
        opset,
    )
    x = np.float32([[0, 3, 1, 2], [9, 8, 7, 6]])
    assert vkdml.onnx.run_model(graph, [x])[0].tolist() == [[1], [2]]


def test_results_do_not_share_memory_with_inputs_or_constants(device: vkdml.Device) -> None:
    graph = model_of("""g (float[2] x) => (float[2] same, int64[2] fixed, float[2] uncast) {
        same = Identity (x) c = Constant <value_ints = [1, 2]> () fixed = Identity (c)
        uncast = Cast <to = 1> (x) }""")
    prepared = vkdml.onnx.prepare(graph)
    x = np.float32([1, 2])
    for result in prepared.run([x]):
        result[...] = 7
    assert x.tolist() == [1, 2]
    assert prepared.run([x])[1].tolist() == [1, 2]
    constant = helper.make_node("Constant", [], ["y"], value_ints=[4])
    run(constant)[...] = 5
    assert run(constant).tolist() == [4]
    assert run(helper.make_node("Identity", ["x"], ["y"]), x) is not x


@pytest.mark.parametrize("make", [np.asarray, vkdml.asarray])
def test_results_do_not_share_memory_with_each_other(make: Any, device: vkdml.Device) -> None:
    graph = model_of("""g (float[1, 3] x) => (int64[1, 1] i, int64[1, 1] a, int64[1, 1] b, int64[1, 1] c) {
        i = ArgMax <axis = 1> (x) a = Identity (i) b = Identity (a) c = Cast <to = 7> (b) }""")
    results = vkdml.onnx.prepare(graph).run([make(np.float32([[1, 2, 0]]))])
    for number, result in enumerate(results):
        result[...] = 10 + number
    assert [result.tolist() for result in results] == [[[10]], [[11]], [[12]], [[13]]]


def test_initializers_that_are_inputs_too_are_defaults(device: vkdml.Device) -> None:
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("starts", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("ends", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [
            helper.make_tensor("starts", TensorProto.INT64, [1], [1]),
            helper.make_tensor("ends", TensorProto.INT64, [1], [3]),
        ],
    )
    prepared = vkdml.onnx.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    x = np.float32([5, 6, 7, 8])
    assert prepared.inputs == ("x",)
    assert prepared.run([x])[0].tolist() == [6, 7]
    assert prepared.run({"x": x, "ends": np.int64([4])})[0].tolist() == [6, 7, 8]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_int": 3}, np.array(3, np.int64)),
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": [0.5, 1]}, np.float32([0.5, 1])),
        (
            {"value": helper.make_tensor("v", TensorProto.BFLOAT16, [2], [1.5, -2])},
            np.array([1.5, -2], ml_dtypes.bfloat16),
        ),
    ],
)
def test_constants(attributes: dict[str, Any], expected: Any) -> None:
    got = run(helper.make_node("Constant", [], ["y"], **attributes))
    assert (got.dtype, got.shape, got.tolist()) == (expected.dtype, expected.shape, expected.tolist())


@pytest.mark.parametrize("source", ["int64", "float32", "bool", "uint8"])
@pytest.mark.parametrize(
    "target", ["int64", "int32", "uint64", "uint32", "int8", "uint8", "bool", "float16", "float64"]
)
def test_casts_are_numpys(source: str, target: str) -> None:
    x = np.array([0, 1, 100]).astype(source)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    got = run(helper.make_node("Cast", ["x"], ["y"], to=to), x)
    assert (got.dtype, got.tolist()) == (np.dtype(target), x.astype(target).tolist())


# ---- devices -----------------------------------------------------------------------------------------------


def test_devices_go_by_onnxs_names_and_by_vkdmls(device: vkdml.Device) -> None:
    x, number = np.float32([1, 3, 2]), device.info.index
    for name in (
        "CPU",
        "VULKAN",
        "vulkan",
        f"VULKAN:{number}",
        f"VULKAN:{device.name}",
        number,
        device,
        None,
    ):
        assert vkdml.onnx.supports_device(name)
        assert run(arg_node(), x, device=name).tolist() == [1]
    for name in ("CUDA", "CUDA:1", "VULKAN:", "VULKAN:99", 99):
        assert not vkdml.onnx.supports_device(name)
        with pytest.raises(
            vkdml.NoDeviceError, match="accepted are 'CPU' and 'VULKAN' for the default device"
        ):
            run(arg_node(), x, device=name)


# ---- refusals ----------------------------------------------------------------------------------------------


def test_other_operators_are_refused_by_name_with_the_accepted_ones() -> None:
    graph = model_of("g (float[3] x) => (float[3] y) { y = Softmax (x) }")
    graph.graph.node[0].name = "soft"
    accepted = "accepted are ArgMax, ArgMin, Cast, Constant, Identity, Slice of ONNX's own domain"
    with pytest.raises(
        ValueError, match=r"node soft \(Softmax\): vkdml has no operator Softmax; " + accepted
    ):
        vkdml.onnx.prepare(graph)
    assert not vkdml.onnx.is_compatible(graph)
    assert vkdml.onnx.is_compatible(model_of(TAIL))
    foreign = helper.make_node("ArgMax", ["x"], ["y"], domain="com.example")
    with pytest.raises(ValueError, match=r"no operator ArgMax of the domain com\.example; accepted are"):
        vkdml.onnx.run_node(foreign, [np.zeros(3)])


def test_inputs_are_as_the_model_declares_them() -> None:
    graph = model_of(
        "g (float[N, 2] x, float[N] z) => (int64[1, 2] y, float[N] w) { y = ArgMax (x) w = Identity (z) }"
    )
    prepared = vkdml.onnx.prepare(graph)
    x, z = np.zeros((3, 2), np.float32), np.zeros(3, np.float32)
    for inputs, error, text in (
        ([x.astype(np.float64), z], TypeError, "input x has elements of type float64; accepted are float32"),
        (
            [x[:, :1], z],
            ValueError,
            r"input x has the shape \(3, 1\); accepted is \(N, 2\), as the model declares",
        ),
        ([z, x], ValueError, r"input x has the shape \(3,\); accepted is \(N, 2\)"),
        ([x, z[:2]], ValueError, r"input z has the shape \(2,\); accepted is \(N\).*and N is 3 in input x"),
        ([x], ValueError, "1 inputs are given; accepted are the inputs x, z, in a list or by name"),
        ({"x": x}, ValueError, "z not given; accepted are the inputs x, z"),
        ({"x": x, "z": z, "q": z}, ValueError, "the model has no input q; accepted are the inputs x, z"),
    ):
        with pytest.raises(error, match=text):  # type: ignore[arg-type]
            prepared.run(inputs)
    with pytest.raises(TypeError, match="run has no option nan_policy; accepted are none"):
        prepared.run([x, z], nan_policy="omit")
    with pytest.raises(TypeError, match="prepare has no option threads; accepted are device and nan_policy"):
        vkdml.onnx.prepare(graph, threads=2)
    with pytest.raises(TypeError, match=r"the model is a str; accepted is what onnx\.load gives"):
        vkdml.onnx.prepare("model.onnx")  # type: ignore[arg-type]


def test_nodes_are_given_what_they_name() -> None:
    with pytest.raises(
        ValueError, match="the ArgMax node that makes y: 2 inputs are given; accepted are x, in a"
    ):
        run(arg_node(), np.zeros(3), np.zeros(3))
    by_name = vkdml.onnx.run_node(arg_node(), {"x": np.float32([1, 3, 2])})
    assert by_name.y.tolist() == [1]  # type: ignore[attr-defined]
    with pytest.raises(onnx.checker.ValidationError):
        run(helper.make_node("ArgMax", ["x"], ["y"], axis=0.5), np.zeros(3))
    for to in ("COMPLEX64", "BFLOAT16", "STRING", "FLOAT8E5M2"):
        with pytest.raises(TypeError, match=rf"to is {to.lower()}; accepted are bool, float16.*, uint64$"):
            run(helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, to)), np.zeros(3))
    with pytest.raises(
        ValueError, match="that makes y has value_string; accepted is one of value, value_int"
    ):
        run(helper.make_node("Constant", [], ["y"], value_string="a"))
    for not_a_node in ("ArgMax", None):
        for take in (vkdml.onnx.run_node, vkdml.onnx.lower):
            with pytest.raises(TypeError, match=r"the node is (a str|None); accepted is what onnx\.helper\."):
                take(not_a_node, [np.zeros(3)])  # type: ignore[arg-type]


def test_models_of_other_opsets_are_refused() -> None:
    graph = model_of("g (float[3] x) => (int64[1] y) { y = ArgMax (x) }")
    graph.opset_import[0].version = 999
    with pytest.raises(ValueError, match=r"the opset is 999; accepted are 1 to \d+, those of onnx"):
        vkdml.onnx.prepare(graph)
    graph.opset_import[0].domain = "com.example"
    with pytest.raises(
        ValueError, match=r"imports com\.example; accepted are models that import an opset of ONNX"
    ):
        vkdml.onnx.prepare(graph)


def test_without_onnx_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "import vkdml\n"
        "try:\n    import vkdml.onnx\n"
        "except ModuleNotFoundError as error:\n    print(error.name, error, sep='|')\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == (
        "onnx|vkdml.onnx reads models with the package onnx, which is not installed: pip install onnx, "
        "or pip install '.[onnx]' in vkdml's source folder"
    )


def test_vkdml_alone_does_not_import_onnx() -> None:
    script = "import sys, vkdml; print('onnx' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
