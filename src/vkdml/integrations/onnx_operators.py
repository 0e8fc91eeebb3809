"""ONNX's ArgMax, ArgMin and Slice of known shapes, as DirectML's operators; needs no onnx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.exceptions import AxisError

from vkdml import ops
from vkdml.arguments import NanPolicy
from vkdml.common import windows
from vkdml.dml import (
    TENSOR_DIMENSION_COUNT_MAX1,
    ArgMaxOperatorDesc,
    ArgMinOperatorDesc,
    AxisDirection,
    BufferTensorDesc,
    DataType,
    OperatorDesc,
    Slice1OperatorDesc,
    validate,
)
from vkdml.runtime.device import DeviceLike

# DirectML's strides are 32-bit integers. A longer stride selects the same single element.
_STRIDES = range(-(2**31), 2**31)


@dataclass(frozen=True)
class ArgReduction:
    """An ArgMax or ArgMin of one shape.

    >>> ArgReduction("argmax", (2, 3), axis=1, keepdims=False, take_last=True).output_sizes
    (2, 1)
    """

    function: Literal["argmax", "argmin"]
    sizes: tuple[int, ...]
    axis: int
    """From 0 on."""
    keepdims: bool
    take_last: bool

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """Of DirectML's tensor, which keeps the reduced dimension whether or not ``keepdims`` says so."""
        return (*self.sizes[: self.axis], 1, *self.sizes[self.axis + 1 :])

    def desc(self, dtype: np.dtype[Any], where: str) -> OperatorDesc:
        """Return the descriptor, whose indices are INT64, as ONNX wants them."""
        kind = ArgMaxOperatorDesc if self.function == "argmax" else ArgMinOperatorDesc
        return kind(
            _tensor(self.sizes, dtype, f"{where}: the input"),
            _tensor(self.output_sizes, np.dtype(np.int64), f"{where}: the result"),
            axes=(self.axis,),
            axis_direction=AxisDirection.DECREASING if self.take_last else AxisDirection.INCREASING,
        )

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Tell whether indices of this type hold every index that can occur."""
        return self.sizes[self.axis] - 1 <= int(np.iinfo(dtype).max)

    def run(self, x: Any, dtype: np.dtype[Any], nan_policy: NanPolicy, device: DeviceLike) -> Any:
        """Reduce an array of the host or of a device; the indices are there too."""
        function = ops.argmax if self.function == "argmax" else ops.argmin
        return function(
            x,
            axis=self.axis,
            keepdims=self.keepdims,
            dtype=dtype,
            direction="decreasing" if self.take_last else "increasing",
            nan_policy=nan_policy,
            device=device,
        )


@dataclass(frozen=True)
class OnnxWindow:
    """A Slice of one shape: a window of the input in each dimension, as DirectML's SLICE1 takes it."""

    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    output_sizes: tuple[int, ...]

    def desc(self, dtype: np.dtype[Any], where: str) -> OperatorDesc:
        """Return the descriptor. DirectML moves a boolean as the byte that it is."""
        return Slice1OperatorDesc(
            _tensor(self.sizes, dtype, f"{where}: the input"),
            _tensor(self.output_sizes, dtype, f"{where}: the result"),
            input_window_offsets=self.offsets,
            input_window_sizes=self.window_sizes,
            input_window_strides=self.strides,
        )

    def run(self, x: Any, device: DeviceLike) -> Any:
        """Copy the window of an array of the host or of a device; the copy is there too."""
        return ops.slice1(
            x, self.offsets, self.window_sizes, self.strides, output_sizes=self.output_sizes, device=device
        )


def axis_of(axis: int, rank: int, where: str) -> int:
    """Return an axis counted from 0.

    >>> axis_of(-1, 3, "ArgMax")
    2

    Raises:
        numpy.exceptions.AxisError: there is no such axis.
    """
    if not -rank <= axis < rank:
        accepted = (
            f"accepted are {-rank} to {rank - 1}" if rank else "accepted are inputs of 1 dimension or more"
        )
        raise AxisError(f"{where}: axis {axis} of an input of {rank} dimensions; {accepted}")
    return axis % rank


def window(
    sizes: tuple[int, ...],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
    where: str,
) -> OnnxWindow:
    """Return the window that ONNX's Slice means.

    It spans all from the lower bound to the upper one, also what the last step does not reach. A start below
    a dimension's first element means the first element, also where the step is negative. onnx's reference
    evaluator differs there: it follows NumPy, where such a start selects nothing.

    >>> w = window((10,), starts=[-2], ends=[-(2**63)], axes=None, steps=[-3], where="Slice")
    >>> w.offsets, w.window_sizes, w.strides, w.output_sizes
    ((0,), (9,), (-3,), (3,))

    Args:
        sizes: of the input.
        starts, ends: one of each for each of ``axes``, of any size.
        axes: None for the first dimensions, as many as there are starts.
        steps: None for 1.
        where: names the node in messages.

    Raises:
        ValueError: lists of different lengths, an axis that is named twice, a step of 0.
        numpy.exceptions.AxisError: there is no such axis.

    Source of the rule: ONNX's Slice-13; ONNX Runtime's ``SliceHelper`` for windows.
    """
    counts = {"starts": len(starts), "ends": len(ends)}
    counts |= {name: len(v) for name, v in (("axes", axes), ("steps", steps)) if v is not None}
    if len(set(counts.values())) > 1:
        given = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"{where}: {given}; accepted is one of each for each dimension that is sliced")
    rank = len(sizes)
    of = [axis_of(axis, rank, where) for axis in (range(len(starts)) if axes is None else axes)]
    if len(set(of)) < len(of):
        raise ValueError(
            f"{where}: axes {list(axes or of)} name a dimension twice; accepted are distinct axes"
        )
    offsets, window_sizes, strides, output_sizes = [0] * rank, list(sizes), [1] * rank, list(sizes)
    for axis, start, end, step in zip(of, starts, ends, steps or [1] * len(of), strict=True):
        if step == 0:
            raise ValueError(f"{where}: the step along axis {axis} is 0; accepted is any other integer")
        size = sizes[axis]
        low, high = (bound + size if bound < 0 else bound for bound in (start, end))
        if step < 0:  # from the start down to the element after the end
            low, high = high + 1, max(low, 0) + 1
        low, high = min(max(low, 0), size), min(high, size)
        extent = max(high - low, 0)
        offsets[axis], window_sizes[axis] = low, extent
        strides[axis] = min(max(step, _STRIDES.start), _STRIDES.stop - 1)
        output_sizes[axis] = windows.taken(extent, step)
    return OnnxWindow(sizes, tuple(offsets), tuple(window_sizes), tuple(strides), tuple(output_sizes))


def checked(desc: OperatorDesc, where: str) -> OperatorDesc:
    """Return a descriptor that DirectML accepts at its newest level for these operators.

    Raises:
        ValueError: it does not; the message says which field, and what is accepted.
    """
    try:
        validate(desc)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return desc


def _tensor(sizes: tuple[int, ...], dtype: np.dtype[Any], where: str) -> BufferTensorDesc:
    name = "UINT8" if dtype == np.bool_ else dtype.name.upper()
    if name not in DataType.__members__:
        raise TypeError(
            f"{where} has elements of type {dtype}, for which DirectML has no data type; accepted are "
            f"{', '.join(member.name.lower() for member in DataType if member.size_in_bits >= 8)} and bool"
        )
    if not 1 <= len(sizes) <= TENSOR_DIMENSION_COUNT_MAX1 or not prod(sizes):
        raise ValueError(
            f"{where} has the shape {sizes}; accepted by DirectML are 1 to {TENSOR_DIMENSION_COUNT_MAX1} "
            "dimensions of at least one element each"
        )
    return BufferTensorDesc(DataType[name], sizes=sizes)
