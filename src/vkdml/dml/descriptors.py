"""DirectML's tensor and operator structures as frozen dataclasses.

Fields have C's order, a Python name and a C name (see `c_struct`). Building a descriptor checks types and
converts numbers to members of enumerations; `validate` checks the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import prod
from typing import ClassVar, TypeAlias

from vkdml.common.integers import entries, index, is_sequence
from vkdml.common.wording import wrong_type, wrong_value

from .c_struct import COUNT, c_struct
from .enums import (
    AxisDirection,
    DataType,
    OperatorType,
    ReduceFunction,
    TensorFlags,
    TensorType,
    as_member,
)

# Marks a count or a byte size to be derived from the other fields; DirectML has no negative ones.
DERIVED = -1

UINT32_MAX = 2**32 - 1


def check_entries(where: str, values: Sequence[int], accepted: range, count: int | None = None) -> None:
    """Raise ValueError for an array of another length than `count`, or an entry outside `accepted`."""
    if count is not None and len(values) != count:
        raise wrong_value(
            where, f"{values} with {len(values)} entries", f"{count} entries, one for each dimension"
        )
    for position, value in enumerate(values):
        if value not in accepted:
            raise wrong_value(f"{where}[{position}]", value, f"{accepted.start} to {accepted.stop - 1}")


def check_sizes_and_strides(where: str, sizes: Sequence[int], strides: Sequence[int] | None) -> None:
    """Raise ValueError for sizes and strides that no feature level accepts."""
    check_entries(f"{where}sizes", sizes, range(1, UINT32_MAX + 1))
    if strides is not None:
        check_entries(f"{where}strides", strides, range(UINT32_MAX + 1), len(sizes))


def spanned_elements(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return the number of elements of the buffer from the first to the last that the tensor addresses."""
    if strides is None:
        return prod(sizes)
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False))


def implied_size(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return what `calc_buffer_tensor_size` returns, without its checks."""
    size_in_bytes = (spanned_elements(sizes, strides) * data_type.size_in_bits + 7) // 8
    return (size_in_bytes + 3) // 4 * 4


def calc_buffer_tensor_size(
    data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None
) -> int:
    """Return the bytes of the smallest buffer that holds a tensor, rounded up to a multiple of 4.

    >>> calc_buffer_tensor_size(DataType.FLOAT16, (3, 3))
    20
    >>> calc_buffer_tensor_size(DataType.FLOAT16, (3, 3), strides=(4, 1))
    24

    Args:
        data_type: any DataType but UNKNOWN, or its number.
        sizes: elements in each dimension, at least 1.
        strides: elements from one index to the next in each dimension; 0 repeats an element; None is packed.

    Returns:
        Bytes, also beyond 32 bits.

    Raises:
        ValueError: a value out of range.
        TypeError: not a DataType or its number, or not integers.

    Source of the rule: DirectML's ``DMLCalcBufferTensorSize``, in "DirectML helper functions".
    """
    data_type = as_member("data_type", data_type, DataType)
    sizes = _integers("sizes", sizes)
    strides = None if strides is None else _integers("strides", strides)
    if data_type is DataType.UNKNOWN:
        raise wrong_value("calc_buffer_tensor_size: data_type", data_type.name, "any other DataType")
    check_sizes_and_strides("calc_buffer_tensor_size: ", sizes, strides)
    return implied_size(data_type, sizes, strides)


def _integer(where: str, value: int) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return int(index(value))  # converts members of enumerations too
    except TypeError:
        raise wrong_type(where, value, "an integer") from None


def _integers(where: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        if not is_sequence(values):
            raise TypeError
        given = entries(where, values)
    except TypeError:
        raise wrong_type(where, values, "a sequence of integers") from None
    return tuple(_integer(f"{where}[{position}]", value) for position, value in enumerate(given))


def _store(desc: object, /, **values: object) -> None:
    """Set fields of a frozen dataclass that is being built."""
    for name, value in values.items():
        object.__setattr__(desc, name, value)


def _store_tensors(desc: object, /, **tensors: BufferTensorDesc | TypedTensorDesc) -> None:
    for name, tensor in tensors.items():
        if isinstance(tensor, TypedTensorDesc):
            tensor = tensor.desc
        if not isinstance(tensor, BufferTensorDesc):
            raise wrong_type(name, tensor, "a BufferTensorDesc, or a TypedTensorDesc that holds one")
        _store(desc, **{name: tensor})


def _store_axes(desc: object, axes: Sequence[int], axis_count: int) -> None:
    axes = _integers("axes", axes)
    count = _integer("axis_count", axis_count)
    _store(desc, axes=axes, axis_count=len(axes) if count == DERIVED else count)


@c_struct("DML_BUFFER_TENSOR_DESC")
@dataclass(frozen=True)
class BufferTensorDesc:
    """Describe a tensor and its buffer.

    >>> BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3)).total_tensor_size_in_bytes
    36
    >>> BufferTensorDesc(DataType.FLOAT32, TensorFlags.NONE, 2, (3, 3), None, 36, 0).Sizes
    (3, 3)

    Args:
        data_type: type of the elements, or its number.
        flags: NONE or OWNED_BY_DML; the latter is accepted for inputs only.
        dimension_count: the number of sizes; -1, the default, counts them.
        sizes: elements in each dimension.
        strides: elements (not bytes) from one index to the next in each dimension; 0 repeats an element;
            None is packed.
        total_tensor_size_in_bytes: smallest accepted size of the buffer, a multiple of 4; -1, the default,
            derives the smallest buffer that holds the tensor.
        guaranteed_base_offset_alignment: bytes, 0 or a power of two; what lies elsewhere on a device is
            refused.

    Raises:
        TypeError: a value of a wrong type, or a field that is missing, unknown or given twice.
        ValueError: a number that is no member of its enumeration.

    Source of the rule: DirectML's ``DML_BUFFER_TENSOR_DESC``.
    """

    data_type: DataType
    _: KW_ONLY
    flags: TensorFlags = TensorFlags.NONE
    dimension_count: int = field(default=DERIVED, metadata=COUNT)
    sizes: Sequence[int]
    strides: Sequence[int] | None = None
    total_tensor_size_in_bytes: int = DERIVED
    guaranteed_base_offset_alignment: int = 0

    def __post_init__(self) -> None:
        data_type = as_member("data_type", self.data_type, DataType)
        sizes = _integers("sizes", self.sizes)
        strides = None if self.strides is None else _integers("strides", self.strides)
        count = _integer("dimension_count", self.dimension_count)
        total = _integer("total_tensor_size_in_bytes", self.total_tensor_size_in_bytes)
        _store(
            self,
            data_type=data_type,
            flags=as_member("flags", self.flags, TensorFlags),
            sizes=sizes,
            strides=strides,
            dimension_count=len(sizes) if count == DERIVED else count,
            total_tensor_size_in_bytes=implied_size(data_type, sizes, strides) if total == DERIVED else total,
            guaranteed_base_offset_alignment=_integer(
                "guaranteed_base_offset_alignment", self.guaranteed_base_offset_alignment
            ),
        )


@c_struct("DML_TENSOR_DESC")
@dataclass(frozen=True)
class TypedTensorDesc:
    """Wrap a tensor descriptor with its type, as C does; operator descriptors accept and unwrap it.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> TypedTensorDesc(TensorType.BUFFER, x).Desc is x
    True

    Args:
        type: BUFFER, or its number.
        desc: a BufferTensorDesc.

    Raises:
        ValueError: a type other than BUFFER.
        TypeError: a value of a wrong type, or a field that is missing, unknown or given twice.

    Source of the rule: DirectML's ``DML_TENSOR_DESC``.
    """

    type: TensorType
    desc: BufferTensorDesc

    def __post_init__(self) -> None:
        tensor_type = as_member("type", self.type, TensorType)
        _store_tensors(self, desc=self.desc)
        if tensor_type is not TensorType.BUFFER:
            raise wrong_value("type", tensor_type.name, "BUFFER, the type of a BufferTensorDesc")
        _store(self, type=tensor_type)


@dataclass(frozen=True)
class _ArgOperatorDesc:
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int = field(default=DERIVED, kw_only=True, metadata=COUNT)
    axes: Sequence[int]
    axis_direction: AxisDirection = AxisDirection.INCREASING

    def __post_init__(self) -> None:
        _store_tensors(self, input_tensor=self.input_tensor, output_tensor=self.output_tensor)
        _store_axes(self, self.axes, self.axis_count)
        _store(self, axis_direction=as_member("axis_direction", self.axis_direction, AxisDirection))


@c_struct("DML_ARGMIN_OPERATOR_DESC")
@dataclass(frozen=True)
class ArgMinOperatorDesc(_ArgOperatorDesc):
    """Describe the index of the smallest element along some axes.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> ArgMinOperatorDesc(x, BufferTensorDesc(DataType.UINT32, sizes=(1, 3)), axes=(0,)).axis_count
    1

    Args:
        input_tensor: the elements, a BufferTensorDesc or a TypedTensorDesc.
        output_tensor: the indices, likewise; its sizes are the input's with 1 at each reduced axis.
        axis_count: the number of axes; -1, the default, counts them.
        axes: the axes to reduce, 0 to dimension_count - 1, distinct, in any order.
        axis_direction: INCREASING picks the first of equal elements, DECREASING the last.

    Raises:
        TypeError: a value of a wrong type, or a field that is missing, unknown or given twice.
        ValueError: a number that is no member of its enumeration.

    Source of the rule: DirectML's ``DML_ARGMIN_OPERATOR_DESC``.
    """

    operator: ClassVar[str] = "ARGMIN"
    function: ClassVar[ReduceFunction] = ReduceFunction.ARGMIN


@c_struct("DML_ARGMAX_OPERATOR_DESC")
@dataclass(frozen=True)
class ArgMaxOperatorDesc(_ArgOperatorDesc):
    """Describe the index of the largest element along some axes.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(1, 1))
    >>> ArgMaxOperatorDesc(x, y, axes=(0, 1)) == ArgMaxOperatorDesc(x, y, 2, (0, 1), AxisDirection.INCREASING)
    True

    Args:
        input_tensor, output_tensor, axis_count, axes, axis_direction: as in :class:`ArgMinOperatorDesc`.

    Raises:
        TypeError, ValueError: as :class:`ArgMinOperatorDesc`.

    Source of the rule: DirectML's ``DML_ARGMAX_OPERATOR_DESC``.
    """

    operator: ClassVar[str] = "ARGMAX"
    function: ClassVar[ReduceFunction] = ReduceFunction.ARGMAX


@c_struct("DML_REDUCE_OPERATOR_DESC")
@dataclass(frozen=True)
class ReduceOperatorDesc:
    """Describe a reduction by a function; ARGMIN and ARGMAX pick the first of equal elements.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(1, 1, 3, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(1, 1, 3, 1))
    >>> ReduceOperatorDesc(ReduceFunction.ARGMAX, x, y, axes=(3,)).axis_direction.name
    'INCREASING'

    Args:
        function: ARGMIN or ARGMAX.
        input_tensor, output_tensor, axis_count, axes: as in :class:`ArgMinOperatorDesc`.

    Raises:
        TypeError, ValueError: as :class:`ArgMinOperatorDesc`.

    Source of the rule: DirectML's ``DML_REDUCE_OPERATOR_DESC``.
    """

    operator: ClassVar[str] = "REDUCE"
    axis_direction: ClassVar[AxisDirection] = AxisDirection.INCREASING

    function: ReduceFunction
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int = field(default=DERIVED, kw_only=True, metadata=COUNT)
    axes: Sequence[int]

    def __post_init__(self) -> None:
        _store(self, function=as_member("function", self.function, ReduceFunction))
        _store_tensors(self, input_tensor=self.input_tensor, output_tensor=self.output_tensor)
        _store_axes(self, self.axes, self.axis_count)


@c_struct("DML_SLICE1_OPERATOR_DESC")
@dataclass(frozen=True)
class Slice1OperatorDesc:
    """Describe a copy of a strided window.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(4, 4))
    >>> y = BufferTensorDesc(DataType.FLOAT32, sizes=(2, 2))
    >>> Slice1OperatorDesc(x, y, (0, 1), (4, 3), (-2, 2)).dimension_count
    2

    Args:
        input_tensor: the elements, a BufferTensorDesc or a TypedTensorDesc.
        output_tensor: the copied elements, likewise; its sizes may be smaller than the window allows.
        dimension_count: the number of offsets; -1, the default, counts them.
        input_window_offsets: first element of the window in each dimension.
        input_window_sizes: extent of the window in each dimension, in elements.
        input_window_strides: elements from one copied element to the next in each dimension; a positive
            stride starts at the first element of the window, a negative one at the last.

    Raises:
        TypeError: a value of a wrong type, or a field that is missing, unknown or given twice.

    Source of the rule: DirectML's ``DML_SLICE1_OPERATOR_DESC``.
    """

    operator: ClassVar[str] = "SLICE1"

    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int = field(default=DERIVED, kw_only=True, metadata=COUNT)
    input_window_offsets: Sequence[int]
    input_window_sizes: Sequence[int]
    input_window_strides: Sequence[int]

    def __post_init__(self) -> None:
        _store_tensors(self, input_tensor=self.input_tensor, output_tensor=self.output_tensor)
        offsets = _integers("input_window_offsets", self.input_window_offsets)
        count = _integer("dimension_count", self.dimension_count)
        _store(
            self,
            input_window_offsets=offsets,
            input_window_sizes=_integers("input_window_sizes", self.input_window_sizes),
            input_window_strides=_integers("input_window_strides", self.input_window_strides),
            dimension_count=len(offsets) if count == DERIVED else count,
        )


OperatorDesc: TypeAlias = ArgMinOperatorDesc | ArgMaxOperatorDesc | ReduceOperatorDesc | Slice1OperatorDesc
_OPERATOR_DESCS = (ArgMinOperatorDesc, ArgMaxOperatorDesc, ReduceOperatorDesc, Slice1OperatorDesc)


@c_struct("DML_OPERATOR_DESC")
@dataclass(frozen=True)
class TypedOperatorDesc:
    """Wrap an operator descriptor with its type, as C does; `validate`, `run` and `compile` accept it.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(4,))
    >>> TypedOperatorDesc(OperatorType.SLICE1, Slice1OperatorDesc(x, x, (0,), (4,), (-1,))).Type.name
    'SLICE1'

    Args:
        type: the type of ``desc``, or its number.
        desc: an operator descriptor.

    Raises:
        ValueError: a type other than that of ``desc``.
        TypeError: a value of a wrong type, or a field that is missing, unknown or given twice.

    Source of the rule: DirectML's ``DML_OPERATOR_DESC``.
    """

    type: OperatorType
    desc: OperatorDesc

    def __post_init__(self) -> None:
        operator_type = as_member("type", self.type, OperatorType)
        if not isinstance(self.desc, _OPERATOR_DESCS):
            raise wrong_type("desc", self.desc, _names_of(_OPERATOR_DESCS))
        if operator_type.name != self.desc.operator:
            raise wrong_value("type", operator_type.name, f"{self.desc.operator}, the type of desc")
        _store(self, type=operator_type)


def operator_of(desc: OperatorDesc | TypedOperatorDesc) -> OperatorDesc:
    """Return an operator descriptor without its wrapper.

    Raises:
        TypeError: not an operator descriptor.
    """
    if isinstance(desc, TypedOperatorDesc):
        return desc.desc
    if not isinstance(desc, _OPERATOR_DESCS):
        raise wrong_type("desc", desc, _names_of((*_OPERATOR_DESCS, TypedOperatorDesc)))
    return desc


def _names_of(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
