"""The operators on arrays that lie on a device: they read through views, and results stay there."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkdml import arguments
from vkdml.arguments import Reduction, context
from vkdml.arrays.indexing import View
from vkdml.operators.host import ArgReduceResult
from vkdml.plan.cache import KnownCall, argreduce_plan, known_calls, slice1_plan
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device, DevicesLike, resolve_all
from vkdml.runtime.memory import Memory

if TYPE_CHECKING:
    from vkdml.arrays.array import Array


def require_same_device(first: Device, second: Device) -> None:
    """Raise ValueError, naming both, where two arrays lie on different devices.

    Raises:
        DeviceError: one of the devices was lost or closed, and may be the other as it was before.
    """
    if first is not second:
        first.require_usable()
        second.require_usable()
        raise ValueError(
            f"arrays on two devices, {first!r} and {second!r}, cannot be combined: copy one with to_device()"
        )


def require_all_on(lies_on: Device, device: DevicesLike) -> None:
    """Raise ValueError where ``device=`` means others than the one that the array lies on."""
    for other in resolve_all(device):
        if other is not lies_on:
            lies_on.require_usable()
            raise ValueError(
                f"the array's device and the one of device= are two, {lies_on!r} and {other!r}: "
                "accepted are None and the array's own; to_device() copies it to another"
            )


def argreduce(
    name: str,
    x: Array,
    axis: Any,
    keepdims: bool,
    dtype: Any,
    direction: str,
    nan_policy: str,
    return_values: bool,
    out: Any,
    device: DevicesLike,
) -> Any:
    """See :func:`vkdml.argmax`; ``name`` is argmin or argmax."""
    call = None
    if device is None and out is None and not return_values:
        described = ("array", id(x.device), name, x.view.shape, x.view.strides, x.binding[1], x.dtype)
        call = arguments.call_key(described, axis, keepdims, dtype, direction, nan_policy)
        known = None if call is None else known_calls.get(call)
        if known is not None and known.limits is x.device.limits:
            try:
                indices = _fresh(x.device, known.shape, known.index_dtype)
                x.device.executions.run(known.plan, {"input": x.binding[0], "indices": indices.binding[0]})
            except (MemoryError, RuntimeError) as error:
                with context(name, x):
                    raise error
            return indices
    with context(name, x):
        if device is not None:
            require_all_on(x.device, device)
        x.device.require_usable()
        out_indices, out_values = arguments.out_pair(out, return_values)
        if dtype is None and out_indices is not None and hasattr(out_indices, "dtype"):
            dtype = out_indices.dtype
        wish = arguments.reduction(name, x.shape, x.dtype, axis, keepdims, dtype, direction, nan_policy)
        _check_out(out_indices, x, wish.shape, wish.index_dtype, "out")
        _check_out(out_values, x, wish.shape, x.dtype, "the values of out")
        if out_indices is not None and out_values is not None and out_indices.overlaps(out_values):
            raise ValueError("the indices and the values of out overlap; accepted are separate arrays")
        wish.require_elements(name)
        indices, values = _reduce(x, wish, return_values, out_indices, out_values, call)
        return ArgReduceResult(indices, values) if return_values else indices


def _reduce(
    x: Array,
    wish: Reduction,
    with_values: bool,
    out_indices: Array | None,
    out_values: Array | None,
    call: Hashable | None,
) -> tuple[Array, Array | None]:
    device = x.device
    if math.prod(wish.shape) == 0:
        empty_values = _target(out_values, x, wish.shape, x.dtype) if with_values else None
        return _target(out_indices, x, wish.shape, wish.index_dtype), empty_values
    if not any(x.shape[a] > 1 and x.view.strides[a] != 0 for a in wish.axes):
        return _uncontested(x, wish, with_values, out_indices, out_values)

    # Written in place where that disturbs nothing and one layout describes all outputs.
    indices = _target(out_indices, x, wish.shape, wish.index_dtype)
    values = None
    if with_values:
        values = _target(out_values, x, wish.shape, x.dtype)
        if _output_layout(values, wish) != _output_layout(indices, wish):
            indices = _fresh(device, wish.shape, wish.index_dtype)
            values = _fresh(device, wish.shape, x.dtype)
    plan = _plan(x, wish, indices, with_values)
    regions = {"input": x.binding[0], "indices": indices.binding[0]}
    if values is not None:
        regions["values"] = values.binding[0]
    device.executions.run(plan, regions)
    if call is not None:
        known_calls.put(call, KnownCall(plan, device.limits, wish.shape, wish.index_dtype))
    if out_indices is not None and indices is not out_indices:
        indices = copy_to(indices, out_indices)
    if out_values is not None and values is not None and values is not out_values:
        values = copy_to(values, out_values)
    return indices, values


def _target(out: Array | None, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return ``out`` if it can be written while ``x`` is read, else a new array."""
    return _fresh(x.device, shape, dtype) if out is None or out.overlaps(x) else out


def _plan(
    x: Array,
    wish: Reduction,
    indices: Array,
    with_values: bool,
    weights: tuple[int, ...] | None = None,
) -> Plan:
    """Return the plan that writes indices, and values that lie as these do."""
    _, base, elements = x.binding
    output_strides, output_base, output_elements = _output_layout(indices, wish)
    return argreduce_plan(
        x.shape,
        x.view.strides,
        base,
        elements,
        wish.axes,
        output_strides,
        wish.element,
        wish.take_min,
        wish.take_last,
        wish.omit_nan,
        indices.itemsize,
        with_values,
        x.device.limits,
        output_base,
        output_elements,
        weights,
    )


def _output_layout(out: Array, wish: Reduction) -> tuple[tuple[int, ...], int, int]:
    """Return strides with reduced dimensions kept, the element of coordinate 0, and the elements spanned."""
    _, base, elements = out.binding
    strides = out.view.strides
    if len(strides) != len(wish.kept_shape):
        kept = iter(strides)
        strides = tuple(0 if a in wish.axes else next(kept) for a in range(len(wish.kept_shape)))
    return strides, base, elements


def _uncontested(
    x: Array, wish: Reduction, with_values: bool, out_indices: Array | None, out_values: Array | None
) -> tuple[Array, Array | None]:
    """One distinct element for each output: nothing competes."""
    layout = canonical_reduce(x.shape, x.view.strides, wish.axes, (0,) * x.ndim, take_last=wish.take_last)
    values = None
    if with_values:
        chosen = x[tuple(slice(1) if a in wish.axes else slice(None) for a in range(x.ndim))]
        reshaped = chosen if chosen.shape == wish.shape else _without(chosen, wish.axes)
        values = copy_to(reshaped, out_values)
    indices = _fresh(x.device, wish.shape, wish.index_dtype) if out_indices is None else out_indices
    indices[...] = np.array(layout.index_base, wish.index_dtype)
    return indices, values


def _without(x: Array, axes: tuple[int, ...]) -> Array:
    return x[tuple(0 if a in axes else slice(None) for a in range(x.ndim))]


def slice1(
    x: Array, offsets: Any, sizes: Any, strides: Any, output_sizes: Any, out: Any, device: DevicesLike
) -> Array:
    """See :func:`vkdml.slice1`."""
    with context("slice1", x):
        if device is not None:
            require_all_on(x.device, device)
        window = arguments.window(x.shape, offsets, sizes, strides, output_sizes)
        _check_out(out, x, window.shape, x.dtype, "out")
        stepped = x[window.inside][tuple(slice(None, None, step) for step in window.steps)]
        return copy_to(stepped[tuple(slice(size) for size in window.shape)], out)


def copy_to(x: Array, out: Array | None) -> Array:
    """Copy elements on the device into a new compact array, or into one of the same shape and dtype."""
    device = x.device
    device.require_usable()
    result = _fresh(device, x.shape, x.dtype) if out is None else out
    if x.size == 0:
        return result
    if result.overlaps(x):
        x = copy_to(x, None)
    region, base, elements = x.binding
    output_region, output_base, output_elements = result.binding
    plan = slice1_plan(
        x.shape,
        x.view.strides,
        base,
        elements,
        result.view.strides,
        x.itemsize,
        device.limits,
        output_base,
        output_elements,
    )
    device.executions.run(plan, {"input": region, "output": output_region})
    return result


class StartedReduction:
    """The reduction of a part of a greater array, under way on the part's device."""

    def __init__(self, x: Array, wish: Reduction, weights: tuple[int, ...]) -> None:
        """Start it; the index counts with the weights of the whole array."""
        device = x.device
        # Values too, which the parts' candidates are compared by.
        indices = _fresh(device, wish.kept_shape, np.dtype(np.uint64))
        values = _fresh(device, wish.kept_shape, x.dtype)
        plan = _plan(x, wish, indices, True, weights)
        self._device = device
        self._results = indices, values
        self._rebindable = device.executions.take_rebindable(plan)
        self._rebindable.submit(
            {"input": x.binding[0], "indices": indices.binding[0], "values": values.binding[0]}
        )

    def finish(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
        """Wait, and return indices and values on the host."""
        self._rebindable.wait()
        self._device.executions.give_back_rebindable(self._rebindable)
        indices, values = self._results
        return indices.numpy(), values.numpy()


def _fresh(device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    from vkdml.arrays.array import array_in

    nbytes = math.prod(shape) * dtype.itemsize
    memory = Memory(device, nbytes, near_host=nbytes <= device.limits.tuning.shared_bytes)
    return array_in(memory, dtype, View(shape, row_major_strides(shape), 0))


def _check_out(out: Any, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    if out is None:
        return
    if not isinstance(out, type(x)):
        raise TypeError(
            f"{what} must be a vkdml.Array of shape {shape} and type {dtype}, as the input is one, "
            f"not {type(out).__name__}"
        )
    require_same_device(x.device, out.device)
    if out.shape != shape:
        raise ValueError(f"{what} has shape {out.shape}, the result has shape {shape}")
    if out.dtype != dtype:
        raise TypeError(f"{what} has type {out.dtype}, the result has type {dtype}")
    if not out.writeable:
        raise ValueError(
            f"{what} repeats elements and is read-only; accepted is a writeable array of shape {shape}"
        )


__all__ = ["StartedReduction", "argreduce", "copy_to", "require_same_device", "slice1"]
