"""DirectML's ARGMIN, ARGMAX, REDUCE and SLICE1 descriptors: describe, validate, run.

>>> from vkdml import dml
>>> dml.DML_ARGMAX_OPERATOR_DESC is dml.ArgMaxOperatorDesc
True
>>> dml.DML_BUFFER_TENSOR_DESC(DataType=dml.DML_TENSOR_DATA_TYPE_FLOAT16, Sizes=(2, 3)).DimensionCount
2

Every structure, field, enumeration, member and constant is also available under its name in DirectML.h.
"""

from typing import TYPE_CHECKING, Any

from .c_names import C_NAMES
from .descriptors import (
    ArgMaxOperatorDesc,
    ArgMinOperatorDesc,
    BufferTensorDesc,
    OperatorDesc,
    ReduceOperatorDesc,
    Slice1OperatorDesc,
    TypedOperatorDesc,
    TypedTensorDesc,
    calc_buffer_tensor_size,
)
from .enums import (
    MINIMUM_BUFFER_TENSOR_ALIGNMENT,
    TENSOR_DIMENSION_COUNT_MAX,
    TENSOR_DIMENSION_COUNT_MAX1,
    AxisDirection,
    DataType,
    FeatureLevel,
    OperatorType,
    ReduceFunction,
    TensorFlags,
    TensorType,
)
from .execution import run
from .validation import Validated, validate

__all__ = [
    "MINIMUM_BUFFER_TENSOR_ALIGNMENT",
    "TENSOR_DIMENSION_COUNT_MAX",
    "TENSOR_DIMENSION_COUNT_MAX1",
    "ArgMaxOperatorDesc",
    "ArgMinOperatorDesc",
    "AxisDirection",
    "BufferTensorDesc",
    "DataType",
    "FeatureLevel",
    "OperatorDesc",
    "OperatorType",
    "ReduceFunction",
    "ReduceOperatorDesc",
    "Slice1OperatorDesc",
    "TensorFlags",
    "TensorType",
    "TypedOperatorDesc",
    "TypedTensorDesc",
    "Validated",
    "calc_buffer_tensor_size",
    "run",
    "validate",
]

globals().update(C_NAMES)
__all__ += sorted(C_NAMES)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the C names, which are derived from the definitions
