"""Random nodes of ONNX against its reference implementation, and against their own descriptors."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import vkdml
import vkdml.onnx

DTYPES = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FAR = (2**63 - 1, -(2**63), 2**31 - 1, -(2**31), 0)
quick = hypothesis.settings(max_examples=80)

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Small arrays with many ties, and with NaNs in every second array of floats."""
    shape, dtype = draw(shapes), np.dtype(draw(st.sampled_from(DTYPES)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low = 0 if dtype.kind == "u" else -3
    x = random.integers(low, 4, shape).astype(dtype)
    if dtype.kind == "f" and draw(st.booleans()):
        x[random.random(shape) < 0.3] = np.nan
    return x


@st.composite
def arg_nodes(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], onnx.NodeProto, int]:
    x, opset = draw(arrays()), draw(st.sampled_from([1, 11, 12, 13, 17]))
    attributes = {"axis": draw(st.integers(-x.ndim, x.ndim - 1)), "keepdims": draw(st.integers(0, 1))}
    if opset >= 12:
        attributes["select_last_index"] = draw(st.integers(0, 1))
    attributes = {name: value for name, value in attributes.items() if value or draw(st.booleans())}
    operator = draw(st.sampled_from(["ArgMax", "ArgMin"]))
    return x, helper.make_node(operator, ["x"], ["y"], **attributes), opset


@st.composite
def slices(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, list[int]]]:
    x = draw(arrays())
    axes = draw(st.lists(st.integers(0, x.ndim - 1), unique=True, max_size=x.ndim))
    if not (given := draw(st.booleans())):
        axes = list(range(len(axes)))
    bound = st.integers(-8, 8) | st.sampled_from(FAR)
    step = st.integers(-4, 4).filter(bool) | st.sampled_from(FAR[:-1])
    some = {"starts": [draw(bound) for _ in axes], "ends": [draw(bound) for _ in axes]}
    if given:
        some["axes"] = [axis - x.ndim if draw(st.booleans()) else axis for axis in axes]
    if draw(st.booleans()):
        some["steps"] = [draw(step) for _ in axes]
    return x, some


def reference(node: onnx.NodeProto, opset: int, **inputs: Any) -> Any:
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


def as_numpy_has_them(lists: dict[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return a Slice's inputs with starts for the reference, which follows NumPy where steps are negative."""
    if "steps" not in lists:
        return lists
    axes = lists.get("axes", range(len(lists["starts"])))
    clamped = [
        start if step > 0 else max(start, -sizes[axis])
        for start, step, axis in zip(lists["starts"], lists["steps"], axes, strict=True)
    ]
    return {**lists, "starts": np.array(clamped, np.int64)}


def assert_descriptor_agrees(desc: Any, x: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    got = vkdml.dml.run(desc, x)
    assert got.reshape(want.shape).tobytes() == want.tobytes()


@quick
@hypothesis.given(arg_nodes())
def test_arg_nodes(device: vkdml.Device, case: tuple[np.ndarray[Any, Any], onnx.NodeProto, int]) -> None:
    x, node, opset = case
    want = reference(node, opset, x=x)
    (got,) = vkdml.onnx.run_node(node, [x], opset_version=opset)
    assert (got.dtype, got.shape) == (np.dtype(np.int64), want.shape)
    assert got.tolist() == want.tolist()
    if not (x.dtype.kind == "f" and np.isnan(x).any()):  # about which DirectML has another rule
        assert_descriptor_agrees(vkdml.onnx.lower(node, [x], opset_version=opset), x, want)


@quick
@hypothesis.given(slices())
def test_slices(device: vkdml.Device, case: tuple[np.ndarray[Any, Any], dict[str, list[int]]]) -> None:
    x, some = case
    lists = {name: np.array(values, np.int64) for name, values in some.items()}
    names = [name if name in lists else "" for name in ("starts", "ends", "axes", "steps")]
    node = helper.make_node("Slice", ["x", *names], ["y"])
    want = reference(node, 13, x=x, **as_numpy_has_them(lists, x.shape))
    inputs = [x, *(lists.get(name) for name in names)]
    (got,) = vkdml.onnx.run_node(node, [i for i in inputs if i is not None], opset_version=13)
    assert (got.dtype, got.shape) == (x.dtype, want.shape)
    assert got.tobytes() == want.tobytes()
    if want.size:
        assert_descriptor_agrees(vkdml.onnx.lower(node, inputs, opset_version=13), x, want)
    if "steps" not in some and some["starts"]:  # an attribute without elements has no type
        old = helper.make_node("Slice", ["x"], ["y"], **some)
        (got,) = vkdml.onnx.run_node(old, [x], opset_version=9)
        assert got.tobytes() == want.tobytes()
