"""The oracle itself: against element-by-element loops, against NumPy, and against the documented examples."""

from __future__ import annotations

import fractions
import itertools
from typing import Any

import numpy as np
import oracle
import pytest
import strategies
from oracle import AnyArray


def exact(element: Any, dtype: np.dtype[Any]) -> fractions.Fraction | float:
    """An element decoded from its bits, with no help from NumPy's casts; infinities and NaNs as floats."""
    bits = int.from_bytes(element.tobytes(), "little")
    width = 8 * dtype.itemsize
    name = dtype.name
    if name == "bool":
        return fractions.Fraction(bits != 0)
    if name.startswith("uint"):
        return fractions.Fraction(bits)
    if name.startswith("int"):
        return fractions.Fraction(bits - (1 << width) if bits >> (width - 1) else bits)
    exponent_bits, mantissa_bits = {
        "float64": (11, 52),
        "float32": (8, 23),
        "float16": (5, 10),
        "bfloat16": (8, 7),
        "float8_e5m2": (5, 2),
        "float8_e4m3fn": (4, 3),
    }[name]
    sign = -1 if bits >> (width - 1) else 1
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    top = (1 << exponent_bits) - 1
    if name == "float8_e4m3fn":
        if exponent == top and mantissa == 7:
            return float("nan")
    elif exponent == top:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * fractions.Fraction(mantissa) * fractions.Fraction(2) ** (1 - bias - mantissa_bits)
    significand = mantissa + (1 << mantissa_bits)
    return sign * fractions.Fraction(significand) * fractions.Fraction(2) ** (exponent - bias - mantissa_bits)


def loop(row: AnyArray, op: str, direction: str, nan_policy: str) -> int:
    """One reduction, element by element."""
    best = 0
    values = [exact(element, row.dtype) for element in row]
    for i in range(1, len(values)):
        a, b = values[best], values[i]
        a_nan, b_nan = a != a, b != b
        if a_nan or b_nan:
            if a_nan and b_nan:
                better, equal = False, True
            else:
                better, equal = b_nan == (nan_policy == "propagate"), False
        else:
            better, equal = (b > a if op == "argmax" else b < a), a == b
        if better or (equal and direction == "decreasing"):
            best = i
    return best


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_oracle_agrees_with_a_loop_over_exact_numbers(name: str) -> None:
    dtype = oracle.dtype_named(name)
    rng = np.random.default_rng(1)
    for fill in ("specials", "bits", "few", "constant"):
        x = oracle.raw(strategies.elements(rng, dtype, 60 * 5, fill)).reshape(60, 5).view(dtype)
        for op, direction, nan_policy in itertools.product(
            oracle.OPERATORS, oracle.DIRECTIONS, oracle.NAN_POLICIES
        ):
            index, values = oracle.argreduce(x, 1, op, direction, nan_policy)
            want = [loop(row, op, direction, nan_policy) for row in x]
            assert index.tolist() == want
            assert values.tobytes() == b"".join(
                row[i].tobytes() for row, i in zip(x.view(f"u{dtype.itemsize}"), want, strict=True)
            )


@pytest.mark.parametrize("name", [n for n in oracle.ARGREDUCE_DTYPES if n not in oracle.SMALL_FLOATS])
def test_oracle_agrees_with_numpy_where_numpy_has_the_operator(name: str) -> None:
    x = strategies.elements(np.random.default_rng(2), np.dtype(name), 720, "specials").reshape(2, 3, 4, 5, 6)
    if name == "bool":
        x = x.view(np.uint8).astype(bool)
    with np.errstate(invalid="ignore"):
        for axis in (None, 0, 1, -1, 3):
            for keepdims in (False, True):
                for op in oracle.OPERATORS:
                    got, _ = oracle.argreduce(x, axis, op, keepdims=keepdims)
                    want = getattr(np, op)(x, axis=axis, keepdims=keepdims)
                    assert got.shape == np.shape(want)
                    assert np.array_equal(got, want)


def test_axes_are_a_set_and_the_index_is_row_major_in_ascending_axis_order() -> None:
    x = np.zeros((2, 3, 4))
    x[1, :, 2] = 1
    for axis in ((0, 2), (2, 0), (-1, 0), (-3, 2)):
        assert oracle.argreduce(x, axis)[0].tolist() == [1 * 4 + 2] * 3


def test_documented_examples() -> None:
    x = np.array([[1, 2, 3], [3, 0, 4], [2, 5, 2]], np.float32)
    assert oracle.argreduce(x, 0, "argmin")[0].tolist() == [0, 1, 2]
    assert oracle.argreduce(x, 1, "argmin")[0].tolist() == [0, 1, 0]
    assert oracle.argreduce(x, (0, 1), "argmin")[0].tolist() == 4
    assert oracle.argreduce(np.array([1, 2, 3, 2, 1]), 0, "argmin", "decreasing")[0] == 4
    y = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    assert oracle.slice1(y, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2)).tolist() == [[[[2, 4], [10, 12]]]]
    assert oracle.slice1(y, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2)).tolist() == [[[[14, 16], [6, 8]]]]


def test_slice1_oracle_agrees_with_the_pseudo_code_element_by_element() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        shape = tuple(int(n) for n in rng.integers(1, 6, size=3))
        offsets = [int(rng.integers(0, n)) for n in shape]
        sizes = [int(rng.integers(1, n - o + 1)) for n, o in zip(shape, offsets, strict=True)]
        strides = [int(rng.choice([-3, -2, -1, 1, 2, 3])) for _ in shape]
        x = rng.integers(0, 1000, size=shape)
        got = oracle.slice1(x, offsets, sizes, strides)
        assert got.shape == oracle.max_copied_elements(sizes, strides)
        for c in np.ndindex(got.shape):
            at = [
                o + (n - 1 if t < 0 else 0) + t * i
                for o, n, t, i in zip(offsets, sizes, strides, c, strict=True)
            ]
            assert all(o <= a < o + n for o, a, n in zip(offsets, at, sizes, strict=True))
            assert got[c] == x[tuple(at)]


def test_reducing_nothing_is_an_error_and_an_empty_result_is_not() -> None:
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        oracle.argreduce(np.zeros((0, 3)), 0, "argmin")
    assert oracle.argreduce(np.zeros((0, 3)), 1)[0].shape == (0,)
    assert oracle.argreduce(np.zeros((0, 3)), ())[0].shape == (0, 3)
