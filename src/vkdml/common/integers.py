"""Conversion to integers, the same for all versions of NumPy."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np


def index(value: SupportsIndex) -> int:
    """Return ``operator.index(value)``; refuse NumPy booleans, which NumPy 1.26 accepts with a warning.

    >>> index(np.int8(3))
    3

    Raises:
        TypeError: the value is not an integer.
    """
    if isinstance(value, np.bool_):
        raise TypeError("a NumPy boolean is not an integer")
    return operator.index(value)


def is_sequence(value: Any) -> bool:
    """Tell whether a value can be iterated; arrays of no dimensions have the method, but refuse.

    >>> is_sequence((3, 4)), is_sequence(np.array([3])), is_sequence(3), is_sequence(np.array(3))
    (True, True, False, False)
    """
    return hasattr(value, "__iter__") and getattr(value, "ndim", None) != 0
