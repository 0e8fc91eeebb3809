"""The operators on host arrays: sent to a device, run there, results as NumPy gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from vkdml import arguments
from vkdml.arguments import Reduction, context
from vkdml.arrays.host import (
    HostSpan,
    as_host_array,
    copy_bytes,
    elements_overlap,
    empty,
    host_span,
    may_share_bytes,
    sent_bytes,
)
from vkdml.operators import stream
from vkdml.plan.cache import KnownCall, argreduce_plan, known_calls, slice1_plan
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.plans import DeviceLimits, Plan, TooMuchWork
from vkdml.runtime.device import Device, DevicesLike, resolve, resolve_all

Wanted = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and type of each result."""


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
    with context("slice1", x):
        array = as_host_array(x)
    with context("slice1", array):
        arguments.require_movable(array.dtype)
        window = arguments.window(array.shape, offsets, sizes, strides, output_sizes)
        result = _out_array(out, window.shape, array.dtype, "out")
        devices = _checked(device, progress)
        if math.prod(window.shape) == 0:
            stream.report_all(progress, 0)
            return np.empty(window.shape, array.dtype) if result is None else result
        copied = _copy(array, window, devices or resolve_all(device), progress)
        delivered: npt.NDArray[Any] = copied if result is None else _deliver(copied, result)
        return delivered


def _copy(
    x: npt.NDArray[Any], window: arguments.Window, devices: list[Device], progress: stream.Progress
) -> npt.NDArray[Any]:
    inside = _view(x, window.inside)
    shape = window.shape

    def in_tiles() -> npt.NDArray[Any]:
        stepped = _view(inside, (slice(None, None, step) for step in window.steps))
        return stream.copy(_view(stepped, map(slice, shape)), devices=devices, progress=progress)

    def plan(span: HostSpan, limits: DeviceLimits) -> Plan:
        base = span.base
        step_strides = []
        for size, stride, step in zip(span.sizes, span.strides, window.steps, strict=True):
            base += (size - 1) * stride if step < 0 else 0
            step_strides.append(stride * step)
        output_strides = row_major_strides(shape)
        return slice1_plan(
            shape, tuple(step_strides), base, span.flat.size, output_strides, x.itemsize, limits
        )

    needs = sent_bytes(inside), math.prod(shape) * x.itemsize
    wanted = {"output": (shape, x.dtype)}
    results = _in_one_piece(inside, x.dtype, wanted, needs, plan, devices, progress)
    return in_tiles() if results is None else results["output"]


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
        selector = device if device is None else _selector_key(device)
        call = _call_key(name, x, axis, keepdims, dtype, direction, nan_policy, selector)
        known = None if call is None else known_calls.get(call)
        if known is not None:
            try:
                target = resolve(device)  # type: ignore[arg-type]  # no list is remembered
                if known.limits is target.limits:
                    wanted = {"indices": (known.shape, known.index_dtype)}
                    results = _run(target, known.plan, x.reshape(-1), x.dtype, wanted)
                    return _deliver(results["indices"], None)
            except MemoryError:
                pass  # in tiles there may be room
            except (ValueError, TypeError, RuntimeError) as error:
                with context(name, x):
                    raise error
    with context(name, x):
        array = as_host_array(x)
    with context(name, array):
        out_indices, out_values = arguments.out_pair(out, return_values)
        if dtype is None and isinstance(out_indices, np.ndarray):
            dtype = out_indices.dtype
        wish = arguments.reduction(
            name, array.shape, array.dtype, axis, keepdims, dtype, direction, nan_policy
        )
        out_indices = _out_array(out_indices, wish.shape, wish.index_dtype, "out")
        out_values = _out_array(out_values, wish.shape, array.dtype, "the values of out")
        if out_indices is not None and out_values is not None and may_share_bytes(out_indices, out_values):
            raise ValueError("the indices and the values of out overlap; accepted are separate arrays")
        devices = _checked(device, progress)
        wish.require_elements(name)
        wanted = {"indices": (wish.shape, wish.index_dtype)}
        if return_values:
            wanted["values"] = (wish.shape, array.dtype.newbyteorder("="))
        if math.prod(wish.shape) == 0:
            stream.report_all(progress, 0)
            results = {role: np.empty(*description) for role, description in wanted.items()}
        elif not any(array.shape[a] > 1 and array.strides[a] != 0 for a in wish.axes):
            results = _uncontested(array, wish, wanted)
            stream.report_all(progress, array.nbytes)
        else:
            results = _reduce(array, wish, wanted, devices or resolve_all(device), call, progress)
        indices = _deliver(results["indices"], out_indices)
        if not return_values:
            return indices
        values = results["values"].astype(array.dtype, copy=False)
        return ArgReduceResult(indices, _deliver(values, out_values))


def _checked(device: DevicesLike, progress: stream.Progress) -> list[Device] | None:
    """Check what not every call needs; return the devices that were asked for, None for the default one.

    That one is not opened for results that need no device.
    """
    stream.require_progress(progress)
    return None if device is None else resolve_all(device)


def _uncontested(x: npt.NDArray[Any], wish: Reduction, wanted: Wanted) -> dict[str, npt.NDArray[Any]]:
    """One distinct element for each output: nothing competes, so nothing needs a device."""
    axes = wish.axes
    layout = canonical_reduce(x.shape, x.strides, axes, (0,) * x.ndim, take_last=wish.take_last)
    results = {"indices": empty(wish.shape, wish.index_dtype)}
    results["indices"].fill(layout.index_base)
    if "values" in wanted:
        chosen = _view(x, (slice(1) if a in axes else slice(None) for a in range(x.ndim)))
        opaque = f"V{x.itemsize}"
        results["values"] = empty(wish.shape, x.dtype)
        results["values"].view(opaque)[...] = chosen.view(opaque).reshape(wish.shape)
    return results


def _reduce(
    x: npt.NDArray[Any],
    wish: Reduction,
    wanted: Wanted,
    devices: list[Device],
    call: Hashable | None,
    progress: stream.Progress,
) -> dict[str, npt.NDArray[Any]]:
    def plan(span: HostSpan, limits: DeviceLimits) -> Plan:
        return argreduce_plan(
            x.shape,
            span.strides,
            span.base,
            span.flat.size,
            wish.axes,
            row_major_strides(wish.kept_shape),
            wish.element,
            wish.take_min,
            wish.take_last,
            wish.omit_nan,
            wish.index_dtype.itemsize,
            "values" in wanted,
            limits,
        )

    outputs = [math.prod(shape) * dtype.itemsize for shape, dtype in wanted.values()]
    # Elements that overlap are sent once, but all of them are read.
    needs = sent_bytes(x), _distinct_bytes(x), *outputs
    results = _in_one_piece(x, x.dtype.newbyteorder("="), wanted, needs, plan, devices, progress, call)
    return _stream(x, wish, wanted, devices, progress) if results is None else results


def _in_one_piece(
    x: npt.NDArray[Any],
    upload_dtype: np.dtype[Any],
    wanted: Wanted,
    needs: tuple[int, ...],
    plan_of: Callable[[HostSpan, DeviceLimits], Plan],
    devices: list[Device],
    progress: stream.Progress,
    call: Hashable | None = None,
) -> dict[str, npt.NDArray[Any]] | None:
    """Return the results of one call on one device, or None where it must go in tiles.

    Args:
        x: to send.
        upload_dtype: in whose byte order.
        wanted: the results.
        needs: bytes of each buffer, as far as they are known without the plan.
        plan_of: returns the plan for a span and a device.
        devices: that were asked for; several share tiles.
        progress: if any is reported, by the tile.
        call: by which an argmin or argmax is remembered.
    """
    limits = devices[0].limits
    if len(devices) > 1 or stream.is_reported(progress) or stream.wanted(needs, limits):
        return None
    span = host_span(x)
    try:
        plan = plan_of(span, limits)
    except TooMuchWork:
        return None
    if stream.wanted((nbytes for _, nbytes in plan.buffer_bytes), limits):
        return None
    if call is not None:
        known_calls.put(call, KnownCall(plan, limits, *wanted["indices"]))
    # Where memory is short, there may be room for tiles.
    with suppress(MemoryError) if max(needs) > limits.tuning.stream_tile_bytes else nullcontext():
        return _run(devices[0], plan, span.flat, upload_dtype, wanted)
    return None


def _stream(
    x: npt.NDArray[Any],
    wish: Reduction,
    wanted: Wanted,
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


def _distinct_bytes(x: npt.NDArray[Any]) -> int:
    """Return the bytes of all elements, those repeated along a stride of 0 counted once."""
    sizes = (size for size, stride in zip(x.shape, x.strides, strict=True) if stride)
    return int(math.prod(sizes) * x.itemsize)


def _call_key(name: str, x: Any, axis: Any, *options: Any) -> Hashable | None:
    """Return what tells calls on compact arrays apart, or None for any other call."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous or not x.dtype.isnative:
        return None
    return arguments.call_key((name, x.shape, x.dtype), axis, *options)


def _selector_key(device: DevicesLike) -> Hashable:
    """Return what stands for ``device=`` in a call's key: no key keeps a device alive."""
    if isinstance(device, list | tuple):
        return (list(device),)  # cannot be hashed: such calls are not remembered
    return id(device) if isinstance(device, Device) else cast(Hashable, device)


def _run(
    device: Device,
    plan: Plan,
    flat: npt.NDArray[Any],
    upload_dtype: np.dtype[Any],
    wanted: Wanted,
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
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
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
