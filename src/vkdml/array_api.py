"""The part of the Python array API standard that vkdml implements, with the standard's signatures.

``Array.__array_namespace__()`` returns this module. It holds creation (``asarray``, ``empty``, ``zeros``,
``from_dlpack``), searching (``argmax``, ``argmin``), manipulation without copies (``broadcast_to``,
``expand_dims``, ``flip``, ``moveaxis``, ``permute_dims``, ``reshape``, ``squeeze``) and the standard's data
types. It does not hold arithmetic, comparison or statistics: vkdml is no array library, only three operators.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from vkdml import ops
from vkdml.arguments import distinct_axes
from vkdml.arrays import creation as _creation
from vkdml.arrays.array import Array
from vkdml.arrays.creation import from_dlpack
from vkdml.arrays.numpy_functions import flipped, reshaped
from vkdml.runtime.device import DeviceLike

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
"""Of the standard, whose rules for these functions are the same in all."""

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")


def for_version(api_version: str | None) -> ModuleType:
    """Return this namespace if it follows that version of the standard, else raise ValueError."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API is not known; accepted are {', '.join(VERSIONS)}"
        )
    return sys.modules[__name__]


def asarray(obj: Any, /, *, dtype: Any = None, device: DeviceLike = None, copy: Any = None) -> Array:
    """Copy to a device; an Array of that type on that device is returned as it is, unless ``copy=True``."""
    result: Array = _creation.asarray(obj, dtype, device=device, copy=copy)
    return result


def empty(shape: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of arbitrary elements, by default float32."""
    return _creation.empty(shape, dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of zeros, by default float32."""
    return _creation.zeros(shape, dtype, device=device)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: Any = False) -> Array:
    """Return the indices of the greatest elements along an axis, or of all."""
    result: Array = ops.argmax(x, axis, keepdims=keepdims)
    return result


def argmin(x: Array, /, *, axis: int | None = None, keepdims: Any = False) -> Array:
    """Return the indices of the least elements along an axis, or of all."""
    result: Array = ops.argmin(x, axis, keepdims=keepdims)
    return result


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """Return a read-only view that repeats elements."""
    return x.broadcast_to(shape)


def expand_dims(x: Array, /, *, axis: int = 0) -> Array:
    """Return a view with a dimension of size 1 put in."""
    (place,) = distinct_axes(axis, x.ndim + 1, "expand_dims")
    return x[(slice(None),) * place + (None,)]


def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Return a view with some dimensions, or all, running backwards."""
    view: Array = flipped(x, axis)
    return view


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Return a view with some dimensions moved."""
    return x.moveaxis(source, destination)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Return a view with dimensions in another order."""
    return x.transpose(tuple(axes)) if x.ndim else x[...]


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: Any = None) -> Array:
    """Return a view of another shape; where there is none, or with ``copy=True``, a copy."""
    result: Array = x.reshape(shape) if copy is False else reshaped(x.copy() if copy else x, shape)
    return result


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Return a view without some dimensions of size 1."""
    axes = distinct_axes(axis, x.ndim, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"dimension {a} has size {x.shape[a]}; accepted are dimensions of size 1")
    return x[tuple(0 if a in axes else slice(None) for a in range(x.ndim))]


__all__ = [
    "argmax", "argmin", "asarray", "bool", "broadcast_to", "complex64", "complex128", "empty", "expand_dims",
    "flip", "float32", "float64", "from_dlpack", "int8", "int16", "int32", "int64", "moveaxis",
    "permute_dims", "reshape", "squeeze", "uint8", "uint16", "uint32", "uint64", "zeros",
]  # fmt: skip
