"""The public functions: each takes arrays of the host, of a device, or in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from vkdml.arguments import CallKey, Direction, NanPolicy, ReduceRequest, SliceRequest, reduce_key, slice_key
from vkdml.arrays.array import Array
from vkdml.arrays.foreign import lies_on_cuda
from vkdml.arrays.sharded import ShardedArray
from vkdml.common import hooks
from vkdml.operators import on_device, on_host, on_shards
from vkdml.operators.progress import Progress
from vkdml.runtime.device import DevicesLike

if TYPE_CHECKING:
    from vkdml.operators.signatures import ArgReduce, Slice1


# Type checkers see the overloads. At run time typing.overload would keep its functions, and through their
# globals the open devices, until after the interpreter's end.
def _argreduce(function: Any) -> ArgReduce:
    return cast("ArgReduce", function)


def _slice1(function: Any) -> Slice1:
    return cast("Slice1", function)


@_argreduce
def argmax(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: Direction = "increasing",
    nan_policy: NanPolicy = "propagate",
    return_values: bool = False,
    out: Any = None,
    device: DevicesLike = None,
    progress: Progress = None,
) -> Any:
    """Return the indices of the greatest elements along one axis, several, or all.

    >>> import numpy as np, vkdml
    >>> vkdml.argmax(np.array([[1, 5, 5], [7, 2, 7]]), axis=1)
    array([1, 0])

    Args:
        x: array of any shape, size and strides, what ``numpy.asarray`` makes one of, or a tensor in host
            memory that offers DLPack; an array in chunks of zarr, h5py or tensorstore, which is read by
            pieces, never whole; a tensor that CUDA holds (torch, CuPy, JAX), which is copied on its GPU; or a
            :class:`vkdml.Array` or :class:`vkdml.ShardedArray`. Elements:
            float16, float32, float64, (u)int8 to (u)int64, bool, and ml_dtypes' bfloat16, float8_e4m3fn,
            float8_e5m2. What NumPy would drop (masks, missing elements, categories) is refused; a matrix is
            taken as a plain array.
        axis: None reduces all axes; an int or a sequence of distinct ints reduces those, negative ones
            counted from the end. The index is the row-major position among the reduced axes in ascending
            order.
        keepdims: True keeps reduced axes with size 1.
        dtype: of the indices: int64 (default), int32, uint64 or uint32.
        direction: of equals, ``"increasing"`` takes the first, ``"decreasing"`` the last.
        nan_policy: ``"propagate"``: a NaN beats every number; ``"omit"``: it loses to every number.
        return_values: True returns ``(indices, values)``, the values bit for bit.
        out: array of the result's shape and dtype to write to, with any strides; with ``return_values`` a
            pair ``(indices, values)`` that do not overlap. It may overlap ``x``, and may lie in chunks. Where
            ``x`` lies on a GPU it is a :class:`vkdml.Array` or, with CUDA, a tensor there.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device. A list of them
            shares a host array out to several.
        progress: called as ``progress(done, total)``, in bytes, after each tile of a host array; True draws a
            bar on standard error. Large arrays are processed in tiles; ``progress=`` forces tiling.

    Returns:
        The indices (a NumPy scalar where NumPy's ``argmax`` gives one), or a named tuple
        ``(indices, values)``. Of a :class:`vkdml.Array` they are Arrays on its device, and of a CUDA tensor
        Arrays that CUDA sees, too.

    Raises:
        ValueError: nothing to choose from, the greatest index does not fit ``dtype``, a bad option, or an
            ``out`` of another shape.
        TypeError: elements that cannot be compared, an object that carries more than numbers, or an option of
            a wrong type.
        numpy.exceptions.AxisError: an axis that ``x`` does not have.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.

    Source of the rule: DirectML's ``DML_ARGMAX_OPERATOR_DESC``; NumPy for shapes, scalars and NaN.
    """
    if out is None and progress is None:
        key = reduce_key("argmax", axis, keepdims, dtype, direction, nan_policy, return_values)
        result = _reduced_as_before(x, device, key)
        if result is not None:
            return result
    request = ReduceRequest(
        "argmax", axis, keepdims, dtype, direction, nan_policy, return_values, out, device, progress
    )
    return _operators_for(x, out).reduce(x, request)


@_argreduce
def argmin(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: Direction = "increasing",
    nan_policy: NanPolicy = "propagate",
    return_values: bool = False,
    out: Any = None,
    device: DevicesLike = None,
    progress: Progress = None,
) -> Any:
    """Return the indices of the least elements along one axis, several, or all.

    >>> import numpy as np, vkdml
    >>> int(vkdml.argmin(np.float16([3, 1, np.nan, 1]), direction="decreasing", nan_policy="omit"))
    3

    Arguments, results and errors are those of :func:`argmax`.

    Source of the rule: DirectML's ``DML_ARGMIN_OPERATOR_DESC``; NumPy for shapes, scalars and NaN.
    """
    if out is None and progress is None:
        key = reduce_key("argmin", axis, keepdims, dtype, direction, nan_policy, return_values)
        result = _reduced_as_before(x, device, key)
        if result is not None:
            return result
    request = ReduceRequest(
        "argmin", axis, keepdims, dtype, direction, nan_policy, return_values, out, device, progress
    )
    return _operators_for(x, out).reduce(x, request)


@_slice1
def slice1(
    x: Any,
    offsets: int | Sequence[int],
    sizes: int | Sequence[int],
    strides: int | Sequence[int],
    *,
    output_sizes: int | Sequence[int] | None = None,
    out: Any = None,
    device: DevicesLike = None,
    progress: Progress = None,
) -> Any:
    """Copy a strided, possibly mirrored window of an array.

    >>> import numpy as np, vkdml
    >>> vkdml.slice1(np.arange(16).reshape(4, 4), (0, 1), (4, 3), (-2, 2))
    array([[13, 15],
           [ 5,  7]])

    Args:
        x: as for :func:`argmax`, of elements that have 1, 2, 4, 8 or 16 bytes; they move bit for bit.
        offsets: the window's first element in each dimension. This and the next three accept an integer for
            an array of one dimension.
        sizes: the window's extent in each dimension, in elements of ``x``.
        strides: the step in each dimension, not 0; a negative one starts at the window's end.
        output_sizes: elements to copy in each dimension; by default, and at most, as many as the window
            holds: ``1 + (size - 1) // abs(stride)``.
        out: array of the result's shape and dtype to write to, with any strides. It may overlap ``x``. One in
            chunks, which must not be ``x``, is written by pieces; an error leaves those that were written.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device. A list of them
            shares a host array out to several.
        progress: called as ``progress(done, total)``, in bytes, after each tile of a host array; True draws a
            bar on standard error. Large arrays are processed in tiles; ``progress=`` forces tiling.

    Returns:
        The copied elements, in a new array or in ``out``; on the device if ``x`` is there.

    Raises:
        ValueError: a window that is not inside ``x``, a stride of 0, too great an output, or an ``out`` of
            another shape.
        TypeError: elements of another size, or Python objects.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.

    Source of the rule: DirectML's ``DML_SLICE1_OPERATOR_DESC``.
    """
    if type(x) is Array and out is None and device is None and progress is None:
        result = on_device.call_as_before(x, slice_key(offsets, sizes, strides, output_sizes))
        if result is not None:
            return result
    request = SliceRequest(offsets, sizes, strides, output_sizes, out, device, progress)
    return _operators_for(x, out).slice1(x, request)


def _reduced_as_before(x: Any, device: DevicesLike, key: CallKey | None) -> Any:
    """Return the result of a call that is known to be valid, in a fraction of the time; else None."""
    kind = type(x)
    if kind is Array and device is None:
        return on_device.call_as_before(x, key)
    return on_host.reduce_as_before(x, device, key) if kind is np.ndarray else None


def _operators_for(x: Any, out: Any) -> Any:
    """Return the module that has the operators for arrays of this kind and results of that kind."""
    if isinstance(x, Array):
        return on_device if out is None or not _has_cuda_tensor(out) else hooks.on_cuda
    if isinstance(x, ShardedArray):
        return on_shards
    return hooks.on_cuda if lies_on_cuda(x) else on_host


def _has_cuda_tensor(out: Any) -> bool:
    return any(map(lies_on_cuda, out)) if isinstance(out, tuple | list) else lies_on_cuda(out)


__all__ = ["argmax", "argmin", "slice1"]
