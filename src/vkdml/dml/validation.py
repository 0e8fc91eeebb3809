"""DirectML's constraints on descriptors, by operator and feature level.

Sources, by the titles of DirectML's documentation:

- the page of each operator's structure, with its "Tensor support" tables;
- "DML_BUFFER_TENSOR_DESC structure", for the limits of every tensor;
- "DML_TENSOR_FLAGS enumeration", for flags;
- "DirectML helper functions", for buffer sizes in multiples of 4 bytes;
- "DirectML feature level history", for what each level added. Its section DML_FEATURE_LEVEL_4_1 extends the
  data types of SLICE1, ARGMIN and ARGMAX. The release notes of DirectML 1.7.0, which introduced that level,
  state that the 64-bit types were added; section DML_FEATURE_LEVEL_3_0 names these as FLOAT64, UINT64 and
  INT64. No level after 4_1 extends these operators.

Four rules are vkdml's own, and their messages say so: reduced axes are distinct; the largest index fits the
output's type; no two elements of the output share a place; REDUCE has ARGMAX and ARGMIN only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from vkdml.common import windows
from vkdml.common.coinciding import elements_coincide
from vkdml.common.wording import wrong_value

from .descriptors import (
    UINT32_MAX,
    ArgMaxOperatorDesc,
    ArgMinOperatorDesc,
    BufferTensorDesc,
    OperatorDesc,
    ReduceOperatorDesc,
    Slice1OperatorDesc,
    TypedOperatorDesc,
    check_entries,
    check_sizes_and_strides,
    implied_size,
    operator_of,
    spanned_elements,
)
from .enums import (
    TENSOR_DIMENSION_COUNT_MAX,
    TENSOR_DIMENSION_COUNT_MAX1,
    DataType,
    FeatureLevel,
    FeatureLevelLike,
    ReduceFunction,
    TensorFlags,
)

# The end of messages about vkdml's own rules.
OWN_RULE = " (a rule of vkdml; DirectML's documentation has none)"


@dataclass(frozen=True)
class Validated:
    """A validated feature level and the rules that applied; returned by `validate`.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3,))
    >>> found = validate(Slice1OperatorDesc(x, x, (0,), (3,), (-1,)), "5_2")
    >>> f"level {found.level}, rules of {found.rules}"
    'level 5_2, rules of 4_1'

    Args:
        level: the requested feature level.
        rules: the feature level whose rules were applied: the newest one up to ``level`` that changed the
            operator.
    """

    level: FeatureLevel
    rules: FeatureLevel


@dataclass(frozen=True)
class _TensorSupport:
    """One "Tensor support" table of a documentation page; valid from feature level `since` on."""

    since: FeatureLevel
    dimension_counts: range
    input_types: tuple[DataType, ...]
    output_types: tuple[DataType, ...]


def _types(names: str) -> tuple[DataType, ...]:
    return tuple(DataType[name] for name in names.split())


_FLOATS = _types("FLOAT32 FLOAT16")
_UP_TO_32_BITS = _types("FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8")
_NO_DOUBLE = _types("FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8")
_ALL = (DataType.FLOAT64, *_NO_DOUBLE)
_INDEX = _types("INT64 INT32 UINT64 UINT32")

_FOUR = range(4, 5)
_FOUR_OR_FIVE = range(4, TENSOR_DIMENSION_COUNT_MAX + 1)
_ONE_TO_EIGHT = range(1, TENSOR_DIMENSION_COUNT_MAX1 + 1)

_ARG_SUPPORT = (
    _TensorSupport(FeatureLevel.FL_4_1, _ONE_TO_EIGHT, _NO_DOUBLE, _INDEX),
    _TensorSupport(FeatureLevel.FL_3_0, _ONE_TO_EIGHT, _UP_TO_32_BITS, _INDEX),
)
# Newest first; the last row belongs to the level that introduced the operator.
_SUPPORT = {
    "ARGMIN": _ARG_SUPPORT,
    "ARGMAX": _ARG_SUPPORT,
    "REDUCE": (
        *_ARG_SUPPORT,
        _TensorSupport(FeatureLevel.FL_2_1, _FOUR, _UP_TO_32_BITS, _types("UINT32")),
        _TensorSupport(FeatureLevel.FL_1_0, _FOUR, _FLOATS, _types("UINT32")),
    ),
    "SLICE1": (
        _TensorSupport(FeatureLevel.FL_4_1, _ONE_TO_EIGHT, _ALL, _ALL),
        _TensorSupport(FeatureLevel.FL_3_0, _ONE_TO_EIGHT, _UP_TO_32_BITS, _UP_TO_32_BITS),
        _TensorSupport(FeatureLevel.FL_2_1, _FOUR_OR_FIVE, _UP_TO_32_BITS, _UP_TO_32_BITS),
    ),
}
_REDUCE_FUNCTIONS = (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)


def validate(
    desc: OperatorDesc | TypedOperatorDesc, feature_level: FeatureLevelLike = FeatureLevel.FL_4_1
) -> Validated:
    """Raise an error for a descriptor that DirectML refuses at a feature level; needs no device.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(3, 3))
    >>> validate(ArgMinOperatorDesc(x, y, axes=(0,)), "3_0")
    Traceback (most recent call last):
    ValueError: ARGMIN at feature level 3_0: output_tensor.sizes[0] is 3; accepted: 1 (axis 0 is reduced)

    Args:
        desc: an operator descriptor, or a TypedOperatorDesc that wraps one.
        feature_level: any level that DirectML publishes, 1_0 to 6_4: a FeatureLevel, a name ("5_0" or
            "DML_FEATURE_LEVEL_5_0") or a number (0x5000). The rules of the newest level up to it that changed
            the operator apply; no level after 4_1 did.

    Returns:
        The level, and the level whose rules were applied.

    Raises:
        ValueError: a field has a value that is not accepted; the message names the operator, the field, its
            value and the accepted values, and says when the rule is vkdml's own.
        TypeError: not a descriptor, or not a level.

    Source of the rule: the pages of the operators' structures; ``DML_BUFFER_TENSOR_DESC``, for every tensor;
    "DirectML feature level history".
    """
    return _validate(operator_of(desc), FeatureLevel.of(feature_level))


# Descriptors are values: an accepted one stays accepted. A refused one raises, and lru_cache keeps no errors.
@lru_cache(maxsize=1024)
def _validate(desc: OperatorDesc, level: FeatureLevel) -> Validated:
    support = _tensor_support(desc.operator, level)
    rules = "" if support.since is level else f" (rules of {support.since})"
    where = f"{desc.operator} at feature level {level}{rules}: "
    if not isinstance(desc, Slice1OperatorDesc) and desc.function not in _REDUCE_FUNCTIONS:
        raise wrong_value(f"{where}function", desc.function.name, f"{_names(_REDUCE_FUNCTIONS)}{OWN_RULE}")
    for field, tensor, types in (
        ("input_tensor", desc.input_tensor, support.input_types),
        ("output_tensor", desc.output_tensor, support.output_types),
    ):
        _check_tensor(f"{where}{field}.", tensor, types, support.dimension_counts)
    if desc.output_tensor.dimension_count != desc.input_tensor.dimension_count:
        raise wrong_value(
            f"{where}output_tensor.dimension_count",
            desc.output_tensor.dimension_count,
            f"{desc.input_tensor.dimension_count}, as in input_tensor",
        )
    if isinstance(desc, Slice1OperatorDesc):
        _check_window(where, desc)
    else:
        _check_reduction(where, desc)
    _check_written(f"{where}output_tensor.", desc.output_tensor)
    return Validated(level, support.since)


def _names(members: Sequence[DataType] | Sequence[ReduceFunction]) -> str:
    return ", ".join(member.name for member in members)


def _tensor_support(operator: str, level: FeatureLevel) -> _TensorSupport:
    rows = _SUPPORT[operator]
    for row in rows:
        if row.since <= level:
            return row
    raise wrong_value(
        f"{operator}: feature_level", level, f"{rows[-1].since} and later, which have this operator"
    )


def _check_tensor(
    where: str, tensor: BufferTensorDesc, types: tuple[DataType, ...], dimension_counts: range
) -> None:
    if tensor.data_type not in types:
        raise wrong_value(f"{where}data_type", tensor.data_type.name, _names(types))
    _check_count(f"{where}dimension_count", tensor.dimension_count, "sizes", len(tensor.sizes))
    if tensor.dimension_count not in dimension_counts:
        low, high = dimension_counts[0], dimension_counts[-1]
        raise wrong_value(
            f"{where}dimension_count", tensor.dimension_count, low if low == high else f"{low} to {high}"
        )
    check_sizes_and_strides(where, tensor.sizes, tensor.strides)
    _check_buffer(where, tensor)


def _check_count(where: str, count: int, array: str, entries: int) -> None:
    if count != entries:
        raise wrong_value(where, count, f"{entries}, the number of entries in {array}")


def _check_buffer(where: str, tensor: BufferTensorDesc) -> None:
    for meaning, elements in (
        ("elements", prod(tensor.sizes)),
        ("elements of buffer", spanned_elements(tensor.sizes, tensor.strides)),
    ):
        if elements > UINT32_MAX:
            layout = "" if tensor.strides is None else f" with strides {tensor.strides}"
            raise wrong_value(
                f"{where}sizes", f"{tensor.sizes}{layout}: {elements} {meaning}", f"at most {UINT32_MAX}"
            )
    least = implied_size(tensor.data_type, tensor.sizes, tensor.strides)
    most = implied_size(tensor.data_type, (UINT32_MAX,), None)
    total = tensor.total_tensor_size_in_bytes
    if total not in range(least, most + 1, 4):
        raise wrong_value(
            f"{where}total_tensor_size_in_bytes",
            total,
            f"a multiple of 4 from {least} (the tensor's span) to {most} ({UINT32_MAX} elements)",
        )
    alignment, element_size = tensor.guaranteed_base_offset_alignment, tensor.data_type.size_in_bytes
    if alignment != 0 and (alignment not in range(element_size, 2**31 + 1) or alignment.bit_count() != 1):
        raise wrong_value(
            f"{where}guaranteed_base_offset_alignment",
            alignment,
            f"0 or a power of two from {element_size} (bytes of an element) to {2**31}",
        )


def _check_reduction(where: str, desc: ArgMinOperatorDesc | ArgMaxOperatorDesc | ReduceOperatorDesc) -> None:
    sizes, axes = desc.input_tensor.sizes, desc.axes
    _check_count(f"{where}axis_count", desc.axis_count, "axes", len(axes))
    check_entries(f"{where}axes", axes, range(len(sizes)))
    if len(set(axes)) != len(axes):
        raise wrong_value(f"{where}axes", axes, f"distinct axes{OWN_RULE}")
    for axis, (size, output_size) in enumerate(zip(sizes, desc.output_tensor.sizes, strict=True)):
        if output_size != (1 if axis in axes else size):
            accepted = f"1 (axis {axis} is reduced)" if axis in axes else f"{size}, as in input_tensor"
            raise wrong_value(f"{where}output_tensor.sizes[{axis}]", output_size, accepted)
    greatest = prod(sizes[axis] for axis in axes) - 1
    index_type = desc.output_tensor.data_type
    most = int(np.iinfo(index_type.dtype).max)
    if greatest > most:
        raise wrong_value(
            f"{where}output_tensor.data_type",
            f"{index_type.name} for indices up to {greatest}",
            f"a type that holds them ({index_type.name} holds up to {most}){OWN_RULE}",
        )


def _check_window(where: str, desc: Slice1OperatorDesc) -> None:
    sizes, output_sizes = desc.input_tensor.sizes, desc.output_tensor.sizes
    if desc.output_tensor.data_type is not desc.input_tensor.data_type:
        accepted = f"{desc.input_tensor.data_type.name}, as in input_tensor"
        raise wrong_value(f"{where}output_tensor.data_type", desc.output_tensor.data_type.name, accepted)
    # Where it only counts the offsets, it is they that are wrong.
    if desc.dimension_count not in (len(sizes), len(desc.input_window_offsets)):
        raise wrong_value(
            f"{where}dimension_count", desc.dimension_count, f"{len(sizes)}, as in input_tensor"
        )
    for field, entries, bounds in (
        ("offsets", desc.input_window_offsets, range(UINT32_MAX + 1)),
        ("sizes", desc.input_window_sizes, range(1, UINT32_MAX + 1)),
        ("strides", desc.input_window_strides, range(-(2**31), 2**31)),
    ):
        check_entries(f"{where}input_window_{field}", entries, bounds, len(sizes))
    window = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    for dimension, (offset, size, stride) in enumerate(window):
        if offset + size > sizes[dimension]:
            raise wrong_value(
                f"{where}input_window_offsets[{dimension}] + input_window_sizes[{dimension}]",
                f"{offset} + {size} = {offset + size}",
                f"at most {sizes[dimension]}, input_tensor.sizes[{dimension}]",
            )
        if stride == 0:
            raise wrong_value(f"{where}input_window_strides[{dimension}]", stride, "any integer but 0")
        copyable = windows.taken(size, stride)
        if output_sizes[dimension] > copyable:
            raise wrong_value(
                f"{where}output_tensor.sizes[{dimension}]",
                output_sizes[dimension],
                f"1 to {copyable}, the elements of a window of {size} at stride {stride}",
            )


def _check_written(where: str, tensor: BufferTensorDesc) -> None:
    if tensor.flags & TensorFlags.OWNED_BY_DML:
        raise wrong_value(f"{where}flags", "OWNED_BY_DML", "NONE; DirectML can own inputs only")
    if tensor.strides is None:
        return
    coincide = elements_coincide(tensor.sizes, tensor.strides)
    if coincide is not False:
        fault = "put" if coincide else "interleave the dimensions too much to tell whether they put"
        raise wrong_value(
            f"{where}strides",
            f"{tensor.strides} for sizes {tensor.sizes}, which {fault} several elements in one place",
            f"strides that put each element in a place of its own{OWN_RULE}",
        )
