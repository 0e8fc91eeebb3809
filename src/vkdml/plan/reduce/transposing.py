"""Tiles of short stacks whose outputs lie in another order than the input: how far they extend along both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim
from vkdml.plan.plans import VECTOR_BYTES
from vkdml.plan.reduce.short_tile import folds_of, pitch_of

# Bytes. What a GPU's memory reads and writes at least.
_ATOM = 64
# Bytes that a tile's own work takes as long as.
_TILE = 1024
# The part of a tile's time in which it folds, if all invocations are busy.
_FOLDING = 0.5
_INDEX_BYTES = 4
_MULTIPLES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


@dataclass(frozen=True)
class PermutedStack:
    """What decides on the tiles of a stack whose positions have segments of their own."""

    chain: tuple[Dim, ...]
    """Kept dimensions that are, nearly, contiguous in the input, the innermost first."""
    fast: Dim
    """The kept dimension that is innermost in the output."""
    positions: Dim
    nbytes: int
    packed: bool
    """An invocation folds a word of columns, and what it finds lies in shared memory."""
    gap: int
    """Elements between two segments that are read as one."""
    input_aligned: bool
    """Segments can start with an atom."""
    output_aligned: bool
    """So can indices."""


@dataclass(frozen=True)
class Sides:
    """How many outputs a tile has along the chain, as far as it extends there, and along ``fast``."""

    stack: PermutedStack
    along_chain: tuple[int, ...]
    along_fast: int

    @property
    def segment(self) -> int:
        """Elements of a contiguous piece of the chain."""
        dims = zip(self.along_chain, self.stack.chain, strict=False)
        return 1 + sum((count - 1) * dim.input_stride for count, dim in dims)

    @property
    def outputs(self) -> int:
        return self.along_fast * math.prod(self.along_chain)

    @property
    def shared_pitch(self) -> int:
        """Elements from segment to segment in shared memory; 0: they are one."""
        apart = self.stack.fast.input_stride > self.segment + self.stack.gap
        return _pitch(self.segment, self.stack.fast.input_stride, self._per_vector) if apart else 0

    @property
    def position_pitch(self) -> int:
        return _pitch(self._extent, self.stack.positions.input_stride, self._per_vector)

    @property
    def shared_elements(self) -> int:
        """With room for the vectors in which the first starts and the last ends."""
        return self._extent + (self.stack.positions.size - 1) * self.position_pitch + 2 * self._per_vector

    @property
    def shared_bytes(self) -> int:
        found = self.outputs * _INDEX_BYTES if self.stack.packed else 0
        return self.shared_elements * self.stack.nbytes + found

    def cost(self, workgroup_size: int) -> float:
        """Return the bytes read and written for an output, more for what is idle or outside the array."""
        stack = self.stack
        folds = folds_of(self.outputs, self.along_chain[0], stack.nbytes, stack.packed)
        idle = ceil_div(folds, workgroup_size) * workgroup_size / folds
        segments, row = (self.along_fast, self.segment) if self.shared_pitch else (1, self._extent)
        read = stack.positions.size * segments * _atoms(row * stack.nbytes, stack.input_aligned)
        rows, side = math.prod(self.along_chain), self.along_fast * _INDEX_BYTES
        written = rows * _atoms(side, stack.output_aligned)
        each = (read + written + _TILE) / self.outputs * (1 - _FOLDING + _FOLDING * idle)
        sizes = zip(
            (*self.along_chain, self.along_fast),
            (*(dim.size for dim in stack.chain[: len(self.along_chain)]), stack.fast.size),
            strict=True,
        )
        return each * math.prod(ceil_div(size, count) * count / size for count, size in sizes)

    @property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.stack.nbytes

    @property
    def _extent(self) -> int:
        return self.segment + (self.along_fast - 1) * (self.shared_pitch or self.stack.fast.input_stride)


def sides_of(stack: PermutedStack, wanted_bytes: int, most_bytes: int, workgroup_size: int) -> Sides | None:
    """Return the sides of the least cost; None where nothing fits.

    Args:
        stack: its numbers.
        wanted_bytes: of shared memory, for elements and what is found; more would leave workgroups idle.
        most_bytes: that there are.
        workgroup_size: invocations.
    """
    fitting = [sides for sides in _candidates(stack, most_bytes) if sides.shared_bytes <= most_bytes]
    wanted = [sides for sides in fitting if sides.shared_bytes <= wanted_bytes]
    if not wanted:
        return min(fitting, key=lambda sides: sides.shared_bytes, default=None)
    return min(wanted, key=lambda sides: (sides.cost(workgroup_size), sides.shared_bytes))


def _candidates(stack: PermutedStack, most_bytes: int) -> Iterator[Sides]:
    """Yield half atoms both ways and multiples of these, and whole dimensions where these are short."""
    along_fast = _counts(stack.fast.size, _ATOM // 2 // _INDEX_BYTES)
    whole: tuple[int, ...] = ()
    for dim in stack.chain:
        most = most_bytes // (stack.positions.size * stack.nbytes * math.prod(whole))
        for count in _counts(dim.size, max(_ATOM // 2 // (dim.input_stride * stack.nbytes), 1)):
            yield from (Sides(stack, (*whole, count), fast) for fast in along_fast if count * fast <= most)
        whole = (*whole, dim.size)


def _counts(size: int, step: int) -> list[int]:
    """Return some multiples of a step, and the size if it is not greater than these."""
    counts = [step * multiple for multiple in _MULTIPLES if step * multiple < size]
    return [*counts, size] if len(counts) < len(_MULTIPLES) else counts


def _pitch(segment: int, stride: int, per_vector: int) -> int:
    """Return the least pitch with which no vector is in two segments.

    >>> _pitch(16, 6632, 4), _pitch(16, 6633, 4)
    (20, 21)
    """
    return pitch_of(segment + per_vector - 1, stride, per_vector)


def _atoms(nbytes: int, aligned: bool) -> float:
    """Return the bytes of the atoms that so many touch, on average if they may start anywhere."""
    return ceil_div(nbytes, _ATOM) * _ATOM if aligned else nbytes + _ATOM
