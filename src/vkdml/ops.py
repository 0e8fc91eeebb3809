"""The public functions: arguments checked, planned, run on a device, results as NumPy gives them."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.exceptions import AxisError

from vkdml import _native, dtypes
from vkdml.device import Device, resolve
from vkdml.host import host_span
from vkdml.layout import ReduceLayout, canonical_copy, canonical_reduce, row_major_strides
from vkdml.plan import DeviceLimits, Element, Plan
from vkdml.plan_argreduce import plan_argreduce
from vkdml.plan_slice1 import plan_slice1

# From here on several threads copy faster than one.
SHARED_COPY_BYTES = 8 << 20
DIRECTIONS = ("increasing", "decreasing")
NAN_POLICIES = ("propagate", "omit")


class ArgReduceResult(NamedTuple):
    """What ``return_values=True`` returns."""

    indices: Any
    """The chosen indices."""
    values: Any
    """The chosen elements, bit for bit, in the input's dtype."""


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
    device: Device | int | str | None = None,
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
    return _argreduce(
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
    device: Device | int | str | None = None,
) -> Any:
    """Return the indices of the least elements along one axis, several, or all.

    >>> import numpy as np, vkdml
    >>> int(vkdml.argmin(np.float16([3, 1, np.nan, 1]), direction="decreasing", nan_policy="omit"))
    3

    Arguments, results and errors are those of :func:`argmax`.

    Source of the rule: DirectML's ``DML_ARGMIN_OPERATOR_DESC``; NumPy for shapes, scalars and NaN.
    """
    return _argreduce(
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
    device: Device | int | str | None = None,
) -> npt.NDArray[Any]:
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
    array = np.asarray(x)
    with _context("slice1", array):
        if array.dtype.hasobject or array.itemsize not in dtypes.SLICE_ELEMENT_BYTES:
            accepted = ", ".join(map(str, dtypes.SLICE_ELEMENT_BYTES))
            raise TypeError(
                f"elements of type {array.dtype} ({array.itemsize} bytes) cannot be moved; accepted are "
                f"elements of {accepted} bytes that are not Python objects"
            )
        window, steps, shape = _window(array, offsets, sizes, strides, output_sizes)
        result = _out_array(out, shape, array.dtype, "out")
        if math.prod(shape) == 0:
            return np.empty(shape, array.dtype) if result is None else result
        target = resolve(device)
        span = host_span(window)
        base = span.base
        step_strides = []
        for size, stride, step in zip(span.sizes, span.strides, steps, strict=True):
            base += (size - 1) * stride if step < 0 else 0
            step_strides.append(stride * step)
        plan = _slice1_plan(shape, tuple(step_strides), base, array.itemsize, span.flat.size, target.limits)
        copied = _run(target, plan, span.flat, array.dtype, {"output": (shape, array.dtype)})["output"]
        delivered: npt.NDArray[Any] = copied if result is None else _deliver(copied, result)
        return delivered


def _argreduce(
    name: str,
    x: Any,
    axis: int | Sequence[int] | None,
    keepdims: bool,
    dtype: npt.DTypeLike | None,
    direction: str,
    nan_policy: str,
    return_values: bool,
    out: Any,
    device: Device | int | str | None,
) -> Any:
    call = _call_key(name, x, axis, keepdims, dtype, direction, nan_policy) if out is None else None
    if call is not None and not return_values and call in _repeatable:
        target = resolve(device)
        plan = target.plans.get(call)
        if plan is not None:
            try:
                results = _run(target, plan, x.reshape(-1), x.dtype, _repeatable[call])
            except (MemoryError, RuntimeError) as error:
                with _context(name, x):
                    raise error
            return _deliver(results["indices"], None)
    array = np.asarray(x)
    with _context(name, array):
        take_last = bool(DIRECTIONS.index(_choice("direction", direction, DIRECTIONS)))
        omit_nan = bool(NAN_POLICIES.index(_choice("nan_policy", nan_policy, NAN_POLICIES)))
        native = array.dtype.newbyteorder("=")
        element = Element(dtypes.element_name(native), array.itemsize)
        axes = _axes(axis, array.ndim, f"{name} of {_described(array)}")
        reduce_count = math.prod(array.shape[a] for a in axes)
        out_indices, out_values = _out_pair(out, return_values)
        if dtype is None and isinstance(out_indices, np.ndarray):
            dtype = out_indices.dtype
        index_dtype = dtypes.index_dtype(dtype, reduce_count)
        kept_shape = tuple(1 if a in axes else size for a, size in enumerate(array.shape))
        shape = kept_shape if keepdims else tuple(s for a, s in enumerate(array.shape) if a not in axes)
        out_indices = _out_array(out_indices, shape, index_dtype, "out")
        out_values = _out_array(out_values, shape, array.dtype, "the values of out")
        if reduce_count == 0:
            raise ValueError(
                f"attempt to get {name} of an empty sequence: the reduced axes {axes} hold no element; "
                "accepted are axes with at least one"
            )
        wanted = {"indices": (shape, index_dtype)}
        if return_values:
            wanted["values"] = (shape, native)
        if math.prod(shape) == 0:
            results = {role: np.empty(*description) for role, description in wanted.items()}
        else:
            results = _reduce(
                array, axes, kept_shape, element, name == "argmin", take_last, omit_nan, wanted, device, call
            )
        indices = _deliver(results["indices"], out_indices)
        if not return_values:
            return indices
        values = results["values"].astype(array.dtype, copy=False)
        return ArgReduceResult(indices, _deliver(values, out_values))


def _reduce(
    x: npt.NDArray[Any],
    axes: tuple[int, ...],
    kept_shape: tuple[int, ...],
    element: Element,
    take_min: bool,
    take_last: bool,
    omit_nan: bool,
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]],
    device: Device | int | str | None,
    call: Hashable | None,
) -> dict[str, npt.NDArray[Any]]:
    shape, index_dtype = wanted["indices"]
    if not any(size > 1 and x.strides[a] != 0 for a, size in enumerate(x.shape) if a in axes):
        # One distinct element for each output: nothing competes, so nothing needs a device.
        layout = canonical_reduce(x.shape, x.strides, axes, (0,) * x.ndim, take_last=take_last)
        results = {"indices": np.full(shape, layout.index_base, index_dtype)}
        if "values" in wanted:
            chosen = _view(x, (slice(1) if a in axes else slice(None) for a in range(x.ndim)))
            results["values"] = chosen.reshape(shape).copy()
        return results
    target = resolve(device)
    span = host_span(x)
    plan = _argreduce_plan(
        x.shape,
        span.strides,
        span.base,
        span.flat.size,
        axes,
        row_major_strides(kept_shape),
        element,
        take_min,
        take_last,
        omit_nan,
        index_dtype.itemsize,
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
    return _run(target, plan, span.flat, x.dtype.newbyteorder("="), wanted)


# Calls that were right once: what they want. The next one of the kind need not be looked at again.
_repeatable: dict[Hashable, dict[str, tuple[tuple[int, ...], np.dtype[Any]]]] = {}
REPEATABLE_CALLS = 1024


def _call_key(name: str, x: Any, axis: Any, *options: Any) -> Hashable | None:
    """Return what tells calls on compact arrays apart, or None for any other call."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous or not x.dtype.isnative:
        return None
    # Types are compared too: True and 1.0 equal 1, but are no axes.
    if axis is not None and type(axis) is not int:
        return None
    key = (name, x.shape, x.dtype, axis, *options, *map(type, options))
    try:
        hash(key)
    except TypeError:
        return None
    return key


@lru_cache(maxsize=1024)
def _argreduce_plan(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    base: int,
    input_elements: int,
    axes: tuple[int, ...],
    output_strides: tuple[int, ...],
    element: Element,
    take_min: bool,
    take_last: bool,
    omit_nan: bool,
    index_bytes: int,
    with_values: bool,
    limits: DeviceLimits,
) -> Plan:
    layout: ReduceLayout = canonical_reduce(
        sizes, strides, axes, output_strides, take_last=take_last, input_base=base
    )
    return plan_argreduce(
        layout,
        element,
        input_elements,
        limits,
        take_min=take_min,
        take_last=take_last,
        omit_nan=omit_nan,
        index_bytes=index_bytes,
        with_values=with_values,
    )


@lru_cache(maxsize=1024)
def _slice1_plan(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    base: int,
    element_bytes: int,
    input_elements: int,
    limits: DeviceLimits,
) -> Plan:
    layout = canonical_copy(shape, strides, row_major_strides(shape), input_base=base)
    return plan_slice1(layout, element_bytes, input_elements, limits)


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
        _copy(upload, flat.view(np.uint8))
    else:
        np.copyto(upload.view(upload_dtype), flat)
    try:
        execution.run()
    except MemoryError as error:
        raise executions.explained(error, plan) from None
    for role, (shape, dtype) in wanted.items():
        result = np.empty(shape, dtype)
        target = result.reshape(-1).view(np.uint8)
        _copy(target, execution.views[role][: target.size])
        results[role] = result
    executions.give_back(plan, execution)
    return results


def _copy(target: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> None:
    if target.size < SHARED_COPY_BYTES:
        np.copyto(target, source)
    else:
        _native.copy_in_host_memory(target, source)


def _deliver(result: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> Any:
    """Return the result as NumPy would: in ``out``, or a scalar for no dimensions."""
    if out is None:
        return result if result.ndim else result[()]
    # As plain bytes: NumPy's assignment may settle a bool's bits.
    opaque = f"V{result.itemsize}"
    out.view(opaque)[...] = result.view(opaque)
    return out


@contextmanager
def _context(name: str, array: npt.NDArray[Any]) -> Iterator[None]:
    """Put operator, shape and dtype in front of what the inner code says."""
    try:
        yield
    except AxisError:
        raise
    except (ValueError, TypeError, MemoryError, RuntimeError) as error:
        error.args = (f"{name} of {_described(array)}: {error}",)
        raise


def _described(array: npt.NDArray[Any]) -> str:
    return f"{array.shape} {array.dtype}"


def _choice(what: str, value: Any, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{what} {value!r} is unknown; accepted are {', '.join(map(repr, accepted))}")
    return value


def _axes(axis: int | Sequence[int] | None, rank: int, context: str) -> tuple[int, ...]:
    """Return distinct axes, ascending and not negative."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, tuple | list | set | frozenset):
        given = [_integer("axis", a) for a in axis]
    else:
        given = [_integer("axis", axis)]
        if rank == 0 and given[0] in (0, -1):  # as NumPy has it
            return ()
    for a in given:
        if not -rank <= a < rank:
            raise AxisError(a, rank, context)
    axes = sorted(a % rank for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in axis {tuple(given)}; accepted are distinct axes")
    return tuple(axes)


def _integer(what: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer or a tuple of integers, not {value!r}") from None


def _out_pair(out: Any, return_values: bool) -> tuple[Any, Any]:
    if out is None or not return_values:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            "with return_values out must be a pair of arrays (indices, values); either may be None"
        )
    return out[0], out[1]


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
    return out


def _window(
    array: npt.NDArray[Any],
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int] | None,
) -> tuple[npt.NDArray[Any], tuple[int, ...], tuple[int, ...]]:
    """Return the window (a view), the steps and the output's shape."""
    rank = array.ndim
    offsets = _per_dimension("offsets", offsets, rank)
    sizes = _per_dimension("sizes", sizes, rank)
    strides = _per_dimension("strides", strides, rank)
    most = []
    for dim, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        extent = array.shape[dim]
        if offset < 0 or size < 0 or offset + size > extent:
            raise ValueError(
                f"the window of dimension {dim} (offset {offset}, size {size}) is not inside its {extent} "
                f"elements; accepted are offset >= 0 and size >= 0 with offset + size <= {extent}"
            )
        if stride == 0:
            raise ValueError(
                f"the stride of dimension {dim} is 0; accepted are positive and negative strides"
            )
        most.append(1 + (size - 1) // abs(stride) if size else 0)
    shape = tuple(most)
    if output_sizes is not None:
        shape = _per_dimension("output_sizes", output_sizes, rank)
        for dim, (size, limit) in enumerate(zip(shape, most, strict=True)):
            if not 0 <= size <= limit:
                raise ValueError(
                    f"output size {size} of dimension {dim} is not within its window of size {sizes[dim]} "
                    f"with stride {strides[dim]}; accepted are 0 to {limit}"
                )
    inside = (slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))
    return _view(array, inside), strides, shape


def _view(array: npt.NDArray[Any], slices: Iterable[slice]) -> npt.NDArray[Any]:
    # The ellipsis keeps an array of no dimensions one: a scalar has no byte order, and may lose bits.
    index: tuple[Any, ...] = (*slices, ...)
    view: npt.NDArray[Any] = array[index]
    return view


def _per_dimension(what: str, values: Any, rank: int) -> tuple[int, ...]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} must be a sequence of {rank} integers, not {values!r}")
    numbers = tuple(_integer(what, value) for value in values)
    if len(numbers) != rank:
        raise ValueError(f"{what} has {len(numbers)} entries; accepted is one for each of {rank} dimensions")
    return numbers


__all__ = ["ArgReduceResult", "argmax", "argmin", "slice1"]
