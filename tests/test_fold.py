"""The host's order of elements is the kernels', and folding gives the same whatever comes first."""

from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
import strategies

from vkdml.operators.fold import fold, keys_of
from vkdml.plan import kernels
from vkdml.plan.order import Order

MODES = list(itertools.product((False, True), repeat=3))


def unsigned(x):
    return x.view(f"u{x.itemsize}")


def elements(name: str) -> np.ndarray:
    """Every element of a narrow type, the awkward ones of a wide one."""
    dtype = oracle.dtype_named(name)
    if dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(dtype)
    if dtype.itemsize == 2:
        return np.arange(0, 1 << 16, 7, dtype=np.uint16).view(dtype)
    rng = np.random.default_rng(3)
    return np.concatenate(
        [
            strategies.from_bits(strategies.special_bits(dtype), dtype),
            strategies.random_bits(rng, dtype, 1000),
        ]
    )


def test_numbers_above_infinity_are_nans():
    for name in oracle.FLOAT_DTYPES:
        element, dtype = kernels.elements()[name], oracle.dtype_named(name)
        bits = np.array([element.greatest_magnitude, element.greatest_magnitude + 1], f"u{element.nbytes}")
        assert np.isnan(oracle.numbers(bits.view(dtype))).tolist() == [False, True]
        assert dtype.itemsize == element.nbytes


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
@pytest.mark.parametrize(("take_min", "take_last", "omit_nan"), MODES)
def test_of_any_two_elements_the_right_one_stays(name, take_min, take_last, omit_nan):
    order = Order(name, take_min, take_last, omit_nan)
    rng = np.random.default_rng(1)
    old = rng.permutation(elements(name))
    new = rng.permutation(old)
    old[: old.size // 4] = new[: old.size // 4]  # ties
    indices = rng.integers(0, 1 << 62, (2, old.size), np.uint64) * np.uint64(3)
    call = {
        "op": "argmin" if take_min else "argmax",
        "direction": "decreasing" if take_last else "increasing",
        "nan_policy": "omit" if omit_nan else "propagate",
    }
    # The oracle takes the first or the last of a row in which indices ascend.
    rows = np.stack([unsigned(old), unsigned(new)], 1)
    by_index = indices.argsort(axis=0)
    chosen, values = oracle.argreduce(np.take_along_axis(rows, by_index.T, 1).view(old.dtype), 1, **call)
    want_indices = np.take_along_axis(indices, by_index, 0)[chosen, np.arange(old.size)]
    for first, second in ((0, 1), (1, 0)):
        bits, best = rows[:, first].copy(), indices[first].copy()
        fold(order, bits, best, rows[:, second].copy(), indices[second].copy())
        assert np.array_equal(best, want_indices)
        assert np.array_equal(bits, unsigned(values))


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
@pytest.mark.parametrize("omit_nan", [False, True])
def test_keys_sort_as_numpy_does(name, omit_nan):
    x = elements(name)
    keys = keys_of(Order(name, False, False, omit_nan), unsigned(x)).astype(np.int64)
    negative_keys = keys_of(Order(name, True, False, omit_nan), unsigned(x)).astype(np.int64)
    numbers = oracle.numbers(x)
    nan = numbers != numbers
    ordered = numbers[~nan][np.argsort(keys[~nan], kind="stable")]
    assert (ordered[1:] >= ordered[:-1]).all()
    assert len(np.unique(keys[~nan])) == len(np.unique(numbers[~nan]))
    assert np.array_equal(
        np.argsort(negative_keys[~nan], kind="stable"), np.argsort(~keys[~nan], kind="stable")
    )
    if nan.any():
        for some in (keys, negative_keys):
            assert len(set(some[nan])) == 1
            assert (some[nan][0] < some[~nan].min()) if omit_nan else (some[nan][0] > some[~nan].max())


def test_folding_writes_through_views_and_leaves_the_new_candidates_alone():
    order = Order("int16")
    bits, indices = np.zeros((4, 6), np.uint16), np.zeros((4, 6), np.uint64)
    new_bits, new_indices = np.full((2, 3), 5, np.uint16), np.full((2, 3), 1 << 40, np.uint64)
    fold(order, bits[::2, ::2], indices[::2, ::2], new_bits, new_indices)
    assert (bits[::2, ::2] == 5).all()
    assert bits.sum() == 30
    assert (indices[::2, ::2] == 1 << 40).all()
    assert (new_bits == 5).all()
