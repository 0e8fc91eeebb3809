"""The public function that gives the DirectML descriptor of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from vkdml.dml import OperatorDesc
from vkdml.integrations.onnx_nodes import (
    arg_reduction,
    as_input,
    opset_number,
    read_node,
    require_accepted,
    slice_window,
)
from vkdml.integrations.onnx_operators import checked
from vkdml.integrations.onnx_package import onnx
from vkdml.integrations.onnx_types import dtype_of

LOWERED = ("ArgMax", "ArgMin", "Slice")


def lower(
    node: onnx.NodeProto, inputs: Sequence[Any], *, opset_version: SupportsIndex | None = None
) -> OperatorDesc:
    """Return the DirectML descriptor of an ArgMax, ArgMin or Slice node, as ONNX Runtime's DirectML provider.

    >>> import numpy as np, onnx, vkdml.onnx
    >>> node = onnx.helper.make_node("ArgMax", ["x"], ["y"], axis=-1, keepdims=0, select_last_index=1)
    >>> desc = vkdml.onnx.lower(node, [np.zeros((2, 3), np.float32)])
    >>> desc.axes, desc.axis_direction.name, desc.output_tensor.sizes
    ((1,), 'DECREASING', (2, 1))
    >>> vkdml.dml.run(desc, np.float32([[5, 5, 1], [0, 2, 2]])).tolist()
    [[1], [2]]

    Args:
        node: an ``onnx.NodeProto``.
        inputs: one for each of the node's inputs, None for one that is left out. Of the first only the shape
            and the element type count: an array, anything else that has ``shape`` and ``dtype``, or an
            ``onnx.ValueInfoProto``. Those after it (of Slice from opset 10 on) are lists of integers.
        opset_version: whose rules the node follows; None for the newest that onnx knows.

    Returns:
        An ArgMaxOperatorDesc, ArgMinOperatorDesc or Slice1OperatorDesc. Its output tensor has the input's
        dimension count, whatever ``keepdims`` is, and INT64 indices. Booleans are UINT8.

    Raises:
        ValueError: another operator, a rule of ONNX that the node breaks, a size that is not known, or a
            tensor that DirectML does not have: empty, or of 0 or more than 8 dimensions.
        TypeError: elements that ONNX does not allow there, or that DirectML does not have.
        numpy.exceptions.AxisError: an axis that the input does not have.

    Source of the rule: ONNX's operators; ONNX Runtime's ``DmlOperatorReduce`` and ``DmlOperatorSlice``.
    """
    read = read_node(node, opset_number(opset_version))
    if read.operator not in LOWERED:
        raise ValueError(f"{read.where} has no descriptor in DirectML; accepted are {', '.join(LOWERED)}")
    if not isinstance(inputs, list | tuple) or len(inputs) < len(read.inputs):
        given = len(inputs) if isinstance(inputs, list | tuple) else type(inputs).__name__
        raise ValueError(f"{read.where}: inputs is {given}; accepted is a list of {len(read.inputs)}")
    sizes, dtype = _sizes_and_type(inputs[0], f"{read.where}: input {read.inputs[0]}")
    require_accepted(read, dtype)
    if read.operator == "Slice":
        desc = slice_window(read, sizes, _bounds(inputs[1:])).desc(dtype, read.where)
    else:
        desc = arg_reduction(read, sizes).desc(dtype, read.where)
    return checked(desc, read.where)


def _bounds(values: Sequence[Any]) -> list[Any]:
    return [
        onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for value in values
    ]


def _sizes_and_type(x: Any, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if isinstance(x, onnx.ValueInfoProto):
        return known_sizes(x, where), dtype_of(x.type.tensor_type.elem_type, where)
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        x = as_input(x, where)
    return tuple(int(size) for size in x.shape), np.dtype(x.dtype)


def known_sizes(declared: onnx.ValueInfoProto, where: str) -> tuple[int, ...]:
    """Return the sizes of a tensor that a model declares, all of which must be numbers."""
    tensor = declared.type.tensor_type
    if not tensor.HasField("shape"):
        raise ValueError(
            f"{where} has no shape; accepted are shapes whose every size is a number: give an array"
        )
    sizes = []
    for place, dimension in enumerate(tensor.shape.dim):
        if not dimension.HasField("dim_value"):
            raise ValueError(
                f"{where}: the size of dimension {place} is {dimension.dim_param or 'not known'}; a "
                "descriptor has fixed sizes; accepted are shapes whose every size is a number: give an array"
            )
        sizes.append(dimension.dim_value)
    return tuple(sizes)
