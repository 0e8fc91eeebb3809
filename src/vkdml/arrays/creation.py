"""Making arrays on devices: copies of host arrays and of other libraries' tensors, and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from vkdml.arguments import context
from vkdml.arrays import foreign
from vkdml.arrays.array import Array, allocated, uploaded
from vkdml.arrays.base import DeviceArray
from vkdml.arrays.element_types import element_type, single
from vkdml.arrays.host import as_host_array
from vkdml.arrays.indexing import as_shape
from vkdml.arrays.sharded import ShardedArray
from vkdml.common import dlpack, hooks
from vkdml.runtime.device import Device, DeviceLike, DevicesLike, resolve, resolve_all
from vkdml.runtime.host_memory import require_numpy_has

# At run time typing.overload would keep these functions, and through their globals the open devices, until
# after the interpreter's end.
Share = Literal["cuda"] | None

if TYPE_CHECKING:

    @overload
    def asarray(
        x: ShardedArray, dtype: Any = ..., *, device: None = ..., copy: bool | None = ..., share: None = ...
    ) -> ShardedArray: ...

    @overload
    def asarray(
        x: Any, dtype: Any = ..., *, device: DeviceLike = ..., copy: bool | None = ..., share: Share = ...
    ) -> Array: ...

    @overload
    def asarray(
        x: Any,
        dtype: Any = ...,
        *,
        device: list[Any] | tuple[Any, ...],
        copy: bool | None = ...,
        share: None = ...,
    ) -> ShardedArray: ...

    @overload
    def asarray(
        x: Any, dtype: Any = ..., *, device: DevicesLike, copy: bool | None = ..., share: Share = ...
    ) -> Array | ShardedArray: ...


def asarray(
    x: Any,
    dtype: Any = None,
    *,
    device: DevicesLike = None,
    copy: bool | None = None,
    share: Share = None,
) -> Any:
    """Copy an array to a device.

    >>> import numpy as np, vkdml
    >>> a = vkdml.asarray([[1, 5], [7, 2]], "float16")
    >>> a.shape, a.dtype, int(a.argmax())
    ((2, 2), dtype('float16'), 2)

    Args:
        x: what ``numpy.asarray`` takes, of elements of 1, 2, 4, 8 or 16 bytes. An Array that lies on the
            device already is returned as it is; one on another device is copied by way of the host. A tensor
            in a GPU's memory that CUDA manages is copied there, on the device.
        dtype: to convert to first, on the host; None keeps the type, in the machine's byte order.
        device: a :class:`vkdml.Device`, or a selector of one; None leaves an Array where it is, and takes the
            default device for all else. A list of them gives a :class:`vkdml.ShardedArray`, cut along the
            first axis.
        copy: True always copies; False never does; None copies where ``x`` is not such an Array already.
        share: as of :func:`empty`.

    Returns:
        An :class:`Array`, or a :class:`vkdml.ShardedArray` for a list of devices.

    Raises:
        TypeError: elements of another size, or Python objects; a ``dtype`` that is none.
        ValueError: ``copy=False`` where a copy is needed.
        OverflowError: a number that ``dtype`` cannot hold.
        MemoryError: more than one buffer of the device can hold, or than is free.
        DeviceError: the device failed.

    Source of the rule: the Python array API standard's ``asarray``.
    """
    wanted = None if dtype is None else element_type(dtype)
    if not isinstance(copy, bool | None):
        raise TypeError(f"copy must be True, False or None, not {copy!r}")
    on_cuda = _is_on_cuda(share)
    if not isinstance(x, DeviceArray) and foreign.lies_on_cuda(x):
        x, copy = hooks.from_cuda(x, copy=copy), None
    if on_cuda and (isinstance(device, list | tuple) or isinstance(x, ShardedArray)):
        raise ValueError('share="cuda" is for an array on one device; accepted is share=None')
    if isinstance(device, list | tuple):
        _require_copy_allowed(copy)
        return shared_out(x, resolve_all(device), wanted)
    if isinstance(x, ShardedArray) and device is None:
        if wanted is None or wanted == x.dtype:
            return x.copy() if copy else x
        _require_copy_allowed(copy)
        return ShardedArray([uploaded(s.numpy(), s.device, wanted) for s in x.shards], x.axis)
    if isinstance(x, Array):
        target = x.device if device is None else resolve(device)
        is_there = target is x.device and (wanted is None or wanted == x.dtype)
        if is_there and (x.memory.is_cuda or not on_cuda):
            return x.copy() if copy else x
        _require_copy_allowed(copy)
        if is_there:
            return x.copied_to(x.new_result(x.shape, x.dtype, on_cuda=True))
        return uploaded(x.numpy(), target, wanted, on_cuda=on_cuda)
    _require_copy_allowed(copy)
    return uploaded(_on_host(x, wanted), resolve(device), wanted, on_cuda=on_cuda)


def shared_out(x: Any, devices: Sequence[Device], dtype: np.dtype[Any] | None = None) -> ShardedArray:
    """Copy an array to several devices, cut along its first axis into parts as even as can be."""
    array = x.numpy() if isinstance(x, DeviceArray) else _on_host(x, dtype)
    if array.ndim == 0:
        raise ValueError("an array of no dimensions cannot be shared out to several devices")
    rows = array.shape[0]
    bounds = [rows * part // len(devices) for part in range(len(devices) + 1)]
    parts = [
        uploaded(array[low:high], device, dtype)
        for device, low, high in zip(devices, bounds[:-1], bounds[1:], strict=True)
    ]
    return ShardedArray(parts)


def _on_host(x: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Return a host array of what a user gave; an array is returned as it is, not converted or copied."""
    wanted = None if dtype is None or isinstance(x, np.ndarray) else single(dtype)[0]
    try:
        return as_host_array(x, wanted)
    except (ValueError, TypeError, MemoryError, OverflowError) as error:
        with context("asarray", x):  # entered here only: it takes as long as a small copy
            raise error


def _require_copy_allowed(copy: bool | None) -> None:
    if copy is False:
        raise ValueError(
            "copy=False, but a copy is needed: only a vkdml.Array of that type and on that device can be "
            "taken as it is; accepted are copy=None and copy=True"
        )


def _is_on_cuda(share: object) -> bool:
    if share is None:
        return False
    if share != "cuda":
        raise ValueError(f'share={share!r}: accepted are None and "cuda"')
    return True


def empty(shape: Any, dtype: Any = np.float32, *, device: DeviceLike = None, share: Share = None) -> Array:
    """Return an array on a device whose elements are arbitrary.

    >>> vkdml.empty((2, 3), "float16").nbytes
    12

    Args:
        shape: an int or a sequence of ints, none negative.
        dtype: elements of 1, 2, 4, 8 or 16 bytes.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device.
        share: ``"cuda"`` takes memory that CUDA maps too, so that ``torch.from_dlpack(a)`` and its like see
            the same elements, without a copy. What is computed of such an array is shared as well.

    Raises:
        TypeError: elements of another size, or Python objects; a ``dtype`` that is none.
        ValueError: a negative size, a shape that no NumPy array can have, or an unknown ``share``.
        MemoryError: more than one buffer of the device can hold, or than is free.
        DeviceError: the device failed; or ``share`` and it is no device of CUDA's.

    Source of the rule: the Python array API standard's ``empty``; single precision, as devices have it.
    """
    sizes = as_shape(shape)
    # NumPy gives a text without a length one character, and a small array for an element dimensions.
    none = np.empty(0, element_type(np.float32 if dtype is None else dtype))
    sizes += none.shape[1:]
    require_numpy_has(sizes, none.dtype)  # else numpy() would fail
    return allocated(resolve(device), sizes, none.dtype, on_cuda=_is_on_cuda(share))


def zeros(shape: Any, dtype: Any = np.float32, *, device: DeviceLike = None, share: Share = None) -> Array:
    """Return an array on a device whose elements are 0.

    >>> vkdml.zeros(3, "int8").tolist()
    [0, 0, 0]

    Args:
        shape: an int or a sequence of ints, none negative.
        dtype: elements of 1, 2, 4, 8 or 16 bytes.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device.
        share: as of :func:`empty`.

    Raises:
        TypeError, ValueError, MemoryError, DeviceError: as :func:`empty`.

    Source of the rule: the Python array API standard's ``zeros``; single precision, as devices have it.
    """
    result = empty(shape, dtype, device=device, share=share)
    visible = result.memory.visible()
    if visible is None:
        result[...] = np.zeros((), result.dtype)
    else:
        visible[: result.nbytes] = 0
    return result


def from_dlpack(x: Any, /, *, device: DeviceLike = None, copy: bool | None = None) -> Array:
    """Copy a tensor of another library to a device: from host memory, or within a GPU that CUDA manages.

    >>> import numpy as np, vkdml
    >>> vkdml.from_dlpack(np.arange(3.0)).shape
    (3,)

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``. An Array that lies on the device already
            is returned as it is, and so is memory that such an Array lent.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device, or the GPU on
            which ``x`` lies.
        copy: as of :func:`asarray`.

    Raises:
        TypeError: ``x`` has no ``__dlpack__``.
        BufferError: ``x`` lies on a device that is neither the host's processor nor CUDA's.
        ValueError: ``copy=False`` where a copy is needed.

    Source of the rule: the Python array API standard's ``from_dlpack``.
    """
    if isinstance(x, Array | np.ndarray):
        return asarray(x, device=device, copy=copy)
    if not hasattr(x, "__dlpack_device__") or not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"{type(x).__name__} does not offer DLPack; vkdml.asarray takes what NumPy understands"
        )
    if foreign.lies_on_cuda(x):
        return asarray(x, device=device, copy=copy)
    kind, index = x.__dlpack_device__()
    if int(kind) not in dlpack.HOST_DEVICES:
        raise BufferError(
            f"the tensor lies on DLPack device ({int(kind)}, {index}); accepted are tensors in host memory, "
            f"device ({dlpack.CPU}, 0), and CUDA's: copy it there first"
        )
    return asarray(foreign.from_dlpack(x), device=device, copy=copy)


__all__ = ["asarray", "empty", "from_dlpack", "zeros"]
