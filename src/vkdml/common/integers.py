"""Conversion to integers, the same for all versions of NumPy."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from itertools import islice
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


MOST_ENTRIES = 1000
"""The most entries of a sequence with one for each dimension; no array has so many dimensions."""


def entries(what: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the entries of a sequence or a set; an endless iterator or a large array is not read to its end.

    >>> entries("axis", iter([2, 0]))
    (2, 0)

    Raises:
        ValueError: there are more than an array can have dimensions.
    """
    found = tuple(islice(values, MOST_ENTRIES + 1))
    if len(found) > MOST_ENTRIES:
        raise ValueError(
            f"{what} has more than {MOST_ENTRIES} entries; accepted is at most one for each dimension"
        )
    return found


def is_sequence(value: Any) -> bool:
    """Tell whether a value has entries in an order: an array, a list, a range or an iterator.

    Arrays of no dimensions can be iterated, but refuse. Sets and mappings have no order that a caller chose,
    and the entries of text are no numbers.

    >>> is_sequence((3, 4)), is_sequence(np.array([3])), is_sequence(3), is_sequence(np.array(3))
    (True, True, False, False)
    >>> is_sequence({3, 4}), is_sequence("34")
    (False, False)
    """
    if isinstance(value, tuple | list):  # most are, and the checks below take a microsecond
        return True
    if not hasattr(value, "__iter__") or getattr(value, "ndim", None) == 0:
        return False
    return not isinstance(value, str | bytes | Set | Mapping)
