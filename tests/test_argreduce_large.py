"""argmax and argmin where counts and positions outgrow 32 bits: broadcast inputs, no memory behind them."""

from __future__ import annotations

import numpy as np
import pytest

import vkdml

pytestmark = pytest.mark.usefixtures("device")

FEW = np.array([3, 9, 1, 9, 1], np.float32)


@pytest.mark.parametrize("name", ["float32", "uint8", "int64", "float16"])
def test_indices_beyond_32_bits(name: str) -> None:
    few = FEW.astype(name)
    n = 2**33
    x = np.broadcast_to(few, (n, 5))
    assert vkdml.argmax(x) == 1
    assert vkdml.argmin(x) == 2
    assert vkdml.argmax(x, direction="decreasing") == (n - 1) * 5 + 3
    assert vkdml.argmin(x, direction="decreasing", dtype="uint64") == (n - 1) * 5 + 4
    y = np.broadcast_to(few[:, None], (5, n))
    assert vkdml.argmax(y) == n
    assert vkdml.argmax(y, direction="decreasing") == 4 * n - 1
    assert vkdml.argmin(y, direction="decreasing") == 5 * n - 1
    index, value = vkdml.argmax(y, direction="decreasing", return_values=True)
    assert index == 4 * n - 1
    assert value == 9
    assert vkdml.argmax(y, axis=1).tolist() == [0] * 5
    assert vkdml.argmax(y, axis=1, direction="decreasing").tolist() == [n - 1] * 5
    assert vkdml.argmax(x, axis=0, direction="decreasing", keepdims=True).tolist() == [[n - 1] * 5]
    z = np.broadcast_to(few[:, None, None], (5, 2**17, 2**17))
    assert vkdml.argmin(z, axis=(0, 2), direction="decreasing", keepdims=True).shape == (1, 2**17, 1)
    assert vkdml.argmin(z, direction="decreasing") == 5 * 2**34 - 1


def test_one_element_broadcast_to_eight_billion() -> None:
    x = np.broadcast_to(np.float32(2), (2**33,))
    assert vkdml.argmax(x) == 0
    assert vkdml.argmax(x, direction="decreasing") == 2**33 - 1
    assert (
        vkdml.argmin(np.broadcast_to(np.nan, (2**20, 2**13)), direction="decreasing", nan_policy="omit")
        == 2**33 - 1
    )


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_a_count_that_the_output_dtype_cannot_hold_is_refused(dtype: str) -> None:
    limit = np.iinfo(dtype).max
    for n in (limit + 2, 2**33):
        x = np.broadcast_to(np.float32(2), (n,))
        out = np.array(77, dtype)
        for call in ({"out": out}, {}, {"direction": "decreasing"}, {"keepdims": True}):
            with pytest.raises(ValueError, match="argmax") as caught:
                vkdml.argmax(x, dtype=dtype, **call)
            message = str(caught.value)
            assert "argmax" in message
            assert str(n) in message
            assert dtype in message
            assert "int64" in message
        assert out == 77
    x = np.broadcast_to(FEW, (2**33, 5))
    assert vkdml.argmax(x[:3], axis=1, dtype=dtype).tolist() == [1] * 3, "the kept axes may be of any size"
    with pytest.raises(ValueError, match="argmin"):
        vkdml.argmin(x, axis=0, dtype=dtype)


def test_results_that_no_memory_holds_are_refused() -> None:
    x = np.broadcast_to(FEW, (2**45, 5))
    for axis in (1, ()):
        for op in (vkdml.argmax, vkdml.argmin):
            with pytest.raises((MemoryError, ValueError)):
                op(x, axis)
            with pytest.raises((MemoryError, ValueError)):
                op(x, axis, return_values=True, dtype="int32")
    assert vkdml.argmax(FEW) == 1


def test_the_other_byte_order_is_not_unrolled() -> None:
    """Swapping a broadcast array's bytes must not first allocate every element of it."""
    x = np.broadcast_to(FEW.astype(">f4"), (2**41, 5))
    assert vkdml.argmax(x) == 1
    assert vkdml.argmin(x, direction="decreasing") == 5 * 2**41 - 1


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_the_largest_count_that_fits(dtype: str) -> None:
    n = int(np.iinfo(dtype).max)
    x = np.broadcast_to(np.float32(2), (n,))
    last = vkdml.argmax(x, direction="decreasing", dtype=dtype)
    assert last == n - 1
    assert last.dtype == np.dtype(dtype)


def test_a_wide_index_between_finite_strides() -> None:
    """A broadcast axis between two real ones: the winner's row-major index still exceeds 32 bits."""
    x = np.arange(12, dtype=np.int16).reshape(3, 1, 4)
    wide = np.broadcast_to(x, (3, 2**31, 4))
    n = 2**31
    assert vkdml.argmax(wide) == 2 * n * 4 + 3
    assert vkdml.argmax(wide, direction="decreasing") == 3 * n * 4 - 1
    assert vkdml.argmax(wide, axis=(0, 1)).tolist() == [2 * n] * 4
    assert vkdml.argmax(wide, axis=(0, 1), direction="decreasing").tolist() == [3 * n - 1] * 4
    assert vkdml.argmin(wide, axis=(1, 2), direction="decreasing").tolist() == [(n - 1) * 4] * 3
    assert vkdml.argmax(wide[::-1, :, ::-1], direction="decreasing") == (n - 1) * 4
