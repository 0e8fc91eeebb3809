"""The common base of arrays on devices, in one piece or in shards: scalars, copies, conversions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from vkdml.common.read_only import ReadOnly

Self = TypeVar("Self", bound="DeviceArray")


class DeviceArray(ReadOnly):
    """Base of :class:`vkdml.Array` and :class:`vkdml.ShardedArray`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    _attribute_hints: ClassVar[Mapping[str, str]] = {}
    """What to say of attributes that arrays of another kind have."""
    _instead = "; accepted are new arrays and views, as of vkdml.asarray(a, dtype) and a.reshape(shape)"

    def __init_subclass__(cls) -> None:
        if cls.__module__.partition(".")[0] != "vkdml":
            base = f"vkdml.{cls.__mro__[1].__name__}"
            raise TypeError(f"{base} cannot be subclassed; accepted is a class that holds a {base}")

    # ---- what the two differ in ----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dimension."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        raise NotImplementedError

    @property
    def pieces(self) -> tuple[Any, ...]:
        """The Arrays that hold the elements."""
        raise NotImplementedError

    @property
    def is_whole(self) -> bool:
        """Whether one Array holds all elements, so that any view of them is an Array too."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def __delitem__(self, key: Any) -> NoReturn:
        raise ValueError(
            f"elements of a vkdml.{type(self).__name__} must be left out by a view, as a[1:], not deleted"
        )

    def copy(self: Self) -> Self:
        """Return a new array with the same elements, copied on the device."""
        raise NotImplementedError

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a new NumPy array."""
        raise NotImplementedError

    def _element(self) -> Any:
        """Return the only element as a NumPy scalar."""
        raise NotImplementedError

    # ---- size ----------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; a view may address more or fewer bytes of memory."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions; accepted are arrays with at least one")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError(
                "iteration over an array without dimensions; accepted are arrays with at least one"
            )
        return (self[i] for i in range(len(self)))

    # ---- scalars -------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """Return the only element as a Python scalar."""
        if self.size != 1:
            raise ValueError(f"{self.shape} is {self.size} elements; accepted is an array of one")
        return self._element().item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars."""
        return self.numpy().tolist()

    def _scalar(self, kind: str, error: type[Exception] = TypeError) -> Any:
        if self.shape and self.size != 1:
            raise error(
                f"{kind}() takes an array of one element, not one of shape {self.shape}; numpy() gives all"
            )
        return self._element()

    def _real(self, kind: str) -> Any:
        if "complex" in self.dtype.name:  # those of ml_dtypes are not of NumPy's kind c
            raise TypeError(f"{kind}() of {self.dtype} would drop the imaginary part; complex() takes both")
        return self._scalar(kind)

    def __int__(self) -> int:
        return int(self._real("int"))

    def __float__(self) -> float:
        return float(self._real("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool", ValueError))  # as NumPy's, whose int() and float() raise TypeError

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self._scalar("round").item(), ndigits)

    def __trunc__(self) -> int:
        whole: int = math.trunc(self._scalar("trunc").item())
        return whole

    def __floor__(self) -> int:
        whole: int = math.floor(self._scalar("floor").item())
        return whole

    def __ceil__(self) -> int:
        whole: int = math.ceil(self._scalar("ceil").item())
        return whole

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(
                f"only integer arrays of no dimensions are indices, not {self.shape} {self.dtype}"
            )
        return int(self._element())

    def __str__(self) -> str:
        return repr(self) if self.shape else str(self._element())

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.shape:
            raise TypeError(
                f"format {spec!r} takes an array of no dimensions, not one of shape {self.shape}; "
                "a.item() gives the only element, np.asarray(a) all"
            )
        element = self._element()
        # Numbers format as Python's, extension types too; dates are no numbers.
        plain = None if self.dtype.kind in "mM" else element.item()
        return format(plain if isinstance(plain, int | float | complex) else element, spec)

    def __bytes__(self) -> bytes:
        return self.numpy().tobytes()

    # ---- copies --------------------------------------------------------------------------------------------

    def __copy__(self: Self) -> Self:
        return self.copy()

    def __deepcopy__(self: Self, memo: object) -> Self:
        return self.copy()

    # ---- what NumPy asks -----------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is not None and not copy:
            raise ValueError(
                "an array on a device cannot be seen by NumPy without a copy; accepted are copy=None and True"
            )
        host = self.numpy()
        # NumPy makes a cast that may lose information: it knows whether the user asked for it.
        keeps_all = dtype is not None and np.can_cast(host.dtype, dtype)
        return host.astype(dtype, copy=False) if keeps_all else host

    if not TYPE_CHECKING:  # to a type checker no attribute would then be missing

        def __getattr__(self, name: str) -> NoReturn:
            hint = self._attribute_hints.get(name, "")
            if not hint and not name.startswith("_") and hasattr(np.ndarray, name):
                hint = f"; NumPy has it: np.asarray(a).{name}"
            raise AttributeError(f"vkdml.{type(self).__name__} has no attribute {name!r}{hint}")

    # ---- what vkdml does not do ----------------------------------------------------------------------------

    def _not_computed(self, *others: object) -> NoReturn:
        raise TypeError(f"vkdml.{type(self).__name__} does not compare or compute: use np.asarray(a)")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _not_computed
    __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = __mod__ = __divmod__ = (
        _not_computed
    )
    __pow__ = __lshift__ = __rshift__ = __and__ = __xor__ = __or__ = _not_computed
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rfloordiv__ = _not_computed
    __rmod__ = __rdivmod__ = __rpow__ = __rlshift__ = __rrshift__ = _not_computed
    __rand__ = __rxor__ = __ror__ = _not_computed
    __neg__ = __pos__ = __abs__ = __invert__ = _not_computed


__all__ = ["DeviceArray"]
