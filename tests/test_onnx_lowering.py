"""Nodes of ONNX as DirectML's descriptors: those that ONNX Runtime's DirectML provider makes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.exceptions import AxisError
from onnx import TensorProto, helper

import vkdml
import vkdml.onnx
from vkdml import dml

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def slice_node(*inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Slice", inputs or ["x", "starts", "ends", "axes", "steps"], ["y"], **attributes)


def window(sizes: tuple[int, ...], starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    return vkdml.onnx.lower(slice_node(), [np.zeros(sizes, np.float32), starts, ends, axes, steps])


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_a_reduction_keeps_its_rank_and_its_direction(operator: str, keepdims: int, last: int) -> None:
    node = helper.make_node(operator, ["x"], ["y"], axis=-2, keepdims=keepdims, select_last_index=last)
    kind = dml.ArgMaxOperatorDesc if operator == "ArgMax" else dml.ArgMinOperatorDesc
    assert vkdml.onnx.lower(node, [np.zeros((2, 3, 4), np.uint16)]) == kind(
        dml.BufferTensorDesc(dml.DataType.UINT16, sizes=(2, 3, 4)),
        dml.BufferTensorDesc(dml.DataType.INT64, sizes=(2, 1, 4)),
        axes=(1,),
        axis_direction=dml.AxisDirection.DECREASING if last else dml.AxisDirection.INCREASING,
    )


def test_without_attributes_the_first_axis_is_reduced_to_the_first_index() -> None:
    desc = vkdml.onnx.lower(helper.make_node("ArgMax", ["x"], ["y"]), [np.zeros((2, 3), np.float16)])
    assert (desc.axes, desc.axis_direction.name, desc.output_tensor.sizes) == ((0,), "INCREASING", (1, 3))  # type: ignore[union-attr]


# Each with the offset, the window's size, the stride and the output's size that SliceHelper computes.
@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 10, 1, (0, 10, 1, 10)),
        (2, 9, 3, (2, 7, 3, 3)),  # the window is not cut down to what the last step reaches
        (-3, INT64_MAX, 1, (7, 3, 1, 3)),
        (INT64_MIN, INT64_MAX, 1, (0, 10, 1, 10)),
        (-(2**31), 2**31 - 1, 1, (0, 10, 1, 10)),
        (-1, INT64_MIN, -1, (0, 10, -1, 10)),
        (INT64_MAX, INT64_MIN, -3, (0, 10, -3, 4)),
        (8, 2, -4, (3, 6, -4, 2)),
        (-2, -9, -2, (2, 7, -2, 4)),
        (5, 5 + 2**40, INT64_MAX, (5, 5, 2**31 - 1, 1)),
        (5, INT64_MIN, INT64_MIN, (0, 6, -(2**31), 1)),
    ],
)
def test_bounds_become_the_window_of_the_provider(
    start: int, end: int, step: int, expected: tuple[int, int, int, int]
) -> None:
    desc = window((10,), [start], [end], None, [step])
    assert (
        *(*desc.input_window_offsets, *desc.input_window_sizes, *desc.input_window_strides),
        *desc.output_tensor.sizes,
    ) == expected
    x = np.arange(10, dtype=np.float32)
    assert vkdml.dml.run(desc, x).tolist() == x[start:end:step].tolist()


def test_axes_may_be_left_out_be_negative_and_come_in_any_order() -> None:
    some = window((4, 5, 6), [1, 2], [3, 4])
    assert some.input_window_offsets == (1, 2, 0)
    assert some.input_window_sizes == (2, 2, 6)
    named = window((4, 5, 6), [1, 3], [3, 0], [-1, 0], [2, -1])
    assert named.input_window_offsets == (1, 0, 1)
    assert named.input_window_sizes == (3, 5, 2)
    assert named.input_window_strides == (-1, 1, 2)
    assert window((4, 5, 6), [2, 1], [4, 3], [0, 2]).input_window_offsets == (2, 0, 1)
    assert window((4,), [1], [3], [], []) == window((4,), [1], [3])  # as exporters write it


def test_the_bounds_of_old_opsets_are_attributes() -> None:
    x = np.zeros((4, 5), np.float32)
    old = slice_node("x", starts=[1, -3], ends=[1000, -1], axes=[0, 1])
    assert vkdml.onnx.lower(old, [x], opset_version=9) == window((4, 5), [1, -3], [1000, -1])
    assert vkdml.onnx.lower(slice_node("x", starts=[1], ends=[2]), [x], opset_version=1) == window(
        (4, 5), [1], [2]
    )
    with pytest.raises(ValueError, match=r"opset 10 has no attribute axes \(opsets from 1 to 9 do\)"):
        vkdml.onnx.lower(old, [x], opset_version=10)
    with pytest.raises(ValueError, match=r"has 5 inputs; Slice of opset 1 has 1$"):
        vkdml.onnx.lower(slice_node(), [x, [0], [1], None, None], opset_version=9)


def test_the_last_index_came_with_opset_12() -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], name="top", select_last_index=1)
    x = np.zeros(3, np.float32)
    assert vkdml.onnx.lower(node, [x], opset_version=12).axis_direction.name == "DECREASING"  # type: ignore[union-attr]
    with pytest.raises(
        ValueError,
        match=r"node top \(ArgMax\): ArgMax of opset 11 has no attribute select_last_index "
        r"\(opsets from 12 on do\); accepted are axis, keepdims$",
    ):
        vkdml.onnx.lower(node, [x], opset_version=11)


@pytest.mark.parametrize("opset", [1, 10, 11, 13])
def test_a_negative_axis_counts_from_the_end_at_every_opset(opset: int) -> None:
    node = helper.make_node("ArgMin", ["x"], ["y"], axis=-1)
    desc = vkdml.onnx.lower(node, [np.zeros((2, 3), np.int8)], opset_version=opset)
    assert desc.axes == (1,)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([0], [1, 2]), ValueError, "1 starts, 2 ends; accepted is one of each"),
        (([0], [1], [0, 1]), ValueError, "1 starts, 1 ends, 2 axes; accepted is one of each"),
        (([0, 0], [1, 1], [1, -1]), ValueError, "axes [1, -1] name a dimension twice"),
        (([0], [1], [2]), AxisError, "axis 2 of an input of 2 dimensions; accepted are -2 to 1"),
        (([0, 0, 0], [1, 1, 1]), AxisError, "axis 2 of an input of 2 dimensions"),
        (([0], [1], None, [0]), ValueError, "the step along axis 0 is 0; accepted is any other integer"),
        (([0.5], [1]), TypeError, "starts is a list of shape (1,) and elements of type float64"),
        ((None, [1]), ValueError, "starts not given; accepted are lists of integers"),
    ],
)
def test_what_onnx_forbids_is_refused_with_the_nodes_name(
    arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"the Slice node that makes y.*{re.escape(text)}"):
        window((2, 3), *arguments)


def test_directml_has_no_empty_tensors_and_at_most_8_dimensions() -> None:
    accepted = r"accepted by DirectML are 1 to 8 dimensions of at least one element each"
    with pytest.raises(ValueError, match=rf"the result has the shape \(0, 3\); {accepted}"):
        window((2, 3), [2], [1])
    node = helper.make_node("ArgMax", ["x"], ["y"])
    with pytest.raises(ValueError, match=rf"the input has the shape {re.escape(str((1,) * 9))}; {accepted}"):
        vkdml.onnx.lower(node, [np.zeros((1,) * 9, np.float32)])
    with pytest.raises(AxisError, match="axis 0 of an input of 0 dimensions; accepted are inputs of 1"):
        vkdml.onnx.lower(node, [np.float32(1)])


def test_types_are_onnxs_and_directmls() -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"])
    with pytest.raises(TypeError, match="elements of type bool; accepted by ArgMax of opset 13 are"):
        vkdml.onnx.lower(node, [np.zeros(3, bool)], opset_version=13)
    with pytest.raises(ValueError, match=r"ARGMAX at feature level 4_1: input_tensor\.data_type is FLOAT64"):
        vkdml.onnx.lower(node, [np.zeros(3, np.float64)])
    assert window((3,), [1], [3]).input_tensor.data_type is dml.DataType.FLOAT32
    flags = vkdml.onnx.lower(slice_node(), [np.zeros(3, bool), [1], [3], None, None])
    assert flags.input_tensor.data_type is dml.DataType.UINT8
    with pytest.raises(TypeError, match="elements of type complex64, for which DirectML has no data type"):
        vkdml.onnx.lower(slice_node(), [np.zeros(3, np.complex64), [1], [3], None, None])


def test_a_declared_input_of_known_sizes_does_for_an_array() -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1)
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 21, 4])
    assert vkdml.onnx.lower(node, [declared]) == vkdml.onnx.lower(node, [np.zeros((2, 21, 4), np.float16)])
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in (("a", 1), ("b", 3))
    ]
    sliced = vkdml.onnx.lower(slice_node("x", "a", "b"), [declared, *constants])
    assert sliced.output_tensor.sizes == (1, 21, 4)
    dynamic = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["batch", 21])
    with pytest.raises(
        ValueError, match="input x: the size of dimension 0 is batch; a descriptor has fixed sizes"
    ):
        vkdml.onnx.lower(node, [dynamic])
    with pytest.raises(ValueError, match="input x has no shape; accepted are"):
        vkdml.onnx.lower(node, [helper.make_tensor_value_info("x", TensorProto.FLOAT16, None)])


def test_what_is_no_operator_of_directml_has_no_descriptor() -> None:
    with pytest.raises(ValueError, match="no descriptor in DirectML; accepted are ArgMax, ArgMin, Slice"):
        vkdml.onnx.lower(helper.make_node("Identity", ["x"], ["y"]), [np.zeros(3)])
    with pytest.raises(ValueError, match="inputs is 1; accepted is a list of 3"):
        vkdml.onnx.lower(slice_node("x", "a", "b"), [np.zeros(3)])
    with pytest.raises(ValueError, match=r"the opset is 0; accepted are 1 to \d+, those of onnx"):
        vkdml.onnx.lower(slice_node("x", "a", "b"), [np.zeros(3)], opset_version=0)
    with pytest.raises(TypeError, match=r"the opset is 1\.5; accepted are 1 to"):
        vkdml.onnx.lower(slice_node("x", "a", "b"), [np.zeros(3)], opset_version=1.5)  # type: ignore[arg-type]
