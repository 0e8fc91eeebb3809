"""vkdml.dml's enumerations, descriptors and buffer sizes; no device needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from wording import facts

from vkdml import dml
from vkdml.plan import kernels

X = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
Y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
untyped: Any = dml  # what a caller without a type checker sees


WHOLE_BYTES = [name for name in kernels.elements() if name.upper() in dml.DataType.__members__]


def test_kernels_have_all_data_types_of_whole_bytes() -> None:
    assert {name.upper() for name in WHOLE_BYTES} == {
        each.name for each in dml.DataType if each.size_in_bits >= 8
    }


@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_data_type_knows_its_dtype_and_size(name: str) -> None:
    data_type = dml.DataType[name.upper()]
    assert data_type.dtype == np.dtype(name)
    assert data_type.size_in_bytes == kernels.elements()[name].nbytes == data_type.size_in_bits // 8


@pytest.mark.parametrize("name", ["UNKNOWN", "UINT4", "INT4"])
def test_data_type_without_whole_bytes_says_so(name: str) -> None:
    with pytest.raises(ValueError, match=rf"DataType\.{name} has no NumPy dtype; accepted: types of 8 bits"):
        _ = dml.DataType[name].dtype
    with pytest.raises(
        ValueError, match=rf"DataType\.{name} has no size in bytes; accepted: types of 8 bits"
    ):
        _ = dml.DataType[name].size_in_bytes


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "size_in_bytes"),
    [
        ("FLOAT32", (1, 1, 4, 4), None, 64),
        ("FLOAT32", (3, 3), (3, 1), 36),
        ("FLOAT64", (1,), None, 8),
        ("FLOAT16", (3,), None, 8),  # 6 bytes, rounded up
        ("UINT8", (1,), None, 4),
        ("UINT8", (4,), None, 4),
        ("UINT8", (5,), None, 8),
        ("INT8", (2, 3), (8, 1), 12),  # rows padded to 8: the last element is the 11th
        ("FLOAT32", (2, 3), (1, 2), 24),  # transposed
        ("FLOAT32", (100, 3), (0, 1), 12),  # broadcast
        ("FLOAT32", (100, 3), (0, 0), 4),
        ("INT64", (2, 2), (0, 5), 48),
        ("UINT4", (3,), None, 4),  # 12 bits
        ("INT4", (9,), None, 8),
        ("FLOAT32", (65536, 65535), None, 4 * 65536 * 65535),  # past 32 bits of bytes
        ("UINT8", (2, 2), (2**32 - 1, 2**32 - 1), 2**33),  # past 32 bits of elements: does not wrap
        ("INT32", np.array([2, 3]), np.array([3, 1]), 24),
    ],
)
def test_calc_buffer_tensor_size(data_type: str, sizes: Any, strides: Any, size_in_bytes: int) -> None:
    assert dml.calc_buffer_tensor_size(dml.DataType[data_type], sizes, strides) == size_in_bytes
    tensor = dml.BufferTensorDesc(dml.DataType[data_type], sizes=sizes, strides=strides)
    assert tensor.total_tensor_size_in_bytes == size_in_bytes


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "fault"),
    [
        ("UNKNOWN", (2,), None, "data_type is UNKNOWN; accepted: any other DataType"),
        ("INT8", (2, 0), None, "sizes[1] is 0; accepted: 1 to 4294967295"),
        ("INT8", (2**32,), None, "sizes[0] is 4294967296; accepted: 1 to 4294967295"),
        ("INT8", (2,), (-1,), "strides[0] is -1; accepted: 0 to 4294967295"),
        ("INT8", (2,), (2**32,), "strides[0] is 4294967296; accepted: 0 to 4294967295"),
        ("INT8", (2, 2), (1,), "strides is (1,), 1 entries; accepted: 2 entries, one for each dimension"),
    ],
)
def test_calc_buffer_tensor_size_refuses(data_type: str, sizes: Any, strides: Any, fault: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the facts of the message are compared
        dml.calc_buffer_tensor_size(dml.DataType[data_type], sizes, strides)
    assert facts(str(error.value)) == facts(f"calc_buffer_tensor_size: {fault}")


def test_counts_are_read_off_the_arrays() -> None:
    assert X.dimension_count == 2
    in_full = dml.BufferTensorDesc(
        dml.DataType.FLOAT32,
        flags=dml.TensorFlags.NONE,
        dimension_count=2,
        sizes=[2, 3],
        strides=None,
        total_tensor_size_in_bytes=24,
        guaranteed_base_offset_alignment=0,
    )
    assert in_full == X
    assert dml.ArgMinOperatorDesc(X, Y, axes=[1]) == dml.ArgMinOperatorDesc(X, Y, axes=(1,), axis_count=1)
    reduce = dml.ReduceOperatorDesc(dml.ReduceFunction.ARGMIN, X, Y, axes=(1,))
    assert reduce.axis_count == 1
    assert dml.Slice1OperatorDesc(X, X, (0, 0), (2, 3), (1, 1)).dimension_count == 2


def test_a_count_that_is_given_is_kept() -> None:
    assert dml.BufferTensorDesc(dml.DataType.FLOAT32, dimension_count=3, sizes=(2, 3)).dimension_count == 3
    assert dml.ArgMinOperatorDesc(X, Y, axes=(1,), axis_count=2).axis_count == 2


def test_descriptors_are_values() -> None:
    desc = dml.ArgMaxOperatorDesc(X, Y, axes=(1,))
    assert hash(desc) == hash(dml.ArgMaxOperatorDesc(X, Y, axes=[np.int64(1)]))
    assert desc != untyped.ArgMinOperatorDesc(X, Y, axes=(1,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        desc.axes = (0,)  # type: ignore[misc]


TYPES = (
    "DataType or its number: UNKNOWN (0), FLOAT32 (1), FLOAT16 (2), UINT32 (3), UINT16 (4), UINT8 (5), "
    "INT32 (6), INT16 (7), INT8 (8), FLOAT64 (9), UINT64 (10), INT64 (11), UINT4 (12), INT4 (13)"
)
TENSORS = "a BufferTensorDesc, or a TypedTensorDesc that holds one"
FLAGS = "TensorFlags or its number: NONE (0), OWNED_BY_DML (1)"
DIRECTIONS = "AxisDirection or its number: INCREASING (0), DECREASING (1)"


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (
            lambda: untyped.BufferTensorDesc("FLOAT32", sizes=(2,)),
            f"data_type is a str; accepted: {TYPES}",
        ),
        (
            lambda: untyped.BufferTensorDesc(True, sizes=(2,)),
            f"data_type is a bool; accepted: {TYPES}",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.AxisDirection.DECREASING, sizes=(2,)),
            f"data_type is an AxisDirection; accepted: {TYPES}",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, flags=1.0, sizes=(2,)),
            f"flags is a float; accepted: {FLAGS}",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=2),
            "sizes is an int; accepted: a sequence of integers",
        ),
        # Nobody chose the order of their entries, or they are no numbers.
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes={4, 2}),
            "sizes is a set; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes={2: "x"}),
            "sizes is a dict; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.Slice1OperatorDesc(X, X, b"12", (1, 1), (1, 1)),
            "input_window_offsets is a bytes; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2.0,)),
            "sizes[0] is a float; accepted: an integer",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2, True)),
            "sizes[1] is a bool; accepted: an integer",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=(True,)),
            "axes[0] is a bool; accepted: an integer",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=""),
            "axes is a str; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), strides="1"),
            "strides is a str; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), dimension_count="1"),
            "dimension_count is a str; accepted: an integer",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), total_tensor_size_in_bytes=4.0),
            "total_tensor_size_in_bytes is a float; accepted: an integer",
        ),
        (
            lambda: untyped.BufferTensorDesc(
                dml.DataType.INT8, sizes=(2,), guaranteed_base_offset_alignment=None
            ),
            "guaranteed_base_offset_alignment is None; accepted: an integer",
        ),
        (
            lambda: untyped.ArgMinOperatorDesc((2, 3), Y, axes=(1,)),
            f"input_tensor is a tuple; accepted: {TENSORS}",
        ),
        (
            lambda: untyped.ReduceOperatorDesc(dml.ReduceFunction.ARGMIN, X, None, axes=(1,)),
            f"output_tensor is None; accepted: {TENSORS}",
        ),
        (
            lambda: untyped.ReduceOperatorDesc("ARGMIN", X, Y, axes=(1,)),
            "function is a str; "
            "accepted: ReduceFunction or its number: ARGMAX (0), ARGMIN (1), AVERAGE (2), "
            "L1 (3), L2 (4), LOG_SUM (5), LOG_SUM_EXP (6), MAX (7), MIN (8), MULTIPLY (9), "
            "SUM (10), SUM_SQUARE (11)",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=1),
            "axes is an int; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=(1,), axis_direction="DECREASING"),
            f"axis_direction is a str; accepted: {DIRECTIONS}",
        ),
        (
            lambda: untyped.Slice1OperatorDesc(X, X, (0, 0), None, (1, 1)),
            "input_window_sizes is None; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.calc_buffer_tensor_size(np.float32, (2,)),
            f"data_type is a type; accepted: {TYPES}",
        ),
    ],
)
def test_wrong_python_types(build: Callable[[], object], fault: str) -> None:
    with pytest.raises(TypeError) as error:
        build()
    assert str(error.value) == fault


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: untyped.BufferTensorDesc(14, sizes=(2,)), f"data_type is 14; accepted: {TYPES}"),
        (lambda: untyped.BufferTensorDesc(-1, sizes=(2,)), f"data_type is -1; accepted: {TYPES}"),
        (lambda: untyped.BufferTensorDesc(1, 2, (2,)), f"flags is 2; accepted: {FLAGS}"),
        (lambda: untyped.BufferTensorDesc(1, dml.TensorFlags(2), (2,)), f"flags is 2; accepted: {FLAGS}"),
        (lambda: untyped.ArgMinOperatorDesc(X, Y, (1,), 2), f"axis_direction is 2; accepted: {DIRECTIONS}"),
        (lambda: untyped.calc_buffer_tensor_size(99, (2,)), f"data_type is 99; accepted: {TYPES}"),
    ],
)
def test_numbers_without_a_member(build: Callable[[], object], fault: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        build()
    assert str(error.value) == fault


def test_numpy_s_integers_stand_for_members() -> None:
    assert untyped.BufferTensorDesc(np.uint8(1), np.int64(0), (2, 3)) == X
    assert dml.calc_buffer_tensor_size(untyped.DML_TENSOR_DATA_TYPE_FLOAT16, (3, 3)) == 20
    assert untyped.calc_buffer_tensor_size(2, (3, 3)) == 20


def test_descriptors_are_copied_with_changes() -> None:
    desc = dml.ArgMinOperatorDesc(X, Y, axes=(1,))
    last = dataclasses.replace(desc, axis_direction=dml.AxisDirection.DECREASING)
    assert last == dml.ArgMinOperatorDesc(X, Y, (1,), dml.AxisDirection.DECREASING)
