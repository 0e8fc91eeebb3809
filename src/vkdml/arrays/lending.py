"""Lending arrays to other libraries through DLPack: memory that CUDA maps too, else copies on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkdml.arrays.foreign import NUMPY_TAKES_VERSIONS
from vkdml.common import dlpack
from vkdml.common.integers import index
from vkdml.runtime.lent_tensor import Description

if TYPE_CHECKING:
    from vkdml.arrays.array import Array


def capsule(array: Array, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Return a DLPack capsule of an array; the arguments are those of DLPack's ``__dlpack__``.

    Raises:
        BufferError: neither can the memory be lent nor a copy be made as asked.
        TypeError, ValueError: an argument that the protocol does not know.
    """
    if not isinstance(copy, bool | None):
        raise TypeError(f"copy must be True, False or None, not {copy!r}")
    version = (0, 0) if max_version is None else _pair("max_version", max_version)
    wanted = array.__dlpack_device__() if dl_device is None else _pair("dl_device", dl_device)
    if wanted[0] == dlpack.CPU:
        _require_copy_allowed(copy)
        host = array.numpy()
        try:
            return host.__dlpack__(max_version=version) if NUMPY_TAKES_VERSIONS else host.__dlpack__()
        except BufferError as error:
            raise BufferError(
                f"NumPy lends no host copy of type {array.dtype} through DLPack ({error}); accepted are "
                "integers, floats of 16 bits and more, complex numbers and bool"
            ) from None
    if wanted[0] in dlpack.CUDA_DEVICES:
        _require_cuda_stream(stream)
        if copy or not array.memory.is_cuda:
            _require_copy_allowed(copy)
            array, copy = array.copied_to(array.new_result(array.shape, array.dtype, on_cuda=True)), True
    own = array.__dlpack_device__()
    if wanted != own:
        raise BufferError(
            f"the array lies on DLPack device {own}, and dl_device= means {wanted}; accepted are its own, "
            f"and ({dlpack.CPU}, 0) for a copy on the host"
        )
    versioned = version[0] >= dlpack.VERSION_WITH_FLAGS[0]
    if not array.writeable and not versioned:
        raise BufferError(
            "this view repeats elements and is read-only, which DLPack capsules tell from version 1.0 on; "
            "accepted are max_version=(1, 0), and a.copy()"
        )
    return array.memory.lend(_description(array, bool(copy)), versioned=versioned)


def _description(array: Array, copied: bool) -> Description:
    dtype, view = array.dtype, array.placement
    code = dlpack.SMALL_FLOAT_CODES.get(str(dtype.name), dlpack.CODES.get(dtype.kind))
    if code is None:
        raise BufferError(
            f"DLPack has no elements of type {dtype}; accepted are integers, floats, complex numbers and bool"
        )
    return Description(
        view.shape,
        view.strides,
        view.offset * dtype.itemsize,
        code,
        8 * dtype.itemsize,
        (0 if array.writeable else dlpack.READ_ONLY) | (dlpack.COPIED if copied else 0),
    )


def _require_copy_allowed(copy: Any) -> None:
    if copy is False:
        raise BufferError(
            "copy=False, but this array's memory is not seen there, so a copy is needed; accepted are "
            "copy=None and copy=True"
        )


def _require_cuda_stream(stream: Any) -> None:
    """Refuse what is no stream of CUDA's. Nothing runs on the array when it is lent, so any may use it."""
    if stream is None:
        return
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError(f"stream must be None or the handle of a CUDA stream, an int, not {stream!r}")
    if index(stream) == 0 or index(stream) < -1:
        raise ValueError(
            f"stream {index(stream)} is none of DLPack's for CUDA; accepted are None, -1, 1 (the legacy "
            "default stream), 2 (the default stream of each thread) and handles of streams"
        )


def _pair(what: str, value: Any) -> tuple[int, int]:
    try:
        first, second = value
        return index(first), index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be None or a pair of integers, not {value!r}") from None
