"""argmax and argmin of inputs laid out in every way NumPy knows, and of everything numpy.asarray takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest
import strategies
from checking import OPPOSITE_MODES, check_argreduce
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from oracle import AnyArray
from thinned import some_of

import vkdml

pytestmark = pytest.mark.usefixtures("device")

TYPES = ("float32", "uint8", "float16", "int64", "bool", "float8_e5m2")


def ties(shape: tuple[int, ...], name: str, seed: int = 0) -> AnyArray:
    dtype = oracle.dtype_named(name)
    x = strategies.elements(np.random.default_rng(seed), dtype, math.prod(shape), "specials")
    return oracle.raw(x).reshape(shape).view(dtype)


def takes(name: str, number: int) -> bool:
    """Whether a layout is this type's: types of one width, which lie in memory alike, take turns."""
    alike = [
        other for other in TYPES if oracle.dtype_named(other).itemsize == oracle.dtype_named(name).itemsize
    ]
    return number % len(alike) == alike.index(name)


def check_in_turn(name: str, *layouts: AnyArray) -> None:
    for number, x in enumerate(layouts):
        if takes(name, number):
            check_all(x)


def check_all(x: AnyArray) -> None:
    """Some axis sets in one mode; every second type has the opposite one, with the same layouts."""
    rank = x.ndim
    mode = OPPOSITE_MODES[TYPES.index(x.dtype.name) % 2 if x.dtype.name in TYPES else 0]
    for axis in (None, 0, -1, tuple(range(0, rank, 2)), tuple(range(rank - 1))):
        check_argreduce(x, axis, **mode)


@pytest.mark.parametrize("name", TYPES)
def test_transposed_and_fortran_order(name: str) -> None:
    x = ties((7, 6, 9), name)
    orders = ((2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0))
    fortran = np.asfortranarray(oracle.raw(x)).view(x.dtype)
    check_in_turn(name, *(x.transpose(order) for order in orders), fortran)


@pytest.mark.parametrize("name", TYPES)
def test_steps_and_negative_strides(name: str) -> None:
    x = ties((13, 10, 17), name)
    keys = (
        np.s_[::-1],
        np.s_[:, ::-1],
        np.s_[..., ::-1],
        np.s_[::-1, ::-1, ::-1],
        np.s_[::2, ::3, ::5],
        np.s_[1:-1, 2:5, 3:],
        np.s_[::-2, 1::3, ::-4],
        np.s_[3],
        np.s_[:, 3],
        np.s_[..., 3],
        np.s_[:, ::-1, 3::-1],
        np.s_[5:6, :, 16:2:-3],
    )
    check_in_turn(name, *(x[key] for key in keys))


@pytest.mark.parametrize("name", TYPES)
def test_zero_strides(name: str) -> None:
    row, column = ties((1, 9), name, 1), ties((8, 1), name, 2)
    for x in (row, column):
        for shape in ((8, 9), (3, 8, 9), (2, 1, 8, 9)):
            check_all(np.broadcast_to(x, shape))
    check_all(np.broadcast_to(ties((), name, 3), (5, 6)))
    check_all(np.broadcast_to(ties((4, 1, 5), name, 4), (3, 4, 6, 5))[:, ::-1, :, ::-2])


@pytest.mark.parametrize("name", TYPES)
def test_overlapping_windows(name: str) -> None:
    dtype = oracle.dtype_named(name)
    x = oracle.raw(ties((200,), name))  # as_strided cannot name float8_e5m2
    step = x.itemsize
    windows = (
        sliding_window_view(x, 11),
        sliding_window_view(x, 11)[::-1, ::-1],
        sliding_window_view(x, 64)[::3],
        sliding_window_view(x.reshape(10, 20), (5, 4)),
        as_strided(x, (40, 5, 3), (2 * step, 3 * step, step)),
        as_strided(x[::-1], (9, 9), (-2 * step, -5 * step)),
        as_strided(x[100:], (9, 9), (-2 * step, 5 * step)),
    )
    check_in_turn(name, *(window.view(dtype) for window in windows))


def test_large_overlapping_windows() -> None:
    """Far more elements than memory behind them."""
    x = ties((3000,), "float32")
    windows = sliding_window_view(x, 1000)
    check_argreduce(windows, 1)
    check_argreduce(windows, 0, **OPPOSITE_MODES[1])
    check_argreduce(windows, None, **OPPOSITE_MODES[1])


@pytest.mark.parametrize("name", TYPES)
def test_misaligned_starts(name: str) -> None:
    """Rows that begin anywhere in a word."""
    x = ties((200,), name)
    for start in some_of(range(9)):
        check_argreduce(x[start:])
        check_argreduce(x[start::3], **OPPOSITE_MODES[1])
        check_argreduce(x[start : start + 7])
        check_argreduce(x[start : start + 187].reshape(17, 11), 1)
        check_argreduce(x[start : start + 187].reshape(17, 11), 0, **OPPOSITE_MODES[1])
        check_argreduce(x[start : start + 180].reshape(10, 18)[:, start : start + 5], 1)
        check_argreduce(x[start : start + 180].reshape(10, 18)[:, 1 : start + 2], 0)


@pytest.mark.parametrize("name", TYPES)
def test_data_at_odd_addresses(name: str) -> None:
    dtype = oracle.dtype_named(name)
    payload = ties((120,), name).tobytes()
    for odd in range(1, 8):
        x = np.frombuffer(b"\xff" * odd + payload, dtype, count=120, offset=odd)
        assert dtype.itemsize == 1 or x.flags.aligned == (odd % dtype.alignment == 0)
        check_argreduce(x)
        check_argreduce(x.reshape(10, 12), 1, **OPPOSITE_MODES[1])
        check_argreduce(x.reshape(10, 12)[::-1, 1::2], 0)


@pytest.mark.parametrize("name", ["float32", "int16", "float64", "uint8"])
def test_fields_of_packed_records(name: str) -> None:
    """Strides that are no multiple of the element's size."""
    record = np.dtype([("tag", "u1"), ("value", name), ("more", "u2")])
    table = np.frombuffer(np.random.default_rng(5).bytes(60 * record.itemsize), record).copy()
    table["value"] = ties((60,), name)
    check_argreduce(table["value"])
    for x in (
        table["value"].reshape(6, 10),
        table.reshape(6, 10)["value"].T,
        table.reshape(6, 10)["value"][::-1, ::2],
    ):
        check_all(x)


def test_real_and_imaginary_parts() -> None:
    z = np.random.default_rng(6).integers(0, 5, size=(11, 12)).astype(np.complex64)
    z.imag = np.random.default_rng(7).integers(0, 5, size=(11, 12))
    check_all(z.real)
    check_all(z.imag)


@pytest.mark.parametrize("name", [">f4", ">f2", ">f8", ">i2", ">u4", ">i8"])
def test_the_other_byte_order(name: str) -> None:
    x = ties((9, 10), name)
    assert not x.dtype.isnative
    check_all(x)
    check_all(x[::-1, ::2])


def test_read_only_input() -> None:
    x = ties((9, 10), "float32")
    x.flags.writeable = False
    check_all(x)
    check_argreduce(np.frombuffer(b"hello, world", np.uint8))


def test_lists_and_scalars() -> None:
    for sequence in ([1, 3, 2], (1.0, 3.0, 2.0), [[1, 3], [2, 3]], [True, False]):
        check_argreduce(sequence)
        check_argreduce(sequence, 0, **OPPOSITE_MODES[1])
    for number in (7, 2.5, False):
        check_argreduce(number)
    assert vkdml.argmax([[[]], [[]]], 0).shape == (1, 0)
    for scalar in (np.float32(2), np.int8(-2), np.bool_(True), oracle.dtype_named("bfloat16").type(2)):
        check_argreduce(scalar)
    check_argreduce(range(5))
    check_argreduce(memoryview(b"memory"))


def test_objects_with_array() -> None:
    class Wrapper:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
            return np.array([[1, 9, 3], [4, 9, 9]], np.float32)

    assert vkdml.argmax(Wrapper()) == 1
    assert vkdml.argmax(Wrapper(), axis=1, direction="decreasing").tolist() == [1, 2]


def test_subclasses_are_read_as_arrays(tmp_path: Any) -> None:
    x = ties((6, 7), "float32")
    check_argreduce(x.view(np.recarray), 1)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(6, 7))
    mapped[...] = x
    result = vkdml.argmax(mapped, 0)
    assert type(result) is np.ndarray
    assert np.array_equal(result, oracle.argreduce(x, 0)[0])


def test_a_small_window_of_a_large_array() -> None:
    """The span between the first and the last element is much larger than the data."""
    x = ties((2000, 1500), "uint8", 8)
    check_all(x[::500, ::499])
    check_all(x[3:5, 7:11])
    check_all(x[:, 700:701])
    check_all(x[1999:, ::-7])
    check_argreduce(x[::2, ::2], 1)
    check_argreduce(x[::2, 1::3], 0, **OPPOSITE_MODES[1])


@pytest.mark.parametrize("name", ["float32", "int8", "float16"])
def test_generated_layouts(name: str) -> None:
    """Byte strides of every sort, from a fixed seed."""
    rng = np.random.default_rng(11)
    dtype = oracle.dtype_named(name)
    n = dtype.itemsize
    for turn in some_of(range(60)):
        rank = int(rng.integers(1, 6))
        shape = tuple(int(s) for s in rng.integers(1, 8, size=rank))
        strides = tuple(int(s) * (n if turn % 4 else 1) for s in rng.integers(-40, 41, size=rank))
        layout = strategies.Layout(shape, strides, int(rng.integers(0, 9)), int(rng.integers(0, 9)))
        x = strategies.build(dtype, layout, strategies.FILLS[turn % len(strategies.FILLS)], turn)
        axes = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(0, rank + 1)])
        check_argreduce(x, axes, **OPPOSITE_MODES[turn % 2])


def test_the_input_is_never_written() -> None:
    x = ties((50, 60), "uint8")
    before = x.copy()
    for y in (x, x.T, x[::-1, ::3], x[:, 1:2]):
        for axis in (None, 0, 1):
            vkdml.argmin(y, axis, return_values=True)
    assert np.array_equal(x, before)
