"""A stand-in for CUDA's driver on software drivers, and tensors that lie in its memory; see cuda_double.c."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vkdml.common import dlpack
from vkdml.integrations import cuda_driver, cuda_tensors
from vkdml.plan.layout import extent
from vkdml.runtime import lent_tensor

SOURCE = Path(__file__).with_suffix(".c")
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
SMALL = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


@cache
def library() -> ctypes.CDLL:
    """Compile and load it, once in a process."""
    path = Path(tempfile.mkdtemp()) / "libcuda_double.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", str(path), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    double = ctypes.CDLL(str(path))
    double.path = str(path)
    return double


def show_devices(uuids: Sequence[str]) -> None:
    """From now on CUDA has devices of these UUIDs."""
    double = library()
    double.double_devices(len(uuids), bytes.fromhex("".join(uuids)))
    cuda_driver.LIBRARY = double.path
    cuda_driver._found.clear()


def hide() -> None:
    """From now on there is no CUDA."""
    cuda_driver.LIBRARY = "libcuda_that_is_not_here.so.1"
    cuda_driver._found.clear()


def fail(function: str, result: int, after: int = 0) -> None:
    """The next call of a function, or a later one, returns this error."""
    library().double_fail(function.encode(), result, after)


class Tensor:
    """A tensor of another library in the double's memory: a NumPy array, said to lie on CUDA's device."""

    def __init__(self, array: Any, ordinal: int = 0, *, versions: bool = True, device_type: int = 2) -> None:
        self.array = np.asanyarray(array)
        self.device = (device_type, ordinal)
        self.versions = versions
        self.streams: list[Any] = []

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if options and not self.versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        self.streams.append(stream)
        array = self.array
        code = SMALL.get(array.dtype.name, CODES.get(array.dtype.kind))
        assert code is not None
        strides = tuple(stride // array.itemsize for stride in array.strides)
        flags = 0 if array.flags.writeable else dlpack.READ_ONLY
        description = lent_tensor.Description(array.shape, strides, 0, code, 8 * array.itemsize, flags)
        address = array.__array_interface__["data"][0]
        versioned = options.get("max_version") is not None
        return lent_tensor.capsule(address, description, self.device, self, versioned=versioned)


def seen_by_cuda(x: Any) -> np.ndarray[Any, Any]:
    """Return a NumPy array of the memory that a producer lends to CUDA: the double's memory is the host's."""
    assert x.__dlpack_device__()[0] == 2
    tensor = cuda_tensors.tensor_of(x)
    shape, strides, _ = tensor.view
    low, high = extent(shape, strides)
    itemsize = tensor.dtype.itemsize
    memory = (ctypes.c_char * ((high - low) * itemsize)).from_address(tensor.address + low * itemsize)
    memory.keeps = tensor.capsule
    steps = tuple(stride * itemsize for stride in strides)
    array = np.ndarray(shape, tensor.dtype, memory, -low * itemsize, steps)
    array.flags.writeable = not tensor.read_only
    return array
