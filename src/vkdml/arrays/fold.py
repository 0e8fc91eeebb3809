"""The order of elements on the host, as ``shaders/key.glsl`` has it, and the better of two candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.plan import kernels

Bits = npt.NDArray[np.unsignedinteger[Any]]
Keys = npt.NDArray[np.signedinteger[Any]]
Indices = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Order:
    """Which of two elements wins, and which of two equal ones."""

    element: str
    """The element type's name in the kernels' schema."""
    take_min: bool
    """The least wins, not the greatest."""
    take_last: bool
    """Of equals the greatest index wins, not the least."""
    omit_nan: bool
    """NaNs lose to everything instead of beating it."""

    def keys(self, bits: Bits) -> Keys:
        """Return keys of the elements' width: the greatest wins, equal keys are equal elements.

        >>> Order("float32", False, False, False).keys(np.float32([-1, -0.0, 0, np.nan]).view(np.uint32))
        array([-1065353216,           0,           0,  2147483647], dtype=int32)

        Args:
            bits: the elements' bits, as unsigned integers of their width in the machine's byte order.
        """
        element = kernels.elements()[self.element]
        info = np.iinfo(f"i{bits.itemsize}")
        keys: Keys
        if element.is_float:
            magnitude = (bits & bits.dtype.type(info.max)).view(info.dtype)
            # Both zeros are 0; argmin is argmax of the negative.
            wins_below_zero = (bits.view(info.dtype) < 0) != self.take_min
            keys = np.where(wins_below_zero, -magnitude, magnitude)
            nan = magnitude > element.greatest_magnitude
            keys[nan] = info.min if self.omit_nan else info.max
            return keys
        if element.kind == "bool":
            keys = (bits != 0).view(np.int8)
        elif element.kind == "unsigned":
            keys = (bits ^ bits.dtype.type(info.max + 1)).view(info.dtype)
        else:
            keys = bits.view(info.dtype)
        if self.take_min:
            keys = ~keys
        return keys

    def fold(self, bits: Bits, indices: Indices, new_bits: Bits, new_indices: Indices) -> None:
        """Put what is better of the new candidates in the place of the old, whatever order they come in.

        >>> bits, indices = np.uint8([7, 5]), np.uint64([4, 4])
        >>> Order("uint8", False, False, False).fold(bits, indices, np.uint8([7, 6]), np.uint64([1, 9]))
        >>> bits, indices
        (array([7, 6], dtype=uint8), array([1, 9], dtype=uint64))

        Args:
            bits: the elements' bits so far, written to.
            indices: theirs, written to.
            new_bits: of the new candidates, of the same shape.
            new_indices: theirs.
        """
        keys, new_keys = self.keys(bits), self.keys(new_bits)
        sooner = new_indices > indices if self.take_last else new_indices < indices
        better = (new_keys > keys) | ((new_keys == keys) & sooner)
        np.copyto(bits, new_bits, where=better)
        np.copyto(indices, new_indices, where=better)
