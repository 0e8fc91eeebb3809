"""Indexing by arrays of integers, take and take_along_axis on the device, compared with NumPy's."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinned import examples

import vkdml
from vkdml.runtime.memory import Memory

xp = vkdml.array_api
SHAPE = (4, 5, 6, 8)
VIEWS = {
    "compact": lambda x: x,
    "stepped": lambda x: x[::-1, :, ::2],
    "transposed": lambda x: x.transpose(3, 1, 0, 2),
    "shifted": lambda x: x[1:, 1:, 1:, 1:],
}


def host_of(dtype: str) -> np.ndarray:
    return (np.arange(np.prod(SHAPE)) % 251).astype(dtype).reshape(SHAPE)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key with an array of indices in it, some of them on the device, of shapes that fit or do not."""
    key: list[Any] = []
    for size in shape[: draw(st.integers(1, len(shape)))]:
        kind = draw(st.sampled_from(["array", "array", "array", "int", "slice"]))
        if kind == "array":
            extents = draw(st.sampled_from([(3,), (2, 3), (1, 3), (2, 1), (1,), (0,)]))
            dtype = np.dtype(draw(st.sampled_from(["i8", "i4", "u4", "u8", "i2", "u1"])))
            low = 0 if dtype.kind == "u" else -size
            numbers = draw(st.lists(st.integers(low, size - 1), min_size=6, max_size=6))
            indices = np.array(numbers[: int(np.prod(extents))], dtype).reshape(extents)
            key.append(vkdml.asarray(indices) if draw(st.booleans()) else indices)
        elif kind == "int":
            key.append(draw(st.integers(-size, size - 1)))
        else:
            key.append(
                draw(st.sampled_from([slice(None), slice(1, None), slice(None, None, -1), slice(0, 0)]))
            )
        if draw(st.integers(0, 6)) == 0:
            key.append(None)
    if draw(st.integers(0, 3)) == 0:
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
    return tuple(key)


def assert_same(got: vkdml.Array, wanted: np.ndarray) -> None:
    assert isinstance(got, vkdml.Array)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert got.numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_the_elements_are_numpy_s(dtype: str, view: str, device: vkdml.Device) -> None:
    host = VIEWS[view](host_of(dtype))
    a = VIEWS[view](vkdml.asarray(host_of(dtype)))

    @examples(25)
    @given(keys(host.shape))
    def check(key: tuple[Any, ...]) -> None:
        on_host = tuple(part.numpy() if isinstance(part, vkdml.Array) else part for part in key)
        try:
            wanted = host[on_host]
        except IndexError:  # an ellipsis has moved indices to shorter dimensions, or shapes do not fit
            with pytest.raises(IndexError):
                a[key]
            return
        got = a[key]
        assert_same(got, wanted)

    check()


def test_what_argmax_found_gathers_on_the_device(
    device: vkdml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    a = vkdml.asarray(host)
    rows = vkdml.asarray(np.arange(50))
    read: list[int] = []
    right = Memory.read
    monkeypatch.setattr(
        Memory, "read", lambda self, start, into: (read.append(into.size), right(self, start, into))[1]
    )
    best = a[rows, a.argmax(1)]
    kept = xp.take_along_axis(a, a.argmin(1, keepdims=True), axis=1)
    assert sum(read) <= 16, "indices and elements stay on the device"
    assert_same(best, host.max(1))
    assert_same(kept, host.min(1, keepdims=True))


def test_rows_move_in_whole_vectors(device: vkdml.Device) -> None:
    """Neighbours that always move together do so as wider elements, at any alignment."""
    for dtype in ("u1", "f2", "f4", "f8"):
        for columns in (3, 4, 6, 16, 32):
            host = (np.arange(20 * columns) % 250).astype(dtype).reshape(20, columns)
            a = vkdml.asarray(host)
            for rows in ([3, -1, 0], np.arange(20)[::-1]):
                for first in (0, 1, 2):
                    assert_same(a[rows, first:], np.ascontiguousarray(host[rows, first:]))
                assert_same(a[rows, 1:-1], np.ascontiguousarray(host[rows, 1:-1]))
                assert_same(a[1:][:, 2:][[0, 5]], np.ascontiguousarray(host[1:][:, 2:][[0, 5]]))
            # A kept dimension outside of the rows decides, too.
            stacks = np.arange(5 * (7 * columns + 3)).astype(dtype)
            a = vkdml.asarray(stacks)
            for pitch in range(4):
                length = 7 * columns + pitch
                host, lies = stacks[: 5 * length], a[: 5 * length]
                host = host.reshape(5, length)[:, : 7 * columns].reshape(5, 7, columns)
                got = lies.reshape((5, length))[:, : 7 * columns].reshape((5, 7, columns))[:, [6, 0, 3]]
                assert_same(got, np.ascontiguousarray(host[:, [6, 0, 3]]))


def test_what_numpy_makes_an_array_of_is_one(device: vkdml.Device) -> None:
    class Integers:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([3, 0])

    x = host_of("f4")
    for indices in (array.array("q", [3, 0]), Integers(), range(3, -1, -3), (3, 0)):
        assert_same(vkdml.asarray(x)[indices, :], x[[3, 0]])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (([0, 4],), "index 4 is out of bounds for dimension 0 with size 4; accepted are -4 to 3"),
        (([0, -5],), "index -5 is out of bounds for dimension 0 with size 4"),
        ((slice(None), [[0], [9]]), "index 9 is out of bounds for dimension 1 with size 5"),
        (([0], [5]), "index 5 is out of bounds for dimension 1 with size 5"),
        ((np.array([2**40]),), f"index {2**40} is out of bounds"),
        ((np.uint64([2**63]),), f"index {2**63} is out of bounds"),
        ((np.ones(4, bool),), r"indices of type bool; .*np.nonzero\(mask\) makes such"),
        (([1.5],), "indices of type float64; accepted are arrays of integers"),
        (([0, 1], [0, 1, 2]), r"arrays of indices of shapes \(2,\) and \(3,\) cannot be broadcast together"),
        (([0], 0, 0, 0, 0), "5 indices for an array of 4 dimensions"),
        ((..., [0], ...), "only have a single ellipsis"),
        (([0], "x"), "of type str; accepted are integers"),
        (([0], True), "of type bool; accepted are integers"),
    ],
)
def test_what_is_refused_says_why(key: Any, message: str, device: vkdml.Device) -> None:
    a = vkdml.asarray(host_of("f4"))
    with pytest.raises(IndexError, match=message):
        a[key]
    assert a[[3], [4]].shape == (1, 6, 8), "and the device still works"


def test_masked_indices_are_refused(device: vkdml.Device) -> None:
    a, masked = vkdml.asarray(host_of("f4")), np.ma.array([0, 3], mask=[False, True])
    for call in (
        lambda: a[masked],
        lambda: a[0, [masked]],
        lambda: vkdml.array_api.take(a, masked, axis=0),
        lambda: vkdml.array_api.take_along_axis(a, np.ma.array([[[[0]]]], mask=True)),
        lambda: np.take(a, masked, axis=0),
    ):
        with pytest.raises(TypeError, match=r"the mask of this MaskedArray hides elements \(1 of them\)"):
            call()
    for one in (np.ma.masked, np.ma.array(2, mask=True)):
        with pytest.raises(IndexError, match=r"of type Masked\w+; accepted are integers"):
            a[one]
    assert a[np.ma.array([0, 3])].shape == (2, *a.shape[1:])
    assert a[np.ma.array(2)].shape == a.shape[1:]


def test_indices_of_dimensions_without_elements(device: vkdml.Device) -> None:
    none = vkdml.empty((3, 0))
    assert none[[0, 2]].shape == (2, 0)
    assert none[np.empty(0, int)].shape == (0, 0)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        none[[3]]
    with pytest.raises(IndexError, match="for dimension 1 with size 0, which has no element"):
        none[:, [0]]
    assert vkdml.empty((3, 2))[[]].shape == (0, 2)


def test_dimensions_of_one_element_with_strides_beyond_any_buffer(device: vkdml.Device) -> None:
    x = np.arange(12, dtype=np.int16).reshape(3, 4)
    first = vkdml.asarray(x, device=device)[:: 2**63]
    assert_same(first[[0, -1]], x[:1][[0, -1]])
    assert_same(first[:, :: -(2**40)][[0, 0], [-1, 0]], x[:1, 3:][[0, 0], [-1, 0]])
    assert_same(xp.take_along_axis(first, vkdml.asarray([[0, 0, 0, 0]], device=device), axis=0), x[:1])
    with pytest.raises(IndexError, match="index 1 is out of bounds for dimension 0 with size 1"):
        first[[0, 1]]
    with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
        first[1 :: 2**63][[0]]


def test_indices_do_not_choose_where_to_write(device: vkdml.Device) -> None:
    a = vkdml.asarray([1, 2, 3])
    with pytest.raises(IndexError, match="arrays of indices and masks would need a copy") as caught:
        a[[0, 1]] = 9
    assert type(caught.value) is IndexError
    with pytest.raises(IndexError, match="arrays of indices and masks would need a copy"):
        vkdml.ShardedArray([a, a])[[0]]
    assert a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_and_take_along_axis(axis: int, device: vkdml.Device) -> None:
    host = host_of("f4")[0]
    a = vkdml.asarray(host)[:, :, ::-1]
    host = host[:, :, ::-1]
    indices = np.array([0, -1, 3, 3])
    for given_indices in (indices, vkdml.asarray(indices)):
        assert_same(xp.take(a, given_indices, axis=axis), np.take(host, indices, axis))
        assert np.array_equal(np.take(a, given_indices, axis), np.take(host, indices, axis))
    found = a.argmax(axis, keepdims=True)
    assert_same(xp.take_along_axis(a, found, axis=axis), np.take_along_axis(host, found.numpy(), axis))
    some = np.random.default_rng(7).integers(-5, 5, [1 if d == 1 else n for d, n in enumerate(host.shape)])
    some = some[:3] if axis == 0 else some[..., :3] if axis in (2, -1) else some
    wanted = np.take_along_axis(host, some, axis)
    assert_same(xp.take_along_axis(a, vkdml.asarray(some), axis=axis), wanted)
    assert np.array_equal(np.take_along_axis(a, vkdml.asarray(some), axis), wanted)


def test_take_refuses_what_the_standard_does(device: vkdml.Device) -> None:
    a = vkdml.asarray(host_of("f4")[0])
    with pytest.raises(np.exceptions.AxisError):
        xp.take(a, vkdml.asarray([0]), axis=3)
    with pytest.raises(ValueError, match="axis= is needed"):
        xp.take(a, vkdml.asarray([0]))
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 5"):
        xp.take(a, [5], axis=0)
    with pytest.raises(ValueError, match="accepted are as many dimensions"):
        xp.take_along_axis(a, vkdml.asarray([0]), axis=0)
    for take_along_axis in (xp.take_along_axis, np.take_along_axis):
        with pytest.raises(IndexError, match="other dimensions, the array's sizes or 1"):
            take_along_axis(a, vkdml.asarray(np.zeros((5, 2, 8), int)), axis=0)
    assert xp.take(vkdml.asarray([1, 2, 3]), vkdml.asarray([2, 0])).tolist() == [3, 1]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("size", [2**31, 2**32 - 1, 2**32, 2**32 + 3, 2**40, 2**63])
def test_indices_of_more_elements_than_32_bits_count(size: int, dtype: str, device: vkdml.Device) -> None:
    """Repeats of one element: no memory holds so many."""
    repeated = vkdml.asarray([[7, 8]], "uint8", device=device).broadcast_to((size, 2))
    held = np.iinfo(dtype)
    ends = {0, 1, size - 1, size, -1, -size, -size - 1, 2**31, -(2**31), 2**32, held.min, held.max}
    for end in sorted(end for end in ends if held.min <= end <= held.max):
        indices = np.array([[0, end]], dtype)
        if -size <= end < size:
            assert repeated[indices].tolist() == [[[7, 8], [7, 8]]]
            assert repeated[indices, [[1, 0]]].tolist() == [[8, 7]]
        else:
            with pytest.raises(
                IndexError, match=f"index {end} is out of bounds for dimension 0 with size {size}"
            ):
                repeated[indices]
