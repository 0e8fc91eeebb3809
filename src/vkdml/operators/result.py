"""What argmin and argmax return when values are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

_Indices = TypeVar("_Indices")
_Values = TypeVar("_Values")

if TYPE_CHECKING:  # Python 3.10 has no generic named tuples

    class ArgReduceResult(NamedTuple, Generic[_Indices, _Values]):
        indices: _Indices
        values: _Values

else:

    class ArgReduceResult(NamedTuple):
        """What ``return_values=True`` returns; as a type, ``ArgReduceResult[type of indices, of values]``."""

        indices: Any
        """The chosen indices."""
        values: Any
        """The chosen elements, bit for bit, in the input's dtype."""

        def __class_getitem__(cls, types: Any) -> Any:
            return cls

    ArgReduceResult.__module__ = "vkdml"  # where users import it from, and pickles find it
