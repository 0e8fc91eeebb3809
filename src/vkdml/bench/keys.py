"""Bits as integer keys in the order of the numbers, and threads for what NumPy does with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.bench.cases import Case
from vkdml.bench.contents import INFINITY_BITS, cores, sign_bit

Array = npt.NDArray[Any]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores())


def run_in_parallel(work: Callable[[Any], None], parts: list[Any]) -> None:
    list(_pool().map(work, parts))


def ordered_keys(bits: Array, case: Case) -> Array:
    """Return integers of which the greatest is the element to choose; equal ones are equal as numbers.

    >>> case = Case("", "argmax", "float16", (4,))
    >>> ordered_keys(np.array([0x8000, 0, 0x3c00, 0x7e01], np.uint16), case)
    array([    0,     0, 15360, 32767], dtype=int16)
    """
    element = case.element
    if element == "bool":
        keys: Array = (bits != 0).view(np.uint8)
    elif "uint" in element:
        keys = bits
    else:
        keys = bits.view(f"i{bits.dtype.itemsize}")
    if "float" not in element:
        return ~keys if case.op == "argmin" else keys

    # The magnitude, negative with the sign: both zeros are 0. Without masks, which NumPy is slow at.
    magnitude: Array = keys & keys.dtype.type(sign_bit(element) - 1)
    nan = magnitude > INFINITY_BITS[element]
    signs = keys >> keys.dtype.type(8 * keys.itemsize - 1)
    if case.op == "argmin":
        np.invert(signs, out=signs)
    np.bitwise_xor(magnitude, signs, out=magnitude)
    np.subtract(magnitude, signs, out=magnitude)
    limits = np.iinfo(magnitude.dtype)
    np.putmask(magnitude, nan, limits.min if case.nan_policy == "omit" else limits.max)
    return magnitude
