"""vkdml.dml's enumerations, descriptors and buffer sizes; no device needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkdml import dml

X = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
Y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
untyped: Any = dml  # what a caller without a type checker sees


@pytest.mark.parametrize(
    ("enumeration", "names"),
    [
        (
            dml.DataType,
            "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64 UINT4 INT4",
        ),
        (dml.AxisDirection, "INCREASING DECREASING"),
        (
            dml.ReduceFunction,
            "ARGMAX ARGMIN AVERAGE L1 L2 LOG_SUM LOG_SUM_EXP MAX MIN MULTIPLY SUM SUM_SQUARE",
        ),
        (dml.TensorFlags, "NONE OWNED_BY_DML"),
    ],
)
def test_enumerations_have_the_values_of_directml_h(enumeration: Any, names: str) -> None:
    assert [enumeration[name].value for name in names.split()] == list(range(len(names.split())))
    assert len(enumeration.__members__) == len(names.split())


def test_feature_levels_have_the_values_of_directml_h() -> None:
    assert {level.name: level.value for level in dml.FeatureLevel} == {
        "FL_2_1": 0x2100,
        "FL_3_0": 0x3000,
        "FL_4_1": 0x4100,
    }


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64))]
)
def test_data_type_knows_its_dtype_and_size(name: str) -> None:
    data_type = dml.DataType[name.upper()]
    assert data_type.dtype == np.dtype(name)
    assert data_type.size_in_bytes == np.dtype(name).itemsize == data_type.size_in_bits // 8


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
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        dml.calc_buffer_tensor_size(dml.DataType[data_type], sizes, strides)
    assert str(error.value) == f"calc_buffer_tensor_size: {fault}"


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


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (
            lambda: untyped.BufferTensorDesc("FLOAT32", sizes=(2,)),
            "data_type is 'FLOAT32', a str; accepted: a DataType",
        ),
        (lambda: untyped.BufferTensorDesc(1, sizes=(2,)), "data_type is 1, a int; accepted: a DataType"),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, flags=1, sizes=(2,)),
            "flags is 1, a int; accepted: a TensorFlags",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=2),
            "sizes is 2, a int; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2.0,)),
            "sizes is (2.0,), a tuple; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), strides="1"),
            "strides is '1', a str; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), dimension_count="1"),
            "dimension_count is '1', a str; accepted: an integer",
        ),
        (
            lambda: untyped.BufferTensorDesc(dml.DataType.INT8, sizes=(2,), total_tensor_size_in_bytes=4.0),
            "total_tensor_size_in_bytes is 4.0, a float; accepted: an integer",
        ),
        (
            lambda: untyped.BufferTensorDesc(
                dml.DataType.INT8, sizes=(2,), guaranteed_base_offset_alignment=None
            ),
            "guaranteed_base_offset_alignment is None, a NoneType; accepted: an integer",
        ),
        (
            lambda: untyped.ArgMinOperatorDesc((2, 3), Y, axes=(1,)),
            "input_tensor is (2, 3), a tuple; accepted: a BufferTensorDesc",
        ),
        (
            lambda: untyped.ReduceOperatorDesc(dml.ReduceFunction.ARGMIN, X, None, axes=(1,)),
            "output_tensor is None, a NoneType; accepted: a BufferTensorDesc",
        ),
        (
            lambda: untyped.ReduceOperatorDesc("ARGMIN", X, Y, axes=(1,)),
            "function is 'ARGMIN', a str; accepted: a ReduceFunction",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=1),
            "axes is 1, a int; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.ArgMaxOperatorDesc(X, Y, axes=(1,), axis_direction="DECREASING"),
            "axis_direction is 'DECREASING', a str; accepted: a AxisDirection",
        ),
        (
            lambda: untyped.Slice1OperatorDesc(X, X, (0, 0), None, (1, 1)),
            "input_window_sizes is None, a NoneType; accepted: a sequence of integers",
        ),
        (
            lambda: untyped.calc_buffer_tensor_size(np.float32, (2,)),
            "data_type is <class 'numpy.float32'>, a type; accepted: a DataType",
        ),
    ],
)
def test_wrong_python_types(build: Callable[[], object], fault: str) -> None:
    with pytest.raises(TypeError) as error:
        build()
    assert str(error.value) == fault
