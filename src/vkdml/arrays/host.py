"""Host arrays: what a user's object means as one, which bytes to send, and how elements lie in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays import foreign
from vkdml.common.coinciding import elements_coincide
from vkdml.plan.layout import extent
from vkdml.runtime.host_memory import require_host_memory

# A span is sent unchanged if it is at most this many times the data; else the host gathers the data.
SPAN_LIMIT = 2
# NumPy's strings of any length: their elements point to bytes elsewhere.
STRINGS = "T"


def as_host_array(
    x: Any, dtype: np.dtype[Any] | None = None, *, copy: bool | None = None
) -> npt.NDArray[Any]:
    """Return a plain NumPy array for a user's object; every conversion goes through here.

    >>> as_host_array([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_host_array(np.ma.array([1, 5, 3], mask=[0, 1, 0]))
    Traceback (most recent call last):
    TypeError: the mask of this MaskedArray hides elements (1 of them), and NumPy would drop it; accepted ...

    Args:
        x: what ``numpy.asarray`` makes an array of, or a tensor in host memory that offers DLPack.
        dtype: to convert to; None keeps the type.
        copy: True always copies, False never, None where a copy is needed.

    Raises:
        TypeError: the object carries what NumPy would drop (a mask, missing elements, categories), holds no
            numbers but Python objects or strings, or lies on another device.
        OverflowError: a number that ``dtype`` cannot hold.
        ValueError: NumPy makes no array of it, or only by a copy that ``copy=False`` forbids.
        MemoryError: a copy that the free memory cannot hold.
    """
    if dtype is not None:
        dtype = np.dtype(dtype)
    if type(x) is np.ndarray:
        array = x
    else:
        foreign.require_plain(x)
        array = _converted(x, dtype)
    for element in (array.dtype, dtype):
        if element is not None and element.kind == STRINGS:
            raise TypeError(
                f"elements of type {element} are strings; accepted are numbers and, where they are only "
                "moved, strings of a fixed length: x.astype('U1') makes some"
            )
    if dtype is not None and array.dtype != dtype:
        require_host_memory(f"a copy of type {dtype}", array.size * dtype.itemsize)
        converted: npt.NDArray[Any] = array.astype(dtype)
    elif copy:
        require_host_memory("a copy", array.nbytes)
        converted = array.copy()
    else:
        converted = array
    if copy is False and converted is not x and converted.base is None and converted.size:
        raise ValueError(f"this {type(x).__name__} cannot be taken without a copy; accepted is copy=None")
    return converted


def assigned(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a host array of what is assigned to elements of a type; an array is not converted.

    A number has to fit, as where NumPy assigns to one element.

    >>> assigned(np.int64(3), np.dtype("int8"))
    array(3, dtype=int8)
    >>> assigned(np.float64("nan"), np.dtype("int8"))
    Traceback (most recent call last):
        ...
    ValueError: cannot convert float NaN to integer; accepted for int8 are numbers from -128 to 127

    Raises:
        OverflowError, TypeError, ValueError: a number has no value of this type.
    """
    with accepting(dtype):
        if isinstance(value, np.generic) and value.dtype != dtype:
            # NumPy wraps its own integers, but not Python's.
            value = int(value) if value.dtype.kind in "iu" else value
            result = np.empty((), dtype)
            result[()] = value
            return result
        return as_host_array(value, None if isinstance(value, np.ndarray) else dtype)


@contextmanager
def accepting(dtype: np.dtype[Any]) -> Iterator[None]:
    """Say which numbers a type holds, after NumPy's message that it does not hold one."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        if len(error.args) == 1 and "accepted" not in str(error):
            error.args = (f"{error}{_accepted_for(dtype)}",)
        raise


def _converted(x: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    if foreign.offers_only_dlpack(x):
        return foreign.from_dlpack(x)
    if callable(foreign.attribute(x, "keys")) and not foreign.offers_array(x):
        raise TypeError(
            f"NumPy makes no array of this {type(x).__name__}: it holds what it has by name; accepted are "
            "its arrays, x[name]"
        )
    try:
        # Subclasses are looked at before they are dropped: an object's __array__() may give a masked array.
        if dtype is not None and isinstance(x, list | tuple | int | float | complex):
            array = np.asanyarray(x, dtype)
        else:
            array = np.asanyarray(x)
    except (TypeError, RuntimeError, BufferError) as error:
        if foreign.offers_dlpack(x):
            return foreign.from_dlpack(x)
        raise TypeError(f"NumPy makes no array of this {type(x).__name__}: {error}") from None
    except OverflowError as error:
        if dtype is None:
            raise
        raise OverflowError(f"{error}{_accepted_for(dtype)}") from None
    except ValueError as error:
        if not isinstance(x, list | tuple):
            raise
        accepted = "; accepted are nested sequences of numbers that have equal lengths at each depth"
        is_of_lengths = dtype is None or "sequence" in str(error)  # not of a number that has no such type
        raise ValueError(
            f"NumPy makes no array of this {type(x).__name__}: {error}{accepted if is_of_lengths else ''}"
        ) from None
    foreign.require_plain(array)
    if array.dtype.hasobject and not isinstance(x, np.ndarray) and dtype is None:
        hint = ": x.toarray() makes one" if hasattr(x, "toarray") else ""
        raise TypeError(
            f"NumPy makes an array of Python objects of this {type(x).__name__}; accepted are arrays and "
            f"nested sequences of numbers of at most 64 bits{hint}"
        )
    return np.asarray(array)


def _accepted_for(dtype: np.dtype[Any]) -> str:
    """Return what goes after a message that a type does not hold a number."""
    held = "that it can hold"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        held = f"from {limits.min} to {limits.max}"
    return f"; accepted for {dtype} are numbers {held}"


@dataclass(frozen=True)
class HostSpan:
    """A flat array of whole elements, and where in it the described array lies. Offsets count elements."""

    flat: npt.NDArray[Any]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: int
    lead: int = 0
    """Elements before the flat array that a kernel is given, too; ``base`` counts them."""

    @property
    def size(self) -> int:
        """Elements that a kernel is given."""
        return self.lead + self.flat.size


def host_span(x: npt.NDArray[Any]) -> HostSpan:
    """Return the span of a NumPy array without a 0 in its shape; only a widely spread array is copied.

    >>> host_span(np.arange(6.0).reshape(2, 3)[:, ::-1]).strides
    (3, -1)
    """
    itemsize = x.itemsize
    if x.flags.c_contiguous:
        strides = tuple(stride // itemsize for stride in x.strides)
        if any(size == 1 for size in x.shape):  # NumPy leaves the strides of such dimensions open
            strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, strides, strict=True))
        return HostSpan(x.reshape(-1), x.shape, strides, 0)
    x = _once(x)
    stretch = _stretch(x)
    if stretch is None:
        compact = np.ascontiguousarray(x)
        strides = tuple(
            0 if size == 1 else s // itemsize for size, s in zip(x.shape, compact.strides, strict=True)
        )
        return HostSpan(compact.reshape(-1), x.shape, strides, 0)
    strides, low, high = stretch
    lowest_first = x[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    # As plain bytes, since NumPy cannot describe all extension types to itself.
    opaque = lowest_first.view(f"V{itemsize}")
    flat = np.lib.stride_tricks.as_strided(opaque, (high - low,), (itemsize,), writeable=False)
    return HostSpan(flat.view(x.dtype), x.shape, strides, -low)


def sent_bytes(x: npt.NDArray[Any]) -> int:
    """Return the bytes of the span that :func:`host_span` would return; copies nothing.

    >>> x = np.zeros((100, 10), np.int8)
    >>> sent_bytes(x), sent_bytes(x[:, ::2]), sent_bytes(x[:, ::5])
    (1000, 999, 200)
    """
    if x.flags.c_contiguous:
        return x.nbytes
    x = _once(x)
    stretch = _stretch(x)
    if stretch is None:
        return x.nbytes
    _, low, high = stretch
    return (high - low) * x.itemsize


def _once(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with elements that a stride of 0 repeats taken once."""
    once: npt.NDArray[Any] = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides)]
    return once


def _stretch(x: npt.NDArray[Any]) -> tuple[tuple[int, ...], int, int] | None:
    """Return strides and extent, in elements, of an array that is sent as it lies; None: it is gathered."""
    # Dimensions of size 1 may have any stride.
    byte_strides = tuple(0 if size == 1 else s for size, s in zip(x.shape, x.strides, strict=True))
    strides = tuple(stride // x.itemsize for stride in byte_strides)
    low, high = extent(x.shape, strides)
    if any(stride % x.itemsize for stride in byte_strides) or high - low > SPAN_LIMIT * x.size:
        return None
    return strides, low, high


def elements_overlap(x: npt.NDArray[Any]) -> bool:
    """Whether two elements of an array share a byte; also True if the answer takes too long to find.

    >>> elements_overlap(np.broadcast_to(np.zeros(3), (2, 3)))
    True
    """
    if x.size < 2 or x.flags.forc:
        return False
    dims = sorted((abs(stride), size) for size, stride in zip(x.shape, x.strides, strict=True) if size > 1)
    covered = x.itemsize
    nested = True
    for stride, size in dims:
        nested &= stride >= covered
        covered += (size - 1) * stride
    if nested or x.size * x.itemsize > covered:
        return not nested
    # Dimensions that interleave may still miss each other. An element's bytes are one more dimension.
    sizes, strides = (size for _, size in dims), (stride for stride, _ in dims)
    return elements_coincide((*sizes, x.itemsize), (*strides, 1)) is not False
