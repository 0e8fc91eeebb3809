"""vkdml.dml.run: the documentation's examples, buffers read and written through strides, what it refuses."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import oracle
import pytest
from dml_tensors import FUNCTIONS, layouts, tensor
from hypothesis import given
from hypothesis import strategies as st
from thinned import examples

import vkdml
from vkdml import dml
from vkdml.dml import AxisDirection, DataType, execution

needs_device = pytest.mark.usefixtures("device")

INCREASING, DECREASING = AxisDirection.INCREASING, AxisDirection.DECREASING
POISON = 0xA5


def as_float32(elements: Any) -> oracle.AnyArray:
    return np.array(elements, np.float32)


def poisoned(size: int) -> oracle.AnyArray:
    return np.full(size, POISON, np.uint8)


REDUCED = as_float32(
    [[1, 2, 3],
     [3, 0, 4],
     [2, 5, 2]]
)  # fmt: skip
REDUCTIONS = {
    ("ARGMIN", "columns"): ((0,), [[0, 1, 2]]),
    ("ARGMIN", "rows"): ((1,), [[0], [1], [0]]),
    ("ARGMIN", "all axes"): ((0, 1), [[4]]),
    ("ARGMAX", "columns"): ((0,), [[1, 2, 1]]),
    ("ARGMAX", "rows"): ((1,), [[2], [2], [1]]),
    ("ARGMAX", "all axes"): ((0, 1), [[7]]),
}


@needs_device
@pytest.mark.parametrize(("operator", "example"), REDUCTIONS)
def test_examples_of_the_reductions(operator: str, example: str) -> None:
    axes, expected = REDUCTIONS[operator, example]
    x, y = tensor("FLOAT32", 3, 3), tensor("UINT32", *np.shape(expected))
    results = [
        dml.run(FUNCTIONS[operator](x, y, axes, INCREASING), REDUCED),
        dml.run(dml.ReduceOperatorDesc(dml.ReduceFunction[operator], x, y, axes), REDUCED),
    ]
    for result in results:
        assert result.dtype == np.uint32
        assert result.tolist() == expected


@needs_device
@pytest.mark.parametrize(
    ("operator", "elements", "direction", "expected"),
    [
        ("ARGMIN", (1, 2, 3, 2, 1), INCREASING, 0),
        ("ARGMIN", (1, 2, 3, 2, 1), DECREASING, 4),
        ("ARGMAX", (3, 2, 1, 2, 3), INCREASING, 0),
        ("ARGMAX", (3, 2, 1, 2, 3), DECREASING, 4),
    ],
)
def test_remarks_on_the_axis_direction(
    operator: str, elements: tuple[int, ...], direction: AxisDirection, expected: int
) -> None:
    desc = FUNCTIONS[operator](tensor("FLOAT32", 5), tensor("UINT32", 1), (0,), direction)
    assert dml.run(desc, as_float32(elements)).tolist() == [expected]


SLICED = as_float32(
    [[[[ 1,  2,  3,  4],
       [ 5,  6,  7,  8],
       [ 9, 10, 11, 12],
       [13, 14, 15, 16]]]]
)  # fmt: skip


@needs_device
@pytest.mark.parametrize("feature_level", ["2_1", 0x3000, "DML_FEATURE_LEVEL_6_4"])
@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        ((1, 1, 2, 2), [[[[2, 4], [10, 12]]]]),
        ((1, 1, -2, 2), [[[[14, 16], [6, 8]]]]),
    ],
    ids=["positive strides", "negative strides"],
)
def test_examples_of_slice1(strides: tuple[int, ...], expected: Any, feature_level: Any) -> None:
    def desc(*output_sizes: int) -> dml.Slice1OperatorDesc:
        x, y = tensor("FLOAT32", 1, 1, 4, 4), tensor("FLOAT32", *output_sizes)
        return dml.Slice1OperatorDesc(
            x,
            y,
            input_window_offsets=(0, 0, 0, 1),
            input_window_sizes=(1, 1, 4, 3),
            input_window_strides=strides,
        )

    result = dml.run(desc(1, 1, 2, 2), SLICED, feature_level=feature_level)
    assert result.dtype == np.float32
    assert result.tolist() == expected
    # 1 <= OutputSizes[i] <= MaxCopiedElements[i]: the output need not take all that the window holds.
    for rows, columns in ((1, 1), (1, 2), (2, 1)):
        part = dml.run(desc(1, 1, rows, columns), SLICED, feature_level=feature_level)
        assert part.tolist() == np.array(expected)[:, :, :rows, :columns].tolist()


@needs_device
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_reduce_is_the_operator_with_increasing_direction(operator: str) -> None:
    elements = np.random.default_rng(7).integers(0, 4, (3, 4, 5, 2)).astype(np.float32)  # ties in every row
    x, y = tensor("FLOAT32", 3, 4, 5, 2), tensor("UINT32", 3, 1, 5, 1)
    reduced = dml.run(dml.ReduceOperatorDesc(dml.ReduceFunction[operator], x, y, (3, 1)), elements)
    increasing = dml.run(FUNCTIONS[operator](x, y, (1, 3), INCREASING), elements)
    decreasing = dml.run(FUNCTIONS[operator](x, y, (1, 3), DECREASING), elements)
    np.testing.assert_array_equal(reduced, increasing)
    assert not np.array_equal(reduced, decreasing)


@needs_device
def test_nans_lose() -> None:
    x, y = tensor("FLOAT32", 2, 3), tensor("INT32", 2, 1)
    elements = as_float32([[np.nan, 2, 1], [np.nan, np.nan, np.nan]])
    assert dml.run(dml.ArgMaxOperatorDesc(x, y, (1,)), elements).tolist() == [[1], [0]]
    assert dml.run(dml.ArgMinOperatorDesc(x, y, (1,), DECREASING), elements).tolist() == [[2], [2]]
    reduce = dml.ReduceOperatorDesc(dml.ReduceFunction.ARGMIN, x, y, (1,))
    assert dml.run(reduce, elements).tolist() == [[2], [0]]


@needs_device
@pytest.mark.parametrize("data_type", ["INT64", "INT32", "UINT64", "UINT32"])
def test_result_has_the_output_tensor_s_type_and_sizes(data_type: str) -> None:
    result = dml.run(
        dml.ArgMaxOperatorDesc(tensor("INT8", 4, 3), tensor(data_type, 1, 3), (0,)), bytes(range(12))
    )
    assert result.dtype == DataType[data_type].dtype
    assert result.tolist() == [[3, 3, 3]]


@needs_device
@pytest.mark.parametrize(
    "wrap",
    [
        lambda a: a,
        lambda a: a.tobytes(),
        lambda a: bytearray(a.tobytes()),
        lambda a: memoryview(a),
        lambda a: array.array("f", a.ravel().tolist()),
        lambda a: a.reshape(-1).view(np.uint8),
        lambda a: np.asfortranarray(a),
        lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
        lambda a: np.concatenate([a.reshape(-1).view(np.uint8), poisoned(5)]),
    ],
    ids=[
        *("array", "bytes", "bytearray", "memoryview", "array.array", "uint8 array"),
        *("transposed array", "reversed array", "buffer with room to spare"),
    ],
)
def test_forms_of_input(wrap: Any) -> None:
    desc = dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3), tensor("UINT32", 3, 1), (1,))
    assert dml.run(desc, wrap(REDUCED.copy())).tolist() == [[0], [1], [0]]


@needs_device
def test_padding_in_the_input_is_not_read() -> None:
    padded = np.full((3, 4), -np.inf, np.float32)
    padded[:, :3] = REDUCED
    desc = dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3, strides=(4, 1)), tensor("UINT32", 1, 1), (0, 1))
    assert desc.input_tensor.total_tensor_size_in_bytes == 44  # up to the last element, not to the row's end
    assert dml.run(desc, padded.tobytes()).tolist() == [[4]]
    assert dml.run(desc, padded.tobytes()[:44]).tolist() == [[4]]


@needs_device
def test_zero_strides_repeat_the_input() -> None:
    row = as_float32([3, 1, 2]).tobytes()
    x = tensor("FLOAT32", 4, 3, strides=(0, 1))
    argmin = dml.ArgMinOperatorDesc(x, tensor("UINT32", 4, 1), (1,))
    assert dml.run(argmin, row).tolist() == [[1]] * 4
    last = dml.ArgMinOperatorDesc(x, tensor("UINT32", 1, 1), (0, 1), DECREASING)
    assert dml.run(last, row).tolist() == [[10]]
    slice1 = dml.Slice1OperatorDesc(x, tensor("FLOAT32", 2, 2), (0, 0), (4, 3), (3, -2))
    assert dml.run(slice1, row).tolist() == [[2, 3]] * 2


@needs_device
def test_an_array_that_fits_both_ways_is_the_array() -> None:
    elements = np.array([3, 1, 2, 0], np.uint8)
    desc = dml.ArgMinOperatorDesc(tensor("UINT8", 4, strides=(0,)), tensor("UINT32", 1), (0,), DECREASING)
    assert dml.run(desc, elements).tolist() == [3]
    slice1 = dml.Slice1OperatorDesc(desc.input_tensor, tensor("UINT8", 4), (0,), (4,), (1,))
    assert dml.run(slice1, elements).tolist() == [3, 1, 2, 0]
    assert dml.run(slice1, elements.data).tolist() == [3, 3, 3, 3]


@needs_device
def test_output_strides_make_a_new_buffer() -> None:
    y = tensor("UINT32", 3, 1, strides=(4, 1), total_tensor_size_in_bytes=64)
    result = dml.run(dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3), y, (1,)), REDUCED)
    assert result.tolist() == [[0], [1], [0]]
    assert result.strides == (16, 4)
    buffer: Any = result.base
    assert memoryview(buffer).nbytes == 64


OUTPUTS: dict[str, tuple[dml.OperatorDesc, Any]] = {
    "ARGMAX": (
        dml.ArgMaxOperatorDesc(tensor("FLOAT32", 3, 3), tensor("INT64", 3, 1, strides=(3, 0)), (1,)),
        [[2], [2], [1]],
    ),
    "REDUCE": (
        dml.ReduceOperatorDesc(
            dml.ReduceFunction.ARGMIN, tensor("FLOAT32", 3, 3), tensor("UINT32", 1, 3, strides=(7, 2)), (0,)
        ),
        [[0, 1, 2]],
    ),
    "SLICE1": (
        dml.Slice1OperatorDesc(
            tensor("FLOAT32", 3, 3), tensor("FLOAT32", 2, 2, strides=(1, 5)), (0, 0), (3, 3), (-2, 1)
        ),
        [[2, 5], [1, 2]],
    ),
    "packed": (
        dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3), tensor("UINT32", 1, 3), (0,)),
        [[0, 1, 2]],
    ),
}


@needs_device
@pytest.mark.parametrize("spare", [0, 1, 64])
@pytest.mark.parametrize("case", OUTPUTS)
def test_output_buffer_keeps_the_bytes_beside_its_elements(case: str, spare: int) -> None:
    desc, expected = OUTPUTS[case]
    y = desc.output_tensor
    buffer = poisoned(y.total_tensor_size_in_bytes + spare)
    result = dml.run(desc, REDUCED, output=buffer)
    assert np.shares_memory(result, buffer)
    assert result.tolist() == expected

    untouched = np.ones(buffer.size, bool)
    itemsize = y.data_type.size_in_bytes
    strides = [i // itemsize for i in result.strides]
    for coordinates in np.ndindex(*y.sizes):
        first = itemsize * sum(i * stride for i, stride in zip(coordinates, strides, strict=True))
        untouched[first : first + itemsize] = False
    assert np.all(buffer[untouched] == POISON)
    assert np.any(untouched) or case == "packed"


@needs_device
@pytest.mark.parametrize("data_type", ["INT8", "FLOAT16"])
def test_narrow_elements_of_the_output_leave_their_neighbours(data_type: str) -> None:
    elements = np.arange(1, 13).astype(DataType[data_type].dtype).reshape(3, 4)
    y = tensor(data_type, 3, 2, strides=(5, 2))
    desc = dml.Slice1OperatorDesc(tensor(data_type, 3, 4), y, (0, 1), (3, 3), (-1, 2))
    buffer = poisoned(y.total_tensor_size_in_bytes + 3)
    result = dml.run(desc, elements, output=buffer)
    np.testing.assert_array_equal(result, elements[::-1, 1::2])
    result[...] = np.full(1, POISON * 0x0101, np.uint16).view(result.dtype)[0]
    assert np.all(buffer == POISON)


@needs_device
def test_output_may_be_bytes_or_the_array_itself() -> None:
    desc = dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3), tensor("UINT32", 1, 3), (0,))
    whole = np.full((3, 3), POISON, np.uint32)
    result = dml.run(desc, REDUCED, output=whole[1:2, ::-1])
    assert np.shares_memory(result, whole)
    assert whole.tolist() == [[POISON] * 3, [2, 1, 0], [POISON] * 3]
    buffer = bytearray(16)
    dml.run(desc, REDUCED, output=memoryview(buffer)[4:])
    assert np.frombuffer(buffer, np.uint32).tolist() == [0, 0, 1, 2]


ARGMIN = dml.ArgMinOperatorDesc(tensor("FLOAT32", 2, 3), tensor("UINT32", 2, 1, strides=(4, 1)), (1,))
EXPECTED_INPUT = (
    "accepted: an array of float32 with shape (2, 3), or a bytes-like object or 1-D array of uint8 "
    "of at least 24 contiguous bytes"
)
EXPECTED_OUTPUT = (
    "accepted: an array of uint32 with shape (2, 1), or a bytes-like object or 1-D array of uint8 "
    "of at least 20 contiguous bytes"
)


@pytest.mark.parametrize(
    ("data", "error", "fault"),
    [
        (np.zeros((2, 3)), TypeError, "an array of float64 with shape (2, 3)"),
        (np.zeros((2, 3), ">f4"), TypeError, "an array of >f4 with shape (2, 3)"),
        (np.zeros((3, 2), np.float32), ValueError, "an array of float32 with shape (3, 2)"),
        (np.zeros((4, 6), np.uint8), TypeError, "an array of uint8 with shape (4, 6)"),
        (np.zeros(23, np.uint8), ValueError, "a buffer of 23 bytes"),
        (np.zeros(48, np.uint8)[::2], ValueError, "a buffer of 24 bytes that are not contiguous"),
        (bytes(20), ValueError, "a buffer of 20 bytes"),
        ([[1.0, 2.0, 3.0]] * 2, TypeError, "a list"),
        (None, TypeError, "None"),
    ],
)
def test_input_is_refused(data: Any, error: type[Exception], fault: str) -> None:
    with pytest.raises(error) as raised:
        dml.run(ARGMIN, data)
    assert str(raised.value) == f"ARGMIN: input is {fault}; {EXPECTED_INPUT}"


@pytest.mark.parametrize(
    ("data", "error", "fault"),
    [
        (np.zeros((2, 1), np.int64), TypeError, f"an array of int64 with shape (2, 1); {EXPECTED_OUTPUT}"),
        (np.zeros(2, np.uint32), ValueError, f"an array of uint32 with shape (2,); {EXPECTED_OUTPUT}"),
        (bytearray(19), ValueError, f"a buffer of 19 bytes; {EXPECTED_OUTPUT}"),
        (bytes(20), ValueError, "read-only; accepted: a writeable array or buffer"),
        (
            np.broadcast_to(np.uint32(0), (2, 1)),
            ValueError,
            "read-only; accepted: a writeable array or buffer",
        ),
    ],
)
def test_output_is_refused(data: Any, error: type[Exception], fault: str) -> None:
    with pytest.raises(error) as raised:
        dml.run(ARGMIN, np.zeros((2, 3), np.float32), output=data)
    assert str(raised.value) == f"ARGMIN: output is {fault}"


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_mask_is_not_dropped(side: str, dtype: type) -> None:
    masked = np.ma.zeros((2, 3) if dtype is np.float32 else 24, dtype)
    masked[0] = np.ma.masked
    arguments = {"input": np.zeros((2, 3), np.float32), side: masked}
    with pytest.raises(
        TypeError, match=rf"^ARGMIN: {side} has [13] masked elements, .*; accepted: an array of "
    ):
        dml.run(ARGMIN, **arguments)


def test_the_descriptor_is_validated_first_and_nothing_is_written() -> None:
    desc = dml.ArgMinOperatorDesc(tensor("INT64", 4), tensor("UINT32", 1), (0,))
    buffer = poisoned(4)
    with pytest.raises(
        ValueError, match=r"^ARGMIN at feature level 3_0: input_tensor\.data_type is INT64; accepted: "
    ):
        dml.run(desc, None, output=buffer, feature_level="3_0")
    assert np.all(buffer == POISON)


def test_the_call_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DirectML operator is one call of a public function, on the very memory it was given."""
    calls: list[tuple[str, Any, Any]] = []
    for name in ("argmin", "argmax", "slice1"):
        monkeypatch.setattr(
            execution,
            name,
            lambda *args, name=name, **kwargs: calls.append((name, args, kwargs)),
            raising=False,
        )
    elements = np.zeros((2, 3), np.float32)
    dml.run(ARGMIN, elements, output=bytearray(20), device="somewhere")
    [(name, (x,), kwargs)] = calls
    assert name == "argmin"
    assert x is elements
    assert kwargs.pop("out").strides == (16, 4)
    assert kwargs == {
        "axis": (1,),
        "keepdims": True,
        "dtype": np.dtype(np.uint32),
        "direction": "increasing",
        "nan_policy": "omit",
        "device": "somewhere",
    }
    calls.clear()
    slice1 = dml.Slice1OperatorDesc(tensor("FLOAT32", 2, 3), tensor("FLOAT32", 2, 1), (0, 1), (2, 2), (1, -1))
    dml.run(slice1, elements.tobytes(), device="somewhere")
    [(name, (x, *window), kwargs)] = calls
    assert (name, window) == ("slice1", [(0, 1), (2, 2), (1, -1)])
    np.testing.assert_array_equal(x, elements)
    assert kwargs == {"output_sizes": (2, 1), "out": None, "device": "somewhere"}


@needs_device
@examples(60)
@given(st.data())
def test_random_descriptors_agree_with_the_oracle(data: st.DataObject) -> None:
    sizes = tuple(
        data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=8).filter(lambda s: np.prod(s) < 3000))
    )
    data_type = data.draw(st.sampled_from(["FLOAT32", "FLOAT16", "INT8", "UINT16", "INT64"]))
    dims = range(len(sizes))
    strides = data.draw(layouts(sizes))
    if strides is not None:
        strides = tuple(data.draw(st.sampled_from([0, stride, stride])) for stride in strides)
    x = tensor(data_type, *sizes, strides=strides)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    buffer = rng.integers(0, 9, x.total_tensor_size_in_bytes).astype(x.data_type.dtype).view(np.uint8)
    packed = tuple(int(np.prod(sizes[dim + 1 :])) for dim in dims)
    elements = np.ndarray(
        sizes, x.data_type.dtype, buffer, strides=[s * x.data_type.size_in_bytes for s in strides or packed]
    )
    desc: dml.OperatorDesc
    if data.draw(st.booleans()):
        axes = tuple(data.draw(st.sets(st.sampled_from(dims))))
        output_sizes = tuple(1 if dim in axes else sizes[dim] for dim in dims)
        y = tensor("UINT32", *output_sizes, strides=data.draw(layouts(output_sizes)))
        operator, direction = (
            data.draw(st.sampled_from([*FUNCTIONS])),
            data.draw(st.sampled_from(AxisDirection)),
        )
        desc = FUNCTIONS[operator](x, y, axes, direction)
        expected, _ = oracle.argreduce(
            elements, axes, operator.lower(), direction.name.lower(), "omit", True, "uint32"
        )
    else:
        offsets = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)
        window = tuple(data.draw(st.integers(1, sizes[dim] - offsets[dim])) for dim in dims)
        steps = tuple(data.draw(st.integers(1, 3)) * data.draw(st.sampled_from([1, -1])) for _ in dims)
        most = oracle.max_copied_elements(window, steps)
        output_sizes = tuple(data.draw(st.integers(1, most[dim])) for dim in dims)
        y = tensor(data_type, *output_sizes, strides=data.draw(layouts(output_sizes)))
        desc = dml.Slice1OperatorDesc(x, y, offsets, window, steps)
        expected = oracle.slice1(elements, offsets, window, steps, output_sizes)
    result = dml.run(desc, buffer.data)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


# ---- arrays on a device -----------------------------------------------------------------------------------


@needs_device
@pytest.mark.parametrize("case", OUTPUTS)
def test_arrays_in_arrays_out(case: str) -> None:
    desc, expected = OUTPUTS[case]
    x = vkdml.asarray(REDUCED)
    result = dml.run(desc, x)
    assert isinstance(result, vkdml.Array)
    assert result.device is x.device
    assert result.dtype == desc.output_tensor.data_type.dtype
    assert result.tolist() == expected
    wanted = desc.output_tensor.strides
    if wanted is not None:
        assert result.strides == tuple(stride * result.itemsize for stride in wanted)


@needs_device
@pytest.mark.parametrize("case", OUTPUTS)
@pytest.mark.parametrize("form", ["array", "view", "buffer"])
def test_forms_of_input_on_a_device(case: str, form: str) -> None:
    desc, expected = OUTPUTS[case]
    x = {
        "array": vkdml.asarray(REDUCED),
        "view": vkdml.asarray(np.ascontiguousarray(REDUCED.T[:, ::-1]))[:, ::-1].T,
        "buffer": vkdml.asarray(np.concatenate([poisoned(4), REDUCED.reshape(-1).view(np.uint8)]))[4:],
    }[form]
    assert dml.run(desc, x).tolist() == expected


@needs_device
def test_a_device_buffer_is_read_through_the_tensor_s_strides() -> None:
    x = tensor("FLOAT16", 4, 3, strides=(0, 2))
    desc = dml.ArgMinOperatorDesc(x, tensor("UINT32", 4, 1), (1,))
    buffer = vkdml.asarray(np.array([3, -9, 1, -9, 2, -9], np.float16).view(np.uint8))
    assert dml.run(desc, buffer).tolist() == [[1]] * 4


@needs_device
@pytest.mark.parametrize("spare", [0, 1, 64])
@pytest.mark.parametrize("case", OUTPUTS)
def test_output_buffer_on_a_device_is_what_the_host_s_is(case: str, spare: int) -> None:
    desc, expected = OUTPUTS[case]
    buffer = poisoned(desc.output_tensor.total_tensor_size_in_bytes + spare)
    on_device = vkdml.asarray(buffer)
    result = dml.run(desc, vkdml.asarray(REDUCED), output=on_device)
    assert result.tolist() == expected
    dml.run(desc, REDUCED, output=buffer)
    np.testing.assert_array_equal(on_device.numpy(), buffer)


@needs_device
def test_output_may_be_a_view_of_an_array_on_the_device() -> None:
    desc = dml.ArgMinOperatorDesc(tensor("FLOAT32", 3, 3), tensor("UINT32", 1, 3), (0,))
    whole = vkdml.asarray(np.full((3, 3), POISON, np.uint32))
    row = whole[1:2, ::-1]
    assert dml.run(desc, vkdml.asarray(REDUCED), output=row) is row
    assert whole.tolist() == [[POISON] * 3, [2, 1, 0], [POISON] * 3]


@needs_device
def test_an_output_that_overlaps_the_input_on_a_device_takes_what_was_there() -> None:
    x = tensor("FLOAT32", 3, 3)
    desc = dml.Slice1OperatorDesc(x, x, (0, 0), (3, 3), (-1, -1))
    elements = vkdml.asarray(REDUCED)
    dml.run(desc, elements, output=elements)
    np.testing.assert_array_equal(elements.numpy(), REDUCED[::-1, ::-1])


ON_DEVICE_INPUT = (
    "accepted: a vkdml.Array of float32 with shape (2, 3), or a vkdml.Array of uint8 "
    "of at least 24 contiguous bytes"
)
ON_DEVICE_OUTPUT = (
    "accepted: a vkdml.Array of uint32 with shape (2, 1), or a vkdml.Array of uint8 "
    "of at least 20 contiguous bytes"
)


@needs_device
@pytest.mark.parametrize(
    ("host", "error", "fault"),
    [
        (np.zeros((2, 3)), TypeError, "a vkdml.Array of float64 with shape (2, 3)"),
        (np.zeros((3, 2), np.float32), ValueError, "a vkdml.Array of float32 with shape (3, 2)"),
        (np.zeros((4, 6), np.uint8), TypeError, "a vkdml.Array of uint8 with shape (4, 6)"),
        (np.zeros(23, np.uint8), ValueError, "a buffer of 23 bytes"),
    ],
)
def test_an_array_that_does_not_fit(host: Any, error: type[Exception], fault: str) -> None:
    with pytest.raises(error) as raised:
        dml.run(ARGMIN, vkdml.asarray(host))
    assert str(raised.value) == f"ARGMIN: input is {fault}; {ON_DEVICE_INPUT}"


@needs_device
def test_a_device_buffer_that_does_not_fit() -> None:
    buffer = vkdml.asarray(np.zeros(48, np.uint8))
    with pytest.raises(ValueError, match="input is a buffer of 24 bytes that are not contiguous; accepted: "):
        dml.run(ARGMIN, buffer[::2])
    fault = "input starts at byte 3 of its memory; accepted: multiples of 4"
    with pytest.raises(ValueError, match=fault):
        dml.run(ARGMIN, buffer[3:])


@needs_device
def test_arrays_on_a_device_start_where_their_descriptor_guarantees() -> None:
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3), guaranteed_base_offset_alignment=64)
    desc = dml.ArgMaxOperatorDesc(x, dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1)), axes=(1,))
    host = np.arange(25, dtype=np.float32).reshape(-1, 1).repeat(3, 1)
    rows, buffer = vkdml.asarray(host), vkdml.asarray(host.view(np.uint8).ravel())
    for elsewhere in (rows[3:5], buffer[4:]):
        with pytest.raises(
            ValueError, match=r"^ARGMAX: input starts at byte \d+ .*: multiples of 64, the gua"
        ):
            dml.run(desc, elsewhere)
    for there in (rows[:2], rows[16:18], buffer, buffer[192:]):
        assert dml.run(desc, there).numpy().tolist() == [[0], [0]]


@needs_device
@pytest.mark.parametrize(
    ("make", "error", "fault"),
    [
        (lambda: vkdml.empty((2, 1), np.int64), TypeError, "a vkdml.Array of int64 with shape (2, 1); {}"),
        (lambda: vkdml.empty(2, np.uint32), ValueError, "a vkdml.Array of uint32 with shape (2,); {}"),
        (lambda: vkdml.empty(19, np.uint8), ValueError, "a buffer of 19 bytes; {}"),
        (
            lambda: vkdml.empty((1, 1), np.uint32).broadcast_to((2, 1)),
            ValueError,
            "a read-only view; accepted: a writeable vkdml.Array",
        ),
        (
            lambda: bytearray(20),
            TypeError,
            "a bytearray and the input is a vkdml.Array; accepted: both a vkdml.Array "
            "(vkdml.asarray makes one), or both in host memory",
        ),
    ],
)
def test_an_output_on_a_device_that_does_not_fit(make: Any, error: type[Exception], fault: str) -> None:
    x = vkdml.asarray(np.zeros((2, 3), np.float32))
    with pytest.raises(error) as raised:
        dml.run(ARGMIN, x, output=make())
    assert str(raised.value) == f"ARGMIN: output is {fault.format(ON_DEVICE_OUTPUT)}"


@needs_device
def test_an_output_on_a_device_for_an_input_of_the_host_is_refused() -> None:
    fault = r"ARGMIN: output is a vkdml\.Array and the input is in host memory; accepted: both in host memory"
    with pytest.raises(TypeError, match=fault):
        dml.run(ARGMIN, np.zeros((2, 3), np.float32), output=vkdml.empty((2, 1), np.uint32))


@needs_device
def test_faults_of_the_call_begin_with_the_operator() -> None:
    for x in (np.zeros((2, 3), np.float32), vkdml.zeros((2, 3))):
        with pytest.raises(TypeError, match=r"^ARGMIN: argmin of \(2, 3\) float32: a device is"):
            dml.run(ARGMIN, x, device=1.5)  # type: ignore[arg-type]


@needs_device
def test_wrapped_descriptors_are_run_and_compiled(device: vkdml.Device) -> None:
    desc, expected = OUTPUTS["packed"]
    wrapped = dml.TypedOperatorDesc(dml.OperatorType.ARGMIN, desc)  # type: ignore[arg-type]
    assert dml.run(wrapped, REDUCED, feature_level="5_0").tolist() == expected
    compiled = device.compile(wrapped, feature_level=0x6400)
    assert compiled.desc is desc
    assert compiled.dispatch(vkdml.asarray(REDUCED)).tolist() == expected


@needs_device
def test_int32_holds_the_last_index_of_2_to_the_31_elements(device: vkdml.Device) -> None:
    x = tensor("INT8", 2**16, 2**15, strides=(0, 0))
    desc = dml.ArgMaxOperatorDesc(x, tensor("INT32", 1, 1), (0, 1), DECREASING)
    assert device.compile(desc).dispatch(vkdml.asarray(np.zeros(4, np.uint8))).tolist() == [[2**31 - 1]]
