"""NumPy's functions on device arrays: on the device where vkdml implements them, else on host copies.

Reshaped, reversed and permuted views stay on the device; computed results are NumPy arrays and scalars.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.arguments import integer, named_axes, one_axis
from vkdml.arrays.base import DeviceArray
from vkdml.arrays.indexing import as_shape
from vkdml.common import hooks
from vkdml.common.integers import entries, is_sequence
from vkdml.common.wording import type_of


class NumpyOperand(DeviceArray):
    """A device array that NumPy's functions take."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a universal function, or a method of one, to copies on the host."""
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if method == "at" and isinstance(inputs[0], DeviceArray):
            raise TypeError(f"numpy.{name} cannot write to a device; accepted is a[...] = values")
        return _on_copies(getattr(ufunc, method), name, inputs, kwargs)

    def put(self, *args: object, **kwargs: object) -> None:
        """Refuse what ``numpy.ma.put`` asks for; without it, NumPy would write to a copy on the host.

        Raises:
            TypeError: always.
        """
        raise TypeError("numpy.ma.put cannot write to a device; accepted is a[...] = values")

    def __array_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Answer a NumPy function: on the device by one of ``_ON_DEVICE``, else on copies on the host."""
        name = getattr(func, "__name__", repr(func))
        if func in _OF_MEMORY:
            return _shares_memory(func, name, *args, **kwargs)
        ours = _ON_DEVICE.get(func)
        if ours is not None:
            try:
                bound = inspect.signature(ours).bind(*args, **kwargs)
            except TypeError:
                bound = None  # an option that only NumPy has
            if bound is not None and _is_for_device(ours, *bound.args, **bound.kwargs):
                return ours(*bound.args, **bound.kwargs)
        return _on_copies(func, name, args, kwargs)


def _shares_memory(func: Callable[..., Any], name: str, a: Any, b: Any, /, max_work: Any = None) -> bool:
    func(np.empty(0), np.empty(0), max_work)  # raises for an invalid max_work
    shared = any(
        one.overlaps(other)
        for one in (a.pieces if isinstance(a, DeviceArray) else ())
        for other in (b.pieces if isinstance(b, DeviceArray) else ())
    )
    if shared and func is np.shares_memory:
        raise TypeError(
            f"numpy.{name} cannot look into the memory of a device; accepted is numpy.may_share_memory"
        )
    return shared


def _is_for_device(ours: Callable[..., Any], x: Any, /, *others: Any, **options: Any) -> bool:
    return isinstance(x, DeviceArray) and (x.is_whole or ours in _OF_SHARDS_TOO)


def _on_copies(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.get("out")
    if any(isinstance(one, DeviceArray) for one in (out if isinstance(out, tuple | list) else (out,))):
        raise TypeError(f"numpy.{name} cannot write to a device; accepted is out= in host memory")
    copies: dict[int, Any] = {}
    host_args, host_kwargs = _on_host(args, copies), _on_host(kwargs, copies)
    if not copies and func in _WITH_LIKE:
        raise TypeError(
            f"numpy.{name} does not take an array on a device as like=; accepted are numpy.{name} without "
            "like=, and vkdml.asarray(x), which copies to a device. Dask's own argmax and argmin use like=; "
            "of a Dask array that holds vkdml.Arrays, accepted are vkdml.dask.argmax and vkdml.dask.argmin"
        )
    if not copies:
        raise TypeError(f"numpy.{name} does not take an array on a device in this way: use np.asarray(a)")
    try:
        return func(*host_args, **host_kwargs)
    except ValueError as error:
        if not any(said in str(error) for said in _OF_WRITING):
            raise
        raise TypeError(
            f"numpy.{name} cannot write to a device ({error}); accepted are np.asarray(a) and a[...] = values"
        ) from None


def _on_host(value: Any, copies: dict[int, Any]) -> Any:
    """Return a structure with copies on the host for the arrays in it, read-only: writes would be lost."""
    if isinstance(value, DeviceArray):
        if id(value) not in copies:
            copies[id(value)] = value.numpy()
            copies[id(value)].flags.writeable = False
        return copies[id(value)]
    if type(value) in (list, tuple):
        return type(value)([_on_host(one, copies) for one in value])
    if type(value) is dict:
        return {key: _on_host(one, copies) for key, one in value.items()}
    return value


# ---- on the device: NumPy's names and order of arguments --------------------------------------------------


# What NumPy's own signatures have for options that are not given; wrappers of its functions pass it on.
_NOT_GIVEN = inspect.signature(np.argmax).parameters["keepdims"].default


def _argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _found(a.argmax, axis, out, keepdims)


def _argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _found(a.argmin, axis, out, keepdims)


def _found(operator: Callable[..., Any], axis: Any, out: Any, keepdims: Any) -> Any:
    axis = None if axis is None else integer("axis", axis, "an integer")  # several axes are vkdml's own
    keepdims = False if keepdims is _NOT_GIVEN else keepdims
    if out is not None:
        if not isinstance(out, np.ndarray | DeviceArray):
            raise TypeError(f"out must be a NumPy array of type {np.dtype(np.intp)}, not {type_of(out)}")
        if out.dtype != np.intp:
            raise TypeError(f"NumPy writes indices of type {np.dtype(np.intp)} to out=, not of {out.dtype}")
    if isinstance(out, DeviceArray):
        return operator(axis, keepdims=keepdims, out=out)
    found = np.asarray(operator(axis, keepdims=keepdims))
    if out is None:
        return found[()]
    if out.shape != found.shape:
        raise ValueError(
            f"out must be a NumPy array of shape {found.shape} and type {found.dtype}, not {out.shape}"
        )
    out[...] = found
    return out


def _shape(a: Any) -> Any:
    return a.shape


def _ndim(a: Any) -> Any:
    return a.ndim


def _size(a: Any) -> Any:
    return a.size


def _transpose(a: Any, axes: Any = None) -> Any:
    return a.transpose(axes)


def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return a.moveaxis(source, destination)


def _broadcast_to(array: Any, shape: Any) -> Any:
    return array.broadcast_to(shape)


def _reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    if not a.is_whole:
        host = _on_host(a, {}) if copy is None else a.__array__(copy=copy)
        return np.reshape(host, shape, order)
    np.reshape(np.empty(0), 0, order)  # raises for an invalid order
    if _order_of(a, order) == "F":
        return reshaped(a.T, as_shape(shape, -1)[::-1], copy).T
    return reshaped(a, shape, copy)


def _ravel(a: Any, order: Any = "C") -> Any:
    np.ravel(np.empty(0), order)  # raises for an invalid order
    letter: Any = _order_of(a, order)
    if letter == "K":
        a, letter = _in_memory_order(a), "C"
    return np.ravel(_on_host(a, {}), letter)


def _order_of(a: Any, order: Any) -> str:
    """Return NumPy's letter of a valid ``order``, where "A" is "C" or "F" by the strides of the array."""
    letter = "C" if order is None else (order.decode() if isinstance(order, bytes) else order).upper()
    if letter != "A":
        return letter
    return "F" if a.T.is_compact and not a.is_compact else "C"


def _in_memory_order(a: Any) -> Any:
    """Return the view with dimensions by descending strides: its rows are what NumPy reads for "K"."""
    if a.is_compact:
        return a
    if any(size > 1 and stride == 0 for size, stride in zip(a.shape, a.strides, strict=True)):
        raise TypeError("order='K' of a view that repeats elements; accepted are 'C', 'F' and 'A'")
    return a.transpose(sorted(range(a.ndim), key=lambda dim: -abs(a.strides[dim])))


def _flip(m: Any, axis: Any = None) -> Any:
    return flipped(m, axis)


def _take(a: Any, indices: Any, axis: Any = None) -> Any:
    if axis is None or not a.ndim or not _are_integers(indices):
        return np.take(a.numpy(), _on_host(indices, {}), axis)
    place = one_axis(axis, a.ndim, "take")
    return np.asarray(a[(slice(None),) * place + (indices,)])


def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None or not _are_integers(indices) or indices.ndim != arr.ndim:
        return np.take_along_axis(arr.numpy(), _on_host(indices, {}), axis)
    place = one_axis(axis, arr.ndim, "take_along_axis")
    return np.asarray(hooks.taken_along_axis(arr, indices, place))


def _are_integers(indices: Any) -> bool:
    """Tell whether these are an array, of one dimension or more, that indexes on the device."""
    return isinstance(indices, np.ndarray | DeviceArray) and indices.dtype.kind in "iu" and indices.ndim > 0


def reshaped(a: Any, shape: Any, copy: Any = None) -> Any:
    """Return a view of another shape, or a reshaped copy where ``copy`` asks for one or no view has it.

    Raises:
        TypeError: ``copy`` is something else than True, False or None.
        ValueError: no view has it, and ``copy`` is False; or the shape is of another number of elements.
    """
    if copy is not None and not isinstance(copy, bool | np.bool_):
        raise TypeError(f"copy is {copy!r:.200}; accepted are True, False and None")
    shape = entries("a shape", shape) if is_sequence(shape) else shape  # an iterator has them once
    if copy:
        return a.copy().reshape(shape)
    try:
        return a.reshape(shape)
    except ValueError:
        if copy is not None:
            raise
        return a.copy().reshape(shape)


def flipped(a: Any, axis: Any = None) -> Any:
    """Return a view with some dimensions, or all, running backwards."""
    axes = range(a.ndim) if axis is None else named_axes(axis, a.ndim, "flip")
    return a[tuple(slice(None, None, -1) if dim in axes else slice(None) for dim in range(a.ndim))]


_ON_DEVICE: dict[Callable[..., Any], Callable[..., Any]] = {
    np.argmax: _argmax,
    np.argmin: _argmin,
    np.shape: _shape,
    np.ndim: _ndim,
    np.size: _size,
    np.transpose: _transpose,
    np.moveaxis: _moveaxis,
    np.broadcast_to: _broadcast_to,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.flip: _flip,
    np.take: _take,
    np.take_along_axis: _take_along_axis,
}
_OF_SHARDS_TOO = (_argmax, _argmin, _shape, _ndim, _size, _reshape)
# What NumPy says of an array that it would write to and that is read-only.
_OF_WRITING = ("read-only", "not writeable", "output array is not acceptable")
_OF_MEMORY = (np.shares_memory, np.may_share_memory)
# NumPy's functions with an option like=, which is no longer among the arguments when they come here.
_WITH_LIKE = frozenset(
    {
        np.arange, np.array, np.asanyarray, np.asarray, np.ascontiguousarray, np.asfortranarray, np.empty,
        np.eye, np.frombuffer, np.fromfile, np.fromfunction, np.fromiter, np.fromstring, np.full,
        np.genfromtxt, np.identity, np.loadtxt, np.ones, np.require, np.tri, np.zeros,
    }
)  # fmt: skip
