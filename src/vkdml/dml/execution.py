"""Running a descriptor on arrays or raw buffers, in host memory or on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from vkdml.arrays.array import Array, array_in
from vkdml.arrays.creation import empty
from vkdml.arrays.indexing import View
from vkdml.common.wording import put_before, type_of, wrong_type
from vkdml.ops import argmax, argmin, slice1
from vkdml.runtime.device import Device, DevicesLike

from .descriptors import BufferTensorDesc, OperatorDesc, Slice1OperatorDesc, TypedOperatorDesc, operator_of
from .enums import AxisDirection, FeatureLevel, FeatureLevelLike, ReduceFunction
from .lowering import strides_of
from .validation import validate

_DIRECTIONS: Final[Mapping[AxisDirection, Literal["increasing", "decreasing"]]] = {
    AxisDirection.INCREASING: "increasing",
    AxisDirection.DECREASING: "decreasing",
}

# A NumPy array or a bytes-like object: Python 3.10 has no type for the latter.
HostData: TypeAlias = npt.NDArray[Any] | bytes | bytearray | memoryview


# typing.overload registers its functions, whose globals would keep open devices past the interpreter's end.
if TYPE_CHECKING:

    @overload
    def run(
        desc: OperatorDesc | TypedOperatorDesc,
        input: Array,
        *,
        output: Array | None = None,
        feature_level: FeatureLevelLike = FeatureLevel.FL_4_1,
        device: DevicesLike = None,
    ) -> Array: ...

    @overload
    def run(
        desc: OperatorDesc | TypedOperatorDesc,
        input: HostData,
        *,
        output: HostData | None = None,
        feature_level: FeatureLevelLike = FeatureLevel.FL_4_1,
        device: DevicesLike = None,
    ) -> npt.NDArray[Any]: ...


def run(
    desc: OperatorDesc | TypedOperatorDesc,
    input: Any,
    *,
    output: Any = None,
    feature_level: FeatureLevelLike = FeatureLevel.FL_4_1,
    device: DevicesLike = None,
) -> Any:
    """Validate a descriptor and run it.

    >>> import numpy as np, vkdml
    >>> from vkdml import dml
    >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
    >>> y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
    >>> argmax = dml.ArgMaxOperatorDesc(x, y, axes=(1,))
    >>> elements = np.array([[1, 3, 2], [9, 8, 7]], np.float32)
    >>> dml.run(argmax, elements)
    array([[1],
           [0]], dtype=uint32)
    >>> dml.run(argmax, vkdml.asarray(elements)).tolist()
    [[1], [0]]

    To run one operator many times on a device, compile it: ``device.compile(desc).dispatch(input)``.

    Args:
        desc: an operator descriptor, or a TypedOperatorDesc that wraps one.
        input: a NumPy array or a :class:`vkdml.Array` with the dtype and sizes of ``desc.input_tensor`` and
            any strides; or the tensor's buffer: a bytes-like object, a 1-D uint8 NumPy array or a 1-D uint8
            Array of at least ``total_tensor_size_in_bytes`` contiguous bytes, which is read with the tensor's
            sizes and strides. An array that fits both forms is the tensor; its memoryview is the buffer.
        output: where to write, in the same forms: host memory for input in host memory, an Array for an
            Array; None allocates a new array. Bytes between and after the elements keep their values.
        feature_level: as in :func:`validate`.
        device: as in :func:`vkdml.argmax`.

    Returns:
        An array with the dtype and sizes of ``desc.output_tensor``, on the device if ``input`` is there: a
        view of ``output`` if that is given, otherwise a view of a new buffer of
        ``total_tensor_size_in_bytes`` with the descriptor's strides, if it has any. NaNs lose to every
        number; if all elements are NaN, the direction decides.

    Raises:
        ValueError, TypeError: as :func:`validate`, or an input or output that does not fit; nothing is
            written then. Otherwise as :func:`vkdml.argmin` and :func:`vkdml.slice1`.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.

    Source of the rule: the pages of the operators' structures; for NaN, DirectML's observed behaviour.
    """
    validate(desc, feature_level)
    desc = operator_of(desc)
    x: Any = _tensor_view(f"{desc.operator}: input", desc.input_tensor, input)
    out: Any = (
        _output_on_device(desc, output, x.device) if isinstance(x, Array) else _output_on_host(desc, output)
    )
    try:
        result = _computed(desc, x, out, device)
    except Exception as error:
        put_before(error, desc.operator)
        raise
    return result if out is None else out


def _computed(desc: OperatorDesc, x: Any, out: Any, device: DevicesLike) -> Any:
    if isinstance(desc, Slice1OperatorDesc):
        return slice1(
            x,
            desc.input_window_offsets,
            desc.input_window_sizes,
            desc.input_window_strides,
            output_sizes=desc.output_tensor.sizes,
            out=out,
            device=device,
        )
    return (argmin if desc.function is ReduceFunction.ARGMIN else argmax)(
        x,
        axis=tuple(desc.axes),
        keepdims=True,
        dtype=desc.output_tensor.data_type.dtype,
        direction=_DIRECTIONS[desc.axis_direction],
        nan_policy="omit",
        out=out,
        device=device,
    )


def _output_on_host(desc: OperatorDesc, output: Any) -> npt.NDArray[Any] | None:
    where, tensor = f"{desc.operator}: output", desc.output_tensor
    if isinstance(output, Array):
        raise TypeError(
            f"{where} is a vkdml.Array and the input is in host memory; accepted: both in host memory, or "
            "both a vkdml.Array (vkdml.asarray makes one)"
        )
    if output is None:
        if tensor.strides is None:
            return None
        output = np.zeros(tensor.total_tensor_size_in_bytes, np.uint8).data
    view: npt.NDArray[Any] = _tensor_view(where, tensor, output)
    if not view.flags.writeable:
        raise ValueError(f"{where} is read-only; accepted: a writeable array or buffer")
    return view


def _output_on_device(desc: OperatorDesc, output: Any, device: Device) -> Array | None:
    where, tensor = f"{desc.operator}: output", desc.output_tensor
    if output is None:
        if tensor.strides is None:
            return None
        output = empty(tensor.total_tensor_size_in_bytes, np.uint8, device=device)
    if not isinstance(output, Array):
        raise TypeError(
            f"{where} is {type_of(output)} and the input is a vkdml.Array; accepted: both a vkdml.Array "
            "(vkdml.asarray makes one), or both in host memory"
        )
    if not output.writeable:
        raise ValueError(f"{where} is a read-only view; accepted: a writeable vkdml.Array")
    view: Array = _tensor_view(where, tensor, output)
    return view


def _tensor_view(where: str, tensor: BufferTensorDesc, data: Any) -> Any:
    """Return the tensor in `data` without a copy: `data` itself if it is that array, otherwise a view."""
    dtype, sizes = tensor.data_type.dtype, tuple(tensor.sizes)
    kind = "a vkdml.Array" if isinstance(data, Array) else "an array"
    buffer = f"{kind} of uint8" if isinstance(data, Array) else "a bytes-like object or 1-D array of uint8"
    accepted = (
        f"{kind} of {dtype} with shape {sizes}, or {buffer} "
        f"of at least {tensor.total_tensor_size_in_bytes} contiguous bytes"
    )
    if np.ma.is_masked(data):
        raise TypeError(
            f"{where} has {np.count_nonzero(data.mask)} masked elements, and the operator ignores masks; "
            f"accepted: {accepted}, without a mask"
        )
    if isinstance(data, Array):
        _require_aligned(where, tensor, data)
    if isinstance(data, np.ndarray | Array):
        if data.dtype == dtype and data.shape == sizes:
            return data
        if data.dtype != np.uint8 or data.ndim != 1:
            error = ValueError if data.dtype == dtype else TypeError
            raise error(f"{where} is {kind} of {data.dtype} with shape {data.shape}; accepted: {accepted}")
    if isinstance(data, Array):
        _require_bytes(where, data.nbytes, data.is_compact, tensor, accepted)
        return _view_on_device(where, tensor, data)
    try:
        memory = memoryview(data)
    except TypeError:
        raise wrong_type(where, data, accepted) from None
    _require_bytes(where, memory.nbytes, memory.c_contiguous, tensor, accepted)
    strides = None if tensor.strides is None else [stride * dtype.itemsize for stride in tensor.strides]
    return np.ndarray(sizes, dtype, memory, strides=strides)


def _require_bytes(
    where: str, nbytes: int, contiguous: bool, tensor: BufferTensorDesc, accepted: str
) -> None:
    if not contiguous or nbytes < tensor.total_tensor_size_in_bytes:
        spacing = "" if contiguous else " that are not contiguous"
        raise ValueError(f"{where} is a buffer of {nbytes} bytes{spacing}; accepted: {accepted}")


def _require_aligned(where: str, tensor: BufferTensorDesc, array: Array) -> None:
    """Hold the descriptor to what it guarantees of an array's first byte; kernels here rely on none of it."""
    start, alignment = array.placement.offset * array.dtype.itemsize, tensor.guaranteed_base_offset_alignment
    if alignment and start % alignment:
        raise ValueError(
            f"{where} starts at byte {start} of its memory; accepted: multiples of {alignment}, the "
            "guaranteed_base_offset_alignment"
        )


def _view_on_device(where: str, tensor: BufferTensorDesc, buffer: Array) -> Array:
    dtype, start = tensor.data_type.dtype, buffer.placement.offset
    if start % dtype.itemsize:
        raise ValueError(
            f"{where} starts at byte {start} of its memory; accepted: multiples of {dtype.itemsize}, "
            f"the bytes of one {dtype} element"
        )
    view = View(tuple(tensor.sizes), strides_of(tensor), start // dtype.itemsize)
    return array_in(buffer.memory, dtype, view, buffer.writeable)
