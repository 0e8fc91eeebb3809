"""The element types that argmin and argmax take, as NumPy sees them and as the kernels' schema names them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from vkdml.plan import kernels


def _defined_by(package: str) -> tuple[str, ...]:
    return tuple(name for name, element in kernels.elements().items() if element.package == package)


NUMPY_ELEMENTS = _defined_by("numpy")
ML_DTYPES_ELEMENTS = _defined_by("ml_dtypes")
INDEX_DTYPES = ("int64", "int32", "uint64", "uint32")
SLICE_ELEMENT_BYTES = kernels.family("slice1_runs").numbers_of("element_bytes")

_NUMPY_NAMES = {np.dtype(name): name for name in NUMPY_ELEMENTS}


@lru_cache(maxsize=256)
def element_name(dtype: np.dtype[Any]) -> str:
    """Return the schema's name of a native-endian element type.

    >>> element_name(np.dtype("float16"))
    'float16'

    Raises:
        TypeError: argmin and argmax do not take this type; the message lists those they take.
    """
    name = _NUMPY_NAMES.get(dtype)
    if name is not None:
        return name
    # ml_dtypes registers its types with NumPy; their names tell them apart without importing the package.
    name = str(dtype.name)
    if name in ML_DTYPES_ELEMENTS and dtype.type.__module__.startswith("ml_dtypes"):
        return name
    accepted = ", ".join((*NUMPY_ELEMENTS, *ML_DTYPES_ELEMENTS))
    raise TypeError(f"elements of type {dtype} cannot be compared; accepted are {accepted}")


def index_dtype(dtype: Any, reduce_count: int) -> np.dtype[Any]:
    """Return the type of the indices, checked to hold any index among ``reduce_count`` elements.

    >>> index_dtype(None, 1000)
    dtype('int64')

    Raises:
        TypeError: not one of the four index types.
        ValueError: the greatest index that can occur does not fit the type.
    """
    accepted = ", ".join(INDEX_DTYPES)
    try:
        chosen = np.dtype(np.int64 if dtype is None else dtype)
    except TypeError:
        raise TypeError(f"dtype {dtype!r} is not a type; accepted are {accepted}") from None
    if chosen.name not in INDEX_DTYPES or not chosen.isnative:
        raise TypeError(f"indices cannot be {chosen}; accepted are {accepted}")
    greatest = int(np.iinfo(chosen).max)
    if reduce_count - 1 > greatest:
        wider = ", ".join(name for name in INDEX_DTYPES if np.iinfo(name).max >= reduce_count - 1)
        raise ValueError(
            f"{reduce_count} elements compete for one index, and the greatest index {reduce_count - 1} does "
            f"not fit dtype {chosen} (at most {greatest}); accepted are {wider or 'fewer elements'}"
        )
    return chosen
