"""Arrays in chunks, stored or still to be computed: zarr, HDF5, tensorstore, Dask, and the like."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays.foreign import FILLED, FILLED_BY_DASK, attribute, is_buffer, require_plain
from vkdml.arrays.same_store import share_a_store
from vkdml.common.wording import put_before
from vkdml.plan.layout import row_major_strides
from vkdml.plan.tiles import RUN_BYTES

AnyArray = npt.NDArray[Any]

# Lazily read types of which some have no chunks: by module and name, since none of them is imported here.
DASK = ("dask.array", "Array")
LAZY_TYPES = (("h5py", "Dataset"), ("zarr", "Array"), ("tensorstore", "TensorStore"), DASK)
# Interfaces of objects that have their elements in memory.
IN_MEMORY = ("__array_interface__", "__array_struct__", "__dlpack__", "__cuda_array_interface__")


class ChunkedArray:
    """An array that is read and written by indexing the object that holds it."""

    def __init__(self, held: Any, dtype: np.dtype[Any]) -> None:
        """Take an object of which :func:`as_chunked` says that it is one."""
        self.held = held
        self.shape: tuple[int, ...] = tuple(map(int, held.shape))
        self.dtype = dtype
        self._type = type(held)
        self._reads = held
        if _is(held, "tensorstore", "TensorStore"):
            # Its indices may begin anywhere.
            self._reads = held[sys.modules["tensorstore"].d[:].translate_to[0]]

    is_of_known_library = property(lambda self: _is_of_known_library(self.held))
    is_stored = property(lambda self: not _is(self.held, *DASK))
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes, as if the elements lay compactly in memory."""
        return tuple(stride * self.itemsize for stride in row_major_strides(self.shape))

    @property
    def chunks(self) -> tuple[int, ...]:
        """The extents of what is read at the cost of any part of it."""
        return self._extents(_chunks(self.held))

    @property
    def written_chunks(self) -> tuple[int, ...]:
        """The extents of what is written at the cost of any part of it: zarr's shards hold chunks."""
        return self._extents(attribute(self.held, "shards") or _chunks(self.held))

    def _extents(self, chunks: Any) -> tuple[int, ...]:
        if _are_extents(chunks, self.ndim):
            return tuple(min(int(c), n) if c else n for c, n in zip(chunks, self.shape, strict=True))
        extents = []
        # An array that lies in one piece is read in runs.
        room = max(RUN_BYTES // self.itemsize, 1)
        for size in reversed(self.shape):
            extents.append(min(size, room))
            room = max(room // max(size, 1), 1)
        return tuple(reversed(extents))

    def read(self, index: tuple[slice, ...]) -> AnyArray:
        """Return the elements that positive slices select.

        Raises:
            TypeError, ValueError: what was read is not of this type, or not of the slices' shape.
            Exception: whatever the object raises; the message says which part was read.
        """
        with self._told("reading", index):
            part = self._reads[index]
            if not self.is_stored:
                part = part.compute()
            if hasattr(part, "read") and callable(part.read):  # tensorstore's views read later
                part = part.read().result()
            require_plain(part, filled=FILLED if self.is_stored else FILLED_BY_DASK)
            array = np.asarray(part)
            shape = tuple(len(range(*s.indices(n))) for s, n in zip(index, self.shape, strict=True))
            require_as_said(array, self.dtype, shape)
            return array if array.dtype == self.dtype else array.byteswap().view(self.dtype)

    def whole(self) -> AnyArray:
        """Return all elements."""
        return self.read(tuple(slice(0, size, 1) for size in self.shape))

    def write(self, index: tuple[slice, ...], elements: AnyArray) -> None:
        """Assign elements, in either byte order, to a part."""
        with self._told("writing", index):
            self._reads[index] = elements

    def is_same(self, other: ChunkedArray) -> bool:
        """Tell whether two objects are known to be one array, or this one to be computed from the other."""
        if self.held is other.held or share_a_store(self.held, other.held):
            return True
        if not self.is_stored:
            return any(source.is_same(other) for source in _sources(self.held))
        if type(self.held) is not type(other.held):
            return False
        place, other_place = (str(attribute(one.held, "store_path")) for one in (self, other))
        if "memory://" in place:  # zarr's, which compares stores in memory by what they hold
            return place == other_place
        try:
            equal = self.held == other.held  # h5py and zarr compare where they lie
        except Exception:
            return False
        return equal is True

    @contextlib.contextmanager
    def _told(self, doing: str, index: tuple[slice, ...]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            part = ", ".join(
                f"{s.start}:{s.stop}" + (f":{s.step}" if s.step not in (None, 1) else "") for s in index
            )
            known = self.is_of_known_library
            library = f"{self._type.__module__.partition('.')[0]} " if known else ""
            put_before(error, f"{doing} [{part}] of this {library}{self._type.__name__}")
            raise


def as_chunked(x: Any) -> ChunkedArray | None:
    """Return an array in chunks, or None for an object that is none.

    One is not in memory (no NumPy array, buffer, ``__array_interface__``, DLPack tensor or Dask graph),
    has ``shape``, ``dtype`` and indexing, and has ``chunks`` with one integer for each dimension. The arrays
    of h5py, zarr, tensorstore and Dask are taken also where they have no such ``chunks``.

    >>> as_chunked(np.zeros(3)) is None
    True
    """
    if isinstance(x, np.ndarray | np.generic | list | tuple | bool | int | float | complex | str | bytes):
        return None
    if not _is_of_known_library(x):
        if not hasattr(type(x), "__getitem__") or not _are_integers(attribute(x, "chunks")):
            return None
        if any(hasattr(x, name) for name in (*IN_MEMORY, "__dask_graph__")) or is_buffer(x):
            return None
    return None if _unlike_chunked(x) else ChunkedArray(x, _numpy_dtype(x))


def chunked_fault(x: Any) -> str:
    """Say why an object that tells of chunks is no array in chunks; an empty text if it tells of none.

    >>> class Stored:
    ...     shape, dtype, chunks = (100, 50), np.dtype("f4"), (10,)
    ...     def __getitem__(self, index): ...
    >>> chunked_fault(Stored())
    'its chunks (10,) are not a tuple with an integer for each of 2 dimensions'
    """
    if not hasattr(type(x), "__getitem__") or not hasattr(x, "chunks"):
        return ""
    name = _unlike_chunked(x)
    accepted = {"shape": "is not a tuple of integers", "dtype": "is not a numpy.dtype"}
    if name == "chunks":
        accepted[name] = f"are not a tuple with an integer for each of {len(x.shape)} dimensions"
    return f"its {name} {attribute(x, name)!r:.100} {accepted[name]}" if name else ""


def _unlike_chunked(x: Any) -> str:
    """Return which of its attributes is not as arrays in chunks have it; an empty text if all are."""
    shape = attribute(x, "shape")
    if not _are_integers(shape):
        return "shape"
    if not isinstance(_numpy_dtype(x), np.dtype):
        return "dtype"
    if _is_of_known_library(x):
        return ""
    chunks = attribute(x, "chunks")
    return "" if _are_integers(chunks) and _are_extents(chunks, len(shape)) else "chunks"


def _numpy_dtype(x: Any) -> Any:
    dtype = attribute(x, "dtype")
    return attribute(dtype, "numpy_dtype") or dtype


def require_as_said(part: Any, dtype: np.dtype[Any], shape: Sequence[int | None]) -> None:
    """Raise if a part of an array is not of the array's type, in either byte order, or of its own shape.

    Args:
        part: an array.
        dtype: what the whole array says.
        shape: None for a size that is not known.

    Raises:
        TypeError: another type.
        ValueError: another shape.
    """
    if part.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise TypeError(f"its elements are said to be {dtype}, and these are {part.dtype}")
    if len(part.shape) != len(shape) or any(
        wanted is not None and size != wanted for size, wanted in zip(part.shape, shape, strict=True)
    ):
        accepted = tuple("any" if size is None else size for size in shape)
        raise ValueError(f"its part has shape {part.shape}; accepted is {accepted}, as was asked for")


def _chunks(x: Any) -> Any:
    if _is(x, "tensorstore", "TensorStore"):
        return attribute(attribute(attribute(x, "chunk_layout"), "read_chunk"), "shape")
    if _is(x, *DASK):  # its chunks may differ in size along a dimension
        return tuple(max(extents) for extents in x.chunks)
    return attribute(x, "chunks")


def _sources(x: Any) -> Iterator[ChunkedArray]:
    """Yield the arrays in chunks that are an entry of a Dask array's graph, as from_array makes it."""
    layers = attribute(attribute(x, "dask"), "layers")
    for layer in layers.values() if isinstance(layers, Mapping) else ():
        entries = attribute(layer, "mapping")
        if isinstance(entries, Mapping) and len(entries) == 1:
            (entry,) = entries.values()
            for held in (entry, attribute(entry, "value")):
                source = as_chunked(held)
                if source is not None:
                    yield source


def _is_of_known_library(x: Any) -> bool:
    return any(_is(x, *names) for names in LAZY_TYPES)


def _is(x: Any, module: str, name: str) -> bool:
    """Tell whether an object is of a library's type, without importing the library."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(x, kind)


def _are_integers(values: Any) -> bool:
    return isinstance(values, tuple) and all(
        isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values
    )


def _are_extents(chunks: Any, rank: int) -> bool:
    """Tell whether these are extents of chunks; 0 or None stand for the whole dimension."""
    return (
        isinstance(chunks, tuple)
        and len(chunks) == rank
        and all(chunk is None or (_are_integers((chunk,)) and chunk >= 0) for chunk in chunks)
    )
