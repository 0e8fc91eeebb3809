"""Arrays that lie on a device, and views of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from vkdml import array_ops
from vkdml.arguments import context, distinct_axes, integer, require_movable
from vkdml.device import Device, DeviceLike, DevicesLike, resolve, resolve_all
from vkdml.execute import Region
from vkdml.indexing import View, as_shape, broadcast, full_shape, indexed, reshaped
from vkdml.layout import extent, row_major_strides
from vkdml.memory import BINDING_ALIGNMENT, Memory

DLPACK_CPU, DLPACK_VULKAN = 1, 7


class Array:
    """An array on a device, or a view of one; made by :func:`vkdml.asarray` and :func:`vkdml.empty`.

    >>> import numpy as np, vkdml
    >>> a = vkdml.asarray(np.arange(12, dtype=np.int32).reshape(3, 4))
    >>> int(a[:, ::-1].T.argmin())
    9

    Indexing with ints, slices, ``...`` and None, and :meth:`transpose`, :meth:`moveaxis`, :meth:`reshape` and
    :meth:`broadcast_to` give views: no element is copied. argmin and argmax read through a view in one
    kernel; :meth:`copy` and :func:`vkdml.slice1` make a new compact array of it. Assigning to a view writes
    to the array. The memory goes back to the device's pool when the last view is gone.
    """

    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_binding", "_memory", "_view", "_writeable", "dtype")

    def __init__(self, memory: Memory, dtype: np.dtype[Any], view: View, writeable: bool = True) -> None:
        self._memory = memory
        self.dtype: np.dtype[Any] = dtype
        """Element type."""
        self._view = view
        self._writeable = writeable
        self._binding: tuple[Region, int, int] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dimension."""
        return self._view.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._view.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._view.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; a view may address more or fewer bytes of memory."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each dimension."""
        return tuple(stride * self.dtype.itemsize for stride in self._view.strides)

    @property
    def device(self) -> Device:
        """The device on which the array lies."""
        return self._memory.device

    @property
    def writeable(self) -> bool:
        """Whether elements can be assigned: not in views that repeat elements."""
        return self._writeable

    @property
    def T(self) -> Array:
        """The view with all dimensions in reverse order."""
        return self.transpose()

    def __repr__(self) -> str:
        where = f"{self.device.info.index}: {self.device.name}"
        return f"<vkdml.Array shape={self.shape} dtype={self.dtype} device={where}>"

    # ---- views ---------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        return self._with(indexed(self._view, key))

    def __len__(self) -> int:
        if not self._view.shape:
            raise TypeError("len() of an array of no dimensions")
        return self._view.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def transpose(self, *axes: Any) -> Array:
        """Return the view with dimensions in another order: as many axes as dimensions, or none to reverse.

        >>> vkdml.asarray([[1, 2, 3]]).transpose(1, 0).shape
        (3, 1)
        """
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        if not given or given == (None,):
            order = tuple(reversed(range(self.ndim)))
        else:
            order = tuple(integer("axes", axis) for axis in given)
            distinct_axes(order, self.ndim, "transpose")
            if len(order) != self.ndim:
                raise ValueError(f"axes {order} are not one for each of {self.ndim} dimensions")
        view = self._view
        return self._with(
            View(tuple(view.shape[a] for a in order), tuple(view.strides[a] for a in order), view.offset)
        )

    def moveaxis(self, source: Any, destination: Any) -> Array:
        """Return the view with some dimensions moved to other places, as ``numpy.moveaxis``.

        >>> vkdml.empty((2, 3, 4)).moveaxis(0, -1).shape
        (3, 4, 2)
        """
        sources = source if isinstance(source, tuple | list) else (source,)
        destinations = destination if isinstance(destination, tuple | list) else (destination,)
        if len(sources) != len(destinations):
            raise ValueError(f"{len(sources)} source axes and {len(destinations)} destinations: as many")
        for axes in (sources, destinations):
            distinct_axes(tuple(axes), self.ndim, "moveaxis")
        rank = self.ndim
        moved = {
            integer("destination", d) % rank: integer("source", s) % rank
            for s, d in zip(sources, destinations, strict=True)
        }
        others = iter([axis for axis in range(rank) if axis not in moved.values()])
        return self.transpose(tuple(moved[a] if a in moved else next(others) for a in range(rank)))

    def reshape(self, *shape: Any) -> Array:
        """Return a view of another shape, one of whose sizes may be -1.

        >>> vkdml.empty((2, 6)).reshape(3, -1).shape
        (3, 4)

        Raises:
            ValueError: another number of elements, or elements that lie in no such order: ``copy()`` first.
        """
        wanted = full_shape(shape[0] if len(shape) == 1 else shape, self.size)
        view = reshaped(self._view, wanted)
        if view is None:
            raise ValueError(
                f"shape {self.shape} with strides {self.strides} cannot be seen as {wanted} without a copy: "
                f"a.copy().reshape({wanted}) makes one"
            )
        return self._with(view)

    def broadcast_to(self, shape: Any) -> Array:
        """Return a read-only view that repeats elements, as ``numpy.broadcast_to``.

        >>> vkdml.asarray([1, 2, 3]).broadcast_to((4, 3)).strides
        (0, 8)
        """
        return Array(self._memory, self.dtype, broadcast(self._view, as_shape(shape)), False)

    def _with(self, view: View) -> Array:
        return Array(self._memory, self.dtype, view, self._writeable)

    # ---- copies --------------------------------------------------------------------------------------------

    def copy(self) -> Array:
        """Return a new compact array with the same elements, copied on the device."""
        return array_ops.copy_to(self, None)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a new NumPy array.

        Raises:
            MemoryError: the device has no room to bring a view's elements together.
            DeviceError: the device failed.
        """
        host = np.empty(self.shape, self.dtype)
        if self.size:
            compact = self if self.is_compact else self.copy()
            target = host.reshape(-1).view(np.uint8)
            compact._memory.read(compact._view.offset * self.itemsize, target)
        return host

    def item(self) -> Any:
        """Return the only element as a Python scalar."""
        if self.size != 1:
            raise ValueError(f"{self.shape} is {self.size} elements; accepted is an array of one")
        return self._element().item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars."""
        return self.numpy().tolist()

    def to_device(self, device: DeviceLike, /, *, stream: None = None) -> Array:
        """Return the array on another device, copied by way of the host; itself if it is there already."""
        target = resolve(device)
        moved: Array = self if target is self.device else asarray(self.numpy(), target)
        return moved

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(
                "an array on a device cannot be seen by NumPy without a copy; accepted are copy=None and True"
            )
        host = self.numpy()
        return host if dtype is None else host.astype(dtype, copy=False)

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        with context("assignment", target):
            if not target._writeable:
                raise ValueError("this view repeats elements and is read-only: assign to the array itself")
            if not isinstance(value, Array):
                host = np.ascontiguousarray(np.asarray(value, self.dtype))
                if target.is_compact and host.size == target.size and host.ndim <= target.ndim:
                    broadcast(View(host.shape, row_major_strides(host.shape), 0), target.shape)
                    target._write(host)
                    return
                value = asarray(host.reshape(np.shape(value)), self.device)
            if value.dtype != self.dtype:
                raise TypeError(
                    f"elements of type {value.dtype} cannot be assigned to an array of {self.dtype} on the "
                    f"device; accepted are arrays of {self.dtype}, and host arrays of any type"
                )
            array_ops.require_same_device(self.device, value.device)
            array_ops.copy_to(value.broadcast_to(target.shape), target)

    def _write(self, host: npt.NDArray[Any]) -> None:
        """Fill this compact view from a contiguous host array of its dtype."""
        if host.size:
            self._memory.write(self._view.offset * self.itemsize, host.reshape(-1).view(np.uint8))

    # ---- scalars -------------------------------------------------------------------------------------------

    def _element(self) -> Any:
        visible = self._memory.visible()
        if visible is None:
            return self.numpy().reshape(-1)[0]
        begin = self._view.offset * self.itemsize
        return visible[begin : begin + self.itemsize].view(self.dtype)[0]

    def _scalar(self, kind: str) -> Any:
        if self._view.shape and self.size != 1:
            raise TypeError(
                f"{kind}() takes an array of one element, not one of shape {self.shape}; numpy() gives all"
            )
        return self._element()

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError(
                f"only integer arrays of no dimensions are indices, not {self.shape} {self.dtype}"
            )
        return int(self._element())

    def _not_computed(self, other: object) -> NoReturn:
        raise TypeError("vkdml.Array does not compare or compute: use np.asarray(a)")

    __eq__ = _not_computed
    __ne__ = _not_computed

    # ---- operators -----------------------------------------------------------------------------------------

    def argmax(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the greatest elements; all options of :func:`vkdml.argmax`."""
        return _public("argmax")(self, axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the least elements; all options of :func:`vkdml.argmin`."""
        return _public("argmin")(self, axis, **options)

    # ---- interchange ---------------------------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        from vkdml import array_api

        return array_api.for_version(api_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's Vulkan device type and the device's index."""
        return DLPACK_VULKAN, self.device.info.index

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is None or next(iter(dl_device)) != DLPACK_CPU or copy is False:
            raise BufferError(
                "Vulkan memory cannot be lent to another library; accepted is a copy on the host: "
                "np.asarray(a), or dl_device=(1, 0) with copy=True or None"
            )
        return self.numpy().__dlpack__()

    # ---- for the operators ---------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """The allocation that this array shares with its views."""
        return self._memory

    @property
    def view(self) -> View:
        """Where in its memory the elements lie."""
        return self._view

    @property
    def is_compact(self) -> bool:
        """Whether the elements lie one after the other, in row-major order."""
        compact = row_major_strides(self.shape)
        return all(
            size == 1 or stride == wanted
            for size, stride, wanted in zip(self.shape, self._view.strides, compact, strict=True)
        )

    @property
    def binding(self) -> tuple[Region, int, int]:
        """The region to bind to a kernel, the element in it of coordinate 0, and the elements it spans."""
        if self._binding is None:
            shape, strides, offset = self._view.shape, self._view.strides, self._view.offset
            low, high = extent(shape, strides)
            aligned = BINDING_ALIGNMENT // self.itemsize
            first = (offset + low) // aligned * aligned
            region = (self._memory.buffer, first * self.itemsize)
            self._binding = region, offset - first, offset + high - first
        return self._binding

    def byte_range(self) -> tuple[int, int]:
        """Return the first byte of the memory that elements lie in, and one past the last."""
        low, high = extent(self._view.shape, self._view.strides)
        return (self._view.offset + low) * self.itemsize, (self._view.offset + high) * self.itemsize

    def overlaps(self, other: Array) -> bool:
        """Tell whether the two may share memory: whether the stretches that they lie in do."""
        if self._memory is not other._memory or not self.size or not other.size:
            return False
        begin, end = self.byte_range()
        other_begin, other_end = other.byte_range()
        return begin < other_end and other_begin < end


def _public(name: str) -> Any:
    import vkdml

    return getattr(vkdml, name)


def asarray(host: Any, device: DevicesLike = None, *, dtype: Any = None) -> Any:
    """Copy an array to a device.

    >>> import numpy as np, vkdml
    >>> a = vkdml.asarray(np.float32([[1, 5], [7, 2]]))
    >>> a.shape, a.dtype, int(a.argmax())
    ((2, 2), dtype('float32'), 2)

    Args:
        host: what ``numpy.asarray`` takes, of elements of 1, 2, 4, 8 or 16 bytes. An Array that lies on the
            device already is returned as it is; one on another device is copied by way of the host.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device. A list of them
            gives a :class:`vkdml.ShardedArray`, cut along the first axis.
        dtype: to convert to first, on the host; None keeps the type, in the machine's byte order.

    Returns:
        An :class:`Array`, or a :class:`vkdml.ShardedArray` for a list of devices.

    Raises:
        TypeError: elements of another size, or Python objects.
        MemoryError: more than one buffer of the device can hold, or than is free.
        DeviceError: the device failed.

    Source of the rule: the Python array API standard's ``asarray``.
    """
    if isinstance(device, list | tuple):
        from vkdml.sharded import shard

        return shard(host, resolve_all(device), dtype)
    if isinstance(host, Array):
        if dtype is not None and np.dtype(dtype) != host.dtype:
            host = host.numpy()
        elif device is None:
            return host
        else:
            return host.to_device(device)
    array = np.asarray(host, dtype)
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    result = empty(array.shape, array.dtype, device)
    with context("asarray", array):
        result._write(array)
    return result


def empty(shape: Any, dtype: Any = np.float64, device: DeviceLike = None) -> Array:
    """Return an array on a device whose elements are arbitrary.

    >>> vkdml.empty((2, 3), "float16").nbytes
    12

    Args:
        shape: an int or a sequence of ints, none negative.
        dtype: elements of 1, 2, 4, 8 or 16 bytes.
        device: a :class:`vkdml.Device`, or a selector of one; None takes the default device.

    Raises:
        TypeError: elements of another size, or Python objects.
        MemoryError: more than one buffer of the device can hold, or than is free.
        DeviceError: the device failed.

    Source of the rule: the Python array API standard's ``empty``.
    """
    sizes = as_shape(shape)
    element = np.dtype(dtype).newbyteorder("=")
    require_movable(element)
    target = resolve(device)
    nbytes = math.prod(sizes) * element.itemsize
    try:
        memory = Memory(target, nbytes)
    except MemoryError as error:
        raise MemoryError(f"an array of {sizes} {element} on {target.name}: {error}") from None
    return Array(memory, element, View(sizes, row_major_strides(sizes), 0))


def from_dlpack(x: Any, /, device: DeviceLike = None) -> Array:
    """Copy a tensor of another library that lies in host memory to a device.

    >>> import numpy as np, vkdml
    >>> vkdml.from_dlpack(np.arange(3.0)).shape
    (3,)

    Raises:
        TypeError: ``x`` has no ``__dlpack__``.
        BufferError: ``x`` lies on another device than the host's processor.

    Source of the rule: the Python array API standard's ``from_dlpack``.
    """
    if isinstance(x, Array):
        return x if device is None else x.to_device(device)
    if not hasattr(x, "__dlpack_device__") or not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"{type(x).__name__} does not offer DLPack; vkdml.asarray takes what NumPy understands"
        )
    kind, index = x.__dlpack_device__()
    if int(kind) != DLPACK_CPU:
        raise BufferError(
            f"the tensor lies on DLPack device ({int(kind)}, {index}); accepted are tensors in host memory, "
            f"device ({DLPACK_CPU}, 0): copy it there first"
        )
    result: Array = asarray(np.from_dlpack(x), device)
    return result


__all__ = ["Array", "asarray", "empty", "from_dlpack"]
