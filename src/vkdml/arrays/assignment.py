"""What is assigned to elements: of their type, and fitted to their shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays.base import DeviceArray
from vkdml.arrays.element_types import accepting, require_fit
from vkdml.arrays.host import as_host_array
from vkdml.arrays.indexing import View, broadcast


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
            # NumPy wraps its own integers, but not Python's. To a float they must not go by way of Python's,
            # which NumPy rounds to a double first, and which ml_dtypes takes up to 63 bits only.
            if value.dtype.kind in "iu" and not any(kind in dtype.name for kind in ("float", "complex")):
                value = int(value)
            require_fit(value, dtype)
            result = np.empty((), dtype)
            result[()] = value
            return result
        return as_host_array(value, None if isinstance(value, np.ndarray) else dtype)


def require_same_type(value: DeviceArray, dtype: np.dtype[Any]) -> None:
    """Raise TypeError where an assignment would convert the elements of an array on a device."""
    if value.dtype != dtype:
        raise TypeError(
            f"elements of type {value.dtype} cannot be assigned to an array of {dtype} on the device; "
            f"accepted are arrays of {dtype}, and host arrays of any type"
        )


def fitted(value: Any, shape: tuple[int, ...]) -> Any:
    """Return what is assigned to elements of a shape, without leading dimensions of size 1, as in NumPy.

    Raises:
        ValueError: it cannot be broadcast to the shape.
    """
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0, ...]  # with the ellipsis, an array also where it has one element
    broadcast(View(value.shape, (0,) * value.ndim, 0), shape)
    return value
