"""One node of an ONNX model, read by the rules of its opset, and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, SupportsIndex

import numpy as np

from vkdml.arguments import NanPolicy
from vkdml.arrays.base import DeviceArray
from vkdml.arrays.creation import asarray
from vkdml.arrays.host import as_host_array
from vkdml.common.integers import index
from vkdml.common.wording import put_before, type_of
from vkdml.integrations.onnx_operators import ArgReduction, OnnxWindow, axis_of, window
from vkdml.integrations.onnx_package import onnx
from vkdml.integrations.onnx_types import NUMBERS, array_of, name_of, named_in_schema
from vkdml.runtime.device import DeviceLike

INDEX_TYPES: Final = frozenset({"int64", "int32", "uint64", "uint32"})
"""What ArgMax and ArgMin can write at once, so that a Cast of their result costs nothing."""


@dataclass(frozen=True)
class Node:
    """A node of an operator that vkdml has, with attributes that its opset allows."""

    operator: str
    where: str
    """Names the node in messages."""
    opset: int
    inputs: tuple[str, ...]
    """Empty for one that is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(hash=False)
    accepted: frozenset[str]
    """NumPy's names of the first input's element types."""
    index_type: str = "int64"
    """Of an ArgMax's or ArgMin's result."""


@dataclass(frozen=True)
class Options:
    """How nodes are run."""

    device: DeviceLike
    nan_policy: NanPolicy


def read_node(node: onnx.NodeProto, opset: int) -> Node:
    """Read a node.

    Raises:
        ValueError: an operator that vkdml does not have, or an attribute, input or output that the operator
            does not have at this opset.
        TypeError: no node.
    """
    if not isinstance(node, onnx.NodeProto):
        raise TypeError(
            f"the node is {type_of(node)}; accepted is what onnx.helper.make_node gives, a NodeProto"
        )
    where = _name_of(node)
    operator = node.op_type
    if node.domain not in ("", "ai.onnx") or operator not in _RUN:
        domain = f" of the domain {node.domain}" if node.domain else ""
        raise ValueError(
            f"{where}: vkdml has no operator {operator}{domain}; accepted are "
            f"{', '.join(sorted(_RUN))} of ONNX's own domain"
        )
    schema = onnx.defs.get_schema(operator, opset, "")
    since = schema.since_version
    attributes = {}
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            raise ValueError(
                _attribute_refusal(where, operator, attribute.name, opset, list(schema.attributes))
            )
        attributes[attribute.name] = onnx.helper.get_attribute_value(attribute)
    inputs = tuple(node.input)
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    if not schema.min_input <= len(inputs) <= schema.max_input:
        low, high = schema.min_input, schema.max_input
        counts = f"{low}" if low == high else f"{low} to {high}"
        raise ValueError(f"{where} has {len(inputs)} inputs; {operator} of opset {since} has {counts}")
    accepted: frozenset[str] = frozenset(NUMBERS)
    if schema.inputs and operator != "Cast":
        parameter = schema.inputs[0].type_str
        accepted = named_in_schema(
            next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == parameter)
        )
    return Node(operator, where, opset, inputs, tuple(node.output), attributes, accepted)


def _name_of(node: onnx.NodeProto) -> str:
    if node.name:
        return f"node {node.name} ({node.op_type})"
    return f"the {node.op_type} node that makes {' and '.join(node.output) or 'nothing'}"


def _attribute_refusal(where: str, operator: str, name: str, opset: int, accepted: list[str]) -> str:
    having = [
        version
        for version in range(1, onnx.defs.onnx_opset_version() + 1)
        if name in onnx.defs.get_schema(operator, version, "").attributes
    ]
    elsewhere = ""
    if having:
        until = f"to {having[-1]}" if having[-1] < opset else "on"
        elsewhere = f" (opsets from {having[0]} {until} do)"
    return (
        f"{where}: {operator} of opset {opset} has no attribute {name}{elsewhere}; accepted are "
        f"{', '.join(sorted(accepted)) or 'no attributes'}"
    )


# ---- arrays ------------------------------------------------------------------------------------------------


def as_input(x: Any, where: str) -> Any:
    """Return an array of a device as it is, and all else as an array of the host."""
    if isinstance(x, DeviceArray):
        return x
    try:
        return as_host_array(x)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def require_accepted(node: Node, dtype: np.dtype[Any]) -> None:
    """Refuse elements that the operator does not take at its opset."""
    if dtype.name not in node.accepted:
        raise TypeError(
            f"{node.where}: elements of type {dtype}; accepted by {node.operator} of opset {node.opset} are "
            f"{', '.join(sorted(node.accepted))}"
        )


# ---- ArgMax and ArgMin, Slice ------------------------------------------------------------------------------


def arg_reduction(node: Node, sizes: tuple[int, ...]) -> ArgReduction:
    """Return what an ArgMax or ArgMin does to an input of these sizes."""
    given = node.attributes
    return ArgReduction(
        "argmax" if node.operator == "ArgMax" else "argmin",
        sizes,
        axis_of(given.get("axis", 0), len(sizes), node.where),
        bool(given.get("keepdims", 1)),
        bool(given.get("select_last_index", 0)),
    )


def slice_window(node: Node, sizes: tuple[int, ...], bounds: Sequence[Any]) -> OnnxWindow:
    """Return what a Slice does to an input of these sizes; ``bounds`` are its inputs after the first."""
    names = ("starts", "ends", "axes", "steps")
    if node.opset < 10:
        given = {name: node.attributes[name] for name in names if name in node.attributes}
    else:
        named = zip(names, bounds, strict=False)
        given = {name: _integers(node, name, value) for name, value in named if value is not None}
    missing = [name for name in names[:2] if name not in given]
    if missing:
        raise ValueError(f"{node.where}: {' and '.join(missing)} not given; accepted are lists of integers")
    # Exporters write empty lists for axes and steps that are left out.
    axes, steps = given.get("axes") or None, given.get("steps") or None
    return window(sizes, given["starts"], given["ends"], axes, steps, node.where)


def _integers(node: Node, name: str, value: Any) -> list[int]:
    array = value.numpy() if isinstance(value, DeviceArray) else np.asarray(value)
    if not array.size:
        return []
    if array.ndim > 1 or array.dtype.kind != "i":
        raise TypeError(
            f"{node.where}: {name} is {type_of(value)} of shape {array.shape} and elements of type "
            f"{array.dtype}; accepted are lists of integers, int32 or int64"
        )
    return [int(entry) for entry in array.reshape(-1)]


def _run_arg_reduction(node: Node, inputs: Sequence[Any], options: Options) -> Any:
    x = inputs[0]
    require_accepted(node, x.dtype)
    reduction = arg_reduction(node, x.shape)
    wanted = np.dtype(node.index_type)
    dtype = wanted if reduction.fits(wanted) else np.dtype(np.int64)
    indices = reduction.run(x, dtype, options.nan_policy, options.device)
    return _converted(indices if isinstance(indices, DeviceArray) else np.asarray(indices), wanted)


def _run_slice(node: Node, inputs: Sequence[Any], options: Options) -> Any:
    x = inputs[0]
    require_accepted(node, x.dtype)
    return slice_window(node, x.shape, inputs[1:]).run(x, options.device)


# ---- Cast, Constant, Identity ------------------------------------------------------------------------------


def cast_target(node: Node) -> np.dtype[Any]:
    """Return the type that a Cast gives."""
    to = node.attributes["to"]
    name = name_of(to.decode() if isinstance(to, bytes) else to)  # Cast-1 names it
    if name not in NUMBERS:
        raise TypeError(f"{node.where}: to is {name}; accepted are {', '.join(NUMBERS)}")
    return np.dtype(name)


def _run_cast(node: Node, inputs: Sequence[Any], _: Options) -> Any:
    require_accepted(node, inputs[0].dtype)
    return _converted(inputs[0], cast_target(node))


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array with elements of another type, converted on the host, where it was before."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):  # ONNX leaves open what becomes of what does not fit
        return asarray(x, dtype) if isinstance(x, DeviceArray) else x.astype(dtype)


_CONSTANT_TYPES: Final = {
    "value_int": "int64",
    "value_ints": "int64",
    "value_float": "float32",
    "value_floats": "float32",
}


def _run_constant(node: Node, *_: Any) -> Any:
    return constant(node)


def constant(node: Node) -> Any:
    """Return the array that a Constant makes, which cannot be written to."""
    if len(node.attributes) == 1:
        ((name, value),) = node.attributes.items()
        if name == "value":
            return array_of(value, node.where)
        if name in _CONSTANT_TYPES:
            array = np.array(value, _CONSTANT_TYPES[name])
            array.setflags(write=False)
            return array
    raise ValueError(
        f"{node.where} has {', '.join(node.attributes) or 'no attribute'}; accepted is one of value, "
        f"{', '.join(_CONSTANT_TYPES)}"
    )


def _run_identity(node: Node, inputs: Sequence[Any], _: Options) -> Any:
    return inputs[0]


_RUN: Final[dict[str, Callable[[Node, Sequence[Any], Options], Any]]] = {
    "ArgMax": _run_arg_reduction,
    "ArgMin": _run_arg_reduction,
    "Cast": _run_cast,
    "Constant": _run_constant,
    "Identity": _run_identity,
    "Slice": _run_slice,
}


def run_node(node: Node, inputs: Sequence[Any], options: Options) -> Any:
    """Run a node on arrays, one for each of its inputs, None for one that is left out; return its result."""
    if node.inputs and (not inputs or inputs[0] is None):
        raise ValueError(f"{node.where}: the first input is missing")
    try:
        return _RUN[node.operator](node, inputs, options)
    except (ValueError, TypeError, MemoryError) as error:
        if not str(error).startswith(node.where):
            put_before(error, node.where)
        raise


def opset_number(value: SupportsIndex | None) -> int:
    """Return an opset's number: the newest that onnx knows for None.

    Raises:
        ValueError, TypeError: it is none that this version of onnx knows.
    """
    newest: int = onnx.defs.onnx_opset_version()
    if value is None:
        return newest
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"the opset is {value!r}; accepted are 1 to {newest}") from None
    if not 1 <= number <= newest:
        raise ValueError(
            f"the opset is {number}; accepted are 1 to {newest}, those of onnx {onnx.__version__}"
        )
    return number
