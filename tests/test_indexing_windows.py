"""Every window of small arrays, in every order of dimensions and every shape: views where NumPy has them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from views import positions, whole

from vkdml.arrays.indexing import View, indexed, reshaped

WINDOWS = (np.s_[:], np.s_[1:], np.s_[:-1], np.s_[::2], np.s_[::-1], np.s_[:1], np.s_[::-2])


def shapes_of(size: int, most: int) -> list[tuple[int, ...]]:
    """All shapes of so many elements, of at most so many dimensions; 1 is among their sizes once."""
    if not most:
        return [()] if size == 1 else []
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    longer = {(d, *rest) for d in divisors for rest in shapes_of(size // d, most - 1)}
    return sorted({*longer, *shapes_of(size, most - 1)})


@pytest.mark.parametrize("shape", [(24,), (4, 6), (6, 3), (2, 3, 4), (3, 1, 4)])
def test_reshape(shape):
    shapes = {}
    for keys in itertools.product(WINDOWS, repeat=len(shape)):
        view, array = whole(shape)
        view, array = indexed(view, keys), array[keys]
        for order in itertools.permutations(range(len(shape))):
            turned = array.transpose(order)
            seen = View(turned.shape, tuple(view.strides[a] for a in order), view.offset)
            if array.size not in shapes:
                shapes[array.size] = shapes_of(array.size, 3)
            for wanted in shapes[array.size]:
                result, expected = reshaped(seen, wanted), turned.reshape(wanted)
                copied = not np.shares_memory(expected, array)
                assert (result is None) == copied, f"{seen} as {wanted}"
                if result is not None:
                    assert result.shape == wanted
                    assert np.array_equal(positions(result), expected), f"{seen} as {wanted}"


def test_shapes_of_all_sizes_are_tried():
    assert shapes_of(4, 2) == [(1, 4), (2, 2), (4,), (4, 1)]
    assert all(math.prod(shape) == 12 for shape in shapes_of(12, 3))
