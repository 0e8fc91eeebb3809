"""Arrays in several parts, on one device or on several, that are reduced as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml import arguments
from vkdml.array import Array
from vkdml.array_ops import StartedReduction
from vkdml.device import Device
from vkdml.fold import Order
from vkdml.host_ops import ArgReduceResult
from vkdml.layout import row_major_strides


class ShardedArray:
    """Arrays that lie side by side along one axis: one array, greater than a buffer or a device may hold.

    >>> import numpy as np, vkdml
    >>> parts = [vkdml.asarray(np.int32([[1, 2], [9, 3]])), vkdml.asarray(np.int32([[4, 9]]))]
    >>> whole = vkdml.ShardedArray(parts)
    >>> whole.shape, int(whole.argmax()), whole.argmax(axis=0, direction="decreasing")
    ((3, 2), 2, array([1, 2]))

    Args:
        shards: Arrays of one dtype, whose shapes differ along ``axis`` only; each on any device.
        axis: along which they follow each other.

    All devices work at the same time. Their results are brought together on the host, so that ``argmax`` and
    ``argmin`` return NumPy arrays.

    Raises:
        TypeError: shards that are no Arrays, or of several dtypes.
        ValueError: no shard, or shapes that do not fit.
        numpy.exceptions.AxisError: an axis that the shards do not have.
    """

    def __init__(self, shards: Sequence[Array], axis: int = 0) -> None:
        self.shards = tuple(shards)
        """The parts, in order."""
        if not self.shards:
            raise ValueError("a sharded array needs at least one shard")
        for shard in self.shards:
            if not isinstance(shard, Array):
                raise TypeError(
                    f"shards are vkdml.Arrays, not {type(shard).__name__}: vkdml.asarray makes one"
                )
        first = self.shards[0]
        axes = arguments.distinct_axes(axis, first.ndim, "ShardedArray")
        if len(axes) != 1:
            raise ValueError(f"axis={axis!r} of {first.ndim} dimensions is not one axis to lie along")
        (self.axis,) = axes
        others = [a for a in range(first.ndim) if a != self.axis]
        for shard in self.shards:
            if shard.dtype != first.dtype:
                raise TypeError(f"shards of types {first.dtype} and {shard.dtype}; accepted is one type")
            if shard.ndim != first.ndim or any(shard.shape[a] != first.shape[a] for a in others):
                raise ValueError(
                    f"shards of shapes {first.shape} and {shard.shape} do not fit: accepted are shapes that "
                    f"differ along axis {self.axis} only"
                )
        self.dtype = first.dtype
        """Element type."""
        along = sum(shard.shape[self.axis] for shard in self.shards)
        self.shape = tuple(along if a == self.axis else size for a, size in enumerate(first.shape))
        """Size of each dimension, of all shards together."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

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

    def numpy(self) -> npt.NDArray[Any]:
        """Return all elements as one NumPy array."""
        # As bits: NumPy cannot join arrays of all extension types.
        bits = [shard.numpy().view(f"V{self.dtype.itemsize}") for shard in self.shards]
        return np.concatenate(bits, axis=self.axis).view(self.dtype)

    def argmax(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the greatest elements, as :func:`vkdml.argmax` does of a host array.

        Options: ``keepdims``, ``dtype``, ``direction``, ``nan_policy``, ``return_values``.
        """
        return self._reduce("argmax", axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:
        """Return the indices of the least elements; options as for :meth:`argmax`."""
        return self._reduce("argmin", axis, **options)

    def _reduce(
        self,
        name: str,
        axis: Any,
        *,
        keepdims: bool = False,
        dtype: Any = None,
        direction: str = "increasing",
        nan_policy: str = "propagate",
        return_values: bool = False,
    ) -> Any:
        with arguments.context(name, self):

            def wish_for(shape: tuple[int, ...]) -> arguments.Reduction:
                return arguments.reduction(
                    name, shape, self.dtype, axis, keepdims, dtype, direction, nan_policy
                )

            wish = wish_for(self.shape)
            wish.require_elements(name)
            folds = self.axis in wish.axes
            reduced = tuple(size if a in wish.axes else 1 for a, size in enumerate(self.shape))
            weights = row_major_strides(reduced)
            indices = np.empty(wish.kept_shape, np.uint64)
            bits = np.empty(wish.kept_shape, f"u{self.dtype.itemsize}")
            order = Order(wish.element.name, wish.take_min, wish.take_last, wish.omit_nan)
            started: list[tuple[int, StartedReduction]] = []
            start = 0
            for shard in self.shards:
                if shard.size:
                    started.append((start, StartedReduction(shard, wish_for(shard.shape), weights)))
                start += shard.shape[self.axis]
            for number, (start, reduction) in enumerate(started):
                found, values = reduction.finish()
                found_bits = values.view(bits.dtype)
                if not folds:
                    cell = tuple(
                        slice(start, start + size) if a == self.axis else slice(None)
                        for a, size in enumerate(found.shape)
                    )
                    indices[cell], bits[cell] = found, found_bits
                    continue
                found += np.uint64(start * weights[self.axis])
                if number == 0:
                    indices[...], bits[...] = found, found_bits
                else:
                    order.fold(bits, indices, found_bits, found)
            result = indices.reshape(wish.shape).astype(wish.index_dtype)[()]
            if not return_values:
                return result
            return ArgReduceResult(result, bits.reshape(wish.shape).view(self.dtype)[()])


def shard(host: Any, devices: Sequence[Device], dtype: Any = None) -> ShardedArray:
    """Copy a host array to several devices, cut along its first axis into parts as even as can be."""
    from vkdml.array import asarray

    array = np.asarray(host, dtype)
    if array.ndim == 0:
        raise ValueError("an array of no dimensions cannot be shared out to several devices")
    rows = array.shape[0]
    bounds = [rows * part // len(devices) for part in range(len(devices) + 1)]
    parts = [
        asarray(array[low:high], device)
        for device, low, high in zip(devices, bounds[:-1], bounds[1:], strict=True)
    ]
    return ShardedArray(parts)
