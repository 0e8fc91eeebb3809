"""Every constraint of the documentation, at every feature level, accepted and refused; no device needed."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from dml_rules import ALL_LEVELS, SUPPORT, rules_at
from dml_tensors import FUNCTIONS
from hypothesis import given
from hypothesis import strategies as st
from wording import facts

from vkdml import dml
from vkdml.dml import DataType

# Levels that changed an operator; the rules of any other are those of the newest below it.
FEATURE_LEVELS = ("1_0", "2_1", "3_0", "4_1")
EVERYWHERE = sorted(SUPPORT)
REDUCTIONS_EVERYWHERE = [place for place in EVERYWHERE if place[0] != "SLICE1"]
SLICES_EVERYWHERE = [place for place in EVERYWHERE if place[0] == "SLICE1"]
RANGE = "1 to 4294967295"
OWN_RULE = " (a rule of vkdml; DirectML's documentation has none)"


def tensor(data_type: str = "FLOAT32", sizes: Any = (2, 3, 4, 5), **fields: Any) -> dml.BufferTensorDesc:
    return dml.BufferTensorDesc(DataType[data_type], sizes=sizes, **fields)


def reduction(
    operator: str,
    input: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
    axes: Any = (1,),
    function: str = "ARGMAX",
    **fields: Any,
) -> dml.OperatorDesc:
    """A reduction that every level accepts, but for what is passed."""
    x = tensor(**input or {})
    y = tensor(**{"data_type": "UINT32", "sizes": (2, 1, 4, 5), **(output or {})})
    if operator == "REDUCE":
        return dml.ReduceOperatorDesc(dml.ReduceFunction[function], x, y, axes, **fields)
    return FUNCTIONS[operator](x, y, axes, **fields)


def slice1(
    input: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
    offsets: Any = (0, 1, 0, 1),
    window: Any = (2, 2, 4, 3),
    strides: Any = (1, -2, 2, 1),
    **fields: Any,
) -> dml.OperatorDesc:
    """A slice that every level accepts, but for what is passed."""
    y = tensor(**{"sizes": (2, 1, 2, 3), **(output or {})})
    return dml.Slice1OperatorDesc(tensor(**input or {}), y, offsets, window, strides, **fields)


def operator_desc(operator: str, **fields: Any) -> dml.OperatorDesc:
    return slice1(**fields) if operator == "SLICE1" else reduction(operator, **fields)


def same_rank(operator: str, rank: int, input_type: str, output_type: str) -> dml.OperatorDesc:
    """The operator on tensors of a rank, of size 2 in each dimension; a reduction of the last one."""
    x, sizes = {"data_type": input_type, "sizes": (2,) * rank}, (2,) * rank
    if operator == "SLICE1":
        return slice1(x, {"data_type": output_type, "sizes": sizes}, (0,) * rank, sizes, (1,) * rank)
    return reduction(operator, x, {"data_type": output_type, "sizes": (*sizes[1:], 1)[:rank]}, (rank - 1,))


def assert_refused(desc: dml.OperatorDesc, level: str, fault: str) -> None:
    """Assert that the message states the operator, the level and the facts of a fault, however worded."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the facts of the message are compared
        dml.validate(desc, level)
    assert facts(str(error.value)) == facts(f"{desc.operator} at feature level {level}: {fault}")


@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_baseline_is_accepted(operator: str, level: str) -> None:
    dml.validate(operator_desc(operator), level)
    dml.validate(operator_desc(operator), dml.FeatureLevel[f"FL_{level}"])


@pytest.mark.parametrize("operator", ["ARGMIN", "ARGMAX", "REDUCE", "SLICE1"])
def test_newest_level_is_the_default(operator: str) -> None:
    dml.validate(same_rank(operator, 3, "INT64", "INT64"))


@pytest.mark.parametrize("operator", ["ARGMIN", "ARGMAX"])
def test_operator_does_not_exist_at_an_older_level(operator: str) -> None:
    with pytest.raises(ValueError, match=f"^{operator}: feature_level is 2_1; accepted: 3_0 and later"):
        dml.validate(reduction(operator), "2_1")


@pytest.mark.parametrize("rank", range(10))
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_dimension_counts(operator: str, level: str, rank: int) -> None:
    counts = SUPPORT[operator, level][0]
    if rank == 0:  # no axis to reduce
        desc = operator_desc(operator, input={"sizes": ()}, output={"sizes": ()})
    else:
        desc = same_rank(operator, rank, "FLOAT32", "FLOAT32" if operator == "SLICE1" else "UINT32")
    if rank in counts:
        dml.validate(desc, level)
    else:
        accepted = "4" if counts == (4,) else f"{counts[0]} to {counts[-1]}"
        assert_refused(desc, level, f"input_tensor.dimension_count is {rank}; accepted: {accepted}")


@pytest.mark.parametrize("data_type", list(DataType), ids=lambda data_type: data_type.name)
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_input_types(operator: str, level: str, data_type: DataType) -> None:
    accepted = SUPPORT[operator, level][1]
    desc = same_rank(operator, 4, data_type.name, data_type.name if operator == "SLICE1" else "UINT32")
    if data_type.name in accepted.split():
        dml.validate(desc, level)
    else:
        listed = ", ".join(accepted.split())
        assert_refused(desc, level, f"input_tensor.data_type is {data_type.name}; accepted: {listed}")


@pytest.mark.parametrize("data_type", list(DataType), ids=lambda data_type: data_type.name)
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_output_types(operator: str, level: str, data_type: DataType) -> None:
    accepted = SUPPORT[operator, level][2].split()
    desc = same_rank(operator, 4, "FLOAT32", data_type.name)
    if data_type.name not in accepted:
        listed = ", ".join(accepted)
        assert_refused(desc, level, f"output_tensor.data_type is {data_type.name}; accepted: {listed}")
    elif operator == "SLICE1" and data_type is not DataType.FLOAT32:
        fault = f"output_tensor.data_type is {data_type.name}; accepted: FLOAT32, as in input_tensor"
        assert_refused(desc, level, fault)
    else:
        dml.validate(desc, level)


TENSOR_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "size 0": ({"sizes": (2, 0, 4, 5)}, f"sizes[1] is 0; accepted: {RANGE}"),
    "negative size": ({"sizes": (2, 3, 4, -5)}, f"sizes[3] is -5; accepted: {RANGE}"),
    "size of 33 bits": ({"sizes": (2**32, 1, 1, 1)}, f"sizes[0] is 4294967296; accepted: {RANGE}"),
    "dimension_count": (
        {"sizes": (2, 3, 4, 5), "dimension_count": 5},
        "dimension_count is 5; accepted: 4, the number of entries in sizes",
    ),
    "too few strides": (
        {"strides": (60, 20, 5)},
        "strides is (60, 20, 5), 3 entries; accepted: 4 entries, one for each dimension",
    ),
    "negative stride": (
        {"strides": (60, 20, 5, -1), "total_tensor_size_in_bytes": 480},
        "strides[3] is -1; accepted: 0 to 4294967295",
    ),
    "stride of 33 bits": (
        {"strides": (2**32, 20, 5, 1), "total_tensor_size_in_bytes": 480},
        "strides[0] is 4294967296; accepted: 0 to 4294967295",
    ),
    "elements": (
        {"sizes": (65536, 1, 65536, 1)},
        "sizes is (65536, 1, 65536, 1): 4294967296 elements; accepted: at most 4294967295",
    ),
    "broadcast elements": (
        {"sizes": (65536, 1, 65536, 1), "strides": (0, 0, 0, 0)},
        "sizes is (65536, 1, 65536, 1) with strides (0, 0, 0, 0), 4294967296 elements; "
        "accepted: at most 4294967295",
    ),
    "elements of buffer": (
        {"sizes": (2, 2, 1, 1), "strides": (2147483648, 2147483647, 1, 1)},
        "sizes is (2, 2, 1, 1) with strides (2147483648, 2147483647, 1, 1), 4294967296 elements of buffer; "
        "accepted: at most 4294967295",
    ),
    "total too small": (
        {"sizes": (2, 3, 4, 5), "total_tensor_size_in_bytes": 476},
        "total_tensor_size_in_bytes is 476; "
        "accepted: a multiple of 4 from 480 to 17179869180, 4294967295 elements",
    ),
    "total too small for the strides": (
        {"sizes": (2, 1, 1, 2), "strides": (8, 0, 0, 1), "total_tensor_size_in_bytes": 16},
        "total_tensor_size_in_bytes is 16; "
        "accepted: a multiple of 4 from 40 to 17179869180, 4294967295 elements",
    ),
    "total not a multiple of 4": (
        {"sizes": (2, 3, 4, 5), "total_tensor_size_in_bytes": 482},
        "total_tensor_size_in_bytes is 482; "
        "accepted: a multiple of 4 from 480 to 17179869180, 4294967295 elements",
    ),
    "total too large": (
        {"sizes": (2, 3, 4, 5), "total_tensor_size_in_bytes": 17179869184},
        "total_tensor_size_in_bytes is 17179869184; "
        "accepted: a multiple of 4 from 480 to 17179869180, 4294967295 elements",
    ),
    "alignment not a power of two": (
        {"guaranteed_base_offset_alignment": 24},
        "guaranteed_base_offset_alignment is 24; "
        "accepted: 0 or a power of two from 4 (bytes of an element) to 2147483648",
    ),
    "alignment below the element": (
        {"guaranteed_base_offset_alignment": 2},
        "guaranteed_base_offset_alignment is 2; "
        "accepted: 0 or a power of two from 4 (bytes of an element) to 2147483648",
    ),
    "alignment of 33 bits": (
        {"guaranteed_base_offset_alignment": 2**32},
        "guaranteed_base_offset_alignment is 4294967296; "
        "accepted: 0 or a power of two from 4 (bytes of an element) to 2147483648",
    ),
    "negative alignment": (
        {"guaranteed_base_offset_alignment": -16},
        "guaranteed_base_offset_alignment is -16; "
        "accepted: 0 or a power of two from 4 (bytes of an element) to 2147483648",
    ),
}


@pytest.mark.parametrize("case", TENSOR_FAULTS)
@pytest.mark.parametrize("field", ["input", "output"])
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_tensor_is_refused(operator: str, level: str, field: str, case: str) -> None:
    changes, fault = TENSOR_FAULTS[case]
    assert_refused(operator_desc(operator, **{field: changes}), level, f"{field}_tensor.{fault}")


ACCEPTED_INPUTS: dict[str, dict[str, Any]] = {
    "packed strides": {"strides": (60, 20, 5, 1)},
    "padded strides": {"strides": (256, 64, 16, 2)},
    "permuted strides": {"strides": (1, 2, 6, 24)},
    "broadcast strides": {"strides": (0, 0, 0, 1)},
    "overlapping strides": {"strides": (1, 1, 1, 1)},
    "room to spare": {"total_tensor_size_in_bytes": 4096},
    "alignment of the element": {"guaranteed_base_offset_alignment": 4},
    "largest alignment": {"guaranteed_base_offset_alignment": 2**31},
    "owned by DirectML": {"flags": dml.TensorFlags.OWNED_BY_DML},
    "counted": {"dimension_count": 4},
}


@pytest.mark.parametrize("case", ACCEPTED_INPUTS)
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_input_tensor_is_accepted(operator: str, level: str, case: str) -> None:
    dml.validate(operator_desc(operator, input=ACCEPTED_INPUTS[case]), level)


@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_largest_tensor_is_accepted(operator: str, level: str) -> None:
    sizes = (65535, 65537, 1, 1)  # 2^32 - 1 elements
    output = {"sizes": (65535, 1, 1, 1)}
    if operator == "SLICE1":
        dml.validate(
            slice1({"sizes": sizes}, output, (0, 65536, 0, 0), (65535, 1, 1, 1), (1, 1, 1, 1)), level
        )
    else:
        dml.validate(reduction(operator, {"sizes": sizes}, output), level)


@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_output_cannot_be_owned_by_directml(operator: str, level: str) -> None:
    desc = operator_desc(operator, output={"flags": dml.TensorFlags.OWNED_BY_DML})
    fault = "output_tensor.flags is OWNED_BY_DML; accepted: NONE; only an input can be owned by DirectML"
    assert_refused(desc, level, fault)


@pytest.mark.parametrize(
    ("strides", "accepted"),
    [
        ((0, 0, 8, 1), False),
        ((8, 0, 0, 1), False),
        ((8, 0, 2, 0), False),
        ((2, 0, 1, 1), False),
        ((8, 0, 16, 1), True),
        ((1, 0, 2, 10), True),
        ((99, 99, 8, 1), True),
    ],
)
@pytest.mark.parametrize(("operator", "level"), EVERYWHERE)
def test_output_elements_have_places_of_their_own(
    operator: str, level: str, strides: tuple[int, ...], accepted: bool
) -> None:
    sizes = (2, 1, 2, 3) if operator == "SLICE1" else (2, 1, 4, 5)
    desc = operator_desc(operator, output={"strides": strides})
    if accepted:
        dml.validate(desc, level)
    else:
        fault = (
            f"output_tensor.strides is {strides} for sizes {sizes}, which put several elements in one place"
            f"; accepted: strides that put each element in a place of its own{OWN_RULE}"
        )
        assert_refused(desc, level, fault)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), min_size=1, max_size=4))
def test_output_strides_are_refused_exactly_when_elements_coincide(dims: list[tuple[int, int]]) -> None:
    sizes, strides = zip(*dims, strict=True)
    places = [
        sum(i * stride for i, stride in zip(coordinates, strides, strict=True))
        for coordinates in itertools.product(*map(range, sizes))
    ]
    x, y = tensor(sizes=sizes), tensor(sizes=sizes, strides=strides)
    desc = dml.Slice1OperatorDesc(x, y, (0,) * len(sizes), sizes, (1,) * len(sizes))
    if len(set(places)) == len(places):
        dml.validate(desc)
    else:
        with pytest.raises(ValueError, match="several elements in one place"):
            dml.validate(desc)


@pytest.mark.parametrize(("operator", "level"), [place for place in EVERYWHERE if SUPPORT[place][0] != (4,)])
def test_ranks_must_agree(operator: str, level: str) -> None:
    desc = operator_desc(operator, output={"sizes": (2, 1, 2, 3, 1)})
    assert_refused(desc, level, "output_tensor.dimension_count is 5; accepted: 4, as in input_tensor")


@pytest.mark.parametrize(
    ("axes", "output_sizes", "fault"),
    [
        ((4,), (2, 1, 4, 5), "axes[0] is 4; accepted: 0 to 3"),
        ((0, -1), (1, 3, 4, 1), "axes[1] is -1; accepted: 0 to 3"),
        ((1, 3, 1), (2, 1, 4, 1), f"axes is (1, 3, 1); accepted: distinct axes{OWN_RULE}"),
        ((1,), (2, 3, 4, 5), "output_tensor.sizes[1] is 3; accepted: 1, for a reduced axis 1"),
        ((1,), (2, 1, 1, 5), "output_tensor.sizes[2] is 1; accepted: 4, as in input_tensor"),
        ((), (1, 1, 1, 1), "output_tensor.sizes[0] is 1; accepted: 2, as in input_tensor"),
    ],
)
@pytest.mark.parametrize(("operator", "level"), REDUCTIONS_EVERYWHERE)
def test_axes_are_refused(
    operator: str, level: str, axes: tuple[int, ...], output_sizes: tuple[int, ...], fault: str
) -> None:
    assert_refused(reduction(operator, axes=axes, output={"sizes": output_sizes}), level, fault)


@pytest.mark.parametrize(
    ("axes", "output_sizes"),
    [((), (2, 3, 4, 5)), ((3, 0), (1, 3, 4, 1)), ((0, 1, 2, 3), (1, 1, 1, 1))],
)
@pytest.mark.parametrize(("operator", "level"), REDUCTIONS_EVERYWHERE)
def test_axes_are_accepted(
    operator: str, level: str, axes: tuple[int, ...], output_sizes: tuple[int, ...]
) -> None:
    dml.validate(reduction(operator, axes=axes, output={"sizes": output_sizes}), level)


@pytest.mark.parametrize(("operator", "level"), REDUCTIONS_EVERYWHERE)
def test_axis_count_must_be_that_of_axes(operator: str, level: str) -> None:
    fault = "axis_count is 2; accepted: 1, the number of entries in axes"
    assert_refused(reduction(operator, axis_count=2), level, fault)
    dml.validate(reduction(operator, axis_count=1), level)


@pytest.mark.parametrize(("operator", "level"), REDUCTIONS_EVERYWHERE)
def test_index_type_must_hold_the_reduced_count(operator: str, level: str) -> None:
    def reduces(elements: int, data_type: str) -> dml.OperatorDesc:
        x = {"data_type": "FLOAT16", "sizes": (elements, 1, 1, 1)}
        return reduction(operator, x, {"data_type": data_type, "sizes": (1, 1, 1, 1)}, (0, 1))

    # The greatest index is one less than the count.
    dml.validate(reduces(2**32 - 1, "UINT32"), level)
    if "INT32" in SUPPORT[operator, level][2].split():
        dml.validate(reduces(2**32 - 1, "INT64"), level)
        dml.validate(reduces(2**31 - 1, "INT32"), level)
        dml.validate(reduces(2**31, "INT32"), level)
        fault = (
            "output_tensor.data_type is INT32 for indices up to 2147483648; "
            f"accepted: a type that holds them (INT32 holds 2147483647){OWN_RULE}"
        )
        assert_refused(reduces(2**31 + 1, "INT32"), level, fault)


@pytest.mark.parametrize(
    "function", [f.name for f in dml.ReduceFunction if f.name not in ("ARGMAX", "ARGMIN")]
)
@pytest.mark.parametrize("level", FEATURE_LEVELS)
def test_other_reduce_functions_are_refused(level: str, function: str) -> None:
    desc = reduction("REDUCE", function=function)
    assert_refused(desc, level, f"function is {function}; accepted: ARGMAX, ARGMIN{OWN_RULE}")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"dimension_count": 3}, "dimension_count is 3; accepted: 4, as in input_tensor"),
        (
            {"offsets": (0, 1, 0)},  # which the dimensions are counted by
            "input_window_offsets is (0, 1, 0), 3 entries; accepted: 4 entries, one for each dimension",
        ),
        (
            {"offsets": (0, 1, 0), "dimension_count": 4},
            "input_window_offsets is (0, 1, 0), 3 entries; accepted: 4 entries, one for each dimension",
        ),
        (
            {"window": (2, 2, 4, 3, 1)},
            "input_window_sizes is (2, 2, 4, 3, 1), 5 entries; accepted: 4 entries, one for each dimension",
        ),
        (
            {"strides": (1, 1)},
            "input_window_strides is (1, 1), 2 entries; accepted: 4 entries, one for each dimension",
        ),
        ({"offsets": (0, -1, 0, 1)}, "input_window_offsets[1] is -1; accepted: 0 to 4294967295"),
        ({"offsets": (2**32, 1, 0, 1)}, "input_window_offsets[0] is 4294967296; accepted: 0 to 4294967295"),
        ({"window": (2, 2, 0, 3)}, f"input_window_sizes[2] is 0; accepted: {RANGE}"),
        ({"window": (2, 2, 4, -3)}, f"input_window_sizes[3] is -3; accepted: {RANGE}"),
        (
            {"window": (2, 3, 4, 3)},
            "input_window_offsets[1] + input_window_sizes[1] is 1 + 3 = 4; "
            "accepted: at most 3, input_tensor.sizes[1]",
        ),
        (
            {"offsets": (0, 1, 0, 5), "window": (2, 2, 4, 1)},
            "input_window_offsets[3] + input_window_sizes[3] is 5 + 1 = 6; "
            "accepted: at most 5, input_tensor.sizes[3]",
        ),
        ({"strides": (1, 0, 2, 1)}, "input_window_strides[1] is 0; accepted: any integer but 0"),
        (
            {"strides": (2**31, -2, 2, 1)},
            "input_window_strides[0] is 2147483648; accepted: -2147483648 to 2147483647",
        ),
        (
            {"strides": (-(2**31) - 1, -2, 2, 1)},
            "input_window_strides[0] is -2147483649; accepted: -2147483648 to 2147483647",
        ),
        (
            {"output": {"sizes": (2, 1, 3, 3)}},
            "output_tensor.sizes[2] is 3; accepted: 1 to 2, what a window of 4 holds at stride 2",
        ),
        (
            {"output": {"sizes": (2, 2, 2, 3)}},
            "output_tensor.sizes[1] is 2; accepted: 1 to 1, what a window of 2 holds at stride -2",
        ),
        ({"output": {"sizes": (2, 1, 0, 3)}}, f"output_tensor.sizes[2] is 0; accepted: {RANGE}"),
        (
            {"output": {"data_type": "INT32"}},
            "output_tensor.data_type is INT32; accepted: FLOAT32, as in input_tensor",
        ),
    ],
)
@pytest.mark.parametrize(("operator", "level"), SLICES_EVERYWHERE)
def test_window_is_refused(operator: str, level: str, changes: dict[str, Any], fault: str) -> None:
    assert_refused(slice1(**changes), level, fault)


@pytest.mark.parametrize(
    "changes",
    [
        {"dimension_count": 4},
        {"output": {"sizes": (1, 1, 1, 1)}},  # fewer elements than the window holds
        {"strides": (-1, -2, -2, -1)},
        {"strides": (2**31 - 1, -(2**31), 3, 1), "output": {"sizes": (1, 1, 2, 3)}},
        {"offsets": (1, 2, 3, 4), "window": (1, 1, 1, 1), "output": {"sizes": (1, 1, 1, 1)}},
    ],
)
@pytest.mark.parametrize(("operator", "level"), SLICES_EVERYWHERE)
def test_window_is_accepted(operator: str, level: str, changes: dict[str, Any]) -> None:
    dml.validate(slice1(**changes), level)


@pytest.mark.parametrize("level", dml.FeatureLevel, ids=str)
@pytest.mark.parametrize("operator", ["ARGMIN", "ARGMAX", "REDUCE", "SLICE1"])
def test_every_level_has_the_rules_of_the_newest_that_changed_the_operator(
    operator: str, level: dml.FeatureLevel
) -> None:
    desc = operator_desc(operator)
    c_name = f"DML_FEATURE_LEVEL_{level}"
    forms: list[Any] = [level, level.value, str(level), level.name, c_name, getattr(dml, c_name)]
    rules = rules_at(operator, str(level))
    if rules is None:
        first = min(since for name, since in SUPPORT if name == operator)
        for form in forms:
            with pytest.raises(ValueError, match="feature_level") as error:
                dml.validate(desc, form)
            fault = f"feature_level is {level}; accepted: {first} and later"
            assert facts(str(error.value)) == facts(f"{operator}: {fault}")
    else:
        for form in forms:
            assert dml.validate(desc, form) == dml.Validated(level, dml.FeatureLevel.of(rules))
        typed = dml.TypedOperatorDesc(dml.OperatorType[operator], desc)
        assert dml.validate(typed, level) == dml.Validated(level, dml.FeatureLevel.of(rules))


@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("operator", ["ARGMIN", "ARGMAX", "REDUCE", "SLICE1"])
def test_types_and_ranks_at_every_level(operator: str, level: str) -> None:
    rules = rules_at(operator, level)
    if rules is None:
        return
    counts, input_types, _ = SUPPORT[operator, rules]
    for rank in (1, 4, 5, 8):
        for name in ("FLOAT32", "INT8", "INT64", "FLOAT64"):
            desc = same_rank(operator, rank, name, name if operator == "SLICE1" else "UINT32")
            if rank in counts and name in input_types.split():
                dml.validate(desc, level)
            else:
                applied = "" if rules == level else f" (rules of {rules})"
                with pytest.raises(ValueError, match="input_tensor") as error:
                    dml.validate(desc, level)
                assert str(error.value).startswith(f"{operator} at feature level {level}{applied}: ")


def test_what_validate_returns_is_a_value() -> None:
    found = dml.validate(slice1(), "5_2")
    assert (found.level, found.rules) == (dml.FeatureLevel.FL_5_2, dml.FeatureLevel.FL_4_1)
    assert hash(found) == hash(dml.validate(slice1(), 0x5200))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rules = found.level  # type: ignore[misc]


LEVELS = (
    "1_0, 2_0, 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, 5_2, 6_0, 6_1, 6_2, 6_3, 6_4, "
    "as a FeatureLevel, by name ('5_0' or 'DML_FEATURE_LEVEL_5_0') or by number (0x5000)"
)


@pytest.mark.parametrize(
    ("level", "error", "given"),
    [
        ("3_7", ValueError, "'3_7'"),
        ("6_5", ValueError, "'6_5'"),
        ("5.0", ValueError, "'5.0'"),
        ("", ValueError, "''"),
        ("DML_FEATURE_LEVEL_7_0", ValueError, "'DML_FEATURE_LEVEL_7_0'"),
        (0x6500, ValueError, "0x6500"),
        (5, ValueError, "0x5"),
        (-0x5000, ValueError, "-0x5000"),
        (5.0, TypeError, "a float"),
        (None, TypeError, "None"),
        (True, TypeError, "a bool"),
        (DataType.FLOAT32, TypeError, "a DataType"),
    ],
)
def test_unknown_feature_level(level: Any, error: type[Exception], given: str) -> None:
    with pytest.raises(error) as raised:
        dml.validate(slice1(), level)
    assert str(raised.value) == f"feature_level is {given}; accepted: {LEVELS}"


def test_feature_level_is_made_from_a_number_or_a_name() -> None:
    untyped: Any = dml.FeatureLevel
    assert untyped(0x5000) is untyped("5_0") is untyped("DML_FEATURE_LEVEL_5_0") is dml.FeatureLevel.FL_5_0
    with pytest.raises(ValueError, match=r"^feature_level is 0x7000; accepted: 1_0, 2_0, "):
        untyped(0x7000)


def test_not_a_descriptor() -> None:
    fault = r"^desc is a BufferTensorDesc; accepted: ArgMinOperatorDesc, .*, TypedOperatorDesc$"
    with pytest.raises(TypeError, match=fault):
        dml.validate(tensor())  # type: ignore[arg-type]


def test_a_rule_of_vkdml_s_own_says_so_and_directml_s_do_not() -> None:
    """DirectML states these; `assert_refused` compares the others."""
    of_directml = [
        reduction("ARGMIN", axes=(4,)),
        reduction("ARGMIN", output={"sizes": (2, 3, 4, 5)}),
        slice1(strides=(1, 0, 2, 1)),
        slice1(output={"flags": dml.TensorFlags.OWNED_BY_DML}),
        slice1(input={"total_tensor_size_in_bytes": 482}),
    ]
    for desc in of_directml:
        with pytest.raises(ValueError, match="accepted") as error:
            dml.validate(desc)
        assert "a rule of vkdml" not in str(error.value)
