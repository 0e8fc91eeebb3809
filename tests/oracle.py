"""What argmax, argmin and slice1 must answer, in plain NumPy: slow, obvious, no code of the library's.

Which element types there are is read from the schema of kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from vkdml.plan import kernels

AnyArray = npt.NDArray[Any]

ARGREDUCE_DTYPES = tuple(kernels.elements())
SMALL_FLOATS = tuple(name for name, element in kernels.elements().items() if element.package == "ml_dtypes")
FLOAT_DTYPES = tuple(name for name, element in kernels.elements().items() if element.is_float)
OUTPUT_DTYPES = ("int64", "int32", "uint64", "uint32")
OPERATORS = ("argmax", "argmin")
DIRECTIONS = ("increasing", "decreasing")
NAN_POLICIES = ("propagate", "omit")


def dtype_named(name: str) -> np.dtype[Any]:
    """np.dtype(name), also for the names that ml_dtypes adds."""
    if name in SMALL_FLOATS:
        name = getattr(ml_dtypes, name)
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def raw(x: AnyArray) -> AnyArray:
    """The same elements as opaque bytes: copying these never quiets a NaN or turns a boolean 2 into 1."""
    return x.view(f"V{x.dtype.itemsize}")


def numbers(x: AnyArray) -> AnyArray:
    """The elements as values that NumPy compares exactly: floats as float64, integers as they are."""
    if x.dtype == np.bool_:
        return np.not_equal(x.view(np.uint8), 0)
    if x.dtype.name in SMALL_FLOATS or x.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a signalling NaN among them
            return x.astype(np.float64)
    return x.astype(x.dtype.newbyteorder("="))


def axis_set(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The reduced axes, non-negative and ascending."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (int, np.integer)):
        return (int(axis) % rank,) if rank else ()
    return tuple(sorted(a % rank for a in axis))


def candidates(rows: AnyArray, op: str, nan_policy: str) -> npt.NDArray[np.bool_]:
    """Which elements of each row (second axis) may be chosen: the equals among which direction decides."""
    if rows.dtype.kind != "f":
        extreme = rows.max(axis=1, keepdims=True) if op == "argmax" else rows.min(axis=1, keepdims=True)
        return np.asarray(rows == extreme)
    nan = np.isnan(rows)
    loser = -np.inf if op == "argmax" else np.inf
    without_nan = np.where(nan, loser, rows)
    extreme = (
        without_nan.max(axis=1, keepdims=True) if op == "argmax" else without_nan.min(axis=1, keepdims=True)
    )
    is_extreme = (rows == extreme) & ~nan  # == holds between -0.0 and +0.0
    if nan_policy == "propagate":
        return np.where(nan.any(axis=1, keepdims=True), nan, is_extreme)
    return np.where(nan.all(axis=1, keepdims=True), True, is_extreme)


def argreduce(
    x: AnyArray,
    axis: int | Sequence[int] | None = None,
    op: str = "argmax",
    direction: str = "increasing",
    nan_policy: str = "propagate",
    keepdims: bool = False,
    dtype: str = "int64",
) -> tuple[AnyArray, AnyArray]:
    """(indices, values) of argmax or argmin over a set of axes; values are the elements' very bytes."""
    reduced = axis_set(axis, x.ndim)
    kept = tuple(a for a in range(x.ndim) if a not in reduced)
    kept_shape = tuple(x.shape[a] for a in kept)
    count = int(np.prod([x.shape[a] for a in reduced], dtype=object))
    if count == 0:
        raise ValueError(f"attempt to get {op} of an empty sequence")
    rows_count = int(np.prod(kept_shape, dtype=object))
    rows = x.transpose(kept + reduced).reshape(rows_count, count)
    with np.errstate(invalid="ignore"):
        chosen = candidates(numbers(rows), op, nan_policy) if rows_count else np.ones((0, count), bool)
    index = chosen.argmax(axis=1) if direction == "increasing" else count - 1 - chosen[:, ::-1].argmax(axis=1)
    shape = tuple(1 if a in reduced else x.shape[a] for a in range(x.ndim)) if keepdims else kept_shape
    values = raw(rows)[np.arange(rows_count), index].view(x.dtype)
    return index.astype(dtype).reshape(shape), values.reshape(shape)


def max_copied_elements(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """MaxCopiedElements of the SLICE1 documentation, with the magnitude of the stride."""
    return tuple(1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True))


def slice1(
    x: AnyArray,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> AnyArray:
    """The pseudo-code of the SLICE1 documentation: Output[c] = Input[CopyStart + InputWindowStrides * c]."""
    copy_start = list(offsets)
    for i in range(x.ndim):
        if strides[i] < 0:
            copy_start[i] += sizes[i] - 1
    if output_sizes is None:
        output_sizes = max_copied_elements(sizes, strides)
    result = raw(x)
    for i in range(x.ndim):
        coordinates = [copy_start[i] + strides[i] * c for c in range(output_sizes[i])]
        result = result.take(coordinates, axis=i)
    return result.view(x.dtype)
