"""Host arrays: what a user's object means as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays import foreign
from vkdml.arrays.chunked import chunked_fault
from vkdml.arrays.element_types import accepted_for, require_fit
from vkdml.runtime.host_memory import require_host_memory

# NumPy's strings of any length: their elements point to bytes elsewhere.
STRINGS = "T"


def as_host_array(x: Any, dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
    """Return a plain NumPy array for a user's object; every conversion goes through here.

    >>> as_host_array([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_host_array(np.ma.array([1, 5, 3], mask=[0, 1, 0]))
    Traceback (most recent call last):
    TypeError: the mask of this MaskedArray hides elements (1 of them), and NumPy would drop it; accepted ...

    Args:
        x: what ``numpy.asarray`` makes an array of, or a tensor in host memory that offers DLPack.
        dtype: to convert to; None keeps the type.

    Raises:
        TypeError: the object carries what NumPy would drop (a mask, missing elements, categories), holds no
            numbers but Python objects or strings, or lies on another device.
        OverflowError: a number that ``dtype`` cannot hold.
        ValueError: NumPy makes no array of it.
        MemoryError: a copy that the free memory cannot hold.
    """
    if dtype is not None:
        dtype = np.dtype(dtype)
    if type(x) is np.ndarray:
        array = x
    else:
        x = foreign.plain(x)
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
        return converted
    return array


def _converted(x: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    if foreign.offers_only_dlpack(x):
        return foreign.from_dlpack(x)
    by_name = callable(foreign.attribute(x, "keys")) and not foreign.offers_array(x)
    if by_name and not callable(foreign.attribute(x, "toarray")):  # else the elements of a sparse array
        raise TypeError(
            f"NumPy makes no array of this {type(x).__name__}: it holds what it has by name; accepted are "
            "its arrays, x[name]"
        )
    try:
        # Subclasses are looked at before they are dropped: an object's __array__() may give a masked array.
        if dtype is not None and isinstance(x, list | tuple | int | float | complex | str):
            require_fit(x, dtype)
            array = np.asanyarray(x, dtype)
        else:
            array = np.asanyarray(x)
    except (TypeError, RuntimeError, BufferError) as error:
        if foreign.offers_dlpack(x):
            return foreign.from_dlpack(x)
        held = "" if dtype is None else accepted_for(dtype)
        raise TypeError(f"NumPy makes no array of this {type(x).__name__}: {error}{held}") from None
    except OverflowError as error:
        if dtype is None:
            raise
        raise OverflowError(f"{error}{accepted_for(dtype)}") from None
    except ValueError as error:
        if not isinstance(x, list | tuple):
            raise
        accepted = "; accepted are nested sequences of numbers that have equal lengths at each depth"
        if dtype is not None and "sequence" not in str(error):  # but of a value that has no such type
            accepted = accepted_for(dtype)
        raise ValueError(f"NumPy makes no array of this {type(x).__name__}: {error}{accepted}") from None
    foreign.require_plain(array)
    if array.dtype.hasobject and not isinstance(x, np.ndarray) and dtype is None:
        if x is None:
            raise TypeError("None is no array; accepted are arrays and nested sequences of numbers")
        hint = ": x.toarray() makes one" if hasattr(x, "toarray") else ""
        fault = chunked_fault(x)
        if fault:
            raise TypeError(f"this {type(x).__name__} is no array in chunks: {fault}")
        raise TypeError(
            f"NumPy makes an array of Python objects of this {type(x).__name__}; accepted are arrays and "
            f"nested sequences of numbers, of which integers fit 64 bits{hint}"
        )
    return np.asarray(array)
