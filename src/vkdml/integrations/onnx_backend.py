"""vkdml by the interface that ONNX has for backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, get_args

import numpy as np

from vkdml.arguments import NanPolicy
from vkdml.common.wording import type_of
from vkdml.errors import NoDeviceError
from vkdml.integrations.onnx_model import PreparedModel, outputs_type, refuse_options
from vkdml.integrations.onnx_nodes import Node, Options, as_input, opset_number, read_node, run_node
from vkdml.integrations.onnx_package import onnx
from vkdml.runtime.device import Device, DeviceLike
from vkdml.runtime.device_info import devices, select

HOST_NAME = "CPU"
"""What ONNX calls the device where nothing is said: arrays come from host memory and go there."""
VULKAN = "VULKAN"


class Backend(onnx.backend.base.Backend):
    """ONNX's class for those who run models; the functions of :mod:`vkdml.onnx` are its methods.

    >>> import vkdml.onnx
    >>> vkdml.onnx.Backend.supports_device("CPU"), vkdml.onnx.Backend.supports_device("CUDA")
    (True, False)
    """

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: DeviceLike = HOST_NAME, **options: Any) -> bool:
        """Tell whether :meth:`prepare` takes a model."""
        try:
            cls.prepare(model, device, **options)
        except (ValueError, TypeError, onnx.checker.ValidationError):
            return False
        return True

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: DeviceLike = HOST_NAME,
        *,
        nan_policy: NanPolicy = "propagate",
        **options: Any,
    ) -> PreparedModel:
        """Read and check a model, to be run any number of times.

        >>> import numpy as np, onnx, vkdml.onnx
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["": 17]>
        ...     tail (float[N, C] logits) => (int32[N] label) {
        ...         index = ArgMax <axis = 1, keepdims = 0> (logits)
        ...         label = Cast <to = 6> (index)
        ...     }''')
        >>> tail = vkdml.onnx.prepare(model)
        >>> tail.run(np.float32([[1, 3, 2], [9, 8, 7]])).label
        array([1, 0], dtype=int32)

        Args:
            model: an ``onnx.ModelProto`` of ArgMax, ArgMin, Slice, Identity, Cast and Constant at any opset.
            device: "CPU", as ONNX calls it, or "VULKAN" or None: the default device; "VULKAN:1" or
                "VULKAN:nvidia" another; or what ``device=`` of :func:`vkdml.argmax` takes.
            nan_policy: as of :func:`vkdml.argmax`. ONNX's reference implementation propagates NaNs; "omit" is
                what DirectML does, and ONNX Runtime's provider with it.

        Raises:
            ValueError: an operator, attribute or opset that is not accepted; the message names the node.
            TypeError: elements that are not accepted, or an unknown option.
            onnx.checker.ValidationError: ONNX itself does not accept the model.
            NoDeviceError: there is no such device.

        Source of the rule: ``onnx.backend.base.Backend``; ONNX's operators.
        """
        refuse_options(options, "prepare", "device and nan_policy")
        if not isinstance(model, onnx.ModelProto):
            raise TypeError(f"the model is {type_of(model)}; accepted is what onnx.load gives, a ModelProto")
        return PreparedModel(model, _options(device, nan_policy))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: DeviceLike = HOST_NAME, **options: Any
    ) -> tuple[Any, ...]:
        """Prepare a model and run it once; see :meth:`prepare` and :meth:`PreparedModel.run`."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(  # type: ignore[override]  # its options are named here, and **kwargs there
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: DeviceLike = HOST_NAME,
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        *,
        nan_policy: NanPolicy = "propagate",
        opset_version: SupportsIndex | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run a single node.

        >>> import numpy as np, onnx, vkdml.onnx
        >>> node = onnx.helper.make_node("Slice", ["x", "starts", "ends", "", "steps"], ["y"])
        >>> vkdml.onnx.run_node(node, [np.arange(9), [-1], [-(2**63)], [-4]]).y
        array([8, 4, 0])

        Args:
            node: an ``onnx.NodeProto``.
            inputs: a list of an array for each input that the node names, a dict of them by name, or the
                array itself where there is one.
            device: as of :meth:`prepare`.
            outputs_info: not needed, and not looked at.
            nan_policy: as of :meth:`prepare`.
            opset_version: whose rules the node follows; None for the newest that onnx knows.

        Raises:
            ValueError, TypeError, NoDeviceError: as :meth:`prepare` and :meth:`PreparedModel.run`.

        Source of the rule: ``onnx.backend.base.Backend``; ONNX's operators.
        """
        refuse_options(options, "run_node", "device, nan_policy and opset_version")
        opset = opset_number(opset_version)
        read = read_node(node, opset)
        super().run_node(node, inputs, opset_version=opset)  # type: ignore[arg-type]  # which checks the node
        values = [
            None if value is None else as_input(value, f"{read.where}: input {name}")
            for name, value in zip(read.inputs, _in_order(read, inputs), strict=True)
        ]
        result = run_node(read, values, _options(device, nan_policy))
        lent = read.operator == "Constant" or any(result is value for value in values)
        return outputs_type(read.outputs)(result.copy() if lent else result)

    @classmethod
    def supports_device(cls, device: DeviceLike) -> bool:
        """Tell whether there is a device that ``device=`` means.

        >>> import vkdml.onnx
        >>> vkdml.onnx.supports_device("VULKAN:0"), vkdml.onnx.supports_device("VULKAN:99")
        (True, False)
        """
        try:
            _require_device(device)
        except NoDeviceError:
            return False
        return True


def _in_order(node: Node, inputs: Any) -> list[Any]:
    """Return what was given for a node's inputs, None for those that the node leaves out."""
    named = [name for name in node.inputs if name]
    if isinstance(inputs, Mapping):
        if set(named) <= set(inputs):
            return [inputs[name] if name else None for name in node.inputs]
        count = len(inputs)
    else:
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(given) == len(named):
            following = iter(given)
            return [next(following) if name else None for name in node.inputs]
        if len(given) == len(node.inputs):  # with something for those that are left out
            return [value if name else None for name, value in zip(node.inputs, given, strict=True)]
        count = len(given)
    raise ValueError(
        f"{node.where}: {count} inputs are given; accepted are {', '.join(named) or 'none'}, in a list or by "
        "name"
    )


def _require_device(device: DeviceLike) -> DeviceLike:
    """Return what the rest of vkdml calls a device, of which there is one; it is not opened."""
    if isinstance(device, str):
        kind, colon, selector = device.partition(":")
        if kind.upper() == VULKAN:
            device = selector if colon else None
        elif device.upper() == HOST_NAME:
            device = None
    if not isinstance(device, Device):
        select(device, devices())
    return device


def _options(device: DeviceLike, nan_policy: NanPolicy) -> Options:
    policies = get_args(NanPolicy)
    if nan_policy not in policies:
        raise ValueError(f"nan_policy is {nan_policy!r}; accepted are {' and '.join(map(repr, policies))}")
    try:
        return Options(_require_device(device), nan_policy)
    except NoDeviceError as error:
        raise NoDeviceError(
            f"{error}; accepted are 'CPU' and 'VULKAN' for the default device, 'VULKAN:' with a number, a "
            "UUID or part of a name, and what device= of vkdml.argmax takes"
        ) from None


__all__ = ["Backend"]
