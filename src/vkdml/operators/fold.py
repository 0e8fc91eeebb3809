"""Candidates on the host: the order of elements as ``shaders/key.glsl`` has it, and the better of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.plan.order import Order

Bits = npt.NDArray[np.unsignedinteger[Any]]
Keys = npt.NDArray[np.signedinteger[Any]]
Indices = npt.NDArray[np.uint64]


def keys_of(order: Order, bits: Bits) -> Keys:
    """Return keys of the elements' width: the greatest wins, equal keys are equal elements.

    >>> keys_of(Order("float32"), np.float32([-1, -0.0, 0, np.nan]).view(np.uint32))
    array([-1065353216,           0,           0,  2147483647], dtype=int32)

    Args:
        order: of the elements.
        bits: the elements' bits, as unsigned integers of their width in the machine's byte order.
    """
    element = order.element_type
    info = np.iinfo(f"i{bits.itemsize}")
    keys: Keys
    if element.is_float:
        magnitude = (bits & bits.dtype.type(info.max)).view(info.dtype)
        # Both zeros are 0; argmin is argmax of the negative.
        wins_below_zero = (bits.view(info.dtype) < 0) != order.take_min
        keys = np.where(wins_below_zero, -magnitude, magnitude)
        nan = magnitude > element.greatest_magnitude
        keys[nan] = info.min if order.omit_nan else info.max
        return keys
    if element.kind == "bool":
        keys = (bits != 0).view(np.int8)
    elif element.kind == "unsigned":
        keys = (bits ^ bits.dtype.type(info.max + 1)).view(info.dtype)
    else:
        keys = bits.view(info.dtype)
    return ~keys if order.take_min else keys


def fold(order: Order, bits: Bits, indices: Indices, new_bits: Bits, new_indices: Indices) -> None:
    """Replace candidates by the new ones that are better, in whatever order they come.

    >>> bits, indices = np.uint8([7, 5]), np.uint64([4, 4])
    >>> fold(Order("uint8"), bits, indices, np.uint8([7, 6]), np.uint64([1, 9]))
    >>> bits, indices
    (array([7, 6], dtype=uint8), array([1, 9], dtype=uint64))

    Args:
        order: of the elements.
        bits: the candidates' bits so far, written to.
        indices: theirs, written to.
        new_bits: of the new candidates, of the same shape.
        new_indices: theirs.
    """
    keys, new_keys = keys_of(order, bits), keys_of(order, new_bits)
    sooner = new_indices > indices if order.take_last else new_indices < indices
    better = (new_keys > keys) | ((new_keys == keys) & sooner)
    np.copyto(bits, new_bits, where=better)
    np.copyto(indices, new_indices, where=better)
