"""The operators on host arrays: sent to a device, run there, results as NumPy gives them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml import arguments, stream
from vkdml.arguments import Reduction, context
from vkdml.device import Device, DevicesLike, resolve, resolve_all
from vkdml.host import copy_bytes, elements_overlap, empty, host_span
from vkdml.layout import canonical_reduce, row_major_strides
from vkdml.plan import Plan
from vkdml.planning import argreduce_plan, slice1_plan


class ArgReduceResult(NamedTuple):
    """What ``return_values=True`` returns."""

    indices: Any
    """The chosen indices."""
    values: Any
    """The chosen elements, bit for bit, in the input's dtype."""


def slice1(
    x: Any,
    offsets: Any,
    sizes: Any,
    strides: Any,
    output_sizes: Any,
    out: Any,
    device: DevicesLike,
    progress: stream.Progress,
) -> npt.NDArray[Any]:
    """See :func:`vkdml.slice1`."""
    array = np.asarray(x)
    with context("slice1", array):
        arguments.require_movable(array.dtype)
        window = arguments.window(array.shape, offsets, sizes, strides, output_sizes)
        shape = window.shape
        result = _out_array(out, shape, array.dtype, "out")
        if math.prod(shape) == 0:
            return np.empty(shape, array.dtype) if result is None else result
        inside = _view(array, window.inside)
        devices = resolve_all(device)
        largest = max(_distinct_bytes(inside), math.prod(shape) * array.itemsize)
        if _is_streamed(largest, devices, progress):
            stepped = _view(inside, (slice(None, None, step) for step in window.steps))
            whole = stream.copy(_view(stepped, map(slice, shape)), devices=devices, progress=progress)
            whole_result: npt.NDArray[Any] = whole if result is None else _deliver(whole, result)
            return whole_result
        (target,) = devices
        span = host_span(inside)
        base = span.base
        step_strides = []
        for size, stride, step in zip(span.sizes, span.strides, window.steps, strict=True):
            base += (size - 1) * stride if step < 0 else 0
            step_strides.append(stride * step)
        plan = slice1_plan(
            shape,
            tuple(step_strides),
            base,
            span.flat.size,
            row_major_strides(shape),
            array.itemsize,
            target.limits,
        )
        copied = _run(target, plan, span.flat, array.dtype, {"output": (shape, array.dtype)})["output"]
        delivered: npt.NDArray[Any] = copied if result is None else _deliver(copied, result)
        return delivered


def argreduce(
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
    progress: stream.Progress,
) -> Any:
    """See :func:`vkdml.argmax`; ``name`` is argmin or argmax."""
    call = None
    if out is None and progress is None and not return_values:
        call = _call_key(name, x, axis, keepdims, dtype, direction, nan_policy)
    if call in _repeatable and call is not None and not isinstance(device, list | tuple):
        target = resolve(device)
        plan = target.plans.get(call)
        if isinstance(plan, Plan):
            try:
                results = _run(target, plan, x.reshape(-1), x.dtype, _repeatable[call])
            except (MemoryError, RuntimeError) as error:
                with context(name, x):
                    raise error
            return _deliver(results["indices"], None)
    array = np.asarray(x)
    with context(name, array):
        out_indices, out_values = arguments.out_pair(out, return_values)
        if dtype is None and isinstance(out_indices, np.ndarray):
            dtype = out_indices.dtype
        wish = arguments.reduction(
            name, array.shape, array.dtype, axis, keepdims, dtype, direction, nan_policy
        )
        out_indices = _out_array(out_indices, wish.shape, wish.index_dtype, "out")
        out_values = _out_array(out_values, wish.shape, array.dtype, "the values of out")
        wish.require_elements(name)
        wanted = {"indices": (wish.shape, wish.index_dtype)}
        if return_values:
            wanted["values"] = (wish.shape, array.dtype.newbyteorder("="))
        if math.prod(wish.shape) == 0:
            results = {role: np.empty(*description) for role, description in wanted.items()}
        else:
            results = _reduce(array, wish, wanted, device, call, progress)
        indices = _deliver(results["indices"], out_indices)
        if not return_values:
            return indices
        values = results["values"].astype(array.dtype, copy=False)
        return ArgReduceResult(indices, _deliver(values, out_values))


def _reduce(
    x: npt.NDArray[Any],
    wish: Reduction,
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]],
    device: DevicesLike,
    call: Hashable | None,
    progress: stream.Progress,
) -> dict[str, npt.NDArray[Any]]:
    axes = wish.axes
    if not any(size > 1 and x.strides[a] != 0 for a, size in enumerate(x.shape) if a in axes):
        # One distinct element for each output: nothing competes, so nothing needs a device.
        layout = canonical_reduce(x.shape, x.strides, axes, (0,) * x.ndim, take_last=wish.take_last)
        results = {"indices": empty(wish.shape, wish.index_dtype)}
        results["indices"].fill(layout.index_base)
        if "values" in wanted:
            chosen = _view(x, (slice(1) if a in axes else slice(None) for a in range(x.ndim)))
            opaque = f"V{x.itemsize}"
            results["values"] = empty(wish.shape, x.dtype)
            results["values"].view(opaque)[...] = chosen.view(opaque).reshape(wish.shape)
        return results
    devices = resolve_all(device)
    if _is_streamed(_distinct_bytes(x), devices, progress):
        return _stream(x, wish, wanted, devices, progress)
    (target,) = devices
    span = host_span(x)
    plan = argreduce_plan(
        x.shape,
        span.strides,
        span.base,
        span.flat.size,
        axes,
        row_major_strides(wish.kept_shape),
        wish.element,
        wish.take_min,
        wish.take_last,
        wish.omit_nan,
        wish.index_dtype.itemsize,
        "values" in wanted,
        target.limits,
    )
    if call is not None and list(wanted) == ["indices"]:
        if len(_repeatable) >= REPEATABLE_CALLS:
            _repeatable.clear()
        if len(target.plans) >= REPEATABLE_CALLS:
            target.plans.clear()
        _repeatable[call] = wanted
        target.plans[call] = plan
    with suppress(MemoryError) if x.nbytes > target.limits.tuning.stream_tile_bytes else nullcontext():
        return _run(target, plan, span.flat, x.dtype.newbyteorder("="), wanted)
    # In parts there may be room.
    return _stream(x, wish, wanted, devices, progress)


def _stream(
    x: npt.NDArray[Any],
    wish: Reduction,
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]],
    devices: list[Device],
    progress: stream.Progress,
) -> dict[str, npt.NDArray[Any]]:
    """Reduce in tiles."""
    indices, values = stream.reduce(
        x,
        wish.axes,
        element=wish.element,
        take_min=wish.take_min,
        take_last=wish.take_last,
        omit_nan=wish.omit_nan,
        with_values="values" in wanted,
        devices=devices,
        progress=progress,
    )
    results = {"indices": indices.reshape(wish.shape).astype(wish.index_dtype, copy=False)}
    if values is not None:
        results["values"] = values.reshape(wish.shape)
    return results


def _is_streamed(nbytes: int, devices: list[Device], progress: stream.Progress) -> bool:
    return len(devices) > 1 or progress is not None or stream.wanted(nbytes, devices[0].limits)


def _distinct_bytes(x: npt.NDArray[Any]) -> int:
    """Return the bytes of all elements, those repeated along a stride of 0 counted once."""
    sizes = (size for size, stride in zip(x.shape, x.strides, strict=True) if stride)
    return int(math.prod(sizes) * x.itemsize)


# Calls that were right once: what they want. The next one of the kind need not be looked at again.
_repeatable: dict[Hashable, dict[str, tuple[tuple[int, ...], np.dtype[Any]]]] = {}
REPEATABLE_CALLS = 1024


def _call_key(name: str, x: Any, axis: Any, *options: Any) -> Hashable | None:
    """Return what tells calls on compact arrays apart, or None for any other call."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous or not x.dtype.isnative:
        return None
    return arguments.call_key((name, x.shape, x.dtype), axis, *options)


def _run(
    device: Device,
    plan: Plan,
    flat: npt.NDArray[Any],
    upload_dtype: np.dtype[Any],
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]],
) -> dict[str, npt.NDArray[Any]]:
    """Upload (in the byte order that the kernels want), run and download; all bits stay as they are."""
    results = {}
    executions = device.executions
    execution = executions.take(plan)
    upload = execution.views["input"][: flat.nbytes]
    if flat.dtype == upload_dtype:
        copy_bytes(upload, flat.view(np.uint8))
    else:
        np.copyto(upload.view(upload_dtype), flat)
    try:
        execution.run()
    except MemoryError as error:
        raise executions.explained(error, plan) from None
    for role, (shape, dtype) in wanted.items():
        result = empty(shape, dtype)
        target = result.reshape(-1).view(np.uint8)
        copy_bytes(target, execution.views[role][: target.size])
        results[role] = result
    executions.give_back(plan, execution)
    return results


def _deliver(result: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> Any:
    """Return the result as NumPy would: in ``out``, or a scalar for no dimensions."""
    if out is None:
        return result if result.ndim else result[()]
    # As plain bytes: NumPy's assignment may settle a bool's bits.
    opaque = f"V{result.itemsize}"
    out.view(opaque)[...] = result.view(opaque)
    return out


def _out_array(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any] | None:
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise TypeError(
            f"{what} must be a NumPy array of shape {shape} and type {dtype}, not {type(out).__name__}"
        )
    if out.shape != shape:
        raise ValueError(f"{what} has shape {out.shape}, the result has shape {shape}")
    if out.dtype != dtype:
        raise TypeError(f"{what} has type {out.dtype}, the result has type {dtype}")
    if not out.flags.writeable:
        raise ValueError(
            f"{what} is read-only; accepted is a writeable array of shape {shape} and type {dtype}"
        )
    if elements_overlap(out):
        raise ValueError(
            f"{what} of shape {shape} has strides of {out.strides} bytes, which puts several elements in one "
            "place; accepted are strides that give each element a place of its own"
        )
    return out


def _view(array: npt.NDArray[Any], slices: Iterable[slice]) -> npt.NDArray[Any]:
    # The ellipsis keeps an array of no dimensions one: a scalar has no byte order, and may lose bits.
    index: tuple[Any, ...] = (*slices, ...)
    view: npt.NDArray[Any] = array[index]
    return view
