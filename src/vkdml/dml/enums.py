"""DirectML's enumerations, with its numeric values."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from string import ascii_uppercase
from typing import Any

import numpy as np


class DataType(IntEnum):
    """Type of a tensor's elements (`DML_TENSOR_DATA_TYPE`).

    >>> DataType.FLOAT16.dtype, DataType.FLOAT16.size_in_bytes
    (dtype('float16'), 2)
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
        """Bytes of one element; ValueError where an element is not whole bytes (UNKNOWN, UINT4, INT4)."""
        if self.size_in_bits < 8:
            raise ValueError(f"DataType.{self.name} has no size in bytes; accepted: types of 8 bits or more")
        return self.size_in_bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype for the same elements; ValueError where it has none (UNKNOWN, UINT4, INT4)."""
        if self.size_in_bits < 8:
            raise ValueError(f"DataType.{self.name} has no NumPy dtype; accepted: types of 8 bits or more")
        return np.dtype(self.name.lower())


class AxisDirection(IntEnum):
    """Which of several equal elements is picked (`DML_AXIS_DIRECTION`): the first or the last."""

    INCREASING = 0
    DECREASING = 1


class ReduceFunction(IntEnum):
    """Function of a REDUCE operator (`DML_REDUCE_FUNCTION`); vkdml runs ARGMAX and ARGMIN."""

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


class TensorFlags(IntFlag):
    """Options of a tensor (`DML_TENSOR_FLAGS`); OWNED_BY_DML is for input tensors and changes no result."""

    NONE = 0
    OWNED_BY_DML = 1


class FeatureLevel(IntEnum):
    """Level of DirectML whose limits are enforced (`DML_FEATURE_LEVEL`).

    >>> str(FeatureLevel.FL_3_0), FeatureLevel.of("3_0").name
    ('3_0', 'FL_3_0')
    """

    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_4_1 = 0x4100

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")

    @classmethod
    def of(cls, level: FeatureLevel | str) -> FeatureLevel:
        """The member that `level` is or names ("3_0"); ValueError for an unknown name."""
        if isinstance(level, FeatureLevel):
            return level
        if not isinstance(level, str):
            given = type(level).__name__
            raise TypeError(
                f"feature_level is a {given}; accepted: a FeatureLevel or its name, such as '3_0'"
            )
        for member in cls:
            if level == str(member):
                return member
        # Later levels widen none of these operators, so the newest member here stands for them too.
        raise ValueError(
            f"feature_level is {level!r}; accepted: {', '.join(repr(str(member)) for member in cls)} "
            f"(a later level accepts what {cls.FL_4_1} accepts)"
        )
