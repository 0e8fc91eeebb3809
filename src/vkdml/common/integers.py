"""Conversion to integers, the same for all versions of NumPy."""

from __future__ import annotations

import operator
from typing import SupportsIndex

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
