"""Several Arrays, on one device or on several, used as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from vkdml import arguments
from vkdml.arrays import indexing
from vkdml.arrays.array import Array, uploaded
from vkdml.arrays.assignment import assigned, fitted, require_same_type
from vkdml.arrays.base import DeviceArray
from vkdml.arrays.numpy_functions import NumpyOperand
from vkdml.common import hooks
from vkdml.common.bits import opaque
from vkdml.common.integers import is_sequence
from vkdml.common.read_only import fix
from vkdml.runtime.device import Device, default_device
from vkdml.runtime.host_memory import empty


@final
class ShardedArray(NumpyOperand):
    """Arrays side by side along one axis: one array that may exceed a buffer, and a device.

    >>> import numpy as np, vkdml
    >>> parts = [vkdml.asarray(np.int32([[1, 2], [9, 3]])), vkdml.asarray(np.int32([[4, 9]]))]
    >>> whole = vkdml.ShardedArray(parts)
    >>> whole.shape, int(whole.argmax()), whole.argmax(axis=0, direction="decreasing")
    ((3, 2), 2, array([1, 2]))

    Args:
        shards: Arrays of one dtype, whose shapes differ along ``axis`` only; each on any device.
        axis: along which they follow each other.

    All devices work at the same time. The host combines their results, so ``argmax`` and ``argmin`` return
    NumPy arrays.

    Indexing with ints, slices, ``...`` and None gives views: an Array if the elements lie in one shard, else
    a ShardedArray. Assigning to a view writes to the shards; an Array of another device is copied by way of
    the host.

    Raises:
        TypeError: shards that are no Arrays, or of several dtypes.
        ValueError: no shard, or shapes that do not fit.
        numpy.exceptions.AxisError: an axis that the shards do not have.
    """

    __slots__ = ("__weakref__", "_axis", "_shape", "_shards")
    _attribute_hints: ClassVar[Mapping[str, str]] = {
        "device": "; its shards lie on a.devices",
        "to_device": "; vkdml.asarray(a, device=0) copies it to one device",
    }
    _instead = "; accepted is a new array, as of vkdml.asarray(a, dtype)"
    _axis: int
    _shape: tuple[int, ...]
    _shards: tuple[Array, ...]

    # Not __init__(), which could be called again.
    def __new__(cls, shards: Sequence[Array], axis: int = 0) -> ShardedArray:
        """Put Arrays side by side."""
        if isinstance(shards, DeviceArray | np.ndarray) or not is_sequence(shards):
            raise TypeError(
                f"shards are a list or tuple of vkdml.Arrays, not one {type(shards).__name__}: "
                "vkdml.asarray(x, device=[...]) shares one out"
            )
        shards = tuple(map(_required_array, shards))  # also of an iterator without an end
        if not shards:
            raise ValueError("a sharded array needs at least one shard")
        first = shards[0]
        axes = arguments.distinct_axes(axis, first.ndim, "ShardedArray")
        if len(axes) != 1:
            raise ValueError(f"axis={axis!r} of {first.ndim} dimensions is not one axis to lie along")
        (along,) = axes
        others = [a for a in range(first.ndim) if a != along]
        for shard in shards:
            if shard.dtype != first.dtype:
                raise TypeError(f"shards of types {first.dtype} and {shard.dtype}; accepted is one type")
            if shard.ndim != first.ndim or any(shard.shape[a] != first.shape[a] for a in others):
                raise ValueError(
                    f"shards of shapes {first.shape} and {shard.shape} do not fit: accepted are shapes that "
                    f"differ along axis {along} only"
                )
        made: ShardedArray = object.__new__(cls)
        length = sum(shard.shape[along] for shard in shards)
        fix(made, "_axis", along)
        fix(made, "_shards", shards)
        fix(made, "_shape", tuple(length if a == along else size for a, size in enumerate(first.shape)))
        return made

    @property
    def shards(self) -> tuple[Array, ...]:
        """The parts, in order."""
        return self._shards

    @property
    def pieces(self) -> tuple[Array, ...]:
        """The parts, in order."""
        return self._shards

    @property
    def is_whole(self) -> bool:
        """False: a view may be of several shards."""
        return False

    @property
    def axis(self) -> int:
        """The dimension along which the shards follow each other."""
        return self._axis

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._shards[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dimension, of all shards together."""
        return self._shape

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device of each shard."""
        return tuple(shard.device for shard in self.shards)

    def __repr__(self) -> str:
        on = ", ".join(str(device.info.index) for device in dict.fromkeys(self.devices))
        return (
            f"<vkdml.ShardedArray shape={self.shape} dtype={self.dtype} shards={len(self.shards)} "
            f"axis={self.axis} devices={on}>"
        )

    # ---- views ---------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array | ShardedArray:
        places = indexing.spelt_out(key, self.ndim)
        for dim, part in enumerate(part for part in places if part is not None):
            if not isinstance(part, slice):
                indexing.integer_index(part, dim)  # a shard would accept arrays, and return a copy
        along = indexing.place_of(places, self._axis)
        chosen = places[along]
        axis = sum(part is None or isinstance(part, slice) for part in places[:along])
        length = self._shape[self._axis]
        if not isinstance(chosen, slice):
            chosen = indexing.position(chosen, length, self._axis)
        before, after = places[:along], places[along + 1 :]
        parts = []
        for shard, start in zip(self._shards, self.starts, strict=True):
            inside = _within(chosen, length, start, shard.shape[self._axis])
            if inside is not None:
                parts.append(shard[before + (inside,) + after])  # noqa: RUF005
        if not parts:  # an empty slice
            return self._shards[0][before + (slice(0),) + after]  # noqa: RUF005
        if len(parts) == 1:
            return parts[0]
        if chosen.step is not None and chosen.step < 0:
            parts.reverse()
        return ShardedArray(parts, axis)

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        if isinstance(target, Array):
            # Of any device, as for several shards: where the shards end must not decide what is accepted.
            target[...] = value.to_device(target.device) if isinstance(value, Array) else value
            return
        with arguments.context("assignment", target):
            for part in target.shards:  # all before the first is written
                part.require_writeable()
            if isinstance(value, DeviceArray):
                require_same_type(value, self.dtype)
            source = value.numpy() if isinstance(value, DeviceArray) else assigned(value, self.dtype)
            source = fitted(source, target.shape)
            bits = opaque(source.astype(self.dtype, copy=False))
            spread = np.broadcast_to(bits, target.shape)
            for part, start in zip(target.shards, target.starts, strict=True):
                cell = cell_of(target.axis, start, part.shape[target.axis], target.ndim)
                part[...] = spread[cell].view(self.dtype)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where along the axis each shard begins."""
        starts, start = [], 0
        for shard in self._shards:
            starts.append(start)
            start += shard.shape[self._axis]
        return tuple(starts)

    # ---- copies --------------------------------------------------------------------------------------------

    def copy(self) -> ShardedArray:
        """Return a new array with the same elements, each shard copied on its device."""
        return ShardedArray([shard.copy() for shard in self._shards], self._axis)

    def numpy(self) -> npt.NDArray[Any]:
        """Return all elements as one NumPy array.

        Raises:
            ValueError: as :meth:`Array.numpy`.
            MemoryError: the host has no room for it.
            DeviceError: a device failed.
        """
        result = empty(self._shape, self.dtype)
        bits = opaque(result)
        for shard, start in zip(self._shards, self.starts, strict=True):
            cell = cell_of(self._axis, start, shard.shape[self._axis], self.ndim)
            bits[cell] = shard.numpy().view(bits.dtype)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the elements, in their shards; all are read back to the default device."""
        return _from_host, ([shard.numpy() for shard in self._shards], self._axis)

    def _element(self) -> Any:
        """Return the only element as a NumPy scalar."""
        return next(shard for shard in self._shards if shard.size)._element()

    # ---- operators -----------------------------------------------------------------------------------------

    def argmax(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the greatest elements, as :func:`vkdml.argmax` does of a host array.

        Options: ``keepdims``, ``dtype``, ``direction``, ``nan_policy``, ``return_values``.
        """
        return hooks.argmax(self, axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the least elements; options as for :meth:`argmax`."""
        return hooks.argmin(self, axis, **options)


def _from_host(parts: Sequence[npt.NDArray[Any]], axis: int) -> ShardedArray:
    device = default_device()
    return ShardedArray([uploaded(part, device) for part in parts], axis)


def cell_of(axis: int, start: int, size: int, rank: int) -> tuple[slice, ...]:
    """Return where a shard lies in the whole."""
    return tuple(slice(start, start + size) if a == axis else slice(None) for a in range(rank))


def _required_array(shard: Any) -> Array:
    if not isinstance(shard, Array):
        raise TypeError(f"shards are vkdml.Arrays, not {type(shard).__name__}: vkdml.asarray makes one")
    return shard


def _within(chosen: Any, length: int, start: int, size: int) -> Any:
    """Return the part of an index of the whole array that lies in a shard, or None.

    >>> _within(slice(None, None, -3), 10, 4, 4)  # 9, 6, 3, 0 of which 6 lies in 4 to 7
    slice(2, 1, -3)
    """
    if not isinstance(chosen, slice):
        return chosen - start if start <= chosen < start + size else None
    places = range(*chosen.indices(length))
    step = places.step
    # The lowest and the highest place that lie in the shard.
    first, last = (places[0], places[-1]) if places else (0, -1)
    low, high = (first, last) if step > 0 else (last, first)
    low += max(0, -((low - start) // abs(step))) * abs(step)
    high -= max(0, -((start + size - 1 - high) // abs(step))) * abs(step)
    if not places or low > high:
        return None
    if step > 0:
        return slice(low - start, high - start + 1, step)
    return slice(high - start, low - start - 1 if low > start else None, step)


__all__ = ["ShardedArray", "cell_of"]
