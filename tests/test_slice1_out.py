"""slice1 into arrays of the caller's: strided, unaligned, and never a byte beside them."""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
import strategies
from checking import Poisoned
from oracle import AnyArray

import vkdml

pytestmark = pytest.mark.usefixtures("device")

BY_SIZE = tuple(np.dtype(name) for name in ("uint8", "uint16", "float32", "float64", "complex128"))


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> AnyArray:
    x = strategies.random_bits(np.random.default_rng(4), np.dtype(f"V{dtype.itemsize}"), math.prod(shape))
    return x.reshape(shape).view(dtype)


def check_into(out: Poisoned, x: AnyArray, *window: tuple[int, ...]) -> None:
    want = oracle.slice1(x, *window)
    assert vkdml.slice1(x, *window, out=out.view) is out.view
    out.assert_holds(want, f"slice1 {x.dtype} {x.shape} {window} into strides {out.view.strides}")


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_every_layout_of_out(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((8, 9, 10), dtype)
    window = (1, 0, 2), (6, 9, 7), (-2, 3, -1)
    shape = oracle.max_copied_elements(*window[1:])
    assert shape == (3, 3, 7)
    for strides in (
        (21, 7, 1),
        (1, 3, 9),
        (7, 21, -1),
        (-21, -7, -1),
        (50, 16, 2),
        (-2, 6, 18),
        (3, 9, -27),
        (100, 8, 1),
    ):
        check_into(Poisoned.scaled(strategies.Layout(shape, strides, 3, 2), dtype), x, *window)


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_neighbours_in_a_word(dtype: np.dtype[np.generic]) -> None:
    """Every start, end and step within words, over copied rows of every short length."""
    for length in (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33):
        x = bytes_of((3, length + 4), dtype)
        for before in range(5):
            for step in (1, 2, 3, -1, -2):
                gap = abs(step) * length + before
                out = strategies.Layout((3, length), (gap, step), before, 4 - before)
                turn = (before + length) % 2
                check_into(Poisoned.scaled(out, dtype), x, (0, before), (3, length), (1, (1, -1)[turn]))


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_long_rows_between_poison(dtype: np.dtype[np.generic]) -> None:
    for n in (255, 256, 257, 1023, 1025, 4097, 16385):
        x = bytes_of((n + 2,), dtype)
        for step, before in ((1, 1), (2, 1), (-1, 3), (3, 2)):
            out = strategies.Layout((n,), (step,), before, 3)
            check_into(Poisoned.scaled(out, dtype), x, (1,), (n,), (1,))
            check_into(Poisoned.scaled(out, dtype), x, (2,), (n,), (-1,))


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_out_at_odd_addresses(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((5, 9), dtype)
    n = dtype.itemsize
    for odd in range(1, 8):
        out = Poisoned(strategies.Layout((5, 9), (9 * n, n), odd, 11), dtype)
        check_into(out, x, (0, 0), (5, 9), (-1, 1))
        record = Poisoned(strategies.Layout((5, 9), (9 * (n + odd), n + odd), 0, odd), dtype)
        check_into(record, x, (0, 0), (5, 9), (1, -1))


def test_interleaved_bytes_of_a_word() -> None:
    """Four calls fill the four bytes of each word; none may disturb what another wrote."""
    x = np.arange(1000, dtype=np.uint8).reshape(4, 250)
    buffer = np.zeros((250, 4), np.uint8)
    for channel in range(4):
        vkdml.slice1(x[channel], (0,), (250,), (1,), out=buffer[:, channel])
        assert np.array_equal(buffer[:, : channel + 1], x[: channel + 1].T)
        assert not buffer[:, channel + 1 :].any()


def test_partial_output_into_a_corner() -> None:
    image = np.zeros((40, 50, 3), np.uint8)
    x = bytes_of((30, 30, 3), np.dtype(np.uint8))
    vkdml.slice1(x, (0, 0, 0), (30, 30, 3), (2, -1, -1), output_sizes=(11, 13, 3), out=image[5:16, 7:20])
    want = np.zeros_like(image)
    want[5:16, 7:20] = oracle.slice1(x, (0, 0, 0), (30, 30, 3), (2, -1, -1), (11, 13, 3))
    assert np.array_equal(image, want)


def test_rank_0_and_single_elements() -> None:
    for dtype in BY_SIZE:
        x = bytes_of((4,), dtype)
        out = Poisoned.scaled(strategies.Layout((), (), 1, 2), dtype)
        assert vkdml.slice1(x[2], (), (), (), out=out.view) is out.view
        out.assert_holds(x[2:3].reshape(()), "rank 0")
        check_into(Poisoned.scaled(strategies.Layout((1,), (1,), 3, 2), dtype), x, (3,), (1,), (-5,))


@pytest.mark.parametrize("name", [">f4", ">i2", "bool", "complex128", "V16"])
def test_rank_0_keeps_its_bytes(name: str) -> None:
    """NumPy turns a rank-0 array into a scalar all too readily: native, and a bool of 0 or 1."""
    x = np.arange(0x41, 0x41 + np.dtype(name).itemsize, dtype=np.uint8).view(name).reshape(())
    assert np.asarray(vkdml.slice1(x, (), (), ())) == x
    out = Poisoned.scaled(strategies.Layout((), (), 1, 2), x.dtype)
    vkdml.slice1(x, (), (), (), out=out.view)
    out.assert_holds(x, name)


def test_large_strided_out() -> None:
    for dtype in (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.float32)):
        x = bytes_of((500, 600), dtype)
        out = Poisoned.scaled(strategies.Layout((500, 300), (-650, 2), 1, 1), dtype)
        check_into(out, x, (0, 1), (500, 599), (1, -2))
        columns = Poisoned.scaled(strategies.Layout((500, 600), (1, 503), 3, 1), dtype)
        check_into(columns, x, (0, 0), (500, 600), (1, 1))


def test_out_that_overlaps_the_input_is_as_if_it_did_not() -> None:
    x = np.arange(2000, dtype=np.int16)
    want = x[::-1].copy()
    vkdml.slice1(x, (0,), (2000,), (-1,), out=x)
    assert np.array_equal(x, want)
    y = np.arange(2000, dtype=np.uint8)
    want = y.copy()
    want[1:] = y[:-1]
    vkdml.slice1(y, (0,), (1999,), (1,), out=y[1:])
    assert np.array_equal(y, want)


def test_out_of_rejected_calls_is_untouched() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for shape, dtype in (
        ((4, 5), "f4"),
        ((24,), "f4"),
        ((6, 4), "f4"),
        ((4, 6), "i4"),
        ((4, 6), "f8"),
        ((1, 4, 6), "f4"),
    ):
        out = np.full(shape, 9, dtype)
        with pytest.raises((TypeError, ValueError), match="slice1"):
            vkdml.slice1(x, (0, 0), (4, 6), (1, 1), out=out)
        assert (out == 9).all()
    frozen = np.full((4, 6), 9, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="slice1"):
        vkdml.slice1(x, (0, 0), (4, 6), (1, 1), out=frozen)
    out = np.full((4, 6), 9, np.float32)
    with pytest.raises(ValueError, match="slice1"):
        vkdml.slice1(x, (0, 1), (4, 6), (1, 1), out=out)
    with pytest.raises(ValueError, match="slice1"):
        vkdml.slice1(x, (0, 0), (4, 6), (1, 1), output_sizes=(4, 5), out=out)
    assert (frozen == 9).all()
    assert (out == 9).all()
