"""Says whether a sweep's results are right, from the input's bits alone: keys, NumPy and threads, no kernel.

The view is cut along the memory's outermost dimension into blocks that fit a processor's cache, whatever its
axes; blocks that compete for one output are compared by key and then by logical index.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from vkdml.bench.cases import Case
from vkdml.bench.check import Array, WrongResult, ordered_keys, run_in_parallel
from vkdml.bench.contents import Bytes, cores, unsigned
from vkdml.bench.sweep import SweepCase

_BLOCK_BYTES = 1 << 20
# Blocks for each core at least, so that all of them have work to the end.
_PARTS_OF_CORE = 4
_SHORT_ROW = 32


def check(case: SweepCase, content: Bytes, outputs: Mapping[str, Bytes], index_bytes: int) -> None:
    """Raise unless the outputs are those of the case.

    Args:
        case: what was computed.
        content: at least the input's bytes.
        outputs: role to bytes: ``indices`` or ``output``.
        index_bytes: of one index.

    Raises:
        WrongResult: naming the position, what it holds and what it should.
    """
    bits = content[: case.input_bytes].view(unsigned(case.element_bytes)).reshape(case.memory_shape)
    view = bits.transpose(case.permutation)
    if case.window is not None:
        got = outputs["output"][: case.outputs * case.element_bytes].view(bits.dtype)
        _check_copy(view[case.cuts], got.reshape(case.window.copied))
        return
    expected = right_indices(case, view)
    got = outputs["indices"][: case.outputs * index_bytes].view(f"i{index_bytes}").reshape(expected.shape)
    different = np.flatnonzero(got != expected)
    if different.size:
        at = np.unravel_index(different[0], expected.shape)
        raise WrongResult(
            f"the index of output {tuple(map(int, at))} is {got[at]}, expected is {expected[at]} "
            f"({different.size} of {expected.size} outputs differ)"
        )


def right_indices(case: SweepCase, view: Array) -> Array:
    """Return the indices of an argmin or argmax of a view, in the shape of its kept axes."""
    kept = tuple(axis for axis in range(view.ndim) if axis not in case.axes)
    # Kept axes first; the rest is in the order in which the index counts.
    moved = view.transpose((*kept, *case.axes))
    rank = len(kept)
    sizes = moved.shape[rank:]
    weights = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    order = Case("", case.op, case.element, (1,))
    index = np.int32 if math.prod(sizes) <= 1 << 31 else np.int64

    key = ordered_keys(moved[(slice(0, 1),) * moved.ndim], order).dtype

    def best(block: Array, first: int, keys: Array, found: Array) -> None:
        """Write the greatest keys of a block and their indices; ``first`` is that of its first element."""
        if block.nbytes > _BLOCK_BYTES:
            axis, middle = _halved(block)
            low, high = _part(axis, 0, middle), _part(axis, middle, block.shape[axis])
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

    parts = _cut(moved)
    by_output = parts[0][0] < rank
    shape = moved.shape[:rank]
    whole = np.empty(shape, key), np.empty(shape, index)
    # Parts that compete for outputs have their own results.
    done = [
        tuple(each[_part(*part)] for each in whole)
        if by_output
        else (tuple(map(np.empty_like, whole)) if number else whole)
        for number, part in enumerate(parts)
    ]

    def run(number: int) -> None:
        axis, start, _ = part = parts[number]
        best(moved[_part(*part)], 0 if by_output else start * weights[axis - rank], *done[number])

    run_in_parallel(run, list(range(len(parts))))
    if not by_output:
        for others in done[1:]:
            _take_better(*whole, *others)
    return whole[1]


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


def _halved(view: Array) -> tuple[int, int]:
    axis = _outermost(view)
    return axis, view.shape[axis] // 2


def _cut(view: Array) -> list[tuple[int, int, int]]:
    """Return parts for the cores as (axis, start, stop), all along one axis."""
    if view.size <= 1:
        return [(0, 0, view.shape[0])]
    axis = _outermost(view)
    if view.shape[axis] < cores():
        # Too few steps for the cores: the longest axis instead.
        axis = max(range(view.ndim), key=lambda each: view.shape[each])
    count = min(view.shape[axis], cores() * _PARTS_OF_CORE, -(-view.nbytes // _BLOCK_BYTES))
    bounds = [view.shape[axis] * number // count for number in range(count + 1)]
    return [(axis, start, stop) for start, stop in pairwise(bounds)]


def _part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, slice(start, stop))


def _check_copy(expected: Array, got: Array) -> None:
    def compare(part: tuple[int, int, int]) -> None:
        axis, start, stop = part
        _compare_block(expected, got, [0] * axis + [start], _part(axis, start, stop))

    run_in_parallel(compare, _cut(expected))


def _compare_block(expected: Array, got: Array, origin: list[int], part: tuple[Any, ...]) -> None:
    expected, got = expected[part], got[part]
    if expected.nbytes > _BLOCK_BYTES:
        axis, middle = _halved(expected)
        origin = origin + [0] * (expected.ndim - len(origin))
        _compare_block(expected, got, origin, _part(axis, 0, middle))
        moved = [at + (middle if each == axis else 0) for each, at in enumerate(origin)]
        _compare_block(expected, got, moved, _part(axis, middle, expected.shape[axis]))
        return
    different = expected != got
    if different.any():
        at = tuple(np.argwhere(different)[0])
        origin = origin + [0] * (expected.ndim - len(origin))
        place = tuple(int(start + each) for start, each in zip(origin, at, strict=True))
        width = 2 * expected.dtype.itemsize
        raise WrongResult(
            f"element {place} holds the bits {int(got[at]):#0{width + 2}x}, "
            f"expected are {int(expected[at]):#0{width + 2}x}"
        )
