"""The part of the Python array API standard that vkdml implements, with the standard's signatures.

``Array.__array_namespace__()`` returns this module. What is here follows the standard; most of the standard
is not here:

==================  =====================================================================================
creation            ``asarray``, ``from_dlpack``; ``empty``, ``full``, ``ones``, ``zeros`` and ``..._like``
searching           ``argmax``, ``argmin``
indexing            ``take``, ``take_along_axis``; ``x[...]`` with integers, slices and arrays of integers
manipulation        ``broadcast_arrays``, ``broadcast_shapes``, ``broadcast_to``, ``expand_dims``, ``flip``,
                    ``moveaxis``, ``permute_dims``, ``reshape``, ``squeeze``, ``unstack``
data types          the standard's types; ``can_cast``, ``finfo``, ``iinfo``, ``isdtype``, ``result_type``
inspection          ``__array_namespace_info__``
not here            arithmetic, comparison, statistics, linear algebra, masks: vkdml is three operators
==================  =====================================================================================

Floating-point numbers of Python become float32 here, which devices have, as in ``empty`` and ``zeros``;
``vkdml.asarray`` follows NumPy and makes them float64. Arrays, and numbers of NumPy's types, keep their type.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from vkdml import ops
from vkdml.arguments import context, given_axes, named_axes, one_axis
from vkdml.arrays import creation as _creation
from vkdml.arrays.array import Array
from vkdml.arrays.base import DeviceArray
from vkdml.arrays.creation import from_dlpack
from vkdml.arrays.foreign import require_plain
from vkdml.arrays.gathering import as_indices, taken_along_axis
from vkdml.arrays.numpy_functions import flipped, reshaped
from vkdml.common.integers import entries, is_sequence
from vkdml.common.wording import wrong_type
from vkdml.runtime.device import Device, DeviceLike
from vkdml.runtime.device import default_device as _default_device
from vkdml.runtime.device_info import devices as _devices
from vkdml.runtime.device_info import normal_selector
from vkdml.runtime.host_memory import MOST_DIMENSIONS

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Versions of the standard. Their rules for these functions are the same."""
__array_api_version__ = VERSIONS[-1]

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi

_KINDS: dict[str, tuple[np.dtype[Any], ...]] = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_PYTHON_NUMBERS = frozenset({int, float, complex})
# What NumPy makes of Python's numbers, and what they are here.
_DEFAULTS = {float64: float32, complex128: complex64}


def for_version(api_version: str | None) -> ModuleType:
    """Return this namespace if it follows that version of the standard, else raise ValueError."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API is not known; accepted are {', '.join(VERSIONS)}"
        )
    return sys.modules[__name__]


def __dir__() -> list[str]:
    return [*{*__all__, *(name for name in globals() if name.startswith("__"))}]


Function = TypeVar("Function", bound=Callable[..., Any])


def _of_an_array(function: Function) -> Function:
    """Let a function refuse a first argument that is an array of another kind."""

    @functools.wraps(function)
    def checked(x: Any, /, *others: Any, **options: Any) -> Any:
        return function(_own(x), *others, **options)

    return cast("Function", checked)


def _own(x: Any) -> Array:
    if not isinstance(x, Array):
        raise wrong_type("x", x, "a vkdml.Array, as vkdml.asarray makes one")
    return x


# ---- inspection --------------------------------------------------------------------------------------------


class _Info:
    """What there is, by the standard's names."""

    def capabilities(self) -> dict[str, Any]:
        """Return which parts of the standard that depend on the elements are here: none."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": MOST_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """Return the device of arrays that are made without ``device=``."""
        return _default_device()

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, np.dtype[Any]]:
        """Return the types of arrays that are made without ``dtype=``."""
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int64,
            "indexing": int64,
        }

    def devices(self) -> tuple[Device, ...]:
        """Return all devices; those that were not open are opened."""
        return tuple(Device(info.index) for info in _devices())

    def dtypes(
        self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Return the standard's data types of a kind, or all, by name."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {dtype.name: dtype for one in kinds for dtype in _of_kind(one)}


def __array_namespace_info__() -> _Info:
    """Return an object that tells devices, data types and capabilities."""
    return _Info()


def _of_kind(kind: str) -> tuple[np.dtype[Any], ...]:
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r} is unknown; accepted are {', '.join(map(repr, _KINDS))}")
    return _KINDS[kind]


# ---- data types --------------------------------------------------------------------------------------------


def can_cast(from_: Any, to: Any, /) -> Any:
    """Tell whether the standard promotes one type to the other."""
    source = from_.dtype if isinstance(from_, DeviceArray) else np.dtype(from_)
    return np.can_cast(source, np.dtype(to))


class _FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> _FloatInfo:
    """Return the limits of a floating-point type, of the parts where it is complex."""
    info = np.finfo(type.dtype if isinstance(type, DeviceArray) else type)
    eps, most, least, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return _FloatInfo(info.bits, eps, most, least, normal, info.dtype)


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer type."""
    return np.iinfo(type.dtype if isinstance(type, DeviceArray) else type)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Tell whether a type is of a kind, is another type, or either of several of these."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(dtype in _of_kind(one) if isinstance(one, str) else dtype == np.dtype(one) for one in kinds)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the type that arrays, types and Python numbers have together."""
    given = [one.dtype if isinstance(one, DeviceArray) else one for one in arrays_and_dtypes]
    numbers = [one for one in given if type(one) in _NUMBERS]
    if not numbers or len(numbers) == len(given):
        return np.result_type(*given)
    result = np.result_type(*(_type_of(one) for one in given if type(one) not in _NUMBERS))
    if result.kind not in "biufc":  # NumPy knows, or its packages do
        return np.result_type(*given)
    for number in numbers:
        # As NumPy 2 does: a number's value plays no part, and its type only if it is of a higher kind.
        kinds, default = _NUMBERS[type(number)]
        if result.kind not in kinds:
            is_wider = type(number) is complex and result.kind == "f"
            result = np.result_type(result, np.complex64 if is_wider else default)
    return result


# By type of Python's numbers: the kinds of elements that have them, and what they become otherwise.
_NUMBERS: dict[type, tuple[str, Any]] = {
    builtins.bool: ("biufc", np.bool_),
    int: ("iufcV", np.int64),
    float: ("fc", np.float64),
    complex: ("c", np.complex128),
}


def _type_of(given: Any) -> np.dtype[Any]:
    return given.dtype if isinstance(given, np.ndarray | np.generic) else np.dtype(given)


# ---- creation ----------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: Any = None, device: DeviceLike = None, copy: Any = None) -> Array:
    """Copy to a device; an Array of that type on that device is returned as it is, unless ``copy=True``."""
    if isinstance(obj, DeviceArray):
        _own(obj)
    if not isinstance(device, Device):
        normal_selector(device)  # one device: several would make a ShardedArray
    chosen = _default_type(obj) if dtype is None else dtype
    result: Array = _creation.asarray(obj, chosen, device=device, copy=copy)
    return result


def _default_type(obj: Any) -> np.dtype[Any] | None:
    """Return the type that Python's numbers have here, or None where NumPy's type is right.

    Arrays, and NumPy's numbers, keep their precision also among Python's numbers.
    """
    if not isinstance(obj, int | float | complex | list | tuple) or isinstance(obj, np.generic):
        return None
    default = _DEFAULTS.get(np.asarray(obj).dtype)
    if default is None or any(np.result_type(dtype, default) != default for dtype in _types_within(obj)):
        return None
    return default


def _types_within(obj: Any) -> set[np.dtype[Any]]:
    """Return the types of what a nested sequence has beside Python's numbers."""
    if isinstance(obj, list | tuple):
        return set().union(*(() if type(item) in _PYTHON_NUMBERS else _types_within(item) for item in obj))
    if isinstance(obj, int | float | complex) and not isinstance(obj, np.generic):
        return set()
    dtype = getattr(obj, "dtype", None)
    return {dtype if isinstance(dtype, np.dtype) else np.asarray(obj).dtype}


def empty(shape: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of arbitrary elements, by default float32."""
    return _creation.empty(shape, dtype, device=device)


@_of_an_array
def empty_like(x: Array, /, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of arbitrary elements, of the shape, type and device of another."""
    return empty(x.shape, **_as_of(x, dtype, device))


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of equal elements, by default of the value's type; of Python's numbers see above."""
    with context("full", fill_value):
        require_plain(fill_value)
    element = np.asarray(fill_value)
    chosen = (_default_type(fill_value) or element.dtype) if dtype is None else dtype
    result = _creation.empty(shape, chosen, device=device)
    # As in numpy.full: Python's numbers have to fit, NumPy's integers wrap.
    result[...] = fill_value if isinstance(fill_value, int | float | complex) else element
    return result


@_of_an_array
def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of equal elements, of the shape, type and device of another."""
    return full(x.shape, fill_value, **_as_of(x, dtype, device))


def ones(shape: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of ones, by default float32."""
    return full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


@_of_an_array
def ones_like(x: Array, /, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of ones, of the shape, type and device of another."""
    return full_like(x, 1, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of zeros, by default float32."""
    return _creation.zeros(shape, dtype, device=device)


@_of_an_array
def zeros_like(x: Array, /, *, dtype: Any = None, device: DeviceLike = None) -> Array:
    """Return an array of zeros, of the shape, type and device of another."""
    return zeros(x.shape, **_as_of(x, dtype, device))


def _as_of(x: Array, dtype: Any, device: DeviceLike) -> dict[str, Any]:
    """Return the options of a new array that takes from another what is not given."""
    return {
        "dtype": x.dtype if dtype is None else dtype,
        "device": x.device if device is None else device,
    }


# ---- searching, indexing -----------------------------------------------------------------------------------


@_of_an_array
def argmax(x: Array, /, *, axis: int | None = None, keepdims: Any = False) -> Array:
    """Return the indices of the greatest elements along an axis, or of all."""
    result: Array = ops.argmax(x, axis, keepdims=keepdims)
    return result


@_of_an_array
def argmin(x: Array, /, *, axis: int | None = None, keepdims: Any = False) -> Array:
    """Return the indices of the least elements along an axis, or of all."""
    result: Array = ops.argmin(x, axis, keepdims=keepdims)
    return result


@_of_an_array
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """Return the elements at these places of an axis, copied on the device."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"axis= is needed for an array of {x.ndim} dimensions; accepted is one of them")
        axis = 0
    place = one_axis(axis, x.ndim, "take")
    return x[(slice(None),) * place + (as_indices(indices, x),)]


@_of_an_array
def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Return for each of the indices the element at that place of an axis, copied on the device."""
    place = one_axis(axis, x.ndim, "take_along_axis")
    return taken_along_axis(x, indices, place)


# ---- manipulation ------------------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Return read-only views of one shape."""
    shape = np.broadcast_shapes(*(_own(x).shape for x in arrays))
    return tuple(x.broadcast_to(shape) for x in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that shapes have together."""
    return np.broadcast_shapes(*shapes)


@_of_an_array
def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """Return a read-only view that repeats elements."""
    return x.broadcast_to(shape)


@_of_an_array
def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """Return a view with a dimension of size 1 put in; several axes are places in the result."""
    axes = given_axes(axis)
    added = len(axes)
    places = named_axes(axes, x.ndim + added, "expand_dims")
    return x[tuple(None if place in places else slice(None) for place in range(x.ndim + added))]


@_of_an_array
def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Return a view with some dimensions, or all, running backwards."""
    view: Array = flipped(x, axis)
    return view


@_of_an_array
def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Return a view with some dimensions moved."""
    return x.moveaxis(source, destination)


@_of_an_array
def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Return a view with dimensions in another order."""
    if not is_sequence(axes):  # None would reverse them
        raise wrong_type("axes", axes, "a sequence of integers")
    return x.transpose(entries("axes", axes))


@_of_an_array
def reshape(x: Array, /, shape: tuple[int, ...], *, copy: Any = None) -> Array:
    """Return a view of another shape; where there is none, or with ``copy=True``, a copy."""
    result: Array = reshaped(x, shape, copy)
    return result


@_of_an_array
def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Return a view without some dimensions of size 1."""
    axes = named_axes(axis, x.ndim, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"dimension {a} has size {x.shape[a]}; accepted are dimensions of size 1")
    return x[tuple(0 if a in axes else slice(None) for a in range(x.ndim))]


@_of_an_array
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return a view for each place of an axis."""
    place = one_axis(axis, x.ndim, "unstack")
    return tuple(x[(slice(None),) * place + (number,)] for number in range(x.shape[place]))


__all__ = [
    "__array_api_version__", "__array_namespace_info__", "argmax", "argmin", "asarray", "bool",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "complex64", "complex128", "e",
    "empty", "empty_like", "expand_dims", "finfo", "flip", "float32", "float64", "from_dlpack", "full",
    "full_like", "iinfo", "inf", "int8", "int16", "int32", "int64", "isdtype", "moveaxis", "nan", "newaxis",
    "ones", "ones_like", "permute_dims", "pi", "reshape", "result_type", "squeeze", "take",
    "take_along_axis", "uint8", "uint16", "uint32", "uint64", "unstack", "zeros", "zeros_like",
]  # fmt: skip
