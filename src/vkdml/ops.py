"""The public functions: they take arrays of the host or of a device, and go to the code for either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from vkdml import array_ops, host_ops
from vkdml.array import Array
from vkdml.device import DeviceLike


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
    device: DeviceLike = None,
) -> Any:
    """Return the indices of the greatest elements along one axis, several, or all.

    >>> import numpy as np, vkdml
    >>> vkdml.argmax(np.array([[1, 5, 5], [7, 2, 7]]), axis=1)
    array([1, 0])

    Args:
        x: array of any shape and strides, or what ``numpy.asarray`` makes one of. Elements: float16, float32,
            float64, (u)int8 to (u)int64, bool, and ml_dtypes' bfloat16, float8_e4m3fn, float8_e5m2.
        axis: None reduces all axes; an int or a set of distinct ints reduces those, negative ones counted
            from the end. The index is the row-major position among the reduced axes in ascending order.
        keepdims: keep reduced axes with size 1.
        dtype: of the indices: int64 (default), int32, uint64 or uint32.
        direction: of equals, ``"increasing"`` takes the first, ``"decreasing"`` the last.
        nan_policy: ``"propagate"``: a NaN beats every number; ``"omit"``: it loses to every number.
        return_values: return ``(indices, values)``, the values bit for bit.
        out: array of the result's shape and dtype to write to, with any strides; with ``return_values`` a
            pair ``(indices, values)``.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device.

    Returns:
        The indices (a NumPy scalar where NumPy's ``argmax`` gives one), or a named tuple
        ``(indices, values)``.

    Raises:
        ValueError: nothing to choose from, the reduced count does not fit ``dtype``, a bad option, or an
            ``out`` of another shape.
        TypeError: elements that cannot be compared, or a wrong dtype.
        numpy.exceptions.AxisError: an axis that ``x`` does not have.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.

    Source of the rule: DirectML's ``DML_ARGMAX_OPERATOR_DESC``; NumPy for shapes, scalars and NaN.
    """
    argreduce = array_ops.argreduce if isinstance(x, Array) else host_ops.argreduce
    return argreduce(
        "argmax", x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device
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
    device: DeviceLike = None,
) -> Any:
    """Return the indices of the least elements along one axis, several, or all.

    >>> import numpy as np, vkdml
    >>> int(vkdml.argmin(np.float16([3, 1, np.nan, 1]), direction="decreasing", nan_policy="omit"))
    3

    Arguments, results and errors are those of :func:`argmax`.

    Source of the rule: DirectML's ``DML_ARGMIN_OPERATOR_DESC``; NumPy for shapes, scalars and NaN.
    """
    argreduce = array_ops.argreduce if isinstance(x, Array) else host_ops.argreduce
    return argreduce(
        "argmin", x, axis, keepdims, dtype, direction, nan_policy, return_values, out, device
    )  # fmt: skip


def slice1(
    x: Any,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    output_sizes: Sequence[int] | None = None,
    out: Any = None,
    device: DeviceLike = None,
) -> Any:
    """Copy a strided, possibly mirrored window of an array.

    >>> import numpy as np, vkdml
    >>> vkdml.slice1(np.arange(16).reshape(4, 4), (0, 1), (4, 3), (-2, 2))
    array([[13, 15],
           [ 5,  7]])

    Args:
        x: array of any shape and strides whose elements have 1, 2, 4, 8 or 16 bytes; they move bit for bit.
        offsets: the window's first element in each dimension.
        sizes: the window's extent in each dimension, in elements of ``x``.
        strides: the step in each dimension, not 0; a negative one starts at the window's end.
        output_sizes: elements to copy in each dimension; by default, and at most, as many as the window
            holds: ``1 + (size - 1) // abs(stride)``.
        out: array of the result's shape and dtype to write to, with any strides.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device.

    Returns:
        The copied elements, in a new array or in ``out``.

    Raises:
        ValueError: a window that is not inside ``x``, a stride of 0, too great an output, or an ``out`` of
            another shape.
        TypeError: elements of another size, or Python objects.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.

    Source of the rule: DirectML's ``DML_SLICE1_OPERATOR_DESC``.
    """
    copy = array_ops.slice1 if isinstance(x, Array) else host_ops.slice1
    return copy(x, offsets, sizes, strides, output_sizes, out, device)


__all__ = ["argmax", "argmin", "slice1"]
