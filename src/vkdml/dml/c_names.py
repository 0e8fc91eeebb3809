"""The registry of DirectML.h's names for the definitions of this package."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

C_NAMES: Final[dict[str, object]] = {}

_EnumClass = TypeVar("_EnumClass", bound=type[Enum])


def c_enum(name: str, prefix: str | None = None, drop: str = "") -> Callable[[_EnumClass], _EnumClass]:
    """Register an enumeration and its members under their C names.

    >>> C_NAMES["DML_AXIS_DIRECTION_DECREASING"].name
    'DECREASING'

    Args:
        name: the enumeration's name in C.
        prefix: the prefix of members in C; None for the enumeration's name.
        drop: a prefix that members have in Python only.

    Returns:
        A class decorator.
    """

    def register(enumeration: _EnumClass) -> _EnumClass:
        C_NAMES[name] = enumeration
        for member_name, member in enumeration.__members__.items():
            C_NAMES[f"{prefix or name}_{member_name.removeprefix(drop)}"] = member
        return enumeration

    return register


def c_constant(name: str, value: int) -> int:
    """Register a constant under its C name; return its value.

    >>> c_constant("DML_TENSOR_DIMENSION_COUNT_MAX", 5)
    5
    """
    C_NAMES[name] = value
    return value


def c_field_name(name: str) -> str:
    """Return the C name of a field.

    >>> c_field_name("total_tensor_size_in_bytes")
    'TotalTensorSizeInBytes'
    """
    return "".join(word.capitalize() for word in name.split("_"))
