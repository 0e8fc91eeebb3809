"""ONNX's element types as NumPy's, and arrays of the host out of ONNX's tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.arrays.foreign import small_float
from vkdml.common.wording import put_before
from vkdml.integrations.onnx_package import onnx

NUMBERS = (
    *("bool", "float16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
"""Elements that Cast takes and gives."""

_NAMES = {"float": "float32", "double": "float64"}


def named_in_schema(type_strings: Iterable[str]) -> frozenset[str]:
    """Return NumPy's names of the element types in a schema's list, as far as arrays of them can be moved.

    >>> sorted(named_in_schema(["tensor(float)", "tensor(int8)", "tensor(string)", "seq(tensor(float))"]))
    ['float32', 'int8']
    """
    elements = (name[7:-1] for name in type_strings if name.startswith("tensor("))
    return frozenset(_NAMES.get(element, element) for element in elements if element != "string")


def name_of(element_type: int | str) -> str:
    """Return NumPy's name for one of ``onnx.TensorProto``'s numbers or names, else ONNX's own.

    >>> name_of(1), name_of("DOUBLE"), name_of(8)
    ('float32', 'float64', 'string')
    """
    for label, number in onnx.TensorProto.DataType.items():
        if element_type in (label, number):
            name: str = label.lower()
            return _NAMES.get(name, name)
    return f"type {element_type}"


def dtype_of(element_type: int, where: str) -> np.dtype[Any]:
    """Return NumPy's type for one of ``onnx.TensorProto``'s numbers.

    >>> dtype_of(1, "x")
    dtype('float32')

    Raises:
        TypeError: there is none that vkdml knows: strings, 4-bit and some 8-bit elements; or it is bfloat16,
            and the package ml_dtypes is missing.
    """
    name = name_of(element_type)
    if name == "bfloat16":
        try:
            return small_float(name)
        except TypeError as error:
            put_before(error, where)
            raise
    if name not in (*NUMBERS, "complex64", "complex128"):
        raise TypeError(
            f"{where} has elements of type {name}; accepted are {', '.join(NUMBERS)}, bfloat16, complex64 "
            "and complex128"
        )
    return np.dtype(name)


def array_of(tensor: onnx.TensorProto, where: str) -> npt.NDArray[Any]:
    """Return a tensor's elements as an array of the host that cannot be written to."""
    dtype = dtype_of(tensor.data_type, where)
    # Some versions of onnx give bfloat16 as float32, of which no bit is lost on the way back.
    array = np.array(onnx.numpy_helper.to_array(tensor)).astype(dtype, copy=False)
    array.setflags(write=False)
    return array
