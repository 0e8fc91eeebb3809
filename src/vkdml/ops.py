"""The public functions: they take arrays of the host or of a device, and go to the code for either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from vkdml.arguments import context, flag
from vkdml.arrays import operations as array_ops
from vkdml.arrays import sharded
from vkdml.arrays.array import Array
from vkdml.arrays.sharded import ShardedArray
from vkdml.operators import host as host_ops
from vkdml.operators.stream import Progress, is_reported
from vkdml.runtime.device import DevicesLike


def argmax(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: str = "increasing",
    nan_policy: str = "propagate",
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
            memory that offers DLPack; or a :class:`vkdml.Array` or :class:`vkdml.ShardedArray`. Elements:
            float16, float32, float64, (u)int8 to (u)int64, bool, and ml_dtypes' bfloat16, float8_e4m3fn,
            float8_e5m2. What NumPy would drop (masks, missing elements, categories) is refused; a matrix is
            taken as the plain array that it is.
        axis: None reduces all axes; an int or a set of distinct ints reduces those, negative ones counted
            from the end. The index is the row-major position among the reduced axes in ascending order.
        keepdims: True keeps reduced axes with size 1.
        dtype: of the indices: int64 (default), int32, uint64 or uint32.
        direction: of equals, ``"increasing"`` takes the first, ``"decreasing"`` the last.
        nan_policy: ``"propagate"``: a NaN beats every number; ``"omit"``: it loses to every number.
        return_values: True returns ``(indices, values)``, the values bit for bit.
        out: array of the result's shape and dtype to write to, with any strides; with ``return_values`` a
            pair ``(indices, values)`` that do not overlap. It may overlap ``x``.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device. A list of them
            shares a host array out to several.
        progress: called as ``progress(done, total)``, in bytes, after each tile of a host array; True draws a
            bar on standard error. Large arrays are processed in tiles; ``progress=`` forces tiling.

    Returns:
        The indices (a NumPy scalar where NumPy's ``argmax`` gives one), or a named tuple
        ``(indices, values)``. Of a :class:`vkdml.Array` they are Arrays on its device.

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
    return _argreduce(
        "argmax", x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device, progress
    )  # fmt: skip


def argmin(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: str = "increasing",
    nan_policy: str = "propagate",
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
    return _argreduce(
        "argmin", x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device, progress
    )  # fmt: skip


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
        offsets: the window's first element in each dimension. Here, as in the next three, an integer does for
            an array of one dimension.
        sizes: the window's extent in each dimension, in elements of ``x``.
        strides: the step in each dimension, not 0; a negative one starts at the window's end.
        output_sizes: elements to copy in each dimension; by default, and at most, as many as the window
            holds: ``1 + (size - 1) // abs(stride)``.
        out: array of the result's shape and dtype to write to, with any strides. It may overlap ``x``.
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
    if isinstance(x, Array):
        with context("slice1", x):
            _refuse_on_a_device(progress)
        return array_ops.slice1(x, offsets, sizes, strides, output_sizes, out, device)
    if isinstance(x, ShardedArray):
        with context("slice1", x):
            _refuse_of_shards(out=out, device=device, progress=progress if is_reported(progress) else None)
        return sharded.slice1(x, offsets, sizes, strides, output_sizes)  # type: ignore[attr-defined,unused-ignore]
    return host_ops.slice1(x, offsets, sizes, strides, output_sizes, out, device, progress)


def _argreduce(
    name: str,
    x: Any,
    axis: Any,
    keepdims: bool,
    dtype: Any,
    direction: str,
    nan_policy: str,
    return_values: bool,
    out: Any,
    device: DevicesLike,
    progress: Progress,
) -> Any:
    if return_values is not False and return_values is not True:
        with context(name, x):
            return_values = flag("return_values", return_values)
    if isinstance(x, Array):
        if progress is not None:
            with context(name, x):
                _refuse_on_a_device(progress)
        return array_ops.argreduce(
            name, x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device
        )
    if isinstance(x, ShardedArray):
        with context(name, x):
            _refuse_of_shards(out=out, device=device, progress=progress if is_reported(progress) else None)
        operator = x.argmax if name == "argmax" else x.argmin
        return operator(
            axis,
            keepdims=keepdims,
            dtype=dtype,
            direction=direction,
            nan_policy=nan_policy,
            return_values=return_values,
        )
    return host_ops.argreduce(
        name, x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device, progress
    )


def _refuse_on_a_device(progress: Any) -> None:
    if is_reported(progress):
        raise TypeError(
            "progress= is for host arrays, which are processed in tiles; an Array on a device is processed "
            "in one piece: accepted is progress=None"
        )


def _refuse_of_shards(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise TypeError(
                f"{name}= is not accepted with a sharded array: the devices of its shards process it, and "
                "results are new arrays"
            )


__all__ = ["argmax", "argmin", "slice1"]
