"""What the public functions are called with: checked, and what was left open filled in."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from vkdml.common.integers import index
from vkdml.plan import elements as dtypes
from vkdml.plan.plans import Element

DIRECTIONS = ("increasing", "decreasing")
NAN_POLICIES = ("propagate", "omit")


@dataclass(frozen=True)
class Reduction:
    """An argmin or argmax of an array, as its arguments mean it."""

    axes: tuple[int, ...]
    """Distinct, ascending, not negative."""
    element: Element
    take_min: bool
    take_last: bool
    omit_nan: bool
    shape: tuple[int, ...]
    """Of the result."""
    kept_shape: tuple[int, ...]
    """Of the result with its reduced dimensions kept."""
    index_dtype: np.dtype[Any]
    reduce_count: int

    def require_elements(self, name: str) -> None:
        """Raise where there is nothing to choose from."""
        if self.reduce_count == 0:
            raise ValueError(
                f"attempt to get {name} of an empty sequence: the reduced axes {self.axes} hold no element; "
                "accepted are axes with at least one"
            )


def reduction(
    name: str,
    sizes: tuple[int, ...],
    element_dtype: np.dtype[Any],
    axis: Any,
    keepdims: bool,
    dtype: Any,
    direction: str,
    nan_policy: str,
) -> Reduction:
    """Check the arguments of an argmin or argmax.

    Raises:
        ValueError, TypeError, AxisError: as :func:`vkdml.argmax`.
    """
    take_last = bool(DIRECTIONS.index(_choice("direction", direction, DIRECTIONS)))
    omit_nan = bool(NAN_POLICIES.index(_choice("nan_policy", nan_policy, NAN_POLICIES)))
    native = element_dtype.newbyteorder("=")
    element = Element(dtypes.element_name(native), native.itemsize)
    keepdims = flag("keepdims", keepdims)
    axes = distinct_axes(axis, len(sizes), f"{name} of {sizes} {element_dtype}")
    reduce_count = math.prod(sizes[a] for a in axes)
    index_dtype = dtypes.index_dtype(dtype, reduce_count)
    kept_shape = tuple(1 if a in axes else size for a, size in enumerate(sizes))
    shape = kept_shape if keepdims else tuple(s for a, s in enumerate(sizes) if a not in axes)
    return Reduction(
        axes,
        element,
        name == "argmin",
        take_last,
        omit_nan,
        shape,
        kept_shape,
        index_dtype,
        reduce_count,
    )


@dataclass(frozen=True)
class Window:
    """A window of an array that slice1 copies."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the output."""

    @property
    def inside(self) -> tuple[slice, ...]:
        """The window as basic indexing has it, without its steps."""
        return tuple(
            slice(offset, offset + size) for offset, size in zip(self.offsets, self.sizes, strict=True)
        )


def window(
    extents: tuple[int, ...],
    offsets: int | Sequence[int],
    sizes: int | Sequence[int],
    strides: int | Sequence[int],
    output_sizes: int | Sequence[int] | None,
) -> Window:
    """Check the arguments of slice1 against the array's shape.

    Raises:
        ValueError, TypeError: as :func:`vkdml.slice1`.
    """
    rank = len(extents)
    offsets = per_dimension("offsets", offsets, rank)
    sizes = per_dimension("sizes", sizes, rank)
    steps = per_dimension("strides", strides, rank)
    most = []
    for dim, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
        extent = extents[dim]
        if offset < 0 or size < 0 or offset + size > extent:
            raise ValueError(
                f"the window of dimension {dim} (offset {offset}, size {size}) is not inside its {extent} "
                f"elements; accepted are offset >= 0 and size >= 0 with offset + size <= {extent}"
            )
        if step == 0:
            raise ValueError(
                f"the stride of dimension {dim} is 0; accepted are positive and negative strides"
            )
        most.append(1 + (size - 1) // abs(step) if size else 0)
    shape = tuple(most)
    if output_sizes is not None:
        shape = per_dimension("output_sizes", output_sizes, rank)
        for dim, (size, limit) in enumerate(zip(shape, most, strict=True)):
            if not 0 <= size <= limit:
                raise ValueError(
                    f"output size {size} of dimension {dim} is not within its window of size {sizes[dim]} "
                    f"with stride {steps[dim]}; accepted are 0 to {limit}"
                )
    return Window(offsets, sizes, steps, shape)


def require_movable(dtype: np.dtype[Any]) -> None:
    """Raise TypeError for elements that are not opaque bytes of a width that kernels move."""
    if dtype.hasobject or dtype.itemsize not in dtypes.SLICE_ELEMENT_BYTES:
        accepted = ", ".join(map(str, dtypes.SLICE_ELEMENT_BYTES))
        raise TypeError(
            f"elements of type {dtype} ({dtype.itemsize} bytes) cannot be moved; accepted are "
            f"elements of {accepted} bytes that are not Python objects"
        )


@contextmanager
def context(name: str, x: Any) -> Iterator[None]:
    """Put the operator, and what it was called with, in front of what the inner code says."""
    try:
        yield
    except AxisError:
        raise
    except (ValueError, TypeError, MemoryError, RuntimeError) as error:
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
        described = f"{shape} {dtype}" if isinstance(shape, tuple) else type(x).__name__
        error.args = (f"{name} of {described}: {error}",)
        raise


def flag(what: str, value: Any) -> bool:
    """Return True or False if the value is one of these, or NumPy's."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return bool(value)


def _choice(what: str, value: Any, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{what} {value!r} is unknown; accepted are {', '.join(map(repr, accepted))}")
    return value


def distinct_axes(axis: Any, rank: int, where: str) -> tuple[int, ...]:
    """Return distinct axes, ascending and not negative."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, tuple | list | set | frozenset):
        given = [integer("axis", a) for a in axis]
    else:
        given = [integer("axis", axis)]
        if rank == 0 and given[0] in (0, -1):  # as NumPy has it
            return ()
    for a in given:
        if not -rank <= a < rank:
            raise AxisError(a, rank, where)
    axes = sorted(a % rank for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in axis {tuple(given)}; accepted are distinct axes")
    return tuple(axes)


def integer(what: str, value: Any, accepted: str = "an integer or a tuple of integers") -> int:
    if not isinstance(value, bool):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} must be {accepted}, not {value!r}")


def call_key(described: tuple[Hashable, ...], axis: Any, *options: Any) -> Hashable | None:
    """Return what tells calls on arrays so described apart, or None for calls that are not remembered."""
    # Types are compared too: True and 1.0 equal 1, but are no axes.
    if axis is not None and type(axis) is not int:
        return None
    key = (*described, axis, *options, *map(type, options))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def out_pair(out: Any, return_values: bool) -> tuple[Any, Any]:
    """Return what ``out=`` says of indices and values."""
    if out is None or not return_values:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            "with return_values=True out must be a pair of arrays (indices, values), either of which may be "
            "None"
        )
    return out[0], out[1]


def per_dimension(what: str, values: Any, rank: int) -> tuple[int, ...]:
    """Return an integer for each dimension; a single one does for one dimension."""
    accepted = f"a sequence of {rank} integers" if rank != 1 else "an integer or a sequence of one"
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        if rank == 1 and hasattr(values, "__index__"):
            return (integer(what, values, accepted),)
        raise TypeError(f"{what} must be {accepted}, not {values!r}")
    # Of an endless one only so many are looked at.
    looked_at = islice(values, rank + 1000)
    numbers = tuple(integer(f"each entry of {what}", value, "an integer") for value in looked_at)
    if len(numbers) != rank:
        entries = "1 entry" if len(numbers) == 1 else f"{len(numbers)} entries"
        dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
        raise ValueError(f"{what} has {entries}; accepted is one for each of {dimensions}")
    return numbers
