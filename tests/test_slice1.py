"""slice1: windows, strides of both signs and partial outputs, for every element size, bit for bit."""

from __future__ import annotations

import itertools
import math

import checking
import numpy as np
import oracle
import pytest
import strategies
from checking import check_slice1
from oracle import AnyArray

import vkdml
from vkdml.plan import kernels

pytestmark = pytest.mark.usefixtures("device")

STRUCTURED = {
    2: np.dtype([("a", "i1"), ("b", "u1")]),
    4: np.dtype([("a", "i2"), ("b", "u1"), ("c", "S1")]),
    8: np.dtype([("a", "f4"), ("b", "i2", (2,))]),
    16: np.dtype([("a", "f8"), ("b", "f4"), ("c", "u1", (4,))]),
}
DTYPES = (
    *(oracle.dtype_named(name) for name in oracle.ARGREDUCE_DTYPES),
    *(np.dtype(name) for name in ("complex64", "complex128", "datetime64[ns]", "timedelta64[s]")),
    *(np.dtype(name) for name in ("V1", "V2", "V4", "V8", "V16", "S8", "U1", "U4", ">f4", ">f8")),
    *STRUCTURED.values(),
)
BY_SIZE = tuple(np.dtype(name) for name in ("uint8", "uint16", "float32", "float64", "complex128"))


def test_there_is_a_type_of_each_size_that_kernels_move() -> None:
    sizes = kernels.family("slice1_runs").numbers_of("element_bytes")
    assert sorted(dtype.itemsize for dtype in BY_SIZE) == sorted(sizes) == sorted({1, *STRUCTURED})


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[np.generic], seed: int = 0) -> AnyArray:
    x = strategies.random_bits(np.random.default_rng(seed), np.dtype(f"V{dtype.itemsize}"), math.prod(shape))
    return x.reshape(shape).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((9, 10, 11), dtype)
    check_slice1(x, (0, 0, 0), (9, 10, 11), (1, 1, 1))
    check_slice1(x, (0, 0, 0), (9, 10, 11), (-1, -1, -1))
    check_slice1(x, (1, 2, 3), (7, 5, 8), (2, -3, -1))
    check_slice1(x, (1, 2, 3), (7, 5, 8), (-2, 1, 5), (2, 4, 1))
    check_slice1(x[:, ::-1, 1::2].T, (1, 0, 2), (4, 10, 5), (-1, 4, 1))


def test_documented_examples() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    offsets, sizes = (0, 0, 0, 1), (1, 1, 4, 3)
    assert vkdml.slice1(x, offsets, sizes, (1, 1, 2, 2)).tolist() == [[[[2, 4], [10, 12]]]]
    assert vkdml.slice1(x, offsets, sizes, (1, 1, -2, 2)).tolist() == [[[[14, 16], [6, 8]]]]


def test_every_window_and_stride_of_a_short_axis() -> None:
    """1-D, exhaustively: offset, size, stride and output size."""
    for dtype in (np.dtype(np.uint8), np.dtype(np.float32)):
        x = bytes_of((5,), dtype)
        for offset in range(5):
            for size in range(1, 6 - offset):
                for stride in (1, -1, 2, -2, 3, -3, 5, -6):
                    for length in range(1, 2 + (size - 1) // abs(stride)):
                        check_slice1(x, (offset,), (size,), (stride,), (length,))
                    check_slice1(x, (offset,), (size,), (stride,))


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_lengths_around_words_and_tiles(dtype: np.dtype[np.generic]) -> None:
    sizes = sorted(
        {1, 2, 3, *(n for k in (4, 16, 64, 128, 256, 1024, 4096, 16384) for n in (k - 1, k, k + 1, 2 * k))}
    )
    for n in sizes:
        x = bytes_of((n + 3,), dtype)
        start = n % 4
        for stride in (1, -1, 2, -3):
            check_slice1(x, (start,), (n,), (stride,))
        check_slice1(x.reshape(1, -1, 1), (0, start, 0), (1, n, 1), (1, -1, 1))
        y = bytes_of((3, n + 3), dtype)
        check_slice1(y, (0, start), (3, n), (-1, 1))
        check_slice1(y, (0, start), (3, n), (1, -2))
        check_slice1(np.ascontiguousarray(oracle.raw(y).T).view(dtype), (start, 1), (n, 2), (-1, 1))


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_every_start_and_end_within_a_word(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((6, 21), dtype)
    for start, length in itertools.product(range(5), (1, 2, 3, 4, 5, 8, 16)):
        check_slice1(x, (1, start), (4, length), (1, 1))
        check_slice1(x, (1, start), (4, length), (-2, -1))
        check_slice1(x, (start, start), (1, length), (1, 1))


def test_sign_combinations_in_three_dimensions() -> None:
    x = bytes_of((6, 7, 8), np.dtype(np.float16))
    for strides in itertools.product((1, -1, 2, -3), repeat=3):
        check_slice1(x, (0, 1, 2), (6, 5, 6), strides)
        check_slice1(x, (1, 0, 3), (5, 7, 3), strides)


def test_steps_longer_than_the_window_copy_one_element() -> None:
    x = np.arange(20, dtype=np.int32)
    for stride in (3, 100, -100, 2**31 - 1, -(2**31), 2**40, -(2**62)):
        check_slice1(x, (4,), (3,), (stride,))
        got = vkdml.slice1(x, (4,), (3,), (stride,))
        assert got.tolist() == [4 if stride > 0 else 6]


def test_partial_outputs() -> None:
    x = bytes_of((8, 9), np.dtype(np.uint8))
    for rows, columns in itertools.product(range(1, 5), range(1, 10)):
        check_slice1(x, (0, 0), (8, 9), (2, 1), (rows, columns))
        check_slice1(x, (0, 0), (8, 9), (-2, -1), (rows, columns))


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16])
def test_ranks(rank: int) -> None:
    rng = np.random.default_rng(rank)
    shape = (3, 2, 4, 2, 3, 2, 2, 3, 2, 2, 2, 2, 1, 2, 1, 2)[:rank]
    for turn in range(10):
        dtype = BY_SIZE[turn % len(BY_SIZE)]
        x = bytes_of(shape, dtype, turn).transpose(rng.permutation(rank))
        offsets = tuple(int(rng.integers(0, n)) if turn % 2 else 0 for n in x.shape)
        sizes = tuple(n - o for n, o in zip(x.shape, offsets, strict=True))
        strides = tuple(int(t) for t in rng.choice([-2, -1, 1, 1, 2], size=rank))
        check_slice1(x, offsets, sizes, strides)


def test_rank_20_in_any_order() -> None:
    rng = np.random.default_rng(20)
    for dtype in (np.dtype(np.uint8), np.dtype(np.float32)):
        x = bytes_of((2,) * 18, dtype).transpose(rng.permutation(18))
        strides = tuple(int(t) for t in rng.choice([-1, 1], size=18))
        check_slice1(x, (0,) * 18, (2,) * 18, strides)


def test_rank_0() -> None:
    for x in (np.float32(2.5), np.array(7, np.uint8), np.array(1j)):
        got = np.asarray(vkdml.slice1(x, (), (), ()))
        assert got.shape == ()
        assert got.dtype == x.dtype
        assert got == x


def test_the_highest_rank_numpy_has() -> None:
    rank = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    shape = [1] * rank
    shape[0], shape[7], shape[-1] = 3, 4, 5
    x = bytes_of(tuple(shape), np.dtype(np.int16))
    strides = [-1 if a % 2 else 1 for a in range(rank)]
    check_slice1(x, (0,) * rank, tuple(shape), strides)


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_input_layouts(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((12, 13, 14), dtype)
    for view in (
        x.transpose(2, 0, 1),
        x.transpose(1, 2, 0)[::-1],
        x[::-1, ::2, ::-3],
        x[1:, 3:, 1:],
        np.broadcast_to(x[:, :1], (12, 6, 14)),
        np.broadcast_to(x[0, 0, 0], (5, 6, 7)),
        np.lib.stride_tricks.sliding_window_view(x[0, 0], 4)[None],
        np.lib.stride_tricks.sliding_window_view(x[0], (3, 4))[2],
    ):
        rank = view.ndim
        whole = (0,) * rank, view.shape
        check_slice1(view, *whole, (1,) * rank)
        check_slice1(view, *whole, (-1,) * rank)
        check_slice1(view, *whole, (2, -1, -3)[:rank])
        check_slice1(
            view, tuple(n // 2 for n in view.shape), tuple(n - n // 2 for n in view.shape), (-2, 1, 1)[:rank]
        )


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_input_at_odd_addresses(dtype: np.dtype[np.generic]) -> None:
    payload = bytes_of((60,), dtype).tobytes()
    for odd in range(1, 8):
        x = np.frombuffer(b"\xff" * odd + payload, dtype, count=60, offset=odd).reshape(6, 10)
        check_slice1(x, (0, 1), (6, 9), (1, 1))
        check_slice1(x, (1, 1), (5, 8), (-1, -2))


def test_lists_and_other_sequences() -> None:
    assert vkdml.slice1([1, 2, 3, 4], [1], [3], [-1]).tolist() == [4, 3, 2]
    assert vkdml.slice1((1.5, 2.5), np.array([0]), np.array([2]), np.array([-1])).tolist() == [2.5, 1.5]
    assert vkdml.slice1([[True, False]], (0, np.int8(0)), [np.uint64(1), 2], (1, -1)).tolist() == [
        [False, True]
    ]
    assert vkdml.slice1(np.frombuffer(b"abcd", "S1"), [0], [4], [-1]).tolist() == [
        b"d",
        b"c",
        b"b",
        b"a",
    ]


def test_payloads_survive() -> None:
    for name in oracle.FLOAT_DTYPES:
        dtype = oracle.dtype_named(name)
        x = strategies.from_bits(strategies.special_bits(dtype), dtype)
        got = vkdml.slice1(x, (0,), x.shape, (-1,))
        assert checking.difference(got, x[::-1]) is None


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_a_million_elements(dtype: np.dtype[np.generic]) -> None:
    x = bytes_of((1027, 1021), dtype)
    check_slice1(x, (0, 0), (1027, 1021), (1, 1))
    check_slice1(x, (0, 0), (1027, 1021), (-1, -1))
    check_slice1(x, (1, 3), (1020, 1001), (2, 2))
    check_slice1(x.T, (3, 1), (1001, 1020), (-1, 3))
    check_slice1(x, (1000, 1000), (2, 3), (1, -1))


def test_more_rows_than_a_dispatch_dimension_allows() -> None:
    for shape, strides in (((70001, 3), (1, -2)), ((3, 70001), (-1, 2)), ((131073, 1, 2), (-1, 1, -1))):
        for dtype in (np.dtype(np.uint8), np.dtype(np.int32)):
            check_slice1(bytes_of(shape, dtype), (0,) * len(shape), shape, strides)


def test_windows_of_enormous_broadcast_inputs() -> None:
    n = 2**33
    x = np.broadcast_to(np.arange(5, dtype=np.int16), (n, 5))
    assert vkdml.slice1(x, (n - 3, 1), (3, 4), (-1, 2)).tolist() == [[1, 3]] * 3
    assert vkdml.slice1(x, (0, 0), (n, 5), (2**32, -1)).tolist() == [[4, 3, 2, 1, 0]] * 2
    assert vkdml.slice1(x, (0, 0), (n, 5), (-1, 1), output_sizes=(2, 1)).tolist() == [[0], [0]]


def test_the_result_is_a_new_array() -> None:
    x = np.arange(6.0)
    got = vkdml.slice1(x, (0,), (6,), (1,))
    assert not np.shares_memory(got, x)
    assert got.flags.writeable
    got[:] = 0
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
