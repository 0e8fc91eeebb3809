"""The operators on device arrays: kernels read through views, and results stay on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml.arguments import CallKey, ReduceRequest, Reduction, SliceRequest, context, require_like_result
from vkdml.arrays.array import Array, allocated, array_in, require_same_device
from vkdml.arrays.indexing import View
from vkdml.errors import DeviceError
from vkdml.operators.progress import is_reported
from vkdml.operators.result import ArgReduceResult
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.layout import canonical_reduce, extent
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device, DevicesLike, resolve_all
from vkdml.runtime.memory import BINDING_ALIGNMENT, memory_in
from vkdml.runtime.pool import Lender
from vkdml.runtime.rebindable import Rebindable


class _KnownCall(NamedTuple):
    """What a call needs whose arguments are known to be valid: results are new arrays."""

    rebindables: Lender[Plan, Rebindable]
    low: int
    """Bytes from the first element of the array to the first in memory that is read."""
    results: tuple[tuple[np.dtype[Any], bool], ...]
    """Element type, and whether the host sees it."""
    view: View
    """The view of each result."""
    plan: Plan


def call_as_before(x: Array, key: CallKey | None) -> Any:
    """Return the result if a call of this key succeeded on an array that lies like this one, else None."""
    if key is None:
        return None
    # Each line counts: torch's whole call takes 18 us on an H100, of which 16 are the device's.
    memory, offset, layout = x.start_and_layout()
    device = memory.device
    try:
        known = device.executions.known_calls.get((key, layout))
    except (TypeError, DeviceError):  # an unhashable key or a closed device: the full path reports it
        return None
    if known is None:
        return None
    rebindables, low, results, view, _ = known
    if memory.is_cuda:
        return _result_in_cuda_memory(x, key, known)
    lent = rebindables.borrow()
    if lent is None:
        return None
    rebindable = lent[0]
    rebindable.runs_left -= 1
    if not rebindable.runs_left:
        rebindable.take_fixed_pipelines(device.executions)
    start = offset + low
    try:
        # As Array.region has it.
        buffers = rebindable.start_on(memory.buffer, start - start % BINDING_ALIGNMENT)
        if buffers is None:
            rebindables.give_back(lent)
            return None
        # While the device computes.
        arrays = [
            array_in(memory_in(device, buffer, is_visible), result, view)
            for buffer, (result, is_visible) in zip(buffers, results, strict=True)
        ]
        rebindable.wait()
    except MemoryError as error:
        with context(key[0], x):
            raise device.executions.explained(error, rebindable.plan) from None
    except RuntimeError as error:
        with context(key[0], x):
            raise error
    rebindables.give_back(lent)
    return arrays[0] if len(arrays) == 1 else ArgReduceResult(*arrays)


def _result_in_cuda_memory(x: Array, key: CallKey, known: _KnownCall) -> Any:
    """Reduce by the plan of a known call, with results that CUDA maps as it does the input."""
    # Copies of memory that CUDA maps are not remembered, and those of other memory do not fit.
    if key[0] == "slice1":
        return None
    results = [x.new_result(known.view.shape, dtype) for dtype, _ in known.results]
    roles = ("indices", "values")
    regions = {role: result.region for role, result in zip(roles, results, strict=False)}
    try:
        x.device.executions.run(known.plan, {"input": x.region, **regions})
    except (MemoryError, RuntimeError) as error:
        with context(key[0], x):
            raise error
    return results[0] if len(results) == 1 else ArgReduceResult(*results)


def reduce(x: Array, request: ReduceRequest) -> Any:
    """See :func:`vkdml.argmax`."""
    with context(request.operator, x):
        _require_usable(x, request)
        reduction = request.checked(x.shape, x.dtype)
        out_indices, out_values = request.outputs()
        _check_out(out_indices, x, reduction.shape, reduction.index_dtype, "out")
        _check_out(out_values, x, reduction.shape, x.dtype, "out for the values")
        if out_indices is not None and out_values is not None and out_indices.shares_bytes(out_values):
            raise ValueError("the indices and the values of out overlap; accepted are separate arrays")
        reduction.require_elements(request.operator)
        contested: bool = any(x.shape[a] > 1 and x.placement.strides[a] != 0 for a in reduction.axes)
        if math.prod(reduction.shape) == 0:
            indices, values = _targets(x, reduction, out_indices, out_values)
        elif not contested:
            indices, values = _uncontested(x, reduction, out_indices, out_values)
        else:
            indices, values = _targets(x, reduction, out_indices, out_values)
            plan = _plan(x, reduction, indices)
            regions = {"input": x.region, "indices": indices.region}
            if values is not None:
                regions["values"] = values.region
            x.device.executions.run(plan, regions)
            if out_indices is out_values is None:
                _remember(x, request, plan, indices, values)
            indices, values = _delivered(indices, out_indices), _delivered(values, out_values)
        return ArgReduceResult(indices, values) if reduction.with_values else indices


def _remember(x: Array, request: ReduceRequest, plan: Plan, indices: Array, values: Array | None) -> None:
    """Let :func:`call_as_before` know a reduction that succeeded."""
    if request.out is not None or request.device is not None or request.progress is not None:
        return
    results = [result for result in (indices, values) if result is not None]
    _remember_call(x, request.key, x, plan, results)


def _remember_call(x: Array, key: CallKey | None, read: Array, plan: Plan, results: Sequence[Array]) -> None:
    """Let :func:`call_as_before` know a call on an array, of which ``read`` is the view that it reads."""
    if key is None:
        return
    lowest = read.placement.offset + extent(read.shape, read.placement.strides)[0]
    low = (lowest - x.placement.offset) * x.itemsize
    described = tuple((result.dtype, result.memory.is_visible) for result in results)
    executions = x.device.executions
    known = _KnownCall(executions.rebindable_lender(plan), low, described, results[0].placement, plan)
    with suppress(TypeError):  # not hashable
        executions.known_calls[(key, x.start_and_layout()[2])] = known


def slice1(x: Array, request: SliceRequest) -> Array:
    """See :func:`vkdml.slice1`."""
    with context("slice1", x):
        _require_usable(x, request)
        window = request.checked(x.shape)
        _check_out(request.out, x, window.shape, x.dtype, "out")
        copied: Array = window.view_of(x)
        result = copied.copied_to(request.out)
        if request.out is request.device is request.progress is None:
            _remember_copy(x, request.key, copied, result)
        return result


def _remember_copy(x: Array, key: CallKey | None, copied: Array, result: Array) -> None:
    """Let :func:`call_as_before` know a copy that succeeded."""
    if copied.size and not x.memory.is_cuda and key is not None:
        plan = plan_for(CopyCall(copied.operand, result.operand, x.itemsize), x.device.limits)
        _remember_call(x, key, copied, plan, [result])


def _require_usable(x: Array, request: ReduceRequest | SliceRequest) -> None:
    """Raise for a device that is lost or is not the array's, and for ``progress=``."""
    if is_reported(request.progress):
        raise TypeError(
            "progress= is for host arrays, which are processed in tiles; an Array on a device is processed "
            "in one piece: accepted is progress=None"
        )
    if request.device is not None:
        _require_all_on(x.device, request.device)
    x.device.require_usable()


def _require_all_on(lies_on: Device, device: DevicesLike) -> None:
    """Raise ValueError if ``device=`` means another device than the array's."""
    for other in resolve_all(device):
        if other is not lies_on:
            lies_on.require_usable()
            raise ValueError(
                f"the array is on {lies_on!r}, and device= means {other!r}: "
                "accepted are None and the array's own; to_device() copies it to another"
            )


def _targets(
    x: Array, reduction: Reduction, out_indices: Array | None, out_values: Array | None
) -> tuple[Array, Array | None]:
    """Return where a kernel writes: ``out`` if it does not overlap the input and one layout fits both."""
    shape, index_dtype = reduction.shape, reduction.index_dtype
    indices = _target(out_indices, x, shape, index_dtype)
    if not reduction.with_values:
        return indices, None
    values = _target(out_values, x, shape, x.dtype)
    if math.prod(shape) and _output(values, reduction) != _output(indices, reduction):
        indices = x.new_result(shape, index_dtype)
        values = x.new_result(shape, x.dtype)
    return indices, values


def _delivered(written: Array | None, out: Array | None) -> Any:
    """Return what was written, copied to ``out`` if it is not there already."""
    return written if written is None or out is None or written is out else written.copied_to(out)


def _target(out: Array | None, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return ``out`` if it can be written while ``x`` is read, else a new array."""
    if out is None or out.overlaps(x):
        return x.new_result(shape, dtype)
    return out


def _plan(x: Array, reduction: Reduction, indices: Array, weights: tuple[int, ...] | None = None) -> Plan:
    """Return the plan that writes indices, and values with the same layout."""
    return plan_for(
        ReduceCall(
            x.operand,
            reduction.axes,
            reduction.order,
            _output(indices, reduction),
            indices.itemsize,
            reduction.with_values,
            weights,
        ),
        x.device.limits,
    )


def _output(out: Array, reduction: Reduction) -> Operand:
    """Return where the elements of a result lie, with reduced dimensions kept."""
    operand = out.operand
    if len(operand.sizes) == len(reduction.kept_shape):
        return operand
    kept = iter(operand.strides)
    strides = tuple(0 if a in reduction.axes else next(kept) for a in range(len(reduction.kept_shape)))
    return Operand(reduction.kept_shape, strides, operand.base, operand.span)


def _uncontested(
    x: Array, reduction: Reduction, out_indices: Array | None, out_values: Array | None
) -> tuple[Array, Array | None]:
    """Reduce where each output has one distinct element, so that nothing competes."""
    axes, order = reduction.axes, reduction.order
    layout = canonical_reduce(x.shape, x.placement.strides, axes, (0,) * x.ndim, take_last=order.take_last)
    values = None
    if reduction.with_values:
        values = x[tuple(slice(1) if a in axes else slice(None) for a in range(x.ndim))]
        if values.shape != reduction.shape:
            values = values[tuple(0 if a in axes else slice(None) for a in range(x.ndim))]
        values = values.copied_to(out_values)
    indices = out_indices
    if indices is None:
        indices = x.new_result(reduction.shape, reduction.index_dtype)
    indices[...] = np.array(layout.index_base, reduction.index_dtype)
    return indices, values


class StartedReduction:
    """The reduction of a part of a larger array, running on the part's device."""

    def __init__(self, x: Array, reduction: Reduction, weights: tuple[int, ...]) -> None:
        """Start it; the index counts with the weights of the whole array.

        Args:
            x: the part.
            reduction: of the part, values included, by which the parts' candidates are compared.
            weights: what a step along each axis adds to the index.
        """
        device, shape = x.device, reduction.kept_shape
        indices = allocated(device, shape, np.dtype(np.uint64), for_host=True)
        values = allocated(device, shape, x.dtype, for_host=True)
        self._device = device
        self._results = indices, values
        self._rebindable = device.executions.take_rebindable(_plan(x, reduction, indices, weights))
        self._rebindable.submit({"input": x.region, "indices": indices.region, "values": values.region})

    def finish(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any]]:
        """Wait, and return indices and values on the host."""
        self._rebindable.wait()
        self._device.executions.give_back_rebindable(self._rebindable)
        indices, values = self._results
        return indices.numpy(), values.numpy()


def _check_out(out: Any, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    if out is None:
        return
    if not isinstance(out, Array):
        raise TypeError(
            f"{what} must be a vkdml.Array of shape {shape} and type {dtype}, as the input is one, "
            f"not {type(out).__module__.partition('.')[0]}.{type(out).__name__}"
        )
    require_same_device(x.device, out.device)
    require_like_result(what, out.shape, out.dtype, shape, dtype)
    if not out.writeable:
        raise ValueError(
            f"{what} repeats elements and is read-only; accepted is a writeable array of shape {shape}"
        )
