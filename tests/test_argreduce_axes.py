"""argmax and argmin over any set of axes of arrays of any rank, and the shape of the result."""

from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
import strategies
from checking import OPPOSITE_MODES, check_argreduce, check_opposite_modes
from oracle import AnyArray
from thinned import some_of

import vkdml

pytestmark = pytest.mark.usefixtures("device")


def dense_ties(shape: tuple[int, ...], name: str = "float32", seed: int = 0) -> AnyArray:
    x = np.random.default_rng(seed).integers(0, 4, size=shape)
    return np.asarray(x).astype(oracle.dtype_named(name))


def axis_sets(rank: int) -> list[tuple[int, ...]]:
    return [s for k in range(rank + 1) for s in itertools.combinations(range(rank), k)]


@pytest.mark.parametrize("rank", range(1, 6))
def test_every_axis_set(rank: int) -> None:
    x = dense_ties((3, 4, 2, 5, 3)[:rank])
    for turn, axes in some_of(enumerate(axis_sets(rank))):
        mode = OPPOSITE_MODES[turn % 2]
        for keepdims in (False, True):
            check_argreduce(x, axes, keepdims=keepdims, **mode)
            check_argreduce(x.T, axes, keepdims=keepdims, **mode)
        check_argreduce(x, tuple(a - rank for a in reversed(axes)), **mode)


@pytest.mark.parametrize("rank", [6, 7, 8, 9, 12])
def test_high_ranks(rank: int) -> None:
    rng = np.random.default_rng(rank)
    shape = (2, 3, 2, 1, 2, 3, 2, 2, 1, 2, 2, 2)[:rank]
    for turn in range(24):
        name = ("float32", "uint8", "int64", "float16")[turn % 4]
        x = dense_ties(shape, name, turn).transpose(rng.permutation(rank))
        axes = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(0, rank + 1)])
        check_argreduce(x, axes, keepdims=turn % 3 == 0, **OPPOSITE_MODES[turn % 2])
    for name in ("float32", "uint8"):
        x = dense_ties(shape, name)
        check_argreduce(x, tuple(range(0, rank, 2)))
        check_argreduce(x, tuple(range(1, rank, 2)))
        check_argreduce(x[(slice(None, None, -1),) * rank], tuple(range(1, rank, 2)), **OPPOSITE_MODES[1])
        check_argreduce(x)
        for axis in (0, 1, -1, rank // 2):
            check_argreduce(x, axis)


@pytest.mark.parametrize("name", ["float32", "uint8"])
def test_rank_20_with_every_axis_of_size_2_in_any_order(name: str) -> None:
    """Nothing merges: each axis has a stride of its own, and reduced ones alternate with kept ones."""
    rng = np.random.default_rng(20)
    x = rng.integers(0, 200, size=2**20).astype(name).reshape((2,) * 20)
    check_argreduce(x, tuple(range(0, 20, 2)))
    for mode in OPPOSITE_MODES:
        y = x.transpose(rng.permutation(20))
        check_argreduce(y, None, **mode)
        check_argreduce(y, tuple(int(a) for a in rng.permutation(20)[:10]), **mode)
        backwards = y[(slice(None, None, -1),) * 7]
        check_argreduce(backwards, tuple(int(a) for a in rng.permutation(20)[:17]), **mode)
        check_argreduce(y[0, :, 1], tuple(int(a) for a in rng.permutation(18)[:3]), **mode)


def test_the_highest_rank_numpy_has() -> None:
    rank = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    shape = [1] * rank
    for axis, n in ((0, 3), (5, 4), (11, 5), (rank - 1, 6)):
        shape[axis] = n
    x = dense_ties(tuple(shape))
    for axis in (None, 0, 1, 5, (0, 11), (5, rank - 1), (), tuple(range(rank)), tuple(range(1, rank, 2))):
        check_argreduce(x, axis)
        check_argreduce(x, axis, keepdims=True, **OPPOSITE_MODES[1])


def test_rank_0() -> None:
    for x in (5, 5.0, True, np.float32(5), np.array(5, np.int8), np.array(np.nan)):
        for axis in (None, 0, -1, ()):
            for op in (vkdml.argmax, vkdml.argmin):
                index = op(x, axis)
                assert np.shape(index) == ()
                assert index == 0
                assert index.dtype == np.int64
                index, value = op(x, axis, keepdims=True, return_values=True, dtype="uint32")
                assert np.shape(index) == () == np.shape(value)
                assert index == 0
                assert index.dtype == np.uint32
                assert np.asarray(value).tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_an_empty_axis_tuple_reduces_nothing(name: str) -> None:
    dtype = oracle.dtype_named(name)
    x = strategies.elements(np.random.default_rng(0), dtype, 12, "specials").reshape(3, 4)
    for view in (x, x.T, x[::-1, ::2]):
        check_argreduce(view, (), op="argmin", direction="decreasing")
        check_argreduce(view, (), keepdims=True, dtype="int32")


def test_keepdims_keeps_every_reduced_axis_as_1() -> None:
    x = dense_ties((3, 4, 5))
    for axis, shape in (
        (None, (1, 1, 1)),
        (1, (3, 1, 5)),
        ((0, 2), (1, 4, 1)),
        ((), (3, 4, 5)),
        (-1, (3, 4, 1)),
    ):
        assert vkdml.argmax(x, axis, keepdims=True).shape == shape
        result = vkdml.argmin(x, axis, keepdims=True, return_values=True)
        assert result.indices.shape == result.values.shape == shape
        check_argreduce(x, axis, keepdims=True)


def test_a_full_reduction_by_an_axis_tuple_gives_a_scalar() -> None:
    x = dense_ties((3, 4))
    for axis in ((0, 1), (1, 0), (-1, -2)):
        assert isinstance(vkdml.argmax(x, axis), np.int64)


def test_size_1_axes_anywhere() -> None:
    for shape in ((1, 7), (7, 1), (1, 7, 1, 3, 1), (3, 1, 1, 7), (1, 1, 1)):
        x = dense_ties(shape)
        for axes in axis_sets(len(shape)):
            check_argreduce(x, axes, **OPPOSITE_MODES[1])


def test_axis_may_be_any_integer_type() -> None:
    x = dense_ties((3, 4))
    want = vkdml.argmax(x, 1)
    for axis in (np.int64(1), np.int8(-1), np.uint32(1), (np.int32(1),)):
        assert np.array_equal(vkdml.argmax(x, axis), want)
    assert np.array_equal(vkdml.argmax(x, axis=1), want)


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_non_adjacent_axes(name: str) -> None:
    """Every second type has the opposite mode."""
    x = dense_ties((5, 6, 7, 4), name)
    mode = OPPOSITE_MODES[oracle.ARGREDUCE_DTYPES.index(name) % 2]
    for axes in ((0, 2), (1, 3), (0, 3), (0, 1, 3), (3, 0), (-1, 1)):
        check_argreduce(x, axes, **mode)


def test_axis_sets_that_cross_a_tile() -> None:
    """Row-major order of the set, although the memory order is another."""
    x = dense_ties((70, 6, 300), seed=3)
    for y in (x, x.transpose(2, 0, 1), x.transpose(2, 1, 0), x[::-1, :, ::-1], np.asfortranarray(x)):
        for axes in ((0, 1), (0, 2), (1, 2), (0, 1, 2), (0,), (1,), (2,)):
            check_opposite_modes(y, axes)
