"""The C names of vkdml.dml against DirectML.h's declarations, written down by hand; no device needed."""

from __future__ import annotations

import dataclasses
import pickle
from enum import Enum
from typing import Any

import numpy as np
import pytest

from vkdml import dml

untyped: Any = dml

ENUMERATIONS: dict[str, dict[str, int]] = {
    "DML_TENSOR_DATA_TYPE": {
        "DML_TENSOR_DATA_TYPE_UNKNOWN": 0,
        "DML_TENSOR_DATA_TYPE_FLOAT32": 1,
        "DML_TENSOR_DATA_TYPE_FLOAT16": 2,
        "DML_TENSOR_DATA_TYPE_UINT32": 3,
        "DML_TENSOR_DATA_TYPE_UINT16": 4,
        "DML_TENSOR_DATA_TYPE_UINT8": 5,
        "DML_TENSOR_DATA_TYPE_INT32": 6,
        "DML_TENSOR_DATA_TYPE_INT16": 7,
        "DML_TENSOR_DATA_TYPE_INT8": 8,
        "DML_TENSOR_DATA_TYPE_FLOAT64": 9,
        "DML_TENSOR_DATA_TYPE_UINT64": 10,
        "DML_TENSOR_DATA_TYPE_INT64": 11,
        "DML_TENSOR_DATA_TYPE_UINT4": 12,
        "DML_TENSOR_DATA_TYPE_INT4": 13,
    },
    "DML_TENSOR_TYPE": {"DML_TENSOR_TYPE_INVALID": 0, "DML_TENSOR_TYPE_BUFFER": 1},
    "DML_TENSOR_FLAGS": {"DML_TENSOR_FLAG_NONE": 0, "DML_TENSOR_FLAG_OWNED_BY_DML": 1},
    # Those of DirectML's operators that vkdml has.
    "DML_OPERATOR_TYPE": {
        "DML_OPERATOR_INVALID": 0,
        "DML_OPERATOR_REDUCE": 55,
        "DML_OPERATOR_SLICE1": 111,
        "DML_OPERATOR_ARGMIN": 137,
        "DML_OPERATOR_ARGMAX": 138,
    },
    "DML_AXIS_DIRECTION": {"DML_AXIS_DIRECTION_INCREASING": 0, "DML_AXIS_DIRECTION_DECREASING": 1},
    "DML_REDUCE_FUNCTION": {
        "DML_REDUCE_FUNCTION_ARGMAX": 0,
        "DML_REDUCE_FUNCTION_ARGMIN": 1,
        "DML_REDUCE_FUNCTION_AVERAGE": 2,
        "DML_REDUCE_FUNCTION_L1": 3,
        "DML_REDUCE_FUNCTION_L2": 4,
        "DML_REDUCE_FUNCTION_LOG_SUM": 5,
        "DML_REDUCE_FUNCTION_LOG_SUM_EXP": 6,
        "DML_REDUCE_FUNCTION_MAX": 7,
        "DML_REDUCE_FUNCTION_MIN": 8,
        "DML_REDUCE_FUNCTION_MULTIPLY": 9,
        "DML_REDUCE_FUNCTION_SUM": 10,
        "DML_REDUCE_FUNCTION_SUM_SQUARE": 11,
    },
    "DML_FEATURE_LEVEL": {
        "DML_FEATURE_LEVEL_1_0": 0x1000,
        "DML_FEATURE_LEVEL_2_0": 0x2000,
        "DML_FEATURE_LEVEL_2_1": 0x2100,
        "DML_FEATURE_LEVEL_3_0": 0x3000,
        "DML_FEATURE_LEVEL_3_1": 0x3100,
        "DML_FEATURE_LEVEL_4_0": 0x4000,
        "DML_FEATURE_LEVEL_4_1": 0x4100,
        "DML_FEATURE_LEVEL_5_0": 0x5000,
        "DML_FEATURE_LEVEL_5_1": 0x5100,
        "DML_FEATURE_LEVEL_5_2": 0x5200,
        "DML_FEATURE_LEVEL_6_0": 0x6000,
        "DML_FEATURE_LEVEL_6_1": 0x6100,
        "DML_FEATURE_LEVEL_6_2": 0x6200,
        "DML_FEATURE_LEVEL_6_3": 0x6300,
        "DML_FEATURE_LEVEL_6_4": 0x6400,
    },
}
CONSTANTS = {
    "DML_TENSOR_DIMENSION_COUNT_MAX": 5,
    "DML_TENSOR_DIMENSION_COUNT_MAX1": 8,
    "DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT": 16,
}
# C's fields in C's order; a count stands before the first array whose entries it counts.
STRUCTURES = {
    "DML_BUFFER_TENSOR_DESC": (
        *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
        *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
    ),
    "DML_TENSOR_DESC": ("Type", "Desc"),
    "DML_OPERATOR_DESC": ("Type", "Desc"),
    "DML_ARGMIN_OPERATOR_DESC": ("InputTensor", "OutputTensor", "AxisCount", "Axes", "AxisDirection"),
    "DML_ARGMAX_OPERATOR_DESC": ("InputTensor", "OutputTensor", "AxisCount", "Axes", "AxisDirection"),
    "DML_REDUCE_OPERATOR_DESC": ("Function", "InputTensor", "OutputTensor", "AxisCount", "Axes"),
    "DML_SLICE1_OPERATOR_DESC": (
        *("InputTensor", "OutputTensor", "DimensionCount"),
        *("InputWindowOffsets", "InputWindowSizes", "InputWindowStrides"),
    ),
}
PYTHON_STRUCTURES = {
    "DML_BUFFER_TENSOR_DESC": "BufferTensorDesc",
    "DML_TENSOR_DESC": "TypedTensorDesc",
    "DML_OPERATOR_DESC": "TypedOperatorDesc",
    "DML_ARGMIN_OPERATOR_DESC": "ArgMinOperatorDesc",
    "DML_ARGMAX_OPERATOR_DESC": "ArgMaxOperatorDesc",
    "DML_REDUCE_OPERATOR_DESC": "ReduceOperatorDesc",
    "DML_SLICE1_OPERATOR_DESC": "Slice1OperatorDesc",
}
COUNTS = ("DimensionCount", "AxisCount")

X = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
Y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
Z = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(1, 2))
# Values for each structure, in C's order, none of which is a default.
VALUES: dict[str, tuple[Any, ...]] = {
    "DML_BUFFER_TENSOR_DESC": (
        *(dml.DataType.INT16, dml.TensorFlags.OWNED_BY_DML, 2, (3, 5), (8, 1), 64, 32),
    ),
    "DML_TENSOR_DESC": (dml.TensorType.BUFFER, X),
    "DML_OPERATOR_DESC": (
        dml.OperatorType.ARGMIN,
        dml.ArgMinOperatorDesc(X, Y, axes=(1,)),
    ),
    "DML_ARGMIN_OPERATOR_DESC": (X, Y, 1, (1,), dml.AxisDirection.DECREASING),
    "DML_ARGMAX_OPERATOR_DESC": (X, Y, 1, (1,), dml.AxisDirection.DECREASING),
    "DML_REDUCE_OPERATOR_DESC": (dml.ReduceFunction.ARGMIN, X, Y, 1, (1,)),
    "DML_SLICE1_OPERATOR_DESC": (X, Z, 2, (0, 1), (2, 2), (-2, 1)),
}


def c_names() -> set[str]:
    return {name for name in dir(dml) if name.startswith("DML_")}


def test_there_is_no_other_c_name() -> None:
    members = {name for enumeration in ENUMERATIONS.values() for name in enumeration}
    assert c_names() == {*ENUMERATIONS, *members, *CONSTANTS, *STRUCTURES}
    assert c_names() < set(dml.__all__)


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_enumerations(name: str) -> None:
    enumeration = getattr(dml, name)
    assert issubclass(enumeration, Enum)
    assert {c_name: getattr(dml, c_name).value for c_name in ENUMERATIONS[name]} == ENUMERATIONS[name]
    assert len(enumeration.__members__) == len(ENUMERATIONS[name])
    for c_name, value in ENUMERATIONS[name].items():
        assert type(getattr(dml, c_name)) is enumeration
        assert enumeration(value) is getattr(dml, c_name)


def test_python_names_of_enumerations() -> None:
    assert untyped.DML_TENSOR_DATA_TYPE_FLOAT32 is dml.DataType.FLOAT32
    assert untyped.DML_TENSOR_FLAG_NONE is dml.TensorFlags.NONE
    assert untyped.DML_OPERATOR_ARGMAX is dml.OperatorType.ARGMAX
    assert untyped.DML_FEATURE_LEVEL_5_0 is dml.FeatureLevel.FL_5_0


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    assert getattr(dml, name) == CONSTANTS[name] == getattr(dml, name.removeprefix("DML_"))


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_have_two_names(name: str) -> None:
    assert getattr(dml, name) is getattr(dml, PYTHON_STRUCTURES[name])


@pytest.mark.parametrize("name", STRUCTURES)
def test_fields_by_position_and_by_either_name(name: str) -> None:
    structure, values = getattr(dml, name), VALUES[name]
    c_fields = STRUCTURES[name]
    python_fields = [field.name for field in dataclasses.fields(structure)]
    by_c_name = structure(**dict(zip(c_fields, values, strict=True)))
    assert [getattr(by_c_name, field) for field in c_fields] == list(values)
    assert [getattr(by_c_name, field) for field in python_fields] == list(values)
    built = [
        structure(*values),
        structure(*(value for field, value in zip(c_fields, values, strict=True) if field not in COUNTS)),
        structure(**dict(zip(python_fields, values, strict=True))),
        structure(*values[:2], **dict(zip(c_fields[2:], values[2:], strict=True))),
        pickle.loads(pickle.dumps(by_c_name)),
    ]
    assert built == [by_c_name] * len(built)
    assert len({by_c_name, *built}) == 1


@pytest.mark.parametrize("name", STRUCTURES)
def test_numbers_stand_for_members(name: str) -> None:
    structure, values = getattr(dml, name), VALUES[name]
    numbers = [int(value) if isinstance(value, Enum) else value for value in values]
    desc = structure(*numbers)
    assert desc == structure(*values)
    assert [type(getattr(desc, field)) for field in STRUCTURES[name]] == [type(value) for value in values]


@pytest.mark.parametrize("name", STRUCTURES)
def test_no_field_can_be_assigned_or_deleted(name: str) -> None:
    desc = getattr(dml, name)(*VALUES[name])
    before = hash(desc)
    python_fields = [field.name for field in dataclasses.fields(desc)]
    constant = [field for field in ("operator", "function", "axis_direction") if hasattr(desc, field)]
    for field in (*STRUCTURES[name], *python_fields, *constant, "new"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(desc, field, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(desc, field)
    assert hash(desc) == before
    assert desc == getattr(dml, name)(*VALUES[name])


def test_arrays_are_kept_as_tuples() -> None:
    sizes, axes = [2, 3], [1]
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=sizes, strides=[3, 1])
    desc = dml.ArgMinOperatorDesc(x, Y, axes=axes)
    sizes.append(9)
    axes.append(0)
    assert (x.sizes, x.strides, desc.axes) == ((2, 3), (3, 1), (1,))


COUNTED = [name for name in STRUCTURES if set(STRUCTURES[name]) & set(COUNTS)]


@pytest.mark.parametrize("name", COUNTED)
def test_a_count_is_an_integer_and_an_array_is_not(name: str) -> None:
    at = next(i for i, field in enumerate(STRUCTURES[name]) if field in COUNTS)
    values = list(VALUES[name])
    whole = getattr(dml, name)(*values)
    for array in (list(values[at + 1]), np.array(values[at + 1])):
        assert getattr(dml, name)(*values[:at], array, *values[at + 2 :]) == whole
    for count in (np.uint32(values[at]), np.array(values[at])):
        assert getattr(dml, name)(*values[:at], count, *values[at + 1 :]) == whole


@pytest.mark.parametrize("name", COUNTED)
def test_a_count_that_is_given_is_checked(name: str) -> None:
    at = next(i for i, field in enumerate(STRUCTURES[name]) if field in COUNTS)
    values = list(VALUES[name])
    values[at] += 1
    desc = getattr(dml, name)(*values)
    assert getattr(desc, STRUCTURES[name][at]) == values[at]
    if name == "DML_BUFFER_TENSOR_DESC":
        desc = dml.Slice1OperatorDesc(desc, desc, (0, 0), (1, 1), (1, 1))
    with pytest.raises(ValueError, match=rf"_count is {values[at]}; accepted: {values[at] - 1}"):
        dml.validate(desc)


BY_POSITION = "the values by position were taken as "
FIELDS = (
    "accepted, by name or in this order: input_tensor or InputTensor, output_tensor or OutputTensor, "
    "axis_count or AxisCount (optional), axes or Axes, "
    "axis_direction or AxisDirection (optional)"
)


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"),
    [
        ((X, Y), {}, f" lacks axes; {BY_POSITION}input_tensor, output_tensor; {FIELDS}"),
        ((X, Y, 1), {}, f" lacks axes; {BY_POSITION}input_tensor, output_tensor, axis_count; {FIELDS}"),
        ((), {"Axes": (1,)}, f" lacks input_tensor, output_tensor; {FIELDS}"),
        ((X, Y, 1, (1,), 0, 0), {}, f" has 6 values by position, too many; {FIELDS}"),
        ((X, Y, (1,), 0, 0), {}, f" has 5 values by position, too many; {FIELDS}"),
        ((X, Y, (1,)), {"axis": 1}, f" has no field axis; {FIELDS}"),
        (
            (X, Y, (1,)),
            {"Axes": (1,)},
            ": axes is given twice; accepted: one value, by position, as axes or as Axes",
        ),
        (
            (X, Y, (1,)),
            {"AxisDirection": 0, "axis_direction": 1},
            ": axis_direction is given twice; accepted: one value, by position, as axis_direction or as "
            "AxisDirection",
        ),
    ],
)
def test_fields_that_do_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError) as error:
        untyped.DML_ARGMAX_OPERATOR_DESC(*args, **kwargs)
    assert str(error.value) == f"ArgMaxOperatorDesc{fault}"


def test_wrappers_are_taken_for_what_they_hold() -> None:
    x, y = (dml.TypedTensorDesc(dml.TensorType.BUFFER, tensor) for tensor in (X, Y))
    wrapped = untyped.ArgMaxOperatorDesc(x, y, (1,))
    assert wrapped == dml.ArgMaxOperatorDesc(X, Y, (1,))
    assert wrapped.input_tensor is X
    desc = dml.TypedOperatorDesc(dml.OperatorType.ARGMAX, wrapped)
    assert dml.validate(desc) == dml.validate(wrapped)


@pytest.mark.parametrize(
    ("structure", "type", "desc", "error", "fault"),
    [
        (
            "DML_TENSOR_DESC",
            0,
            X,
            ValueError,
            "type is INVALID; accepted: BUFFER, the type of a BufferTensorDesc",
        ),
        (
            *("DML_TENSOR_DESC", 2, X, ValueError),
            "type is 2; accepted: TensorType or its number: INVALID (0), BUFFER (1)",
        ),
        (
            *("DML_TENSOR_DESC", 1, (2, 3), TypeError),
            "desc is a tuple; accepted: a BufferTensorDesc, or a TypedTensorDesc that holds one",
        ),
        (
            *("DML_OPERATOR_DESC", 137, dml.ArgMaxOperatorDesc(X, Y, (1,)), ValueError),
            "type is ARGMIN; accepted: ARGMAX, the type of desc",
        ),
        (
            *("DML_OPERATOR_DESC", 54, dml.ArgMaxOperatorDesc(X, Y, (1,)), ValueError),
            "type is 54; accepted: OperatorType or its number: INVALID (0), REDUCE (55), SLICE1 (111), "
            "ARGMIN (137), ARGMAX (138)",
        ),
        (
            *("DML_OPERATOR_DESC", 138, None, TypeError),
            "desc is None; accepted: ArgMinOperatorDesc, ArgMaxOperatorDesc, "
            "ReduceOperatorDesc, Slice1OperatorDesc",
        ),
    ],
)
def test_wrappers_that_do_not_fit(
    structure: str, type: int, desc: Any, error: type[Exception], fault: str
) -> None:
    with pytest.raises(error) as raised:
        getattr(dml, structure)(type, desc)
    assert str(raised.value) == fault
