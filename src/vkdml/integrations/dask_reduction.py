"""argmin and argmax of Dask arrays: a task for each chunk, and a tree that folds what the chunks found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml import ops
from vkdml.arguments import ReduceRequest, Reduction, context, integer, one_axis
from vkdml.arrays.foreign import FILLED_BY_DASK, require_plain
from vkdml.integrations.dask_arrays import (
    AnyArray,
    Begins,
    begins_of,
    checked_chunk,
    lazily,
    require_dask_array,
)
from vkdml.integrations.dask_devices import Selector, device_of_task, require_portable
from vkdml.integrations.dask_package import dask
from vkdml.operators.fold import fold
from vkdml.operators.result import ArgReduceResult
from vkdml.plan.order import Order


class ChunkReduction(NamedTuple):
    """What a task does with a chunk. It travels to the worker: it holds plain values only."""

    operator: str
    axes: tuple[int, ...]
    order: Order
    dtype: np.dtype[Any]
    """Of the whole array."""
    begins: tuple[Begins, ...]
    """Of each dimension: where its chunks begin."""
    device: Selector


def reduce(x: Any, request: ReduceRequest, split_every: Any) -> Any:
    """Return lazy indices, or indices and values; see :func:`vkdml.dask.argmax`."""
    require_dask_array(x, request.operator)
    with context(request.operator, x):
        require_portable(request.device)
        known_shape = tuple(0 if math.isnan(size) else size for size in x.shape)
        reduction = request.checked(known_shape, x.dtype)
        _require_places(x, reduction.axes)
        if not any(math.isnan(x.shape[axis]) for axis in reduction.axes):
            reduction.require_elements(request.operator)
        if not reduction.axes:
            indices = lazily(x, _zeros, reduction.index_dtype)
            if not reduction.with_values:
                return indices
            return ArgReduceResult(indices, x if x.ndim else lazily(x, _scalar, x.dtype))
        won = _won(x, request, reduction, split_every)
        indices = lazily(won, _indices, reduction.index_dtype)
        if not reduction.with_values:
            return indices
        return ArgReduceResult(indices, lazily(won, _values, x.dtype))


def _won(x: Any, request: ReduceRequest, reduction: Reduction, split_every: Any) -> Any:
    """Return a lazy array of candidates, those that win, in the shape of the result."""
    axes = reduction.axes
    candidate = np.dtype([("index", np.uint64), ("bits", f"u{x.dtype.itemsize}")])
    chunk = ChunkReduction(
        request.operator,
        axes,
        reduction.order,
        x.dtype,
        tuple(map(begins_of, x.chunks)),
        request.device,
    )
    candidates = x.map_blocks(
        partial(candidates_of, what=chunk),
        dtype=candidate,
        chunks=tuple((1,) * len(c) if axis in axes else c for axis, c in enumerate(x.chunks)),
        meta=np.empty((0,) * x.ndim, candidate),
        token=f"vkdml-{request.operator}",
    )
    tree: Any = dask.array.reduction
    return tree(
        candidates,
        _unchanged,
        _Fold(reduction.order, request.operator),
        axis=axes,
        keepdims=len(reduction.shape) == x.ndim,
        dtype=candidate,
        combine=_Fold(reduction.order),
        split_every=_tree_widths(split_every, axes, x.ndim),
        meta=np.empty((0,) * len(reduction.shape), candidate),
    )


def _tree_widths(split_every: Any, axes: tuple[int, ...], rank: int) -> Any:
    """Return ``split_every`` for Dask, which folds wrongly with widths below 2 instead of refusing them."""
    if split_every is None or split_every is False:
        split_every = dask.config.get("split_every", 4)
    widths = split_every
    if isinstance(split_every, Mapping):
        named = {one_axis(axis, rank, "split_every"): width for axis, width in split_every.items()}
        widths = {axis: width for axis, width in named.items() if axis in axes}
    for width in widths.values() if isinstance(widths, dict) else (widths,):
        accepted = "an integer of at least 2, or a dict of such integers by axis"
        if integer("split_every", width, accepted) < 2:
            raise ValueError(f"split_every must be {accepted}, not {width!r}")
    return widths


def candidates_of(chunk: Any, what: ChunkReduction, block_id: tuple[int, ...] = ()) -> AnyArray:
    """Return the candidates of a chunk, with the reduced axes kept: indices in the whole array, and bits."""
    axes = what.axes
    with context(what.operator, chunk):
        chunk = checked_chunk(chunk, what.dtype, what.begins, block_id)
    shape = tuple(min(size, 1) if axis in axes else size for axis, size in enumerate(chunk.shape))
    candidates = np.empty(shape, [("index", np.uint64), ("bits", f"u{chunk.dtype.itemsize}")])
    if candidates.size == 0:
        return candidates
    reduced: Any = ops.argmin if what.order.take_min else ops.argmax
    found = reduced(
        chunk,
        axes,
        keepdims=True,
        direction="decreasing" if what.order.take_last else "increasing",
        nan_policy="omit" if what.order.omit_nan else "propagate",
        return_values=True,
        device=device_of_task(what.device),
    )
    values = np.asarray(found.values)
    candidates["bits"] = values.view(_bits_of(values.dtype))
    starts = [what.begins[axis](block_id[axis]) for axis in axes]
    extents = [chunk.shape[axis] for axis in axes]
    sizes = []
    for axis, extent in zip(axes, extents, strict=True):
        end = what.begins[axis].end
        sizes.append(extent if end is None else end)  # a chunk of unknown size is alone along its axis
    candidates["index"] = _in_whole(np.asarray(found.indices).astype(np.uint64), extents, starts, sizes)
    return candidates


def _in_whole(
    local: npt.NDArray[np.uint64], extents: Sequence[int], starts: Sequence[int], sizes: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """Return positions in a box as positions in the whole: row-major, both among the reduced axes.

    >>> _in_whole(np.uint64([0, 3]), [2, 2], [10, 5], [100, 7])
    array([75, 83], dtype=uint64)
    """
    weights = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    origin = sum(start * weight for start, weight in zip(starts, weights, strict=True))
    if all(extent == size for extent, size in zip(extents[1:], sizes[1:], strict=True)):
        shifted: npt.NDArray[np.uint64] = local + np.uint64(origin)
        return shifted
    whole = np.full(local.shape, origin, np.uint64)
    for extent, weight in zip(reversed(extents), reversed(weights), strict=True):
        local, place = np.divmod(local, np.uint64(extent))
        whole += place * np.uint64(weight)
    return whole


class _Fold:
    """Folds candidates that lie side by side; ``operator`` is given where an answer is due."""

    def __init__(self, order: Order, operator: str | None = None) -> None:
        self.order = order
        self.operator = operator
        self.__name__ = operator or "fold"  # Dask names tasks by it

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, tuple(self.order), self.operator

    def __call__(self, candidates: AnyArray, axis: tuple[int, ...], keepdims: bool) -> Any:
        kept = [size for dim, size in enumerate(candidates.shape) if dim not in axis]
        count = math.prod(candidates.shape[dim] for dim in axis)
        if count == 0:
            if self.operator is None:
                # As long along each axis as groups beside this one, which may hold elements.
                ends = (min(size, 1) if dim in axis else size for dim, size in enumerate(candidates.shape))
                return candidates[tuple(map(slice, ends))]
            raise ValueError(
                f"attempt to get {self.operator} of an empty sequence: the reduced axes {axis} hold no "
                "element; accepted are axes with at least one"
            )
        rivals = np.moveaxis(candidates, axis, range(len(axis))).reshape(count, math.prod(kept))
        best = rivals[0].copy()
        for rival in rivals[1:]:
            fold(self.order, best["bits"], best["index"], rival["bits"], rival["index"])
        best = best.reshape(kept)
        return np.expand_dims(best, axis) if keepdims else best


def _unchanged(candidates: AnyArray, axis: tuple[int, ...], keepdims: bool) -> AnyArray:
    return candidates


def _bits_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned type of an element's width and byte order: its conversions change no bit."""
    bits: np.dtype[Any] = np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)
    return bits


def _indices(won: AnyArray, dtype: np.dtype[Any]) -> Any:
    indices = np.asarray(won)["index"]
    greatest = np.iinfo(dtype).max
    if indices.size and indices.max() > greatest:  # known only now, of a chunk of unknown size
        raise ValueError(f"index {indices.max()} does not fit dtype {dtype} (at most {greatest})")
    return indices.astype(dtype)[()]


def _values(won: AnyArray, dtype: np.dtype[Any]) -> Any:
    return np.asarray(won)["bits"].astype(_bits_of(dtype)).view(dtype)[()]


def _zeros(chunk: AnyArray, dtype: np.dtype[Any]) -> Any:
    require_plain(chunk, filled=FILLED_BY_DASK)
    return np.zeros(np.shape(chunk), dtype)[()]


def _scalar(chunk: AnyArray, dtype: np.dtype[Any]) -> Any:
    return np.asarray(chunk, dtype)[()]


def _require_places(x: Any, axes: tuple[int, ...]) -> None:
    """Raise ValueError if chunks of unknown size hide at which index of the whole array a chunk begins."""
    unknown = [axis for axis in axes if math.isnan(x.shape[axis])]
    cut = [axis for axis in axes if len(x.chunks[axis]) > 1]
    if unknown and cut:
        raise ValueError(
            f"unknown chunksize: the sizes of the chunks along reduced axis {unknown[0]} are not known "
            "before they are computed, so no index in the whole can be given; accepted are arrays whose "
            "chunks along the reduced axes have known sizes: x.compute_chunk_sizes() finds them"
        )


__all__ = ["ChunkReduction", "candidates_of", "reduce"]
