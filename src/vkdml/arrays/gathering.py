"""Elements that arrays of indices choose, gathered on the device: NumPy's integer-array indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkdml.arguments import context
from vkdml.arrays.array import Array, allocated, require_same_device, uploaded
from vkdml.arrays.foreign import plain
from vkdml.arrays.indexing import integer_index, is_array_of_indices, out_of_bounds, position
from vkdml.plan.calls import GatherCall, PlacesCall, plan_for
from vkdml.plan.gather import INDEX_WIDTHS
from vkdml.plan.layout import row_major_strides
from vkdml.plan.plans import VECTOR_BYTES

NO_FAULT = 0xFFFFFFFF
MOST_ELEMENTS = 0xFFFFFFFF
"""The longest dimension that the kernel which checks indices can count."""


class _Indexed(NamedTuple):
    """A dimension that is indexed by an array."""

    axis: int
    size: int
    stride: int
    indices: Array


class _Along(NamedTuple):
    """A dimension of the result: how far a step along it is in the input and among the places."""

    size: int
    stride: int
    place_stride: int


def indexed_by_arrays(x: Array, key: Any) -> Array:
    """Return a new array of what NumPy's indexing chooses, some dimensions by arrays of integers.

    >>> a = vkdml.asarray([[1, 5, 2], [7, 3, 9]])
    >>> indexed_by_arrays(a, ([0, 1], a.argmax(1))).tolist()
    [5, 9]

    Raises:
        IndexError: an index out of bounds, too many of them, or of another kind; masks are refused.
        ValueError: arrays of indices on another device.
    """
    with context("indexing", x):
        parts = _parts(x, key if isinstance(key, tuple) else (key,))
        advanced = [place for place, part in enumerate(parts) if isinstance(part, int | Array)]
        arrays = [part for part in parts if isinstance(part, Array)]
        shape = _broadcast_shape(arrays)
        before: list[_Along] = []
        after: list[_Along] = []
        indexed = []
        offset, axis = x.placement.offset, 0
        side_by_side = advanced == list(range(advanced[0], advanced[-1] + 1))
        for place, part in enumerate(parts):
            side = after if side_by_side and place > advanced[0] else before
            if not side_by_side:
                side = after  # the arrays' own dimensions come first
            if part is None:
                side.append(_Along(1, 0, 0))
                continue
            if part is Ellipsis:
                continue
            size, stride = x.shape[axis], x.placement.strides[axis]
            if isinstance(part, Array):
                indexed.append(_Indexed(axis, size, stride, part.broadcast_to(shape)))
            elif isinstance(part, int):
                offset += position(part, size, axis) * stride
            else:
                start, stop, step = part.indices(size)
                count = len(range(start, stop, step))
                offset += start * stride if count else 0
                side.append(_Along(count, stride * step, 0))
            axis += 1
        chosen = [_Along(size, 0, place) for size, place in zip(shape, row_major_strides(shape), strict=True)]
        return _gathered(x, offset, [*before, *chosen, *after], indexed)


def taken_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """Return for each index the element at that place of the axis, and at the index's own along the others.

    >>> a = vkdml.asarray([[1, 5, 2], [7, 3, 9]])
    >>> taken_along_axis(a, a.argmax(1, keepdims=True), 1).tolist()
    [[5], [9]]

    Args:
        x: the array.
        indices: of as many dimensions; sizes of 1 are repeated, of ``x`` too.
        axis: not negative.

    Raises:
        IndexError: an index out of bounds, indices of other kinds, or of other sizes along the other axes.
        ValueError: indices of fewer or more dimensions, or on another device.
    """
    with context("take_along_axis", x):
        indices = as_indices(indices, x)
        if indices.ndim != x.ndim:
            raise ValueError(
                f"indices of shape {indices.shape} for an array of shape {x.shape}; accepted are as many "
                "dimensions"
            )
        others = tuple(1 if dim == axis else size for dim, size in enumerate(x.shape))
        try:
            shape = tuple(np.broadcast_shapes(indices.shape, others))
        except ValueError:
            raise IndexError(
                f"indices of shape {indices.shape} for an array of shape {x.shape} along axis {axis}; "
                "accepted are, in all other dimensions, the array's sizes or 1"
            ) from None
        along = [
            _Along(size, 0 if dim == axis or x.shape[dim] == 1 else x.placement.strides[dim], place_stride)
            for dim, (size, place_stride) in enumerate(zip(shape, row_major_strides(shape), strict=True))
        ]
        indexed = _Indexed(axis, x.shape[axis], x.placement.strides[axis], indices.broadcast_to(shape))
        return _gathered(x, x.placement.offset, along, [indexed])


def _parts(x: Array, key: tuple[Any, ...]) -> list[Any]:
    """Return a key as ints, slices, None, Arrays of integers, and ``...`` where it stands, once."""
    parts: list[Any] = []
    for part in key:
        if is_array_of_indices(part):
            parts.append(as_indices(part, x))
        elif part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
        else:
            parts.append(integer_index(part, len(parts)))
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if named > x.ndim:
        raise IndexError(
            f"{named} indices for an array of {x.ndim} dimensions; accepted are at most {x.ndim}"
        )
    ellipses = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = ellipses[0] + 1 if ellipses else len(parts)
    # The ellipsis stays: it stands between arrays even where it stands for no dimension.
    parts[place:place] = [slice(None)] * (x.ndim - named)
    return parts


def as_indices(value: Any, x: Array) -> Array:
    """Return an array of indices on the device of ``x``, of a width that kernels read.

    Raises:
        IndexError: no integers.
        TypeError: an object, such as a masked array, of which NumPy would silently drop a part.
        ValueError: an Array on another device.
    """
    if not isinstance(value, Array):
        value = plain(value)
        host = np.asarray(value)
        if host.size == 0 and not isinstance(value, np.ndarray):
            host = host.astype(np.int64)
        _require_integers(host.dtype)
        if host.itemsize not in INDEX_WIDTHS:
            host = host.astype(np.int32)
        return uploaded(host, x.device)
    _require_integers(value.dtype)
    require_same_device(x.device, value.device)
    if value.itemsize not in INDEX_WIDTHS:
        return uploaded(value.numpy(), x.device, np.dtype(np.int32))
    return value


def _require_integers(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iu":
        hint = "; np.nonzero(mask) makes such arrays of a mask" if dtype.kind == "b" else ""
        raise IndexError(f"indices of type {dtype}; accepted are arrays of integers{hint}")


def _broadcast_shape(arrays: Sequence[Array]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*(array.shape for array in arrays)))
    except ValueError:
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise IndexError(
            f"arrays of indices of shapes {shapes} cannot be broadcast together; accepted are shapes that "
            "end in the same sizes where these are not 1"
        ) from None


def _gathered(x: Array, offset: int, along: Sequence[_Along], indexed: Sequence[_Indexed]) -> Array:
    """Return a new array; ``offset`` is that of the element from which all strides and indices count."""
    device = x.device
    device.require_usable()
    shape = tuple(dim.size for dim in along)
    result = allocated(device, shape, x.dtype, for_host=True)
    count = indexed[0].indices.size
    if count == 0:
        return result
    indexed = [_with_numbers_that_kernels_hold(dim) for dim in indexed]
    operand = x.operand
    base = operand.base + offset - x.placement.offset
    ratio = _moved_together(x.itemsize, base, along, indexed)
    places = allocated(device, (count,), np.dtype(np.uint32))
    _compute_places(places, indexed, ratio)
    if result.size == 0:
        return result
    sizes, strides = [dim.size for dim in along], [dim.stride // ratio for dim in along]
    if ratio > 1:
        sizes[-1], strides[-1] = sizes[-1] // ratio, 1
    call = GatherCall(
        tuple(sizes),
        tuple(strides),
        tuple(dim.place_stride for dim in along),
        base // ratio,
        -(-operand.span // ratio),
        count,
        x.itemsize * ratio,
    )
    regions = {"input": x.region, "places": places.region, "gathered": result.region}
    device.executions.run(plan_for(call, device.limits), regions)
    return result


def _compute_places(places: Array, indexed: Sequence[_Indexed], ratio: int) -> None:
    """Write how far the element of each index lies from the first, in ``ratio`` elements at once.

    Raises:
        IndexError: one is out of bounds.
    """
    device = places.device
    faults = allocated(device, (len(indexed),), np.dtype(np.uint32), for_host=True)
    faults[...] = np.full(len(indexed), NO_FAULT, np.uint32)
    for number, dim in enumerate(indexed):
        indices = dim.indices
        call = PlacesCall(
            indices.operand,
            indices.itemsize,
            indices.dtype.kind == "i",
            dim.size,
            dim.stride // ratio,
            number,
        )
        regions = {"input": indices.region, "faults": faults.region, "places": places.region}
        device.executions.run(plan_for(call, device.limits), regions)
    for dim, fault in zip(indexed, faults.tolist(), strict=True):
        if fault != NO_FAULT:
            raise _out_of_bounds(dim, fault)


def _out_of_bounds(dim: _Indexed, number: int) -> IndexError:
    """Return the error for the index of this number, in row-major order."""
    wrong = dim.indices[tuple(map(int, np.unravel_index(number, dim.indices.shape)))].item()
    return out_of_bounds(wrong, dim.size, dim.axis)


def _with_numbers_that_kernels_hold(dim: _Indexed) -> _Indexed:
    """Return a dimension as it is, or, of one with too many elements, its only element.

    No buffer holds so many: they are repeats of one, and all indices mean that one. The host checks them.
    The stride of at most one element means nothing, and may be longer than any buffer, as of ``a[::2**40]``.

    Raises:
        IndexError: one is out of bounds.
    """
    if dim.size <= 1:
        return dim._replace(stride=0)
    if dim.size <= MOST_ELEMENTS:
        return dim
    held = np.iinfo(dim.indices.dtype)
    indices = dim.indices.numpy()
    wrong = (indices < max(-dim.size, held.min)) | (indices > min(dim.size - 1, held.max))
    if wrong.any():
        raise _out_of_bounds(dim, int(np.argmax(wrong)))
    only = uploaded(np.zeros((1,) * indices.ndim, np.int32), dim.indices.device)
    return _Indexed(dim.axis, 1, 0, only.broadcast_to(indices.shape))


def _moved_together(itemsize: int, base: int, along: Sequence[_Along], indexed: Sequence[_Indexed]) -> int:
    """Return how many neighbouring elements, of at most 16 bytes, always move together."""
    inner = along[-1] if along else _Along(1, 0, 0)
    if inner.stride != 1 or inner.place_stride != 0:
        return 1
    numbers = [base, inner.size, *(dim.stride for dim in along[:-1]), *(dim.stride for dim in indexed)]
    ratio = 1
    while ratio * itemsize < VECTOR_BYTES and all(number % (2 * ratio) == 0 for number in numbers):
        ratio *= 2
    return ratio


__all__ = ["as_indices", "indexed_by_arrays", "taken_along_axis"]
