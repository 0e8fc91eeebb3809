"""Views of strided arrays: how indexing, reshaping and broadcasting change shape, strides and offset.

Strides and offsets count elements. Nothing here knows of devices, dtypes or data.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from vkdml.common.integers import entries, index, is_sequence
from vkdml.plan.layout import row_major_strides

_ALL = slice(None)


class View(NamedTuple):
    """Where the elements of an array lie."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


_view = partial(tuple.__new__, View)
"""Without the names of its fields, which take longer than the view."""


@lru_cache(maxsize=1024)
def compact_view(shape: tuple[int, ...]) -> View:
    """Return the view of elements that lie one after the other, in row-major order.

    >>> compact_view((2, 3))
    View(shape=(2, 3), strides=(3, 1), offset=0)
    """
    return View(shape, row_major_strides(shape), 0)


def element_of(view: View, number: int) -> View:
    """Return what :func:`indexed` does for one integer, the commonest index.

    >>> element_of(View((4, 6), (6, 1), 0), -1)
    View(shape=(6,), strides=(1,), offset=18)
    """
    shape, strides, offset = view
    if not shape or not -shape[0] <= number < shape[0]:
        return indexed(view, (number,))  # which raises
    return _view((shape[1:], strides[1:], offset + number % shape[0] * strides[0]))


def indexed(view: View, key: Any) -> View:
    """Return the view that basic indexing chooses: ints, slices, ``...`` and None, alone or in a tuple.

    >>> indexed(View((4, 6), (6, 1), 0), (slice(None, None, -2), 5))
    View(shape=(2,), strides=(-12,), offset=23)

    Raises:
        IndexError: an index out of bounds, too many of them, or of another kind.
    """
    old_shape, old_strides, offset = view
    shape: list[int] = []
    strides: list[int] = []
    dim = 0
    for part in spelt_out(key, len(old_shape)):
        if part is None:
            shape.append(1)
            strides.append(0)
        elif part is _ALL:
            shape.append(old_shape[dim])
            strides.append(old_strides[dim])
            dim += 1
        elif isinstance(part, slice):
            size, stride = old_shape[dim], old_strides[dim]
            start, stop, step = part.indices(size)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            shape.append(count)
            strides.append(stride * step)
            dim += 1
        else:
            offset += position(part, old_shape[dim], dim) * old_strides[dim]
            dim += 1
    return _view((tuple(shape), tuple(strides), offset))


def spelt_out(key: Any, rank: int) -> tuple[Any, ...]:
    """Return a key with one entry for each dimension, in addition to its entries that are None.

    >>> spelt_out((None, ..., 2), 3)
    (None, slice(None, None, None), slice(None, None, None), 2)

    Raises:
        IndexError: too many indices, or several ellipses.
    """
    parts = key if isinstance(key, tuple) else (key,)
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if named > rank:
        raise IndexError(f"{named} indices for an array of {rank} dimensions; accepted are at most {rank}")
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not ellipses:
        parts = (*parts, Ellipsis)
    spelt: list[Any] = []
    for part in parts:
        spelt += (_ALL,) * (rank - named) if part is Ellipsis else (part,)
    return tuple(spelt)


def place_of(spelt: tuple[Any, ...], dim: int) -> int:
    """Return where in a key that is spelt out the entry of a dimension stands.

    >>> place_of((None, 3, None, 5), 1)
    3
    """
    places = [place for place, part in enumerate(spelt) if part is not None]
    return places[dim]


def is_array_of_indices(part: Any) -> bool:
    """Tell whether an index is an array, or what NumPy makes one of: no view has what it chooses."""
    if isinstance(part, list | tuple | range | array):
        return True
    dims = getattr(part, "ndim", None)
    return hasattr(part, "__array__") if dims is None else dims > 0


def position(part: Any, size: int, dim: int) -> int:
    """Return the element of a dimension that an index means.

    Raises:
        IndexError: no integer, or out of bounds.
    """
    position = integer_index(part, dim)
    if not -size <= position < size:
        raise out_of_bounds(position, size, dim)
    return position % size


def out_of_bounds(number: int, size: int, dim: int) -> IndexError:
    """Return the error for an index that a dimension does not have."""
    accepted = f"; accepted are {-size} to {size - 1}" if size else ", which has no element"
    return IndexError(f"index {number} is out of bounds for dimension {dim} with size {size}{accepted}")


def integer_index(part: Any, dim: int) -> int:
    """Return an index as an int.

    Raises:
        IndexError: no integer.
    """
    if is_array_of_indices(part):
        raise IndexError(f"{_refusal(part, dim)}: arrays of indices and masks would need a copy")
    try:
        if isinstance(part, bool | np.bool_) or (isinstance(part, np.ma.MaskedArray) and part.mask.any()):
            raise TypeError
        return index(part)
    except TypeError:
        raise IndexError(_refusal(part, dim)) from None


def _refusal(part: Any, dim: int) -> str:
    return (
        f"index {part!r:.200} of dimension {dim} is of type {type(part).__name__}; accepted are integers, "
        "slices, '...', None (np.newaxis) and, in reading a vkdml.Array, arrays of integers"
    )


def full_shape(shape: Any, size: int) -> tuple[int, ...]:
    """Return a shape for ``size`` elements, with a -1 in it replaced.

    >>> full_shape((2, -1), 12)
    (2, 6)

    Raises:
        ValueError: the number of elements is another, or there are several -1.
    """
    sizes = list(as_shape(shape, -1))
    if sizes.count(-1) > 1:
        raise ValueError(f"shape {tuple(sizes)} leaves several sizes open; accepted is one -1")
    if -1 in sizes:
        known = math.prod(s for s in sizes if s != -1)
        if known and size % known == 0:
            sizes[sizes.index(-1)] = size // known
    if -1 in sizes or math.prod(sizes) != size:
        raise ValueError(f"{size} elements cannot have shape {tuple(sizes)}; accepted are shapes of {size}")
    return tuple(sizes)


def as_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """Return a shape, given as an int or a sequence of ints, as a tuple.

    Raises:
        TypeError: not integers.
        ValueError: a size less than ``least``, or more sizes than an array has dimensions.
    """
    given = entries("a shape", shape) if is_sequence(shape) else (shape,)
    try:
        sizes = tuple(map(index, given))
    except TypeError:
        raise TypeError(f"a shape is an integer or a sequence of integers, not {shape!r:.200}") from None
    for size in sizes:
        if size < least:
            raise ValueError(f"size {size} of shape {sizes} is negative; accepted are sizes from {least} on")
    return sizes


def reshaped(view: View, shape: tuple[int, ...]) -> View | None:
    """Return a view of the same elements in the same (row-major) order, or None where there is none.

    >>> reshaped(View((2, 6), (6, 1), 0), (2, 3, 2)).strides
    (6, 2, 1)
    >>> reshaped(View((6, 2), (1, 6), 0), (12,)) is None
    True
    """
    if math.prod(shape) == 0:
        return View(shape, (0,) * len(shape), view.offset)
    old = [(size, stride) for size, stride in zip(view.shape, view.strides, strict=True) if size != 1]
    strides = [0] * len(shape)
    dim = len(shape) - 1
    while old:
        # Old dimensions that lie in memory as one dimension do.
        size, stride = old.pop()
        inner = stride
        while old and old[-1][1] == size * inner:
            size *= old.pop()[0]
        while size > 1:
            while shape[dim] == 1:
                dim -= 1
            if size % shape[dim]:
                return None
            strides[dim] = stride
            stride *= shape[dim]
            size //= shape[dim]
            dim -= 1
    return View(shape, tuple(strides), view.offset)


def broadcast(view: View, shape: tuple[int, ...]) -> View:
    """Return the view repeated to a greater shape, by strides of 0.

    >>> broadcast(View((3, 1), (1, 1), 0), (2, 3, 4)).strides
    (0, 1, 0)

    Raises:
        ValueError: the shapes do not fit.
    """
    added = len(shape) - len(view.shape)
    fits = added >= 0 and all(
        size in (1, wanted) for size, wanted in zip(view.shape, shape[max(added, 0) :], strict=False)
    )
    if not fits:
        raise ValueError(
            f"shape {view.shape} cannot be broadcast to {shape}; accepted are shapes that end in the same "
            "sizes where these are not 1"
        )
    strides = (0 if size == 1 else stride for size, stride in zip(view.shape, view.strides, strict=True))
    return View(shape, ((0,) * added) + tuple(strides), view.offset)
