"""Hostile arguments: a named error or a right answer, nothing written, and a device that still works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import fuzz_descriptors
import layout_rules
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import vkdml
from vkdml import dml
from vkdml.common import coinciding
from vkdml.common.coinciding import elements_overlap
from vkdml.dml import validation
from vkdml.plan.layout import CopyLayout

pytestmark = pytest.mark.usefixtures("device")

NAMED = (ValueError, TypeError, MemoryError, vkdml.DeviceError)
EDGES = (0, 1, 2, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**30)


class LyingIndex:
    """Says that it is an integer, and is none."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __index__(self) -> Any:
        return self.answer

    def __repr__(self) -> str:
        return f"LyingIndex({self.answer!r})"


integers = st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)]) | st.integers(-3, 5)
no_integers = st.sampled_from(
    [
        None,
        True,
        1.0,
        0.5,
        float("nan"),
        float("inf"),
        "1",
        b"1",
        [],
        (1,),
        {},
        1j,
        np.float32(1),
        np.bool_(True),
        object(),
        LyingIndex("1"),
        LyingIndex(1.5),
        LyingIndex(None),
        LyingIndex(2**70),
        np.array([1, 2]),
    ]
)
entries = st.one_of(
    integers, integers, integers, no_integers, st.sampled_from([np.int8(-1), np.uint64(2**64 - 1)])
)
sequences = st.lists(entries, max_size=5) | st.lists(st.integers(0, 4), min_size=3, max_size=3) | no_integers
X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


ENDLESS: tuple[Callable[[Any], object], ...] = (
    lambda ones: vkdml.argmax(X, ones),
    lambda ones: vkdml.slice1(X, ones, (1, 1, 1), (1, 1, 1)),
    lambda ones: vkdml.empty(ones),
    lambda ones: vkdml.zeros(3).reshape(ones),
    lambda ones: vkdml.zeros(3).broadcast_to(ones),
    lambda ones: vkdml.zeros(3).transpose(ones),
    lambda ones: vkdml.zeros(3).moveaxis(ones, 0),
    lambda ones: vkdml.array_api.permute_dims(vkdml.zeros(3), ones),
    lambda ones: dml.BufferTensorDesc(dml.DataType.INT8, sizes=ones),
)


@pytest.mark.parametrize("call", ENDLESS)
def test_endless_sequences_and_large_arrays_are_not_read_to_their_end(call: Callable[[Any], object]) -> None:
    read = []

    def ones() -> Iterator[int]:
        for _ in range(100_000):
            read.append(1)
            yield 1

    for endless in (ones(), np.ones(100_000, np.int64)):
        with pytest.raises(ValueError, match="has more than 1000 entries; accepted is at most one for each"):
            call(endless)
    assert len(read) < 2000


@pytest.fixture(scope="module", autouse=True)
def the_device_still_works() -> Iterator[None]:
    yield
    assert vkdml.argmax([1, 3, 2]) == 1
    assert vkdml.slice1([1, 3, 2], [0], [3], [-1]).tolist() == [2, 3, 1]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or which of the named errors it raises; that must say something."""
    try:
        given = call()
    except NAMED as error:
        given = error
    assert str(given) or not isinstance(given, Exception)
    return given


@settings(max_examples=300)
@given(sequences, sequences, sequences, st.none() | sequences, st.booleans())
def test_slice1_arguments(offsets: Any, sizes: Any, strides: Any, output_sizes: Any, with_out: bool) -> None:
    out = np.full((2, 2, 2), 0x5A5A5A5A, np.uint32).view(np.float32) if with_out else None
    before = None if out is None else out.tobytes()
    given = outcome(lambda: vkdml.slice1(X, offsets, sizes, strides, output_sizes=output_sizes, out=out))
    if isinstance(given, Exception):
        assert before is None or out.tobytes() == before
    else:
        inside = X[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))]
        window = inside[tuple(slice(None, None, s) for s in strides)]
        assert np.array_equal(given, window[tuple(slice(n) for n in output_sizes or window.shape)])


@settings(max_examples=300)
@given(
    entries | sequences,
    entries | st.sampled_from(["int64", "int32", "uint32", "int8", "no type", np.float32]),
    st.sampled_from(["increasing", "decreasing"]) | entries,
    st.sampled_from(["propagate", "omit"]) | entries,
    st.booleans(),
)
def test_argmax_arguments(axis: Any, dtype: Any, direction: Any, nan_policy: Any, with_out: bool) -> None:
    out = np.full((3, 5), -7, np.int64) if with_out else None
    given = outcome(
        lambda: vkdml.argmax(X, axis, dtype=dtype, direction=direction, nan_policy=nan_policy, out=out)
    )
    if isinstance(given, Exception):
        assert out is None or (out == -7).all()
    else:
        axes = axis if axis is None or isinstance(axis, tuple | list) else int(axis)
        want, _ = oracle.argreduce(X, axes, "argmax", direction, nan_policy)
        assert np.array_equal(given, want)
        assert out is None or given is out


@st.composite
def tensors(draw: st.DrawFn) -> Callable[[], dml.BufferTensorDesc]:
    fields: dict[str, Any] = {"sizes": draw(sequences)}
    for name, strategy in (
        ("strides", st.none() | sequences),
        ("dimension_count", entries),
        ("total_tensor_size_in_bytes", entries),
        ("guaranteed_base_offset_alignment", entries),
        ("flags", st.sampled_from(list(dml.TensorFlags)) | entries),
    ):
        if draw(st.integers(0, 3)) == 0:
            fields[name] = draw(strategy)
    data_type = draw(st.sampled_from(list(dml.DataType)) if draw(st.integers(0, 9)) else entries)
    return lambda: dml.BufferTensorDesc(data_type, **fields)


@settings(max_examples=300)
@given(
    tensors(), tensors(), sequences, sequences, sequences, st.sampled_from(["2_1", "3_0", "4_1"]) | entries
)
def test_descriptors(
    input: Callable[[], Any], output: Callable[[], Any], a: Any, b: Any, c: Any, level: Any
) -> None:
    def validated(desc: Callable[[Any, Any], Any]) -> Any:
        made = desc(input(), output())
        dml.validate(made, level)
        return made

    for desc in (
        lambda x, y: dml.ArgMinOperatorDesc(x, y, a),
        lambda x, y: dml.ArgMaxOperatorDesc(x, y, a, axis_count=b),
        lambda x, y: dml.ReduceOperatorDesc(dml.ReduceFunction.ARGMAX, x, y, a),
        lambda x, y: dml.Slice1OperatorDesc(x, y, a, b, c),
    ):
        outcome(lambda desc=desc: validated(desc))


numbers = st.sampled_from([1, 2, 3, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


@settings(max_examples=300)
@given(st.lists(st.tuples(numbers, st.sampled_from([0, *EDGES[:7]])), min_size=1, max_size=8), st.data())
def test_descriptors_of_great_tensors_are_decided_at_once_and_their_buffers_are_asked_for(
    dims: list[tuple[int, int]], data: st.DataObject
) -> None:
    sizes, strides = zip(*dims, strict=True)
    axis = data.draw(st.integers(0, len(sizes) - 1))
    kept = tuple(1 if a == axis else size for a, size in enumerate(sizes))
    x = dml.BufferTensorDesc(dml.DataType.UINT8, sizes=sizes, strides=strides)
    y = dml.BufferTensorDesc(
        dml.DataType.UINT32, sizes=kept, strides=data.draw(st.sampled_from([None, strides]))
    )
    desc = dml.ArgMaxOperatorDesc(x, y, (axis,))
    room = np.zeros(64, np.uint8)
    given = outcome(lambda: dml.run(desc, bytes(64), output=room.data))
    if isinstance(given, Exception):
        assert not room.any()
    else:
        assert x.total_tensor_size_in_bytes <= 64
        assert y.total_tensor_size_in_bytes <= 64


dimensions = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), min_size=1, max_size=4)


def written(dims: list[tuple[int, int]]) -> dml.OperatorDesc:
    """A descriptor that writes a tensor of such sizes and strides."""
    sizes, strides = zip(*dims, strict=True)
    x = dml.BufferTensorDesc(dml.DataType.UINT8, sizes=sizes)
    y = dml.BufferTensorDesc(dml.DataType.UINT8, sizes=sizes, strides=strides)
    return dml.Slice1OperatorDesc(x, y, (0,) * len(sizes), sizes, (1,) * len(sizes))


@settings(max_examples=300)
@given(dimensions)
def test_strides_are_judged_alike_where_the_search_for_coinciding_elements_is_given_up(
    dims: list[tuple[int, int]],
) -> None:
    searched = outcome(lambda: dml.validate(written(dims)))
    validation._validate.cache_clear()
    with mock.patch.object(coinciding, "_SEARCH_STEPS", 0):
        given = outcome(lambda: dml.validate(written(dims)))
        assert str(given) == str(searched)
    validation._validate.cache_clear()
    with mock.patch.multiple(coinciding, _SEARCH_STEPS=0, _SUMS=0):
        given = outcome(lambda: dml.validate(written(dims)))
        assert str(given) == str(searched) or "too much to tell" in str(given)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ((16, 13, 13, 10, 16, 8, 10), (44983446, 12740600, 20358717, 19069613, 39431867, 33511621, 33909024)),
        (
            (11, 10, 5, 10, 8, 9, 15, 7),
            (32105169, 50120344, 50175063, 52972828, 58440688, 52602488, 43163123, 1),
        ),
        ((877, 868, 789), (822088, 233813, 1668895)),
    ],
)
def test_interleaved_strides_are_judged_in_time(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    started = time.perf_counter()
    outcome(lambda: dml.validate(written(list(zip(sizes, strides, strict=True)))))
    assert time.perf_counter() - started < 15  # without a bound, minutes


def test_random_descriptors_and_layouts_obey_the_slow_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz_descriptors.main(["--seconds", "1", "--seed", "0"]) == 0
    said = capsys.readouterr().out
    assert "no failure" in said
    for name in fuzz_descriptors.PROPERTIES:
        assert f"{name}: " in said


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (mock.patch.object(dml, "validate", return_value=None), "validate"),
        (
            mock.patch.object(layout_rules, "canonical_copy", return_value=CopyLayout((), 0, 0)),
            "canonical_copy",
        ),
    ],
)
def test_random_cases_find_a_planted_fault(fault: Any, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fault:
        assert fuzz_descriptors.main(["--seconds", "1", "--seed", "0", "--only", name]) == 1
    captured = capsys.readouterr()
    assert "AssertionError: " in captured.err
    assert f"again: python tests/fuzz_descriptors.py --only {name} --seed 0" in captured.out


LIES: dict[str, Any] = {
    "negative shape": {"shape": (-1,), "typestr": "<f4", "data": bytes(64), "version": 3},
    "shape of floats": {"shape": (1.5,), "typestr": "<f4", "data": bytes(64), "version": 3},
    "shape of 2^63": {"shape": (2**63,), "typestr": "<f4", "data": bytes(64), "version": 3},
    "product beyond 64 bits": {"shape": (2**40, 2**40), "typestr": "<f4", "data": bytes(64), "version": 3},
    "no such type": {"shape": (1,), "typestr": "<q9", "data": bytes(64), "version": 3},
    "objects": {"shape": (1,), "typestr": "|O", "data": bytes(64), "version": 3},
    "strides of another rank": {
        "shape": (4,), "typestr": "<f4", "data": bytes(64), "strides": (4, 4), "version": 3,
    },
    "no shape": {"typestr": "<f4", "data": bytes(64), "version": 3},
    "no dictionary": 7,
}  # fmt: skip


class LyingInterface:
    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


class LyingArray:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.answer


class LyingLength:
    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length

    def __getitem__(self, index: int) -> float:
        raise IndexError(index)


def refused_everywhere(x: Any) -> None:
    out = np.full((), -7, np.int64)
    for call in (
        lambda: vkdml.argmax(x),
        lambda: vkdml.argmin(x, 0, return_values=True),
        lambda: vkdml.argmax(x, out=out),
        lambda: vkdml.slice1(x, (0,), (1,), (1,)),
        lambda: vkdml.asarray(x),
    ):
        with pytest.raises((*NAMED, OverflowError)):  # NumPy's own for what is no size at all
            call()
    assert out == -7


@pytest.mark.parametrize("lie", LIES)
def test_objects_whose_array_interface_lies(lie: str) -> None:
    refused_everywhere(LyingInterface(LIES[lie]))


@pytest.mark.parametrize(
    "answer", [None, 7, [1, 2], "text", object()], ids=lambda answer: type(answer).__name__
)
def test_objects_whose_array_method_lies(answer: Any) -> None:
    refused_everywhere(LyingArray(answer))


@pytest.mark.parametrize("length", [-1, 2**63, 2**100, 1.5, None])
def test_sequences_whose_length_lies(length: Any) -> None:
    refused_everywhere(LyingLength(length))


@pytest.mark.parametrize("repeats", [1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**61, 2**63 // 3])
def test_great_sizes_of_few_elements_are_counted_right_or_refused(repeats: int) -> None:
    x = np.broadcast_to(np.int8([3, 9, 9]), (repeats, 3))
    assert vkdml.argmax(x) == 1
    assert vkdml.argmax(x, direction="decreasing") == (repeats - 1) * 3 + 2
    assert vkdml.slice1(x, (repeats - 1, 0), (1, 3), (-(2**62), 2)).tolist() == [[3, 9]]
    if repeats * 3 > 2**32:
        with pytest.raises(ValueError, match=f"{repeats * 3}"):
            vkdml.argmax(x, dtype="uint32")
    if repeats >= 2**40:
        with pytest.raises(MemoryError):
            vkdml.slice1(x, (0, 0), (repeats, 3), (1, 1))
        with pytest.raises(MemoryError):
            vkdml.argmax(x, axis=1)


OVERLAPPING = {
    "one place for all": ((3, 4), (0, 0)),
    "rows in one place": ((3, 4), (0, 8)),
    "columns in one place": ((3, 4), (8, 0)),
    "sliding": ((3, 4), (8, 8)),
    "interleaved": ((3, 4), (24, 16)),
    "bytes shared by neighbours": ((3, 4), (64, 4)),
    "mirrored onto itself": ((3, 4), (-8, 8)),
}
APART = {
    "every second": ((3, 4), (64, 16)),
    "transposed": ((3, 4), (8, 24)),
    "mirrored": ((3, 4), (-32, -8)),
    "interleaved apart": ((3, 4), (24, 72)),
    "threes and fours": ((3, 2), (32, 24)),
    "a single row": ((1, 4), (0, 8)),
}


def strided(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    buffer = np.full(64, -7, np.int64)
    low = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if stride < 0)
    return as_strided(buffer.view(np.uint8)[-low:].view("V1")[:256].view(np.int64), shape, strides), buffer


@pytest.mark.parametrize("name", OVERLAPPING)
def test_an_out_whose_elements_overlap_is_refused_and_not_written(name: str) -> None:
    shape, strides = OVERLAPPING[name]
    out, buffer = strided(shape, strides)
    x = np.random.default_rng(0).integers(0, 9, (*shape, 5))
    fault = rf" of shape .* strides of \({strides[0]}, {strides[1]}\) bytes.* elements overlap; accepted are"
    with pytest.raises(ValueError, match="out" + fault):
        vkdml.argmax(x, axis=2, out=out)
    with pytest.raises(ValueError, match="out for the values" + fault):
        vkdml.argmin(x, axis=2, return_values=True, out=(np.zeros(shape, np.int64), out))
    with pytest.raises(ValueError, match="out" + fault):
        vkdml.slice1(x[..., 0], (0, 0), shape, (1, 1), out=out)
    assert (buffer == -7).all()


@pytest.mark.parametrize("name", APART)
def test_an_out_whose_elements_are_apart_is_written(name: str) -> None:
    shape, strides = APART[name]
    out, buffer = strided(shape, strides)
    x = np.random.default_rng(0).integers(0, 9, (*shape, 5))
    vkdml.argmax(x, axis=2, out=out)
    assert np.array_equal(out, x.argmax(axis=2))
    assert (buffer == -7).sum() == buffer.size - out.size
    vkdml.slice1(x[..., 0], (0, 0), shape, (1, 1), out=out)
    assert np.array_equal(out, x[..., 0])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-20, 20)), max_size=4), st.sampled_from([1, 2, 4]))
def test_elements_overlap_exactly_when_two_share_a_byte(dims: list[tuple[int, int]], itemsize: int) -> None:
    shape, strides = zip(*dims, strict=True) if dims else ((), ())
    buffer = np.zeros(1024, np.uint8)
    x = np.ndarray(shape, f"V{itemsize}", buffer.data, 512, strides)
    places = np.zeros(1, np.int64)
    for size, stride in dims:
        places = np.add.outer(places, np.arange(size) * stride).reshape(-1)
    covered = np.add.outer(places, np.arange(itemsize)).reshape(-1)
    assert elements_overlap(x) == (np.unique(covered).size < covered.size)
