"""DirectML's ARGMIN, ARGMAX, REDUCE and SLICE1 descriptors: describe, validate, run."""

from .descriptors import (
    ArgMaxOperatorDesc,
    ArgMinOperatorDesc,
    BufferTensorDesc,
    OperatorDesc,
    ReduceOperatorDesc,
    Slice1OperatorDesc,
    calc_buffer_tensor_size,
)
from .enums import AxisDirection, DataType, FeatureLevel, ReduceFunction, TensorFlags
from .execution import run
from .validation import validate

__all__ = [
    "ArgMaxOperatorDesc",
    "ArgMinOperatorDesc",
    "AxisDirection",
    "BufferTensorDesc",
    "DataType",
    "FeatureLevel",
    "OperatorDesc",
    "ReduceFunction",
    "ReduceOperatorDesc",
    "Slice1OperatorDesc",
    "TensorFlags",
    "calc_buffer_tensor_size",
    "run",
    "validate",
]
