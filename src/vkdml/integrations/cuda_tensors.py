"""Tensors of other libraries that CUDA holds: taken as Arrays, and written from Arrays, on the device."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from vkdml.arrays import foreign
from vkdml.arrays.array import Array, allocated, array_in
from vkdml.arrays.host_span import SPAN_LIMIT
from vkdml.arrays.indexing import View
from vkdml.common import dlpack
from vkdml.common.coinciding import elements_overlap
from vkdml.integrations import cuda_driver
from vkdml.integrations.cuda_driver import CudaDevice
from vkdml.integrations.cuda_memory import CudaMemory, memory_at
from vkdml.plan.layout import extent, row_major_strides
from vkdml.runtime.device import resolve

# Widely spread elements are brought together by the copy if the memory between them is more than both.
SPAN_BYTES = 64 << 20
# Bytes. CUDA refuses to copy rows that are further apart.
MOST_PITCH = (1 << 31) - 1


class CudaTensor(NamedTuple):
    """Where the elements of another library's tensor lie. Strides count elements."""

    address: int
    view: View
    dtype: np.dtype[Any]
    device: CudaDevice
    read_only: bool
    stream: int
    """A stream of CUDA's. The elements can be used after the work that it was given."""
    capsule: Any
    """Keeps the memory."""

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last."""
        low, high = self.reach
        return (high - low) * self.dtype.itemsize

    @property
    def reach(self) -> tuple[int, int]:
        """The lowest offset of an element, and one past the highest."""
        shape, strides, _ = self.view
        return extent(shape, strides) if math.prod(shape) else (0, 0)

    @property
    def is_writeable(self) -> bool:
        """Whether each element may be written: its library allows it, and it has a place of its own."""
        shape, strides, _ = self.view
        if self.read_only or strides == row_major_strides(shape):
            return not self.read_only
        places = np.empty(1, "u1")  # which is not looked into
        return not elements_overlap(np.lib.stride_tricks.as_strided(places, shape, strides))


def tensor_of(x: Any) -> CudaTensor:
    """Return what an object that ``foreign.lies_on_cuda`` lends through DLPack.

    Raises:
        TypeError: it refuses, or its elements are of a type that NumPy has not.
        DeviceError: CUDA is not there, or failed.
    """
    kind = type(x).__name__
    foreign.require_sign_as_stored(x)
    device = cuda_driver.numbered(int(x.__dlpack_device__()[1]))
    stream = _current_stream(x, device.ordinal) or device.stream
    lent, dtype = _as_bytes(x)
    try:
        capsule = _capsule(lent, stream)
    except (BufferError, RuntimeError, AttributeError, ValueError, TypeError) as error:
        raise TypeError(
            f"this {kind} cannot be taken through DLPack: {error}; accepted are tensors that its library "
            "lends as they are"
        ) from None
    start, flags = dlpack.tensor_in(capsule)
    address, _, _, rank, code, bits, lanes, sizes, strides, offset = dlpack.TENSOR.unpack_from(
        ctypes.string_at(start, dlpack.TENSOR.size)
    )
    shape = _numbers(sizes, rank)
    if dtype is None:
        dtype = _element_type(code, bits, lanes)
    view = View(shape, _numbers(strides, rank) if strides else row_major_strides(shape), 0)
    return CudaTensor(address + offset, view, dtype, device, bool(flags & dlpack.READ_ONLY), stream, capsule)


def _current_stream(x: Any, ordinal: int) -> int | None:
    """Return the stream on which the caller's library puts its next work, or None if it is not known."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.cuda.current_stream(ordinal).cuda_stream or cuda_driver.LEGACY_STREAM
    if cupy is not None and isinstance(x, cupy.ndarray):
        with cupy.cuda.Device(ordinal):
            return cupy.cuda.get_current_stream().ptr or cuda_driver.LEGACY_STREAM
    return None


def _as_bytes(x: Any) -> tuple[Any, np.dtype[Any] | None]:
    """Return torch's floats of 8 bits as bytes, with their type: not every torch lends them as they are."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        name = str(x.dtype).removeprefix("torch.")
        if name in _SMALL_FLOATS_OF_A_BYTE:
            return x.view(torch.uint8), foreign.small_float(name)
    return x, None


_SMALL_FLOATS_OF_A_BYTE = frozenset(name for name, bits in dlpack.SMALL_FLOATS.values() if bits == 8)


def _capsule(x: Any, stream: int) -> Any:
    try:
        return x.__dlpack__(stream=stream, max_version=dlpack.VERSION_WITH_FLAGS)
    except TypeError:  # libraries from before that version
        return x.__dlpack__(stream=stream)


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"@{count}q", ctypes.string_at(address, 8 * count)) if count else ()


def _element_type(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    name = dlpack.small_float_name(code, bits)
    if name is not None and lanes == 1:
        return foreign.small_float(name)
    try:
        if lanes == 1 and bits % 8 == 0:
            return np.dtype(f"{dlpack.KINDS[code]}{bits // 8}")
    except (KeyError, TypeError):
        pass
    raise TypeError(
        f"elements of DLPack's type (code {code}, {bits} bits, {lanes} lanes) are unknown; accepted are "
        "integers, floats, complex numbers and bool"
    )


# ---- tensors as Arrays -------------------------------------------------------------------------------------


def taken(x: Any, *, copy: bool | None = None) -> Array:
    """Return an Array of a CUDA tensor's elements, on the same GPU.

    Memory that vkdml lent is used as it is; other memory is copied on the device, on the caller's stream, and
    the copy is waited for.

    Args:
        x: a tensor.
        copy: True always copies; False never does.

    Raises:
        TypeError, DeviceError: as :func:`tensor_of`.
        ValueError: ``copy=False`` where a copy is needed.
        MemoryError: the GPU has no room for the copy.
    """
    tensor = tensor_of(x)
    own = in_own_memory(tensor)
    if own is not None:
        return own.copy() if copy else own
    if copy is False:
        raise ValueError(
            "copy=False, but CUDA's own memory is not seen by Vulkan, so a copy is needed; accepted are "
            'copy=None and True. Tensors made from a vkdml.empty(..., share="cuda") need none'
        )
    return _copied(tensor)


def in_own_memory(tensor: CudaTensor) -> Array | None:
    """Return the Array of a tensor's elements if vkdml lent their memory, else None."""
    low, _ = tensor.reach
    itemsize = tensor.dtype.itemsize
    memory = memory_at(tensor.address + low * itemsize, tensor.nbytes)
    if memory is None or (tensor.address - memory.address) % itemsize:
        return None
    view = tensor.view._replace(offset=(tensor.address - memory.address) // itemsize)
    return array_in(memory, tensor.dtype, view, tensor.is_writeable)


def _copied(tensor: CudaTensor) -> Array:
    shape, strides, _ = tensor.view
    itemsize, size = tensor.dtype.itemsize, math.prod(shape)
    if not size:
        return allocated(resolve(tensor.device.uuid), shape, tensor.dtype, on_cuda=True)
    # Elements that a stride of 0 repeats are copied once.
    once = tuple(1 if stride == 0 else extent for extent, stride in zip(shape, strides, strict=True))
    low, high = extent(once, strides)
    if (high - low) * itemsize <= max(SPAN_LIMIT * math.prod(once) * itemsize, SPAN_BYTES):
        result = _room(tensor, high - low)
        address = _address(result)
        tensor.device.copy(address, tensor.address + low * itemsize, (high - low) * itemsize, tensor.stream)
        view = View(shape, strides, -low)
    else:
        result = _room(tensor, math.prod(once))
        compact = row_major_strides(once)
        _copy_elements(
            tensor.device,
            (_address(result), compact),
            (tensor.address, strides),
            once,
            itemsize,
            tensor.stream,
        )
        view = View(shape, tuple(0 if s == 0 else c for s, c in zip(strides, compact, strict=True)), 0)
    tensor.device.wait(tensor.stream)
    return array_in(result.memory, tensor.dtype, view, tensor.is_writeable)


def _room(tensor: CudaTensor, count: int) -> Array:
    return allocated(resolve(tensor.device.uuid), (count,), tensor.dtype, on_cuda=True)


def _address(array: Array) -> int:
    memory = array.memory
    assert isinstance(memory, CudaMemory)
    return memory.address + array.placement.offset * array.itemsize


# ---- tensors as results ------------------------------------------------------------------------------------


class Output:
    """A CUDA tensor that the caller gave for a result: an Array to write to, and its way back."""

    def __init__(self, x: Any, what: str) -> None:
        tensor = tensor_of(x)
        shape = tensor.view.shape
        if not tensor.is_writeable:
            raise ValueError(f"{what} is read-only or repeats elements; accepted is a writeable tensor")
        own = in_own_memory(tensor)
        self.given = x
        self._tensor = None if own is not None else tensor
        self.array = (
            allocated(resolve(tensor.device.uuid), shape, tensor.dtype, on_cuda=True) if own is None else own
        )

    def deliver(self) -> Any:
        """Copy the result on the caller's stream, wait for that, and return what the caller gave."""
        tensor, array = self._tensor, self.array
        if tensor is not None and array.size:
            target = tensor.address, tensor.view.strides
            source = _address(array), array.placement.strides
            _copy_elements(tensor.device, target, source, array.shape, array.itemsize, tensor.stream)
            tensor.device.wait(tensor.stream)
        return self.given


# ---- copies ------------------------------------------------------------------------------------------------


def _copy_elements(
    device: CudaDevice,
    target: tuple[int, tuple[int, ...]],
    source: tuple[int, tuple[int, ...]],
    shape: tuple[int, ...],
    itemsize: int,
    stream: int,
) -> None:
    """Start copies of elements between two addresses with their strides, given in elements."""
    to, target_strides = target
    start, source_strides = source
    dims, width = _joined(shape, target_strides, source_strides)
    nbytes = width * itemsize
    rows = _rows(dims, width, itemsize)
    outer = [dim for dim in dims if dim is not rows]
    for place in product(*(range(size) for size, _, _ in outer)):
        into = to + itemsize * sum(i * stride for i, (_, stride, _) in zip(place, outer, strict=True))
        begin = start + itemsize * sum(i * stride for i, (_, _, stride) in zip(place, outer, strict=True))
        if rows is None:
            device.copy(into, begin, nbytes, stream)
        else:
            height, pitch, source_pitch = rows
            device.copy_rows(
                (into, pitch * itemsize), (begin, source_pitch * itemsize), nbytes, height, stream
            )


_Dim = tuple[int, int, int]
"""Elements, and their strides in the target and in the source."""


def _joined(
    shape: tuple[int, ...], target: tuple[int, ...], source: tuple[int, ...]
) -> tuple[list[_Dim], int]:
    """Return the dimensions of runs that are contiguous on both sides, and the elements of a run.

    >>> _joined((4, 5, 6), (30, 6, 1), (60, 6, 1))
    ([(4, 30, 60)], 30)
    """
    dims: list[_Dim] = [dim for dim in zip(shape, target, source, strict=True) if dim[0] > 1]
    width = 1
    for dim in sorted(dims, key=lambda dim: dim[1]):
        if dim[1] == dim[2] == width:
            width *= dim[0]
            dims.remove(dim)
    return dims, width


def _rows(dims: list[_Dim], width: int, itemsize: int) -> _Dim | None:
    """Return the dimension that one copy of rows can have: the longest whose rows do not overlap."""
    most = MOST_PITCH // itemsize
    fitting = [dim for dim in dims if min(dim[1], dim[2]) >= width and max(dim[1], dim[2]) <= most]
    return max(fitting, key=lambda dim: dim[0], default=None)


__all__ = ["CudaTensor", "Output", "in_own_memory", "taken", "tensor_of"]
