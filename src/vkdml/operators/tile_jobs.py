"""The operations on tiles: a reduction, which folds the candidates of tiles, and a copy."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vkdml.arguments import Reduction
from vkdml.operators.fold import fold
from vkdml.operators.tile_source import BITS, AnyArray, Copier, TileSource, first_elements
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.layout import row_major_strides
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.plan.tiles import Tile, Tiling, tile_copy, tile_reduction
from vkdml.runtime.host_memory import empty

Views = Mapping[str, npt.NDArray[np.uint8]]


class TileJob(Protocol):
    """An operation in tiles. Several threads may stage and collect at the same time."""

    tiling: Tiling

    @property
    def itemsize(self) -> int: ...

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan: ...

    def stage(self, tile: Tile, views: Views, copier: Copier) -> None: ...

    def collect(self, tile: Tile, views: Views, copier: Copier) -> None: ...


class TiledReduction:
    """argmin or argmax in tiles: holds the best candidates so far."""

    def __init__(
        self,
        x: AnyArray,
        reduction: Reduction,
        tile_bytes: int,
    ) -> None:
        self._source = source = TileSource(x)
        self._axes, self._order = axes, order = reduction.axes, reduction.order
        self._with_values = reduction.with_values
        self._dtype = x.dtype.newbyteorder("=")
        self._kept_shape = reduction.kept_shape
        reduced_shape = tuple(size if axis in axes else 1 for axis, size in enumerate(x.shape))
        self._weights = row_major_strides(reduced_shape)
        # A stride of 0 repeats one element: its first or its last index is taken.
        self._repeated = sum(
            (reduced_shape[axis] - 1) * self._weights[axis]
            for axis in axes
            if source.single[axis] and order.take_last
        )
        self._index_dtype = np.dtype(np.uint32 if math.prod(reduced_shape) <= 1 << 32 else np.uint64)
        self.tiling = tile_reduction(source.sizes, source.byte_strides, source.itemsize, axes, tile_bytes)
        self._folds = self.tiling.cuts(axes)
        self._met: set[tuple[int, ...]] = set()
        self._lock = threading.Lock()
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(source.sizes))
        self._indices = empty(shape, np.uint64)
        self._bits = empty(shape, BITS[source.itemsize]) if self._with_values or self._folds else None

    @property
    def itemsize(self) -> int:
        return self._source.itemsize

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan:
        strides, base = self._source.staged(sizes)
        kept = tuple(1 if axis in self._axes else size for axis, size in enumerate(sizes))
        call = ReduceCall(
            Operand(sizes, strides, base, math.prod(sizes)),
            self._axes,
            self._order,
            Operand.compact(kept),
            self._index_dtype.itemsize,
            self._bits is not None,
            self._weights,
        )
        return plan_for(call, limits)

    def stage(self, tile: Tile, views: Views, copier: Copier) -> None:
        self._source.stage(tile, views["input"], copier)

    def collect(self, tile: Tile, views: Views, copier: Copier) -> None:
        kept = Tile(
            tuple(0 if axis in self._axes else begin for axis, begin in enumerate(tile.start)),
            tuple(1 if axis in self._axes else size for axis, size in enumerate(tile.sizes)),
        )
        origin = sum(tile.start[axis] * self._weights[axis] for axis in self._axes)
        shape, outputs, cell = kept.sizes, kept.count, kept.slices
        found = (
            views["indices"][: outputs * self._index_dtype.itemsize].view(self._index_dtype).reshape(shape)
        )
        bits = None
        if self._bits is not None:
            bits = first_elements(views["values"], outputs, self._bits.dtype).reshape(shape)
        if not self._folds:
            self._put(cell, found, origin, bits)
            return
        with self._lock:
            if kept.start not in self._met:
                self._met.add(kept.start)
                self._put(cell, found, origin, bits)
            elif bits is not None and self._bits is not None:
                indices = found + np.uint64(origin)
                fold(self._order, self._bits[cell], self._indices[cell], bits, indices)

    def _put(self, cell: tuple[Any, ...], found: AnyArray, origin: int, bits: AnyArray | None) -> None:
        np.add(found, np.uint64(origin), out=self._indices[cell])
        if bits is not None and self._bits is not None:
            self._bits[cell] = bits

    def result(self) -> tuple[AnyArray, AnyArray | None]:
        indices: AnyArray = self._indices
        if self._repeated:
            indices += np.uint64(self._repeated)
        values = None
        if self._with_values and self._bits is not None:
            values = _repeated(self._bits, self._kept_shape).view(self._dtype)
        return _repeated(indices.view(np.int64), self._kept_shape), values


def _repeated(x: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    if x.shape == shape:
        return x
    repeated = empty(shape, x.dtype)
    repeated[...] = x
    return repeated


class TiledCopy:
    """slice1 in tiles."""

    def __init__(self, x: AnyArray, tile_bytes: int) -> None:
        bits = BITS[x.itemsize]
        self._source = TileSource(x.view(bits))
        self.tiling = tile_copy(x.shape, self._source.byte_strides, x.itemsize, tile_bytes)
        self.target = empty(x.shape, x.dtype)
        self._target_bits: AnyArray = self.target.view(bits)

    @property
    def itemsize(self) -> int:
        return self.target.itemsize

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan:
        strides, base = self._source.staged(sizes)
        staged = math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
        output = Operand.compact(sizes)
        return plan_for(CopyCall(Operand(sizes, strides, base, staged), output, self.itemsize), limits)

    def stage(self, tile: Tile, views: Views, copier: Copier) -> None:
        self._source.stage(tile, views["input"], copier)

    def collect(self, tile: Tile, views: Views, copier: Copier) -> None:
        target = self._target_bits[tile.slices]
        copier.copy(target, first_elements(views["output"], target.size, target.dtype).reshape(target.shape))
