"""slice1 of Dask arrays: a task for each chunk that holds an element of the window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vkdml import ops
from vkdml.arguments import SliceRequest, Window, context, require_movable
from vkdml.common import windows
from vkdml.integrations.dask_arrays import AnyArray, Begins, begins_of, checked_chunk, require_dask_array
from vkdml.integrations.dask_devices import Selector, device_of_task, require_portable
from vkdml.integrations.dask_package import dask


class Taken(NamedTuple):
    """What is taken along one dimension of an array in chunks."""

    first: int
    """The place of the first element that is taken."""
    step: int
    elements: int
    begins: Begins
    blocks: Sequence[int]
    """The chunks that hold an element, in the order of the elements."""

    def inside(self, number: int, extent: int) -> tuple[int, int, int]:
        """Return the window in a chunk of ``blocks``: its offset and size, and how many elements it gives.

        >>> Taken(9, -4, 3, Begins(5), range(1, -1, -1)).inside(0, 5)
        (0, 5, 2)
        """
        begin = self.begins(self.blocks[number])
        numbers = self.numbers(begin, begin + extent)
        ends = self.first + numbers[0] * self.step, self.first + numbers[-1] * self.step
        return min(ends) - begin, max(ends) - min(ends) + 1, len(numbers)

    def numbers(self, begin: int, end: int) -> range:
        """Return the numbers of the elements from place ``begin`` to before ``end``."""
        near, far = (begin, end - 1) if self.step > 0 else (end - 1, begin)
        low = -((self.first - near) // self.step)  # rounded up
        high = (far - self.first) // self.step
        return range(max(low, 0), min(high, self.elements - 1) + 1)


class ChunkSlice(NamedTuple):
    """What a task does with a chunk; it travels to the worker."""

    dims: tuple[Taken, ...]
    dtype: np.dtype[Any]
    """Of the whole array."""
    device: Selector


def slice1(x: Any, request: SliceRequest) -> Any:
    """Return a lazy window; see :func:`vkdml.dask.slice1`."""
    require_dask_array(x, "slice1")
    with context("slice1", x):
        require_portable(request.device)
        require_movable(x.dtype)
        for dim, size in enumerate(x.shape):
            if math.isnan(size):
                raise ValueError(
                    f"the sizes of the chunks along dimension {dim} are not known before they are computed; "
                    "accepted are arrays whose chunks have known sizes: x.compute_chunk_sizes() finds them"
                )
        window = request.checked(tuple(int(size) for size in x.shape))
        if math.prod(window.shape) == 0:
            return dask.array.empty(window.shape, dtype=x.dtype, chunks=-1)
        dims = tuple(_taken(x.chunks[dim], window, dim) for dim in range(x.ndim))
        holding = x
        for dim, taken in enumerate(dims):
            blocks = list(taken.blocks)
            if blocks != list(range(x.numblocks[dim])):
                holding = holding.blocks[(slice(None),) * dim + (blocks,)]
        chunks = tuple(
            tuple(taken.inside(number, extent)[2] for number, extent in enumerate(extents))
            for taken, extents in zip(dims, holding.chunks, strict=True)
        )
        return holding.map_blocks(
            partial(window_of, what=ChunkSlice(dims, x.dtype, request.device)),
            dtype=x.dtype,
            chunks=chunks,
            meta=np.empty((0,) * x.ndim, x.dtype),
            token="vkdml-slice1",
        )


def window_of(chunk: Any, what: ChunkSlice, block_id: tuple[int, ...] = ()) -> AnyArray:
    """Return the part of the window that lies in a chunk."""
    blocks = tuple(taken.blocks[number] for taken, number in zip(what.dims, block_id, strict=True))
    with context("slice1", chunk):
        chunk = checked_chunk(chunk, what.dtype, [taken.begins for taken in what.dims], blocks)
    inside = [
        taken.inside(number, extent)
        for taken, number, extent in zip(what.dims, block_id, chunk.shape, strict=True)
    ]
    offsets, sizes = [offset for offset, _, _ in inside], [size for _, size, _ in inside]
    steps = [taken.step for taken in what.dims]
    return np.asarray(ops.slice1(chunk, offsets, sizes, steps, device=device_of_task(what.device)))


def _taken(extents: Sequence[int], window: Window, dim: int) -> Taken:
    step, count = window.steps[dim], window.shape[dim]
    first = windows.first(window.offsets[dim], window.sizes[dim], step)
    begins = begins_of(extents)
    taken = Taken(first, step, count, begins, ())
    blocks = [
        number
        for number, extent in enumerate(extents)
        if taken.numbers(begins(number), begins(number) + extent)
    ]
    if step < 0:
        blocks.reverse()
    turn = 1 if step > 0 else -1
    run = range(blocks[0], blocks[-1] + turn, turn)
    return taken._replace(blocks=run if len(run) == len(blocks) else tuple(blocks))


__all__ = ["ChunkSlice", "Taken", "slice1", "window_of"]
