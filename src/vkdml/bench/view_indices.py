"""Finds the right indices of views that lie in memory in another order than they count, from bits alone.

A view is cut along the memory's outermost dimension into blocks that fit a processor's cache, whatever its
axes; blocks that compete for one output are compared by key and then by logical index.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from vkdml.bench.cases import Case
from vkdml.bench.contents import cores
from vkdml.bench.keys import Array, ordered_keys, run_in_parallel

BLOCK_BYTES = 1 << 20
# Blocks for each core at least, so that all of them have work to the end.
_PARTS_OF_CORE = 4
_SHORT_ROW = 32


def right_indices(view: Array, axes: tuple[int, ...], order: Case) -> Array:
    """Return the indices of an argmin or argmax of a view, in the shape of its kept axes.

    Args:
        view: bits.
        axes: reduced ones, ascending.
        order: of the elements; its shape is not used.
    """
    kept = tuple(axis for axis in range(view.ndim) if axis not in axes)
    # Kept axes first; the rest is in the order in which the index counts.
    moved = view.transpose((*kept, *axes))
    rank = len(kept)
    sizes = moved.shape[rank:]
    weights = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    takes_last = order.direction == "decreasing"
    if takes_last:
        # The last of equals is the first from behind.
        moved = moved[(slice(None),) * rank + (slice(None, None, -1),) * len(axes)]
    index = np.int32 if math.prod(sizes) <= 1 << 31 else np.int64

    key = ordered_keys(moved[(slice(0, 1),) * moved.ndim], order).dtype

    def best(block: Array, first: int, keys: Array, found: Array) -> None:
        """Write the greatest keys of a block and their indices; ``first`` is that of its first element."""
        if block.nbytes > BLOCK_BYTES:
            axis, middle = halved(block)
            low, high = part(axis, 0, middle), part(axis, middle, block.shape[axis])
            if axis < rank:
                best(block[low], first, keys[low], found[low])
                best(block[high], first, keys[high], found[high])
                return
            best(block[low], first, keys, found)
            others = np.empty_like(keys), np.empty_like(found)
            best(block[high], first + middle * weights[axis - rank], *others)
            _take_better(keys, found, *others)
            return
        shape, counts = block.shape[:rank], block.shape[rank:]
        greatest, at = _first_greatest(
            ordered_keys(np.ascontiguousarray(block).reshape(math.prod(shape), -1), order)
        )
        places = np.unravel_index(at, counts) if len(counts) > 1 else (at,)
        keys[...] = greatest.reshape(shape)
        found[...] = (
            first + sum(place * weight for place, weight in zip(places, weights, strict=True))
        ).reshape(shape)

    parts = cut(moved)
    by_output = parts[0][0] < rank
    shape = moved.shape[:rank]
    whole = np.empty(shape, key), np.empty(shape, index)
    # Parts that compete for outputs have their own results.
    done = [
        tuple(each[part(*cut_at)] for each in whole)
        if by_output
        else (tuple(map(np.empty_like, whole)) if number else whole)
        for number, cut_at in enumerate(parts)
    ]

    def run(number: int) -> None:
        axis, start, _ = cut_at = parts[number]
        best(moved[part(*cut_at)], 0 if by_output else start * weights[axis - rank], *done[number])

    run_in_parallel(run, list(range(len(parts))))
    if not by_output:
        for others in done[1:]:
            _take_better(*whole, *others)
    return math.prod(sizes) - 1 - whole[1] if takes_last else whole[1]


def _first_greatest(rows: Array) -> tuple[Array, Array]:
    """Return the greatest key of each row and where it is first."""
    if rows.shape[1] > _SHORT_ROW:
        at = rows.argmax(axis=1)
        return np.take_along_axis(rows, at[:, None], 1)[:, 0], at
    # NumPy takes longer to start a row than to compare one.
    columns = np.ascontiguousarray(rows.T)
    keys, at = columns[0].copy(), np.zeros(len(rows), np.int32)
    for place in range(1, len(columns)):
        greater = columns[place] > keys
        np.copyto(keys, columns[place], where=greater)
        np.copyto(at, place, where=greater)
    return keys, at


def _take_better(keys: Array, found: Array, other_keys: Array, other_found: Array) -> None:
    """Keep for each output the greater key, and of equal ones the one with the lower index."""
    takes_other = (other_keys > keys) | ((other_keys == keys) & (other_found < found))
    np.copyto(keys, other_keys, where=takes_other)
    np.copyto(found, other_found, where=takes_other)


def _outermost(view: Array) -> int:
    """Return the axis with the longest steps in memory."""
    return max(
        (axis for axis in range(view.ndim) if view.shape[axis] > 1), key=lambda axis: abs(view.strides[axis])
    )


def halved(view: Array) -> tuple[int, int]:
    axis = _outermost(view)
    return axis, view.shape[axis] // 2


def cut(view: Array) -> list[tuple[int, int, int]]:
    """Return parts for the cores as (axis, start, stop), all along one axis."""
    if view.size <= 1:
        return [(0, 0, view.shape[0])]
    axis = _outermost(view)
    if view.shape[axis] < cores():
        # Too few steps for the cores: the longest axis instead.
        axis = max(range(view.ndim), key=lambda each: view.shape[each])
    count = min(view.shape[axis], cores() * _PARTS_OF_CORE, -(-view.nbytes // BLOCK_BYTES))
    bounds = [view.shape[axis] * number // count for number in range(count + 1)]
    return [(axis, start, stop) for start, stop in pairwise(bounds)]


def part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, slice(start, stop))
