"""Objects of other libraries: refusing those that hold more than numbers, and taking DLPack tensors."""

from __future__ import annotations

import array
import ctypes
import importlib
import sys
from collections import UserString
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays.base import DeviceArray
from vkdml.common import dlpack

# Types that hold only a number.
NUMBERS = frozenset({bool, int, float, complex, np.bool_, *np.sctypeDict.values()})
# As deep as NumPy's arrays may have dimensions.
DEEPEST_NESTING = 64
# What makes arrays without masked elements.
FILLED, FILLED_BY_DASK = "x.filled(value)", "dask.array.ma.filled(x, value)"


def require_plain(x: Any, nesting: int = 0, lazy: list[Any] | None = None, *, filled: str = FILLED) -> None:
    """Raise TypeError for an object, also within sequences, of which NumPy would silently drop a part.

    >>> require_plain(np.ma.array([1, 5, 3], mask=[0, 0, 0]))
    >>> require_plain([np.ma.array([1, 5, 3], mask=[0, 1, 0])])
    Traceback (most recent call last):
    TypeError: the mask of this MaskedArray hides elements (1 of them), and NumPy would drop it; accepted ...

    Args:
        x: what NumPy is to make an array of.
        nesting: sequences that it lies in.
        lazy: gets the arrays of Dask that are met instead of looking at them: ``computed`` replaces them.
        filled: what the user can do about a mask.
    """
    is_list = isinstance(x, list | tuple)
    has_items = is_list or _is_other_sequence(x)
    if has_items and nesting < DEEPEST_NESTING and not NUMBERS.issuperset(map(type, x)):
        for item in x:
            require_plain(item, nesting + 1, lazy, filled=filled)
    if not is_list and type(x) is not np.ndarray and type(x) not in NUMBERS:
        if lazy is not None and _is_of_dask(x):
            lazy.append(x)
            return
        require_open(x)
        _require_computed(x)
        _require_no_mask(x, filled)
        _require_no_missing(x)
        if nesting and not isinstance(x, np.ndarray | DeviceArray) and hasattr(type(x), "__array__"):
            # NumPy drops the masks of what it puts together; what it cannot convert, it says itself.
            try:
                converted = np.asanyarray(x)
            except Exception:
                return
            _require_no_mask(converted, filled)


# Of these NumPy takes the text, the memory or the numbers, and not item by item.
_NO_SEQUENCES = (str, UserString, bytes, bytearray, memoryview, array.array, range)


def _is_other_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, _NO_SEQUENCES) and not offers_array(x)


def _is_of_dask(x: Any) -> bool:
    """Tell whether this is a lazy array. Tables and datasets have their arrays by name."""
    return (
        "dask" in sys.modules
        and hasattr(type(x), "__dask_graph__")
        and callable(attribute(x, "compute"))
        and not hasattr(type(x), "keys")  # an object that answers to every name has none in its type
    )


def plain(x: Any) -> Any:
    """Return an object of which NumPy drops nothing, with what it holds of Dask's computed.

    NumPy would compute it, too, and drop the masks of what that gives.

    Raises:
        TypeError: as :func:`require_plain`.
    """
    lazy: list[Any] = []
    require_plain(x, lazy=lazy)
    if lazy:
        x = _computed(x)
        require_plain(x, filled=FILLED_BY_DASK)
    return x


def _computed(x: Any) -> Any:
    if _is_of_dask(x):
        return x.compute()
    return [_computed(item) for item in x] if isinstance(x, list | tuple) or _is_other_sequence(x) else x


def require_open(x: Any) -> None:
    """Raise TypeError for h5py's datasets of closed files, and for those that were made without a shape."""
    kind = type(x)
    if hasattr(kind, "chunks") and hasattr(kind, "shape") and attribute(x, "shape") is None:
        raise TypeError(
            f"this {kind.__name__} has no shape: its file was closed, or it was made without one; accepted "
            "are arrays in open files"
        )


def _require_computed(x: Any) -> None:
    """Raise for polars' lazy tables, of which NumPy would make one Python object."""
    if callable(getattr(type(x), "collect", None)) and not offers_array(x) and not offers_dlpack(x):
        raise TypeError(
            f"this {type(x).__name__} is a query that was not run yet; accepted are its results: x.collect()"
        )


def _require_no_mask(x: Any, filled: str) -> None:
    interface = attribute(x, "__array_interface__")
    valid = interface.get("mask") if isinstance(interface, Mapping) else None
    if valid is not None:  # in this protocol True marks the elements that count
        _require_none_hidden(x, ~np.asarray(valid, np.bool_), filled)
    mask = attribute(x, "mask")
    # Python's booleans are no masks but settings: netCDF4's variables say whether they give masked arrays.
    if mask is None or isinstance(mask, bool) or callable(mask):
        return
    mask = np.asarray(mask)
    fields = mask.dtype.names is not None  # records have a mask for each field
    if not (fields or mask.dtype == np.bool_) or mask.shape not in ((), attribute(x, "shape")):
        return
    _require_none_hidden(x, mask != np.zeros((), mask.dtype), filled)


def _require_none_hidden(x: Any, hidden: Any, filled: str) -> None:
    if hidden.any():
        raise TypeError(
            f"the mask of this {type(x).__name__} hides elements ({np.count_nonzero(hidden)} of them), and "
            f"NumPy would drop it; accepted are arrays without masked elements: {filled} makes one"
        )


def _require_no_missing(x: Any) -> None:
    """Raise for pandas' and Arrow's missing values and categories, also where xarray holds them."""
    dtypes = _column_dtypes(x)
    if any(attribute(dtype, "categories") is not None for dtype in dtypes):
        raise TypeError(f"this {type(x).__name__} holds categories; accepted are numbers: its codes")
    # In columns of NumPy's own types, dense or pandas' sparse ones, NaN is a number like any other.
    extension = [
        not any(isinstance(own, np.dtype) for own in (dtype, attribute(dtype, "subtype"))) for dtype in dtypes
    ]
    missing = 0
    if any(extension):
        held = x if all(extension) or not hasattr(x, "loc") else x.loc[:, extension]
        find = attribute(held, "isna") or attribute(held, "isnull")
        missing = int(np.count_nonzero(np.asarray(find()))) if callable(find) else 0
    columns = attribute(x, "columns")
    for part in (x, *columns) if isinstance(columns, list) else (x,):
        missing += _null_count(part)
    if not missing and any(type(dtype).__name__ == "ArrowDtype" for dtype in dtypes):
        missing = _nulls_of_pandas(x)
    if missing:
        raise TypeError(
            f"this {type(x).__name__} has missing elements (null or NA, {missing} of them), in whose place "
            "NumPy would put others; accepted are arrays without missing elements: fill or drop them first"
        )


def _null_count(x: Any) -> int:
    """Return how many values of Arrow's or polars' are missing, also within polars' arrays and structures."""
    count = attribute(x, "null_count")
    if count is None:
        return 0
    missing = int(np.sum(np.asarray(count() if callable(count) else count)))
    if missing:
        return missing
    encoded = _arrow_parts(x)
    if encoded:
        return sum(map(_null_count, encoded))
    # Polars counts the outermost level only.
    dtype = attribute(x, "dtype")
    if attribute(dtype, "inner") is not None and attribute(dtype, "shape") is not None:
        return _null_count(x.reshape((-1,)))
    unnest = attribute(attribute(x, "struct"), "unnest")
    if attribute(dtype, "fields") is not None and callable(unnest):
        return sum(map(_null_count, unnest().get_columns()))
    return 0


def _nulls_of_pandas(x: Any) -> int:
    """Return the nulls within the encodings of pandas' arrays, columns and tables of Arrow's types."""
    if attribute(x, "dtypes") is not None and attribute(x, "dtype") is None:
        return sum(_nulls_of_pandas(column) for _, column in x.items())
    lend = attribute(x, "__arrow_array__") or attribute(attribute(x, "array"), "__arrow_array__")
    return _null_count(lend()) if callable(lend) else 0


def _arrow_parts(x: Any) -> list[Any]:
    """Return what Arrow's arrays hold whose own count of nulls leaves out those within: chunks, encodings."""
    chunks, decode, values = (attribute(x, name) for name in ("chunks", "dictionary_decode", "values"))
    if isinstance(chunks, list):
        return chunks
    if callable(decode):
        return [decode()]
    if type(x).__name__ == "RunEndEncodedArray" and not callable(attribute(values, "dictionary_decode")):
        return [importlib.import_module(f"{type(x).__module__.partition('.')[0]}.compute").run_end_decode(x)]
    return []


def _column_dtypes(x: Any) -> tuple[Any, ...]:
    """Return the types of an array's elements, or of a table's columns."""
    dtype = attribute(x, "dtype")
    if dtype is not None:
        return (dtype,)
    dtypes = attribute(x, "dtypes")
    if not isinstance(dtypes, Iterable) or isinstance(dtypes, Mapping):
        return ()
    return tuple(dtypes)


def attribute(x: Any, name: str) -> Any:
    """Return an attribute, or None if the object has none or raises an error for it."""
    try:
        return getattr(x, name, None)
    except Exception:  # some libraries raise errors of their own for what an object does not support
        return None


# ---- DLPack ------------------------------------------------------------------------------------------------

NUMPY_TAKES_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def offers_dlpack(x: Any) -> bool:
    """Tell whether an object is a DLPack producer."""
    return hasattr(type(x), "__dlpack__") and hasattr(type(x), "__dlpack_device__")


def lies_on_cuda(x: Any) -> bool:
    """Tell whether an object is a tensor in the memory of a CUDA device."""
    if isinstance(x, np.ndarray) or not offers_dlpack(x):
        return False
    try:
        kind, _ = x.__dlpack_device__()
        return int(kind) in dlpack.CUDA_DEVICES
    except Exception:  # of kinds that DLPack does not know; libraries raise errors of their own
        return False


def offers_array(x: Any) -> bool:
    """Tell whether an object has one of NumPy's interfaces of arrays."""
    return any(hasattr(x, f"__array{kind}__") for kind in ("", "_interface", "_struct"))


def offers_only_dlpack(x: Any) -> bool:
    """Tell whether an object has DLPack, and nothing else that NumPy understands."""
    return offers_dlpack(x) and not offers_array(x) and not is_buffer(x)


def is_buffer(x: Any) -> bool:
    """Tell whether an object lends its memory by Python's buffer protocol."""
    try:
        memoryview(x)
    except TypeError:
        return False
    return True


def from_dlpack(x: Any) -> npt.NDArray[Any]:
    """Return the array that a DLPack producer in host memory lends, ml_dtypes' types included.

    Raises:
        TypeError: it lies on another device, or its producer or NumPy refuses.
    """
    require_sign_as_stored(x)
    try:
        kind, index = x.__dlpack_device__()
        if int(kind) not in dlpack.HOST_DEVICES:
            raise TypeError(
                f"this {type(x).__name__} lies on DLPack device ({int(kind)}, {index}); accepted are tensors "
                f"in host memory, device ({dlpack.CPU}, 0): copy it there first"
            )
        capsule = _capsule(x)
        small_float = _as_unsigned(capsule)
        array = np.from_dlpack(_Lent(capsule, (dlpack.CPU, 0)))
    except (BufferError, RuntimeError, AttributeError, ValueError) as error:
        raise TypeError(
            f"this {type(x).__name__} cannot be taken through DLPack: {error}; accepted are tensors in host "
            "memory that their library lends as they are, of numbers of NumPy's types or of "
            f"{', '.join(dlpack.SMALL_FLOAT_CODES)}"
        ) from None
    return array if small_float is None else array.view(small_float)


def require_sign_as_stored(x: Any) -> None:
    """Raise TypeError for torch's views with the other sign, such as ``x.conj().imag``.

    Torch lends what is stored, and neither it nor the capsule says that the sign is another.
    """
    is_negative = attribute(x, "is_neg")
    if callable(is_negative) and is_negative() is True:
        raise TypeError(
            f"this {type(x).__name__} is a view that changes the sign of what is stored (its negative bit is "
            "set), and DLPack does not tell so; accepted are tensors that hold their elements: "
            "x.resolve_neg() makes one"
        )


def _capsule(x: Any) -> Any:
    """Return a capsule of the newest version that NumPy takes: older ones cannot lend what is read-only."""
    if NUMPY_TAKES_VERSIONS:
        try:
            return x.__dlpack__(max_version=dlpack.VERSION_WITH_FLAGS)
        except TypeError:  # libraries from before that version
            pass
    return x.__dlpack__()


class _Lent:
    """A capsule as the producer that NumPy asks for one."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule


def _as_unsigned(capsule: Any) -> np.dtype[Any] | None:
    """Mark ml_dtypes' elements in a fresh capsule as unsigned integers; return their type, or None."""
    tensor, _ = dlpack.tensor_in(capsule)
    code, bits = (ctypes.c_uint8.from_address(tensor + place) for place in (dlpack.CODE, dlpack.BITS))
    name = dlpack.small_float_name(code.value, bits.value)
    if name is None:
        return None
    dtype = small_float(name)
    code.value = dlpack.UNSIGNED
    return dtype


def small_float(name: str) -> np.dtype[Any]:
    """Return ml_dtypes' type of this name.

    Raises:
        TypeError: the package is not there.
    """
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"elements of type {name} need the package ml_dtypes: pip install ml_dtypes"
        ) from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype
