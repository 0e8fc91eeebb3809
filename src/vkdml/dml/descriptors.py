"""DirectML's tensor and operator structures as frozen dataclasses.

Building one checks Python types only (TypeError); `validate` checks the values. A count that merely sizes
an array (dimension_count, axis_count) may be left out, and is then read off the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import prod
from operator import index
from typing import ClassVar, TypeAlias, TypeVar

from .enums import AxisDirection, DataType, ReduceFunction, TensorFlags

# No DirectML count or byte size can be negative, so -1 marks one to be derived from the other fields.
DERIVED = -1

UINT32_MAX = 2**32 - 1

_T = TypeVar("_T")


def refusal(where: str, given: object, accepted: object) -> ValueError:
    """The ValueError that names a field, what it holds and what it may hold."""
    return ValueError(f"{where} is {given}; accepted: {accepted}")


def check_entries(where: str, values: Sequence[int], accepted: range, count: int | None = None) -> None:
    """Refuse an array of the wrong length or with an entry outside `accepted`."""
    if count is not None and len(values) != count:
        raise refusal(where, f"{values}, {len(values)} entries", f"{count} entries, one for each dimension")
    for position, value in enumerate(values):
        if value not in accepted:
            raise refusal(f"{where}[{position}]", value, f"{accepted.start} to {accepted.stop - 1}")


def check_sizes_and_strides(where: str, sizes: Sequence[int], strides: Sequence[int] | None) -> None:
    """Refuse sizes and strides that a tensor cannot have at any feature level."""
    check_entries(f"{where}sizes", sizes, range(1, UINT32_MAX + 1))
    if strides is not None:
        check_entries(f"{where}strides", strides, range(UINT32_MAX + 1), len(sizes))


def spanned_elements(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Elements of the buffer from the first that the tensor addresses to the last, both included."""
    if strides is None:
        return prod(sizes)
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False))


def implied_size(data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """The formula of `calc_buffer_tensor_size`, without its checks."""
    size_in_bytes = (spanned_elements(sizes, strides) * data_type.size_in_bits + 7) // 8
    return (size_in_bytes + 3) // 4 * 4


def calc_buffer_tensor_size(
    data_type: DataType, sizes: Sequence[int], strides: Sequence[int] | None = None
) -> int:
    """Bytes of the smallest buffer that holds such a tensor, a multiple of 4.

    >>> calc_buffer_tensor_size(DataType.FLOAT16, (3, 3))
    20
    >>> calc_buffer_tensor_size(DataType.FLOAT16, (3, 3), strides=(4, 1))
    24

    data_type: any but UNKNOWN. sizes: at least 1 each. strides: elements from one index to the next in each
    dimension, 0 to repeat; None for packed. Nothing wraps at 32 bits.

    Raises ValueError for values out of range, TypeError for what is not a DataType or integers.
    Source: DirectML's DMLCalcBufferTensorSize.
    """
    data_type = _member("data_type", data_type, DataType)
    sizes = _integers("sizes", sizes)
    strides = None if strides is None else _integers("strides", strides)
    if data_type is DataType.UNKNOWN:
        raise refusal("calc_buffer_tensor_size: data_type", data_type.name, "any other DataType")
    check_sizes_and_strides("calc_buffer_tensor_size: ", sizes, strides)
    return implied_size(data_type, sizes, strides)


def _member(field: str, value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; accepted: a {kind.__name__}")
    return value


def _integer(field: str, value: int) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; accepted: an integer") from None


def _integers(field: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(index(value) for value in values)
    except TypeError:
        raise TypeError(
            f"{field} is {values!r}, a {type(values).__name__}; accepted: a sequence of integers"
        ) from None


def _store(desc: object, **fields: object) -> None:
    """Set fields of a frozen dataclass while it is being built."""
    for name, value in fields.items():
        object.__setattr__(desc, name, value)


@dataclass(frozen=True)
class BufferTensorDesc:
    """Describe a tensor and the buffer it lies in (`DML_BUFFER_TENSOR_DESC`).

    >>> BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3)).total_tensor_size_in_bytes
    36

    data_type: type of the elements.
    flags: OWNED_BY_DML is for inputs only.
    dimension_count: the number of sizes; -1 to count them.
    sizes: elements in each dimension.
    strides: elements (not bytes) from one index to the next in each dimension, 0 to repeat; None for packed.
    total_tensor_size_in_bytes: least size of the buffer, a multiple of 4; -1 for the smallest that will do.
    guaranteed_base_offset_alignment: bytes, 0 or a power of two; it changes no result.

    Raises TypeError for the wrong Python types. Source: DML_BUFFER_TENSOR_DESC.
    """

    data_type: DataType
    _: KW_ONLY
    flags: TensorFlags = TensorFlags.NONE
    dimension_count: int = DERIVED
    sizes: Sequence[int]
    strides: Sequence[int] | None = None
    total_tensor_size_in_bytes: int = DERIVED
    guaranteed_base_offset_alignment: int = 0

    def __post_init__(self) -> None:
        data_type = _member("data_type", self.data_type, DataType)
        _member("flags", self.flags, TensorFlags)
        sizes = _integers("sizes", self.sizes)
        strides = None if self.strides is None else _integers("strides", self.strides)
        count = _integer("dimension_count", self.dimension_count)
        total = _integer("total_tensor_size_in_bytes", self.total_tensor_size_in_bytes)
        _store(
            self,
            sizes=sizes,
            strides=strides,
            dimension_count=len(sizes) if count == DERIVED else count,
            total_tensor_size_in_bytes=implied_size(data_type, sizes, strides) if total == DERIVED else total,
            guaranteed_base_offset_alignment=_integer(
                "guaranteed_base_offset_alignment", self.guaranteed_base_offset_alignment
            ),
        )


@dataclass(frozen=True)
class _TensorPair:
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc

    def __post_init__(self) -> None:
        _member("input_tensor", self.input_tensor, BufferTensorDesc)
        _member("output_tensor", self.output_tensor, BufferTensorDesc)


@dataclass(frozen=True)
class _ArgOperatorDesc(_TensorPair):
    axes: Sequence[int]
    axis_direction: AxisDirection = AxisDirection.INCREASING
    _: KW_ONLY
    axis_count: int = DERIVED

    def __post_init__(self) -> None:
        super().__post_init__()
        _member("axis_direction", self.axis_direction, AxisDirection)
        _store_axes(self, self.axes, self.axis_count)


def _store_axes(desc: object, axes: Sequence[int], axis_count: int) -> None:
    axes = _integers("axes", axes)
    count = _integer("axis_count", axis_count)
    _store(desc, axes=axes, axis_count=len(axes) if count == DERIVED else count)


@dataclass(frozen=True)
class ArgMinOperatorDesc(_ArgOperatorDesc):
    """Describe the index of the smallest element along some axes (`DML_ARGMIN_OPERATOR_DESC`).

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> ArgMinOperatorDesc(x, BufferTensorDesc(DataType.UINT32, sizes=(1, 3)), axes=(0,)).axis_count
    1

    input_tensor: read. output_tensor: written; the input's sizes with 1 at each reduced axis.
    axes: those to reduce, 0 to dimension_count - 1, in any order.
    axis_direction: which of several equals is picked, the first or the last.

    Raises TypeError for the wrong Python types. Source: DML_ARGMIN_OPERATOR_DESC.
    """

    operator: ClassVar[str] = "ARGMIN"
    function: ClassVar[ReduceFunction] = ReduceFunction.ARGMIN


@dataclass(frozen=True)
class ArgMaxOperatorDesc(_ArgOperatorDesc):
    """Describe the index of the largest element along some axes (`DML_ARGMAX_OPERATOR_DESC`).

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(3, 3))
    >>> ArgMaxOperatorDesc(x, BufferTensorDesc(DataType.UINT32, sizes=(1, 1)), axes=(0, 1)).axis_count
    2

    Fields and errors as in `ArgMinOperatorDesc`. Source: DML_ARGMAX_OPERATOR_DESC.
    """

    operator: ClassVar[str] = "ARGMAX"
    function: ClassVar[ReduceFunction] = ReduceFunction.ARGMAX


@dataclass(frozen=True)
class ReduceOperatorDesc:
    """Describe a reduction by function (`DML_REDUCE_OPERATOR_DESC`); the first of equals is picked.

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(1, 1, 3, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(1, 1, 3, 1))
    >>> ReduceOperatorDesc(ReduceFunction.ARGMAX, x, y, axes=(3,)).axis_direction.name
    'INCREASING'

    function: ARGMIN or ARGMAX. The other fields and the errors are as in `ArgMinOperatorDesc`.
    Source: DML_REDUCE_OPERATOR_DESC.
    """

    operator: ClassVar[str] = "REDUCE"
    axis_direction: ClassVar[AxisDirection] = AxisDirection.INCREASING

    function: ReduceFunction
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axes: Sequence[int]
    _: KW_ONLY
    axis_count: int = DERIVED

    def __post_init__(self) -> None:
        _member("function", self.function, ReduceFunction)
        _member("input_tensor", self.input_tensor, BufferTensorDesc)
        _member("output_tensor", self.output_tensor, BufferTensorDesc)
        _store_axes(self, self.axes, self.axis_count)


@dataclass(frozen=True)
class Slice1OperatorDesc(_TensorPair):
    """Describe the copy of a strided window (`DML_SLICE1_OPERATOR_DESC`).

    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(4, 4))
    >>> y = BufferTensorDesc(DataType.FLOAT32, sizes=(2, 2))
    >>> Slice1OperatorDesc(x, y, (0, 1), (4, 3), (-2, 2)).dimension_count
    2

    input_tensor: read. output_tensor: written; its sizes may be less than what the window holds.
    input_window_offsets, input_window_sizes: first element and extent of the window in each dimension.
    input_window_strides: elements from one copied element to the next; a positive stride starts at the first
    element of the window, a negative one at the last.

    Raises TypeError for the wrong Python types. Source: DML_SLICE1_OPERATOR_DESC.
    """

    operator: ClassVar[str] = "SLICE1"

    input_window_offsets: Sequence[int]
    input_window_sizes: Sequence[int]
    input_window_strides: Sequence[int]
    _: KW_ONLY
    dimension_count: int = DERIVED

    def __post_init__(self) -> None:
        super().__post_init__()
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
