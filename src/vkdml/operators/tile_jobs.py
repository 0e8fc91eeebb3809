"""The operations on tiles: a reduction, which folds the candidates of tiles, and a copy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vkdml.arguments import Reduction, Window
from vkdml.arrays.chunked import ChunkedArray
from vkdml.common import windows
from vkdml.operators.fold import fold
from vkdml.operators.read_ahead import ChunkedSource, chunk_steps
from vkdml.operators.tile_source import BITS, AnyArray, Copier, TileSource, first_elements
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.layout import row_major_strides
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.plan.tiles import (
    PiecewiseTiling,
    Steps,
    Tile,
    Tiling,
    copy_tiling,
    cut_at_chunks,
    reduction_tiling,
)
from vkdml.runtime.host_memory import empty

Views = Mapping[str, npt.NDArray[np.uint8]]
# A chunk of at most so many tiles is read, and written, as a whole: parts of it cost as much.
CHUNK_TILES = 4


class TileJob(Protocol):
    """An operation in tiles. Several threads may stage and collect at the same time."""

    @property
    def tiling(self) -> Tiling | PiecewiseTiling: ...

    @property
    def itemsize(self) -> int: ...

    @property
    def reads_here(self) -> bool:
        """Whether the caller has to stage the tiles."""

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan: ...

    def stage(self, tile: Tile, views: Views, copier: Copier) -> None: ...

    def collect(self, tile: Tile, views: Views, copier: Copier) -> None: ...

    def close(self) -> None: ...


class Source(Protocol):
    """An array whose tiles are copied to staging memory."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def itemsize(self) -> int: ...

    @property
    def single(self) -> tuple[bool, ...]: ...

    @property
    def reads_here(self) -> bool: ...

    def staged(self, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]: ...

    def stage(self, tile: Tile, target: npt.NDArray[np.uint8], copier: Copier) -> None: ...

    def close(self) -> None: ...


class _FromSource:
    """What operations in tiles do with the array that they read."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def itemsize(self) -> int:
        return self._source.itemsize

    @property
    def reads_here(self) -> bool:
        return self._source.reads_here

    def stage(self, tile: Tile, views: Views, copier: Copier) -> None:
        self._source.stage(tile, views["input"], copier)

    def close(self) -> None:
        self._source.close()


class TiledReduction(_FromSource):
    """argmin or argmax in tiles: holds the best candidates so far."""

    def __init__(
        self,
        x: AnyArray | ChunkedArray,
        reduction: Reduction,
        tile_bytes: int,
    ) -> None:
        source, self.tiling = _reduced(x, reduction.axes, tile_bytes)
        super().__init__(source)
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
        self._folds = self.tiling.cuts(axes)
        self._lock = threading.Lock()
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(source.sizes))
        # Which outputs have a candidate. Pieces of an array in chunks may be cut at different places.
        self._met = np.zeros(shape if self._folds else 0, np.bool_)
        self._indices = empty(shape, np.uint64)
        self._bits = empty(shape, BITS[source.itemsize]) if self._with_values or self._folds else None

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
            met = self._met[cell].copy()
            self._met[cell] = True
            if not met.any():
                self._put(cell, found, origin, bits)
            elif bits is not None and self._bits is not None:
                indices = found + np.uint64(origin)
                fold(self._order, self._bits[cell], self._indices[cell], bits, indices)
                if not met.all():
                    np.copyto(self._bits[cell], bits, where=~met)
                    np.copyto(self._indices[cell], indices, where=~met)

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


def _reduced(
    x: AnyArray | ChunkedArray, axes: tuple[int, ...], tile_bytes: int
) -> tuple[Source, Tiling | PiecewiseTiling]:
    """Return the source of a reduction, and how it is cut."""
    if not isinstance(x, ChunkedArray):
        source = TileSource(x)
        sizes, strides = source.sizes, source.byte_strides
        return source, reduction_tiling(sizes, strides, source.itemsize, axes, tile_bytes)

    def tiles(sizes: tuple[int, ...]) -> Tiling:
        strides = tuple(stride * x.itemsize for stride in row_major_strides(sizes))
        return reduction_tiling(sizes, strides, x.itemsize, axes, tile_bytes)

    steps = chunk_steps(x)
    # Along the reduced dimensions first, which leaves the fewest candidates; the innermost ones first.
    growing = sorted(range(x.ndim), key=lambda dim: (dim not in axes, -dim))
    pieces = cut_at_chunks(steps, x.itemsize, growing, tile_bytes, CHUNK_TILES * tile_bytes)
    tiling = PiecewiseTiling(pieces, tiles)
    return ChunkedSource(x, steps, tiling, native=True), tiling


class TiledCopy(_FromSource):
    """slice1 in tiles; :func:`tiled_copy` and :func:`tiled_chunk_copy` make one."""

    def __init__(self, source: Source, tiling: Tiling | PiecewiseTiling, write: Write) -> None:
        super().__init__(source)
        self.tiling, self._write = tiling, write

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan:
        strides, base = self._source.staged(sizes)
        staged = math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
        output = Operand.compact(sizes)
        return plan_for(CopyCall(Operand(sizes, strides, base, staged), output, self.itemsize), limits)

    def collect(self, tile: Tile, views: Views, copier: Copier) -> None:
        copied = first_elements(views["output"], tile.count, np.dtype(BITS[self.itemsize]))
        self._write(tile, copied.reshape(tile.sizes), copier)


def tiled_copy(x: AnyArray, target: AnyArray, tile_bytes: int) -> TiledCopy:
    """Return a copy of an array to one of its shape and element size."""
    source = TileSource(x.view(BITS[x.itemsize]))
    tiling = copy_tiling(x.shape, source.byte_strides, x.itemsize, tile_bytes)
    return TiledCopy(source, tiling, HostTarget(target))


def tiled_chunk_copy(
    x: AnyArray | ChunkedArray, window: Window, target: AnyArray | ChunkedArray, tile_bytes: int
) -> TiledCopy:
    """Return a copy of a window from an array in chunks, or to one."""
    steps = window_steps(x, window)

    def cut(byte_strides: tuple[int, ...]) -> PiecewiseTiling:
        pieces = cut_at_chunks(
            steps,
            x.itemsize,
            range(len(steps))[::-1],
            tile_bytes,
            CHUNK_TILES * tile_bytes,
            target.written_chunks if isinstance(target, ChunkedArray) else None,
        )
        return PiecewiseTiling(pieces, lambda sizes: copy_tiling(sizes, byte_strides, x.itemsize, tile_bytes))

    source: Source
    if isinstance(x, ChunkedArray):
        tiling = cut(tuple(x.itemsize * stride for stride in row_major_strides(window.shape)))
        source = ChunkedSource(x, steps, tiling, native=x.dtype.isnative)
    else:
        view: AnyArray = window.view_of(x)
        source = of_view = TileSource(view.view(BITS[x.itemsize]))
        tiling = cut(of_view.byte_strides)
    write: Write = (
        ChunkedTarget(target, x.dtype, tiling) if isinstance(target, ChunkedArray) else HostTarget(target)
    )
    return TiledCopy(source, tiling, write)


Write = Callable[[Tile, AnyArray, Copier], None]


class HostTarget:
    """Writes tiles to an array in memory."""

    def __init__(self, target: AnyArray) -> None:
        self._bits: AnyArray = target.view(BITS[target.itemsize])

    def __call__(self, tile: Tile, bits: AnyArray, copier: Copier) -> None:
        copier.copy(self._bits[tile.slices], bits)


class ChunkedTarget:
    """Writes pieces to an array in chunks, each at once when its tiles are there."""

    def __init__(self, out: ChunkedArray, dtype: np.dtype[Any], tiling: PiecewiseTiling) -> None:
        self._out, self._dtype, self._tiling = out, dtype, tiling
        self._parts: dict[tuple[int, ...], tuple[AnyArray, list[Tile]]] = {}
        self._lock = threading.Lock()  # to write parts of one chunk at the same time would lose one

    def __call__(self, tile: Tile, bits: AnyArray, copier: Copier) -> None:
        with self._lock:
            piece = self._tiling.pieces.around(tile)
            if piece != tile:
                parts, met = self._parts.setdefault(piece.start, (np.empty(piece.sizes, bits.dtype), []))
                inside = (begin - low for begin, low in zip(tile.start, piece.start, strict=True))
                copier.copy(parts[Tile(tuple(inside), tile.sizes).slices], bits)
                met.append(tile)
                if sum(each.count for each in met) < piece.count:
                    return
                del self._parts[piece.start]
                bits = parts
            self._out.write(piece.slices[:-1], bits.view(self._dtype))


def window_steps(x: AnyArray | ChunkedArray, window: Window) -> list[Steps]:
    """Return what slice1 takes along each dimension of an array; one in memory has no chunks."""
    chunks = x.chunks if isinstance(x, ChunkedArray) else None
    steps = []
    for dim, (offset, size, step) in enumerate(zip(window.offsets, window.sizes, window.steps, strict=True)):
        if chunks is None:
            steps.append(Steps(0, 1, window.shape[dim], 1))
        else:
            first = windows.first(offset, size, step)
            steps.append(Steps(first, step, window.shape[dim], chunks[dim]))
    return steps
