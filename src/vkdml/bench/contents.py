"""The bytes that cases run over, made on the host by all its cores; the same seed gives the same bytes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.bench.cases import ELEMENT_BYTES
from vkdml.bench.unsupported import Unsupported
from vkdml.plan import kernels

Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.unsignedinteger]

SEED = 20
_CHUNK_BYTES = 16 << 20
_PIECE_BYTES = 1 << 18
_SMALL_BYTES = 1 << 18
_CONSTANT = 0x3C  # a positive number in every float type

INFINITY_BITS = {name: each.greatest_magnitude for name, each in kernels.elements().items() if each.is_float}
"""The bits above which, without their sign, a float is a NaN."""


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def unsigned(nbytes: int) -> np.dtype[np.unsignedinteger]:
    """Return the unsigned integer type of a size."""
    return np.dtype(f"u{nbytes}")


def numpy_dtype(element: str) -> np.dtype[Any]:
    """Return NumPy's type of an element type.

    Raises:
        Unsupported: it takes ml_dtypes, which is not installed.
    """
    if element == "bool" or hasattr(np, element):
        return np.dtype(element)
    try:
        extended: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), element))
        return extended
    except (ModuleNotFoundError, AttributeError):
        raise Unsupported(f"no {element} without ml_dtypes") from None


def sign_bit(element: str) -> int:
    return 1 << (8 * ELEMENT_BYTES[element] - 1)


def content(name: str, nbytes: int) -> Bytes:
    """Make one content, as :attr:`vkdml.bench.cases.Case.content` names it.

    - ``bits``: random bits; read as floats they hold NaNs of every payload.
    - ``numbers ELEMENT``: the same without NaNs and infinities, for libraries that stop at a NaN.
    - ``flags``: random bytes 0 and 1.
    - ``constant``: one number.
    - ``nan_rich ELEMENT``: random bits, every second float a NaN of random sign and payload.
    - ``ascending ELEMENT``: from minus to plus infinity, each at least its predecessor.
    - ``equal ELEMENT``: zeros of random sign: all equal, with different bits.

    >>> content("constant", 4)
    array([60, 60, 60, 60], dtype=uint8)
    """
    kind, _, element = name.partition(" ")
    if kind == "constant":
        return np.full(nbytes, _CONSTANT, np.uint8)
    if kind == "bits":
        return _filled(nbytes, _random)
    if kind == "flags" and not element:
        return _filled(nbytes, lambda part, start: _masked(part, start, 1, np.dtype(np.uint8)))
    if element not in INFINITY_BITS:
        kind = ""
    dtype = unsigned(ELEMENT_BYTES.get(element, 1))
    if kind == "numbers":
        # Without the lowest bit of its exponent no float has the greatest exponent.
        infinity = INFINITY_BITS[element]
        exponent = infinity & -infinity if element != "float8_e4m3fn" else 8
        kept = (1 << 8 * dtype.itemsize) - 1 - exponent
        return _filled(nbytes, lambda part, start: _masked(part, start, kept, dtype))
    if kind == "equal":
        return _filled(nbytes, lambda part, start: _masked(part, start, sign_bit(element), dtype))
    if kind == "nan_rich":
        return _filled(nbytes, lambda part, start: _with_nans(part, start, element))
    if kind == "ascending":
        return _filled(nbytes, lambda part, start: _ascending(part, start, nbytes, element))
    raise ValueError(
        f"content {name!r} is unknown; accepted are bits, flags, constant, and with an element type numbers, "
        "nan_rich, ascending or equal"
    )


def chunks(nbytes: int) -> Iterator[slice]:
    for start in range(0, nbytes, _CHUNK_BYTES):
        yield slice(start, min(start + _CHUNK_BYTES, nbytes))


def _filled(nbytes: int, fill: Callable[[Bytes, int], None]) -> Bytes:
    made = np.empty(nbytes, np.uint8)
    if nbytes <= _SMALL_BYTES:
        fill(made, 0)
        return made
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda part: fill(made[part], part.start), chunks(nbytes)))
    return made


def _pieces(part: Bytes) -> Iterator[tuple[int, Bytes]]:
    """Yield pieces that stay in a cache, each with its first byte's place in the part."""
    for at in range(0, part.size, _PIECE_BYTES):
        yield at, part[at : at + _PIECE_BYTES]


def _random(part: Bytes, start: int) -> None:
    bits = np.random.SFC64([SEED, start // _CHUNK_BYTES])
    # Not through Generator.bytes(), of which most is done with the interpreter locked.
    for _, piece in _pieces(part):
        piece[:] = bits.random_raw(-(-piece.size // 8)).astype("<u8", copy=False).view(np.uint8)[: piece.size]


def _masked(part: Bytes, start: int, mask: int, dtype: np.dtype[np.unsignedinteger]) -> None:
    _random(part, start)
    bits = part.view(dtype)
    np.bitwise_and(bits, dtype.type(mask), out=bits)


def _with_nans(part: Bytes, start: int, element: str) -> None:
    _random(part, start)
    least_nan = INFINITY_BITS[element] | 1
    for _, piece in _pieces(part):
        bits = piece.view(unsigned(ELEMENT_BYTES[element]))
        # Bit 1 of a random pattern is a coin; the NaN's own bits stay random.
        nan = bits & bits.dtype.type(2) != 0
        np.bitwise_or(bits, bits.dtype.type(least_nan), out=bits, where=nan)


def _ascending(part: Bytes, start: int, nbytes: int, element: str) -> None:
    size = ELEMENT_BYTES[element]
    dtype = unsigned(size)
    greatest = INFINITY_BITS[element]
    for at, piece in _pieces(part):
        first = (start + at) // size
        positions = np.arange(first, first + piece.size // size, dtype=np.float64)
        # As the number's place in the order, zero in the middle; rounding keeps it ascending.
        places = np.floor(positions * ((2 * greatest + 1) / max(nbytes // size, 1))) - greatest
        magnitudes = np.minimum(np.abs(places), greatest).astype(dtype)
        signs = np.where(places < 0, dtype.type(sign_bit(element)), dtype.type(0))
        piece.view(dtype)[:] = magnitudes | signs
