"""A model that was read and checked, to be run any number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from vkdml.common.one_object import OneObject
from vkdml.integrations.onnx_nodes import (
    INDEX_TYPES,
    Node,
    Options,
    as_input,
    cast_target,
    constant,
    opset_number,
    read_node,
    run_node,
)
from vkdml.integrations.onnx_package import onnx
from vkdml.integrations.onnx_types import array_of, dtype_of


class PreparedModel(OneObject, onnx.backend.base.BackendRep):
    """A model ready to run; made by :func:`vkdml.onnx.prepare`. Any number of threads may run it."""

    def __init__(self, model: onnx.ModelProto, options: Options) -> None:
        """See :func:`vkdml.onnx.prepare`."""
        graph, opset = model.graph, _opset_of(model)
        nodes = [read_node(node, opset) for node in graph.node]
        if graph.sparse_initializer:
            raise ValueError(
                f"the model has {len(graph.sparse_initializer)} sparse initializers; accepted are dense ones"
            )
        onnx.checker.check_model(model)
        self._options = options
        self._constants = {t.name: array_of(t, f"initializer {t.name}") for t in graph.initializer}
        self._constants |= {node.outputs[0]: constant(node) for node in nodes if node.operator == "Constant"}
        self._declared = {declared.name: _Declared.of(declared) for declared in graph.input}
        self.inputs = tuple(name for name in self._declared if name not in self._constants)
        """Names of what :meth:`run` must be given, in this order."""
        self.outputs = tuple(output.name for output in graph.output)
        """Names of what it returns."""
        self._result = outputs_type(self.outputs)
        self._nodes = _casts_taken_in([n for n in nodes if n.operator != "Constant"], set(self.outputs))

    def __repr__(self) -> str:
        device = self._options.device
        where = "default" if device is None else repr(device)
        return (
            f"<vkdml.onnx.PreparedModel {', '.join(self.inputs) or '(no inputs)'} -> "
            f"{', '.join(self.outputs)} device={where}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a prepared model is bound to this process and cannot be pickled; accepted: the model itself, to "
            "be prepared again"
        )

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: a list of arrays in the order of :attr:`inputs`, a dict of them by name, or the array
                itself where there is one input. Arrays of the host, or :class:`vkdml.Array`: what is computed
                from Arrays stays on their device.

        Returns:
            The outputs, as a named tuple in the order of :attr:`outputs`.

        Raises:
            TypeError: an input of another element type than the model declares, or no array.
            ValueError: an input of another shape, a missing or unknown one, or a node that cannot be run.
            MemoryError, DeviceError: as :func:`vkdml.argmax`.
        """
        refuse_options(options, "run")
        values: dict[str, Any] = dict(self._constants)
        sizes: dict[str, tuple[int, str]] = {}
        for name, given in self._named(inputs).items():
            declared = self._declared[name]
            values[name] = as_input(given, declared.where)
            declared.require(values[name], sizes)
        taken = {id(value) for value in values.values()}
        for node in self._nodes:
            found = [values[name] if name else None for name in node.inputs]
            values[node.outputs[0]] = run_node(node, found, self._options)
        results = []
        for name in self.outputs:
            result = values[name]
            results.append(result.copy() if id(result) in taken else result)
            taken.add(id(result))  # an Identity's result is what it is given
        return self._result(*results)

    def _named(self, inputs: Any) -> Mapping[str, Any]:
        accepted = f"accepted are the inputs {', '.join(self.inputs) or '(none)'}"
        if isinstance(inputs, Mapping):
            unknown = [str(name) for name in inputs if name not in self._declared]
            if unknown:
                raise ValueError(f"the model has no input {', '.join(unknown)}; {accepted}")
            missing = [name for name in self.inputs if name not in inputs]
            if missing:
                raise ValueError(f"{', '.join(missing)} not given; {accepted}")
            return inputs
        values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(values) != len(self.inputs):
            raise ValueError(f"{len(values)} inputs are given; {accepted}, in a list or by name")
        return dict(zip(self.inputs, values, strict=True))


def _opset_of(model: onnx.ModelProto) -> int:
    opsets = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    if "ai.onnx" not in opsets:
        raise ValueError(
            f"the model imports {', '.join(opsets) or 'no operators'}; accepted are models that import an "
            "opset of ONNX's own domain"
        )
    return opset_number(opsets["ai.onnx"])


def _casts_taken_in(nodes: Sequence[Node], outputs: set[str]) -> list[Node]:
    """Return the nodes, without the Casts whose type the ArgMax or ArgMin before them can write at once.

    That is where the Cast alone uses its result, and asks for an index type.
    """
    uses = Counter(name for node in nodes for name in node.inputs)
    makers = {node.outputs[0]: place for place, node in enumerate(nodes)}
    kept: list[Node | None] = list(nodes)
    for place, node in enumerate(nodes):
        if node.operator != "Cast":
            continue
        target, (name,) = cast_target(node).name, node.inputs
        maker = kept[makers[name]] if name in makers else None
        if maker is None or maker.operator not in ("ArgMax", "ArgMin") or maker.index_type != "int64":
            continue
        if target in INDEX_TYPES and uses[name] == 1 and name not in outputs:
            kept[makers[name]] = None
            kept[place] = replace(maker, outputs=node.outputs, index_type=target)
    return [node for node in kept if node is not None]


@dataclass(frozen=True)
class _Declared:
    """What a model says of an input."""

    where: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...] | None
    """Sizes, or the names of sizes; empty for one of which nothing is said. None where no shape is given."""

    @staticmethod
    def of(declared: onnx.ValueInfoProto) -> _Declared:
        where = f"input {declared.name}"
        if not declared.type.HasField("tensor_type"):
            raise TypeError(
                f"{where} is no tensor in this model; accepted are models whose inputs are tensors"
            )
        tensor = declared.type.tensor_type
        shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim)
        return _Declared(
            where, dtype_of(tensor.elem_type, where), shape if tensor.HasField("shape") else None
        )

    def require(self, x: Any, sizes: dict[str, tuple[int, str]]) -> None:
        """Refuse an array that is not as declared; ``sizes`` are those of named dimensions so far."""
        where, dtype = self.where, self.dtype
        if x.dtype != dtype and x.dtype.name != dtype.name:  # which says nothing of the order of bytes
            raise TypeError(
                f"{where} has elements of type {x.dtype}; accepted are {dtype}, as the model declares"
            )
        if self.shape is None:
            return
        wanted = f"accepted is ({', '.join(str(size or '?') for size in self.shape)}), as the model declares"
        if len(x.shape) != len(self.shape):
            raise ValueError(f"{where} has the shape {x.shape}; {wanted}")
        for size, declared in zip(x.shape, self.shape, strict=True):
            if not isinstance(declared, str):
                known, first = declared, where
            else:
                known, first = sizes.setdefault(declared, (size, where)) if declared else (size, where)
            if size != known:
                named = f", and {declared} is {known} in {first}" if isinstance(declared, str) else ""
                raise ValueError(f"{where} has the shape {x.shape}; {wanted}{named}")


def outputs_type(names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """Return the type of results that are found by place and by name, as ONNX's backends give them."""
    made: Callable[..., tuple[Any, ...]] = onnx.backend.base.namedtupledict("Outputs", list(names))
    return made


def refuse_options(options: Mapping[str, Any], where: str, accepted: str = "none") -> None:
    """Refuse options that ONNX's interface lets through."""
    if options:
        raise TypeError(f"{where} has no option {', '.join(options)}; accepted are {accepted}")
