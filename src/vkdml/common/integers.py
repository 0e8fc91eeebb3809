"""What counts as an integer: the same under every version of NumPy."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np


def index(value: SupportsIndex) -> int:
    """Return ``operator.index(value)``, but of no NumPy boolean, which NumPy 1.26 takes with a warning.

    >>> index(np.int8(3))
    3

    Raises:
        TypeError: it is no integer.
    """
    if isinstance(value, np.bool_):
        raise TypeError("a NumPy boolean is no integer")
    return operator.index(value)
