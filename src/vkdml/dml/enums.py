"""DirectML's enumerations and constants, with its numeric values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, IntFlag
from string import ascii_uppercase
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from vkdml.common.integers import index
from vkdml.common.wording import wrong_type, wrong_value

from .c_names import c_constant, c_enum

TENSOR_DIMENSION_COUNT_MAX: Final = c_constant("DML_TENSOR_DIMENSION_COUNT_MAX", 5)
TENSOR_DIMENSION_COUNT_MAX1: Final = c_constant("DML_TENSOR_DIMENSION_COUNT_MAX1", 8)
MINIMUM_BUFFER_TENSOR_ALIGNMENT: Final = c_constant("DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT", 16)


@c_enum("DML_TENSOR_DATA_TYPE")
class DataType(IntEnum):
    """Type of a tensor's elements.

    >>> DataType.FLOAT16.dtype, DataType.FLOAT16.size_in_bytes
    (dtype('float16'), 2)

    Source of the rule: DirectML's ``DML_TENSOR_DATA_TYPE``.
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    def size_in_bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN."""
        return int(self.name.lstrip(ascii_uppercase) or 0)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element.

        >>> DataType.FLOAT64.size_in_bytes
        8

        Raises:
            ValueError: an element has no whole number of bytes (UNKNOWN, UINT4, INT4).
        """
        if self.size_in_bits < 8:
            raise ValueError(f"DataType.{self.name} has no size in bytes; accepted: types of 8 bits or more")
        return self.size_in_bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the same elements.

        >>> DataType.UINT16.dtype
        dtype('uint16')

        Raises:
            ValueError: NumPy has no such dtype (UNKNOWN, UINT4, INT4).
        """
        if self.size_in_bits < 8:
            raise ValueError(f"DataType.{self.name} has no NumPy dtype; accepted: types of 8 bits or more")
        return np.dtype(self.name.lower())


@c_enum("DML_TENSOR_TYPE")
class TensorType(IntEnum):
    """Kind of a tensor's memory; vkdml has buffers only.

    >>> TensorType.BUFFER.value
    1

    Source of the rule: DirectML's ``DML_TENSOR_TYPE``.
    """

    INVALID = 0
    BUFFER = 1


@c_enum("DML_TENSOR_FLAGS", prefix="DML_TENSOR_FLAG")
class TensorFlags(IntFlag):
    """Options of a tensor; OWNED_BY_DML is accepted for inputs and changes no result.

    >>> TensorFlags.OWNED_BY_DML.value
    1

    Source of the rule: DirectML's ``DML_TENSOR_FLAGS``.
    """

    NONE = 0
    OWNED_BY_DML = 1


@c_enum("DML_OPERATOR_TYPE", prefix="DML_OPERATOR")
class OperatorType(IntEnum):
    """Operator of a descriptor; those that vkdml has.

    >>> OperatorType.SLICE1.value
    111

    Source of the rule: DirectML's ``DML_OPERATOR_TYPE``.
    """

    INVALID = 0
    REDUCE = 55
    SLICE1 = 111
    ARGMIN = 137
    ARGMAX = 138


@c_enum("DML_AXIS_DIRECTION")
class AxisDirection(IntEnum):
    """Which of several equal elements is picked: the first (INCREASING) or the last (DECREASING).

    >>> AxisDirection.DECREASING.value
    1

    Source of the rule: DirectML's ``DML_AXIS_DIRECTION``.
    """

    INCREASING = 0
    DECREASING = 1


@c_enum("DML_REDUCE_FUNCTION")
class ReduceFunction(IntEnum):
    """Function of a REDUCE operator; vkdml runs ARGMAX and ARGMIN.

    >>> ReduceFunction.ARGMIN.value
    1

    Source of the rule: DirectML's ``DML_REDUCE_FUNCTION``.
    """

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


_C_FEATURE_LEVEL = "DML_FEATURE_LEVEL"


@c_enum(_C_FEATURE_LEVEL, drop="FL_")
class FeatureLevel(IntEnum):
    """Level of DirectML whose limits are enforced; every level that DirectML publishes.

    >>> str(FeatureLevel.FL_3_0), FeatureLevel(0x5000).name, FeatureLevel.of("DML_FEATURE_LEVEL_6_4").name
    ('3_0', 'FL_5_0', 'FL_6_4')

    Source of the rule: DirectML's ``DML_FEATURE_LEVEL``; "DirectML feature level history" lists what each
    level added.
    """

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")

    @classmethod
    def of(cls, level: FeatureLevelLike) -> FeatureLevel:
        """Return the member for a level, its number or its name.

        >>> FeatureLevel.of("5_0") is FeatureLevel.of(0x5000) is FeatureLevel.FL_5_0
        True

        Args:
            level: a member, its number, or its name: ``"5_0"``, ``"FL_5_0"``, ``"DML_FEATURE_LEVEL_5_0"``.

        Raises:
            ValueError: DirectML publishes no such level; the message lists the published ones.
            TypeError: not a member, a number or a name.
        """
        if isinstance(level, str):
            for member in cls:
                if level in (str(member), member.name, f"{_C_FEATURE_LEVEL}_{member}"):
                    return member
        else:
            try:
                if isinstance(level, bool) or (isinstance(level, Enum) and not isinstance(level, cls)):
                    raise TypeError
                number = index(level)
            except TypeError:
                raise wrong_type("feature_level", level, cls._accepted()) from None
            if number in cls._value2member_map_:
                return cls(number)
        raise wrong_value(
            "feature_level", repr(level) if isinstance(level, str) else hex(number), cls._accepted()
        )

    @classmethod
    def _missing_(cls, value: object) -> FeatureLevel:
        return cls.of(value)  # type: ignore[arg-type]  # it raises for other types

    @classmethod
    def _accepted(cls) -> str:
        names = ", ".join(str(member) for member in cls)
        return f"{names}, as a FeatureLevel, by name ('5_0' or 'DML_FEATURE_LEVEL_5_0') or by number (0x5000)"


FeatureLevelLike: TypeAlias = FeatureLevel | str | int

_E = TypeVar("_E", bound=IntEnum | IntFlag)


def as_member(field: str, value: object, kind: type[_E]) -> _E:
    """Return the member of an enumeration for a field's value, which is a member or a number.

    >>> as_member("axis_direction", 1, AxisDirection).name
    'DECREASING'

    Raises:
        ValueError: a number that is no member; the message lists the members.
        TypeError: not a member or an integer, or a member of another enumeration.
    """
    try:
        if isinstance(value, bool) or (isinstance(value, Enum) and not isinstance(value, kind)):
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise wrong_type(field, value, _numbered(kind)) from None
    members: Mapping[str, Any] = kind.__members__
    for member in members.values():  # kind(number) would accept any number for a flag enumeration
        if member == number:
            return cast(_E, member)
    raise wrong_value(field, number, _numbered(kind))


def _numbered(kind: type[_E]) -> str:
    members = ", ".join(f"{name} ({int(member)})" for name, member in kind.__members__.items())
    return f"{kind.__name__} or its number: {members}"
