"""Run a validated descriptor on NumPy arrays and raw buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .descriptors import BufferTensorDesc, OperatorDesc, Slice1OperatorDesc
from .enums import FeatureLevel, ReduceFunction
from .validation import validate

if TYPE_CHECKING:
    from vkdml.device import Device


def run(
    desc: OperatorDesc,
    input: Any,
    *,
    output: Any = None,
    feature_level: FeatureLevel | str = FeatureLevel.FL_4_1,
    device: Device | int | str | None = None,
) -> npt.NDArray[Any]:
    """Validate a descriptor and execute it.

    >>> import numpy as np
    >>> from vkdml import dml
    >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
    >>> y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
    >>> dml.run(dml.ArgMaxOperatorDesc(x, y, axes=(1,)), np.array([[1, 3, 2], [9, 8, 7]], np.float32))
    array([[1],
           [0]], dtype=uint32)

    desc: an operator's descriptor.
    input: an array with the dtype and sizes of desc.input_tensor, any strides; or else the tensor's buffer,
    bytes-like or a 1-D uint8 array of at least total_tensor_size_in_bytes, which is read through the tensor's
    sizes and strides. An array that fits both ways is taken as the array; its memoryview, as the buffer.
    output: None, or where to write, in the same two forms; bytes between and after the elements are kept.
    feature_level: as in `validate`. device: as in `vkdml.argmax`.

    Returns an array of desc.output_tensor's dtype and sizes: a view of `output` where that is given, else of
    a new buffer, which has total_tensor_size_in_bytes and the descriptor's strides if it has any.
    NaNs lose to every number; if all are NaN, the direction decides.

    Raises ValueError and TypeError as `validate` does, and for an input or output that does not fit; nothing
    is written then. Otherwise as `vkdml.argmin` and `vkdml.slice1`.
    Source: the operators' documentation pages; for NaN, what DirectML was seen to do.
    """
    validate(desc, feature_level)
    # The package imports this module before its functions exist.
    from vkdml import argmax, argmin, slice1

    x = _tensor_view(f"{desc.operator}: input", desc.input_tensor, input)
    out = _output_view(desc, output)
    result: npt.NDArray[Any]
    if isinstance(desc, Slice1OperatorDesc):
        result = slice1(
            x,
            desc.input_window_offsets,
            desc.input_window_sizes,
            desc.input_window_strides,
            output_sizes=desc.output_tensor.sizes,
            out=out,
            device=device,
        )
    else:
        result = (argmin if desc.function is ReduceFunction.ARGMIN else argmax)(
            x,
            axis=tuple(desc.axes),
            keepdims=True,
            dtype=desc.output_tensor.data_type.dtype,
            direction=desc.axis_direction.name.lower(),
            nan_policy="omit",
            out=out,
            device=device,
        )
    return result if out is None else out


def _output_view(desc: OperatorDesc, output: Any) -> npt.NDArray[Any] | None:
    tensor = desc.output_tensor
    if output is None:
        if tensor.strides is None:
            return None
        output = np.zeros(tensor.total_tensor_size_in_bytes, np.uint8).data
    view = _tensor_view(f"{desc.operator}: output", tensor, output)
    if not view.flags.writeable:
        raise ValueError(f"{desc.operator}: output is read-only; accepted: a writable array or buffer")
    return view


def _tensor_view(where: str, tensor: BufferTensorDesc, data: Any) -> npt.NDArray[Any]:
    """The tensor in `data`, without a copy: `data` itself if it is that array, else a view into it."""
    dtype, sizes = tensor.data_type.dtype, tuple(tensor.sizes)
    accepted = (
        f"a {dtype} array of shape {sizes}, or a bytes-like object or 1-D uint8 array "
        f"of at least {tensor.total_tensor_size_in_bytes} contiguous bytes"
    )
    if isinstance(data, np.ndarray):
        if data.dtype == dtype and data.shape == sizes:
            return data
        if data.dtype != np.uint8 or data.ndim != 1:
            error = ValueError if data.dtype == dtype else TypeError
            raise error(f"{where} is a {data.dtype} array of shape {data.shape}; accepted: {accepted}")
    try:
        memory = memoryview(data)
    except TypeError:
        raise TypeError(f"{where} is a {type(data).__name__}; accepted: {accepted}") from None
    if not memory.c_contiguous or memory.nbytes < tensor.total_tensor_size_in_bytes:
        spacing = "" if memory.c_contiguous else " that are not contiguous"
        raise ValueError(f"{where} is a buffer of {memory.nbytes} bytes{spacing}; accepted: {accepted}")
    strides = None if tensor.strides is None else [stride * dtype.itemsize for stride in tensor.strides]
    view: npt.NDArray[Any] = np.ndarray(sizes, dtype, memory, strides=strides)
    return view
