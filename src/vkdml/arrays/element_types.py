"""Types of elements that lie on a device, and which numbers they hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arguments import require_movable
from vkdml.arrays import foreign
from vkdml.plan.elements import ML_DTYPES_ELEMENTS

# Before NumPy 2, integers that an integer type does not hold wrap, with a warning that few ever see.
WRAPS = np.lib.NumpyVersion(np.__version__) < "2.0.0"
_PLAIN_TYPES = frozenset(type(np.dtype(code)) for code in "?bhilqBHILQefdFD")
"""The classes of the types whose elements a device can hold in either byte order."""


def element_type(dtype: Any) -> np.dtype[Any]:
    """Return an element type that can lie on a device, in the machine's byte order.

    It may be a small array of such elements, and may leave open what :func:`resolved` finds.
    """
    if type(dtype) in _PLAIN_TYPES and dtype.isnative:
        return dtype  # type: ignore[no-any-return]
    if isinstance(dtype, str) and dtype in ML_DTYPES_ELEMENTS:
        return foreign.small_float(dtype)  # NumPy knows the name only after that package was imported
    try:
        element = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"dtype {dtype!r} is no element type ({error}); accepted is what numpy.dtype takes. A device is "
            "named by device="
        ) from None
    each, _ = single(element)
    if not _is_open(each):
        require_movable(each)  # before all else: some types have no byte order to ask for
    native: np.dtype[Any] = element.newbyteorder("=")
    return native


def _is_open(element: np.dtype[Any]) -> bool:
    """Tell whether a type leaves open what NumPy takes from the elements: a text's length, a date's unit."""
    if element.kind in "mM":
        return bool(np.datetime_data(element)[0] == "generic")
    return element.kind in "SU" and element.itemsize == 0


def single(element: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type of single elements, and the dimensions that small arrays of them add.

    >>> single(np.dtype("(2,3)i1"))
    (dtype('int8'), (2, 3))
    """
    inner: tuple[int, ...] = ()
    while element.subdtype is not None:
        element, sizes = element.subdtype
        inner += sizes
    return element, inner


def resolved(array: npt.NDArray[Any], element: np.dtype[Any]) -> tuple[npt.NDArray[Any], np.dtype[Any]]:
    """Return an array, and the type of its elements on a device, of a type that is more than one element's.

    >>> resolved(np.array([1, 2]), np.dtype("2f4"))[0].tolist()
    [[1, 1], [2, 2]]
    >>> resolved(np.array(["a", "bcde"]), np.dtype("S"))[1]
    dtype('S4')
    """
    element, inner = single(element)
    if inner:
        each = array.reshape(array.shape + (1,) * len(inner))
        array = np.broadcast_to(each, array.shape + inner)
    if _is_open(element):
        array = np.asarray(array, element)
        element = array.dtype.newbyteorder("=")
    require_movable(element)
    return array, element


@contextmanager
def accepting(dtype: np.dtype[Any]) -> Iterator[None]:
    """Say which numbers a type holds, after NumPy's message that it does not hold one."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        if len(error.args) == 1 and "accepted" not in str(error):
            error.args = (f"{error}{accepted_for(dtype)}",)
        raise


def require_fit(x: Any, dtype: np.dtype[Any]) -> None:
    """Raise OverflowError, as NumPy 2 does, for numbers that an integer type does not hold.

    >>> require_fit([-128, 127.5], np.dtype("int8"))
    """
    if not WRAPS or dtype.kind not in "iu":
        return
    numbers = np.asarray(x)
    if numbers.dtype.kind not in "iuf":  # of more than 64 bits, which NumPy refuses itself, or no numbers
        return
    whole = np.trunc(numbers) if numbers.dtype.kind == "f" else numbers
    limits = np.iinfo(dtype)
    outside = whole[(whole < limits.min) | (whole > limits.max)]
    if outside.size:
        raise OverflowError(f"Python integer {int(outside[0])} out of bounds for {dtype}")


def accepted_for(dtype: np.dtype[Any]) -> str:
    """Return what goes after a message that a type does not hold a value."""
    held = "numbers that it can hold"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        held = f"numbers from {limits.min} to {limits.max}"
    elif dtype.kind == "M":
        held = "dates and times: numpy.datetime64, Python's, and texts such as '2026-01-31'"
    elif dtype.kind == "m":
        held = "durations: numpy.timedelta64, Python's, and integers"
    elif dtype.kind == "V" and dtype.names is None:
        held = f"objects of {dtype.itemsize} bytes, such as bytes"
    elif dtype.names is not None:
        held = f"tuples of the fields {', '.join(dtype.names)}"
    return f"; accepted for {dtype} are {held}"
