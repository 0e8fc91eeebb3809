"""The arguments of the public functions: as the user gave them, and checked against an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeGuard, get_args

import numpy as np
from numpy.exceptions import AxisError

from vkdml.common import windows
from vkdml.common.integers import entries, index, is_sequence
from vkdml.common.wording import put_before
from vkdml.plan import elements
from vkdml.plan.order import Order

Direction = Literal["increasing", "decreasing"]
NanPolicy = Literal["propagate", "omit"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
NAN_POLICIES: tuple[NanPolicy, ...] = get_args(NanPolicy)


CallKey = tuple[Any, ...]
"""What tells the calls on one array apart, the operator first. Calls of one key mean the same."""


def reduce_key(
    operator: str,
    axis: Any,
    keepdims: Any = False,
    dtype: Any = None,
    direction: Any = "increasing",
    nan_policy: Any = "propagate",
    return_values: Any = False,
) -> CallKey | None:
    """Return the key of a call of argmin or argmax, or None if arguments that equal these may mean others.

    Options that are what they are by default are left out. 0.0 equals False, but is refused:

    >>> reduce_key("argmax", (0, 1), False, None, "increasing", "omit", 1)
    ('argmax', (0, 1), (False, None, 'increasing', 'omit', 1))
    >>> reduce_key("argmax", 0), reduce_key("argmax", 0, 0.0)
    (('argmax', 0, ()), None)
    """
    if axis is not None and type(axis) is not int and not _is_telling(axis):
        return None
    if (
        keepdims is False
        and dtype is None
        and return_values is False
        and type(direction) is str
        and direction == "increasing"
        and type(nan_policy) is str
        and nan_policy == "propagate"
    ):
        return operator, axis, ()
    if (
        type(keepdims) in (bool, int)
        and type(return_values) in (bool, int)
        and (dtype is None or isinstance(dtype, _TELLING_DTYPES))
    ):
        return operator, axis, (keepdims, dtype, direction, nan_policy, return_values)
    return None


def slice_key(*window: Any) -> CallKey | None:
    """Return the key of a call of slice1 from its arguments, or None as :func:`reduce_key`.

    Args:
        window: the arguments from ``offsets`` to ``output_sizes``.
    """
    return ("slice1", window) if all(map(_is_telling, window)) else None


_TELLING_DTYPES = (NoneType, str, type, np.dtype)


def _is_telling(integers: Any) -> bool:
    """Return whether what equals an axis or sizes means the same: True and 1.0 equal 1, but are no axes.

    >>> _is_telling((0, 1)), _is_telling((0, True))
    (True, False)
    """
    if type(integers) is tuple:
        return all(type(one) is int for one in integers)
    return integers is None or type(integers) is int


class ReduceRequest(NamedTuple):
    """A call of argmin or argmax as the user made it: the arguments but for the array, unchecked."""

    operator: str
    axis: Any = None
    keepdims: Any = False
    dtype: Any = None
    direction: Any = "increasing"
    nan_policy: Any = "propagate"
    return_values: Any = False
    out: Any = None
    device: Any = None
    progress: Any = None

    @property
    def key(self) -> CallKey | None:
        """As :func:`reduce_key` returns it."""
        return reduce_key(*self[:7])

    def outputs(self) -> tuple[Any, Any]:
        """Return ``out=`` for the indices and for the values."""
        if self.out is None or not self.return_values:
            return self.out, None
        if not isinstance(self.out, tuple | list) or len(self.out) != 2:
            raise TypeError(
                "with return_values=True out must be a pair of arrays (indices, values), either of which may "
                "be None"
            )
        return self.out[0], self.out[1]

    def checked(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Reduction:
        """Return what the call means for an array of this shape and type.

        Raises:
            ValueError, TypeError, AxisError: as :func:`vkdml.argmax`.
        """
        take_last = _choice("direction", self.direction, DIRECTIONS) == "decreasing"
        omit_nan = _choice("nan_policy", self.nan_policy, NAN_POLICIES) == "omit"
        # Types of other packages have their own byte order only, and strings of any length have none.
        element = elements.element_name(dtype if dtype.isnative else dtype.newbyteorder("="))
        keepdims = flag("keepdims", self.keepdims)
        with_values = flag("return_values", self.return_values)
        axes = distinct_axes(self.axis, len(shape), f"{self.operator} of {shape} {dtype}")
        count = math.prod(shape[a] for a in axes)
        kept_shape = tuple(1 if a in axes else size for a, size in enumerate(shape))
        return Reduction(
            axes,
            Order(element, self.operator == "argmin", take_last, omit_nan),
            kept_shape if keepdims else tuple(size for a, size in enumerate(shape) if a not in axes),
            kept_shape,
            self._index_dtype(count),
            count,
            with_values,
        )

    def _index_dtype(self, count: int) -> np.dtype[Any]:
        """Return the type of the indices: the one asked for, or that of ``out``."""
        out = self.outputs()[0]
        of_out = getattr(out, "dtype", None)
        of_out = getattr(of_out, "numpy_dtype", of_out)  # tensorstore's types are its own
        if self.dtype is not None or not isinstance(of_out, np.dtype):
            return elements.index_dtype(self.dtype, count)
        chosen = of_out
        if not isinstance(out, np.ndarray) and not of_out.isnative:
            chosen = of_out.newbyteorder("=")  # arrays in chunks convert what is written
        try:
            return elements.index_dtype(chosen, count)
        except (TypeError, ValueError) as error:
            which = "out for the indices" if self.return_values else "out"
            raise type(error)(f"{which} has type {of_out}: {error}") from None


@dataclass(frozen=True)
class Reduction:
    """What a call of argmin or argmax means for an array."""

    axes: tuple[int, ...]
    """Distinct, ascending, not negative."""
    order: Order
    shape: tuple[int, ...]
    """Of the result."""
    kept_shape: tuple[int, ...]
    """Of the result with its reduced dimensions kept."""
    index_dtype: np.dtype[Any]
    count: int
    """Elements that compete for one index."""
    with_values: bool

    def require_elements(self, operator: str) -> None:
        """Raise ValueError if no element competes."""
        if self.count == 0:
            raise ValueError(
                f"attempt to get {operator} of an empty sequence: the reduced axes {self.axes} hold no "
                "element; accepted are axes with at least one"
            )


class SliceRequest(NamedTuple):
    """A call of slice1 as the user made it: the arguments but for the array, unchecked."""

    offsets: Any
    sizes: Any
    strides: Any
    output_sizes: Any = None
    out: Any = None
    device: Any = None
    progress: Any = None

    @property
    def key(self) -> CallKey | None:
        """As :func:`slice_key` returns it."""
        return slice_key(*self[:4])

    def checked(self, extents: tuple[int, ...]) -> Window:
        """Return the window that the call means for an array of this shape.

        Raises:
            ValueError, TypeError: as :func:`vkdml.slice1`.
        """
        rank = len(extents)
        offsets = per_dimension("offsets", self.offsets, rank)
        sizes = per_dimension("sizes", self.sizes, rank)
        steps = per_dimension("strides", self.strides, rank)
        most = []
        for dim, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
            extent = extents[dim]
            if offset < 0 or size < 0 or offset + size > extent:
                raise ValueError(
                    f"the window of dimension {dim} (offset {offset}, size {size}) is not inside its "
                    f"{extent} elements; accepted are offset >= 0 and size >= 0 with offset + size <= "
                    f"{extent}"
                )
            if step == 0:
                raise ValueError(
                    f"the stride of dimension {dim} is 0; accepted are positive and negative strides"
                )
            most.append(windows.taken(size, step))
        shape = tuple(most)
        if self.output_sizes is not None:
            shape = per_dimension("output_sizes", self.output_sizes, rank)
            for dim, (size, limit) in enumerate(zip(shape, most, strict=True)):
                if not 0 <= size <= limit:
                    raise ValueError(
                        f"output size {size} of dimension {dim} is not within its window of size "
                        f"{sizes[dim]} with stride {steps[dim]}; accepted are 0 to {limit}"
                    )
        return Window(offsets, sizes, steps, shape)


@dataclass(frozen=True)
class Window:
    """The window of an array that slice1 copies."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the output."""

    @property
    def inside(self) -> tuple[slice, ...]:
        """The window as an index, without its steps."""
        return tuple(
            slice(offset, offset + size) for offset, size in zip(self.offsets, self.sizes, strict=True)
        )

    def view_of(self, x: Any) -> Any:
        """Return what is copied, as a view of an array of any kind."""
        # The ellipses keep an array also without dimensions.
        stepped: tuple[Any, ...] = (*map(windows.as_slice, self.offsets, self.sizes, self.steps), ...)
        taken: tuple[Any, ...] = (*map(slice, self.shape), ...)
        return x[stepped][taken]


def require_like_result(
    what: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    wanted: tuple[int, ...],
    wanted_dtype: np.dtype[Any],
) -> None:
    """Refuse an ``out`` of another shape or type than the result's."""
    if shape != wanted:
        raise ValueError(f"{what} has shape {shape}, the result has shape {wanted}")
    if dtype != wanted_dtype:
        raise TypeError(f"{what} has type {dtype}, the result has type {wanted_dtype}")


def require_movable(dtype: np.dtype[Any]) -> None:
    """Raise TypeError for Python objects and for elements of a size that kernels do not move."""
    if dtype.hasobject or dtype.itemsize not in elements.SLICE_ELEMENT_BYTES:
        accepted = ", ".join(map(str, elements.SLICE_ELEMENT_BYTES))
        raise TypeError(
            f"elements of type {dtype} ({dtype.itemsize} bytes) cannot be moved; accepted are "
            f"elements of {accepted} bytes that are not Python objects"
        )


@contextmanager
def context(name: str, x: Any) -> Iterator[None]:
    """Put the operator, shape and dtype in front of an error's message."""
    try:
        yield
    except AxisError:
        raise
    except (ValueError, TypeError, MemoryError, OverflowError, RuntimeError) as error:
        put_before(error, f"{name} of {_described(x)}")
        raise


def _described(x: Any) -> str:
    try:
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
        if isinstance(shape, tuple) and dtype is not None:
            return f"{shape} {dtype}"
    except Exception:  # of what has none, or was closed; the error itself is what matters
        pass
    return type(x).__name__


def flag(what: str, value: Any) -> bool:
    """Return True or False for these, NumPy's, and the integers 1 and 0, as NumPy does."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return bool(value)


def _choice(what: str, value: Any, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be {' or '.join(map(repr, accepted))}, not {value!r}")
    if value not in accepted:
        raise ValueError(f"{what} {value!r} is unknown; accepted are {', '.join(map(repr, accepted))}")
    return value


def distinct_axes(axis: Any, rank: int, where: str) -> tuple[int, ...]:
    """Return the axes to reduce, ascending and not negative; None means all."""
    if axis is None:
        return tuple(range(rank))
    if rank == 0 and not are_several(axis) and integer("axis", axis) in (0, -1):  # as in NumPy
        return ()
    return named_axes(axis, rank, where)


def named_axes(axis: Any, rank: int, where: str) -> tuple[int, ...]:
    """Return one axis or distinct ones that an array has, ascending and not negative.

    >>> named_axes((-1, 0), 3, "flip")
    (0, 2)
    """
    given = given_axes(axis)
    for a in given:
        if not -rank <= a < rank:
            raise AxisError(a, rank, where)
    axes = sorted(a % rank for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in axis {given}; accepted are distinct axes")
    return tuple(axes)


def given_axes(axis: Any) -> tuple[int, ...]:
    """Return one axis or several as they were given: integers of any size and sign."""
    if not are_several(axis):
        return (integer("axis", axis),)
    return tuple(integer("each entry of axis", a, "an integer") for a in entries("axis", axis))


def one_axis(axis: Any, rank: int, where: str) -> int:
    """Return an axis that an array has, not negative."""
    return named_axes(integer("axis", axis, "an integer"), rank, where)[0]


def are_several(axis: Any) -> TypeGuard[Sequence[Any]]:
    """Tell whether an axis is given as a sequence, an array or a set."""
    return is_sequence(axis) or (hasattr(axis, "__iter__") and isinstance(axis, Set))


def integer(what: str, value: Any, accepted: str = "an integer or a sequence of integers") -> int:
    if not isinstance(value, bool):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} must be {accepted}, not {value!r}")


def per_dimension(what: str, values: Any, rank: int) -> tuple[int, ...]:
    """Return an integer for each dimension; one dimension accepts a single integer."""
    accepted = f"a sequence of {rank} integers" if rank != 1 else "an integer or a sequence of one"
    if not is_sequence(values):
        if rank == 1 and hasattr(values, "__index__"):
            return (integer(what, values, accepted),)
        raise TypeError(f"{what} must be {accepted}, not {values!r}")
    numbers = tuple(integer(f"each entry of {what}", value, "an integer") for value in entries(what, values))
    if len(numbers) != rank:
        given = "1 entry" if len(numbers) == 1 else f"{len(numbers)} entries"
        dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
        raise ValueError(f"{what} has {given}; accepted is one for each of {dimensions}")
    return numbers
