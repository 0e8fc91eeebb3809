"""The operators on host arrays: uploaded, computed on a device in one piece or in tiles, downloaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml import arguments
from vkdml.arguments import (
    CallKey,
    ReduceRequest,
    Reduction,
    SliceRequest,
    Window,
    context,
    require_like_result,
)
from vkdml.arrays.chunked import ChunkedArray, as_chunked
from vkdml.arrays.foreign import require_open
from vkdml.arrays.host import as_host_array
from vkdml.arrays.host_span import HostSpan, sent_bytes
from vkdml.common import windows
from vkdml.common.bits import opaque
from vkdml.common.coinciding import elements_overlap
from vkdml.common.mapped_files import share_bytes_of_a_file
from vkdml.common.overlap import may_share_bytes
from vkdml.errors import DeviceError
from vkdml.operators import one_piece, progress, stream
from vkdml.operators.one_piece import Results, Wanted
from vkdml.operators.result import ArgReduceResult
from vkdml.plan.calls import CopyCall, Operand, ReduceCall
from vkdml.plan.layout import canonical_reduce
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.runtime.device import Device, DevicesLike, resolve_all, resolve_if_open
from vkdml.runtime.execution import Execution
from vkdml.runtime.host_memory import SHARED_COPY_BYTES, copy_bytes, empty
from vkdml.runtime.pool import Lender

HostArray = npt.NDArray[Any] | ChunkedArray


class _Where(NamedTuple):
    """The devices of a call, and where it reports progress."""

    devices: list[Device]
    progress: progress.Progress


def slice1(x: Any, request: SliceRequest) -> Any:
    """See :func:`vkdml.slice1`."""
    with context("slice1", x):
        array = _array(x)
    with context("slice1", array):
        arguments.require_movable(array.dtype)
        window = request.checked(array.shape)
        out = _checked_out(request.out, window.shape, array.dtype, "out")
        where = _where(request)
        if math.prod(window.shape):
            if isinstance(array, ChunkedArray) or isinstance(out, ChunkedArray):
                result = _copy_chunks(array, window, out, where())
                if result is None:
                    return request.out
            else:
                result = _copy(array, window, where())
        else:
            progress.report_all(request.progress, 0)
            result = np.empty(window.shape, array.dtype)
        return result if out is None else _delivered(result, out)


class _KnownReduction(NamedTuple):
    """What a call on a compact array needs whose arguments are known to be valid."""

    executions: Lender[Plan, Execution]
    limits: DeviceLimits
    """The limits that the plan was made for."""
    results: tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]
    """Role, shape and type."""


def reduce_as_before(x: npt.NDArray[Any], device: DevicesLike, key: CallKey | None) -> Any:
    """Return the result if a call of this key succeeded before on an array like this one, else None.

    Args:
        x: to reduce.
        device: as the user gave it.
        key: of the call.
    """
    layout = _layout(x)
    if layout is None or key is None:
        return None
    try:
        there = resolve_if_open(device)
        if there is None:
            return None
        known = there.executions.known_calls.get((key, layout))
    except (TypeError, DeviceError):  # an unhashable key or a closed device: the full path reports it
        return None
    if known is None or known.limits is not there.limits:
        return None
    lent = known.executions.borrow()
    if lent is None:
        return None
    execution = lent[0]
    element, shape = layout
    source = execution.typed("input", shape, element)
    if x.nbytes < SHARED_COPY_BYTES:
        np.copyto(source, x)
    else:
        copy_bytes(source.reshape(-1).view(np.uint8), x.reshape(-1).view(np.uint8))
    try:
        execution.run()
    except MemoryError:
        return None  # in tiles there may be room
    except (ValueError, TypeError, RuntimeError) as error:
        with context(key[0], x):
            raise error
    views = [execution.typed(*result) for result in known.results]
    results = [view.copy() if view.ndim else view[()] for view in views]  # a scalar is a copy, too
    known.executions.give_back(lent)
    return results[0] if len(results) == 1 else ArgReduceResult(*results)


def _remember(x: Any, request: ReduceRequest, device: Device, plan: Plan, results: Results) -> None:
    """Let :func:`reduce_as_before` know a call that succeeded."""
    if request.out is not None or request.progress is not None or type(x) is not np.ndarray:
        return
    key, layout = request.key, _layout(x)
    if key is None or layout is None or resolve_if_open(request.device) is not device:
        return
    if sum(result.nbytes for result in results.values()) >= SHARED_COPY_BYTES:
        return
    described = tuple((role, result.shape, result.dtype) for role, result in results.items())
    known = _KnownReduction(device.executions.execution_lender(plan), device.limits, described)
    with suppress(TypeError):  # not hashable
        device.executions.known_calls[(key, layout)] = known


def _layout(x: npt.NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return how the elements of a compact array lie, or None for other arrays."""
    element = x.dtype
    return (element, x.shape) if x.flags.c_contiguous and element.isnative else None


def reduce(x: Any, request: ReduceRequest) -> Any:
    """See :func:`vkdml.argmax`."""
    with context(request.operator, x):
        array = _array(x)
    with context(request.operator, array):
        reduction = request.checked(array.shape, array.dtype)
        out_indices, out_values = request.outputs()
        out_indices = _checked_out(out_indices, reduction.shape, reduction.index_dtype, "out")
        out_values = _checked_out(out_values, reduction.shape, array.dtype, "out for the values")
        if out_indices is not None and out_values is not None and _overlap(out_indices, out_values):
            raise ValueError("the indices and the values of out overlap; accepted are separate arrays")
        where = _where(request)
        reduction.require_elements(request.operator)
        wanted = {"indices": (reduction.shape, reduction.index_dtype)}
        if reduction.with_values:
            wanted["values"] = (reduction.shape, array.dtype.newbyteorder("="))
        results = _without_device(array, reduction, wanted, request)
        if results is None:
            there = where()
        if results is None and not isinstance(array, ChunkedArray):
            # Overlapping elements are sent once, but kernels read each of them.
            outputs = (math.prod(shape) * dtype.itemsize for shape, dtype in wanted.values())
            needs = max(sent_bytes(array), _distinct_bytes(array), *outputs)
            device, sent_as = there.devices[0], array.dtype.newbyteorder("=")
            piece = None
            if not _goes_in_tiles(needs, there):
                # Kernels read words of 4 bytes: an array that starts inside one is copied and aligned.
                piece = one_piece.planned(
                    array, sent_as, device, lambda span: _reduce_call(array, reduction, span), alignment=4
                )
            if piece is not None:
                with _tiles_may_fit(needs, device):
                    results = one_piece.run(device, piece, wanted)
                    if not piece.in_place:
                        _remember(x, request, device, piece.plan, results)
        if results is None:
            results = _in_tiles(array, reduction, there)
        indices = _delivered(results["indices"], out_indices)
        if not reduction.with_values:
            return indices
        values = results["values"]
        if not isinstance(out_values, ChunkedArray):
            values = values.astype(array.dtype, copy=False)
        return ArgReduceResult(indices, _delivered(values, out_values))


def _where(request: ReduceRequest | SliceRequest) -> Callable[[], _Where]:
    """Check ``device=`` and ``progress=``; the returned function opens the default device if it is meant.

    A call whose result needs no device does not open one.
    """
    progress.require_progress(request.progress)
    devices = None if request.device is None else resolve_all(request.device)
    return lambda: _Where(devices or resolve_all(None), request.progress)


def _copy(x: npt.NDArray[Any], window: Window, where: _Where) -> npt.NDArray[Any]:
    inside = _view(x, window.inside)
    shape = window.shape

    def call(span: HostSpan) -> CopyCall:
        first, strides = windows.placed((0,) * len(shape), span.sizes, window.steps, span.strides)
        source = Operand(shape, strides, span.base + first, span.size)
        return CopyCall(source, Operand.compact(shape), x.itemsize)

    needs = max(sent_bytes(inside), math.prod(shape) * x.itemsize)
    device = where.devices[0]
    piece = None if _goes_in_tiles(needs, where) else one_piece.planned(inside, x.dtype, device, call)
    if piece is not None:
        with _tiles_may_fit(needs, device):
            return one_piece.run(device, piece, {"output": (shape, x.dtype)})["output"]
    return stream.copy(window.view_of(x), devices=where.devices, progress=where.progress)


def _copy_chunks(
    x: HostArray, window: Window, out: HostArray | None, where: _Where
) -> npt.NDArray[Any] | None:
    """Return a new array, or None if ``out``, in chunks, was written."""
    target = out if isinstance(out, ChunkedArray) else None
    if isinstance(x, ChunkedArray) and target is not None and x.is_same(target):
        raise ValueError(
            "out is the array that is read; accepted is another one, whose chunks may be written"
        )
    return stream.copy_chunks(x, window, target, devices=where.devices, progress=where.progress)


def _without_device(
    x: HostArray, reduction: Reduction, wanted: Wanted, request: ReduceRequest
) -> Results | None:
    """Return results that need no device, or None."""
    if math.prod(reduction.shape) == 0:
        progress.report_all(request.progress, 0)
        return {role: np.empty(*description) for role, description in wanted.items()}
    if any(x.shape[a] > 1 and x.strides[a] != 0 for a in reduction.axes):
        return None
    progress.report_all(request.progress, x.nbytes)
    return _uncontested(x, reduction, wanted)


def _reduce_call(x: npt.NDArray[Any], reduction: Reduction, span: HostSpan) -> ReduceCall:
    return ReduceCall(
        Operand(x.shape, span.strides, span.base, span.size),
        reduction.axes,
        reduction.order,
        Operand.compact(reduction.kept_shape),
        reduction.index_dtype.itemsize,
        reduction.with_values,
    )


def _in_tiles(x: HostArray, reduction: Reduction, where: _Where) -> Results:
    indices, values = stream.reduce(x, reduction, devices=where.devices, progress=where.progress)
    results = {"indices": indices.reshape(reduction.shape).astype(reduction.index_dtype, copy=False)}
    if values is not None:
        results["values"] = values.reshape(reduction.shape)
    return results


def _uncontested(x: HostArray, reduction: Reduction, wanted: Wanted) -> Results:
    """Reduce where each output has one distinct element: nothing competes, so no device is needed."""
    axes, shape = reduction.axes, reduction.shape
    layout = canonical_reduce(x.shape, x.strides, axes, (0,) * x.ndim, take_last=reduction.order.take_last)
    results = {"indices": empty(shape, reduction.index_dtype)}
    results["indices"].fill(layout.index_base)
    if "values" in wanted:
        if isinstance(x, ChunkedArray):
            x = x.whole()
        chosen = _view(x, (slice(1) if a in axes else slice(None) for a in range(x.ndim)))
        results["values"] = empty(shape, x.dtype)
        opaque(results["values"])[...] = opaque(chosen).reshape(shape)
    return results


def _goes_in_tiles(needs: int, where: _Where) -> bool:
    """Whether a call whose largest buffer has at least so many bytes goes in tiles whatever its plan is.

    Several devices share tiles, and progress is reported per tile.
    """
    limits = where.devices[0].limits
    return len(where.devices) > 1 or progress.is_reported(where.progress) or stream.wanted([needs], limits)


def _tiles_may_fit(needs: int, device: Device) -> AbstractContextManager[None]:
    """Return a context that ignores MemoryError where tiles may fit if one piece does not."""
    return suppress(MemoryError) if needs > device.limits.tuning.stream_tile_bytes else nullcontext()


def _distinct_bytes(x: npt.NDArray[Any]) -> int:
    """Return the bytes of all elements; those that a stride of 0 repeats count once."""
    sizes = (size for size, stride in zip(x.shape, x.strides, strict=True) if stride)
    return int(math.prod(sizes) * x.itemsize)


def _delivered(result: npt.NDArray[Any], out: HostArray | None) -> Any:
    """Return the result as NumPy does: in ``out``, or a scalar if it has no dimensions."""
    if out is None:
        return result if result.ndim else result[()]
    if isinstance(out, ChunkedArray):
        out.write(tuple(slice(0, size) for size in out.shape), result)
        return out.held
    opaque(out)[...] = opaque(result)
    return out


def _array(x: Any) -> HostArray:
    """Return what a user's object means: an array in memory, or in chunks elsewhere."""
    return as_chunked(x) or as_host_array(x)


def _overlap(one: HostArray, other: HostArray) -> bool:
    if isinstance(one, ChunkedArray) or isinstance(other, ChunkedArray):
        return isinstance(one, ChunkedArray) and isinstance(other, ChunkedArray) and one.is_same(other)
    return may_share_bytes(one, other) or share_bytes_of_a_file(one, other)


def _checked_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> HostArray | None:
    if out is None:
        return None
    chunked = as_chunked(out)
    if chunked is not None:
        if not chunked.is_stored:
            raise TypeError(
                f"{what} is a Dask array, which holds no elements; accepted are arrays of shape {shape} and "
                f"type {dtype} in memory or in a store"
            )
        # Stores may have another byte order.
        same_order = dtype.newbyteorder("=") == chunked.dtype.newbyteorder("=")
        require_like_result(what, chunked.shape, dtype if same_order else chunked.dtype, shape, dtype)
        return chunked
    require_open(out)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        got = f"a NumPy scalar of type {out.dtype}" if isinstance(out, np.generic) else type(out).__name__
        raise TypeError(f"{what} must be a NumPy array of shape {shape} and type {dtype}, not {got}")
    require_like_result(what, out.shape, out.dtype, shape, dtype)
    if not out.flags.writeable:
        raise ValueError(
            f"{what} is read-only; accepted is a writeable array of shape {shape} and type {dtype}"
        )
    if elements_overlap(out):
        raise ValueError(
            f"{what} of shape {shape} has strides of {out.strides} bytes, so that elements overlap; "
            "accepted are strides that give each element a place of its own"
        )
    return out


def _view(array: npt.NDArray[Any], slices: Iterable[slice]) -> npt.NDArray[Any]:
    # The ellipsis makes the result an array also without dimensions: a scalar would lose its byte order.
    index: tuple[Any, ...] = (*slices, ...)
    view: npt.NDArray[Any] = array[index]
    return view
