"""Canonical layouts: the same elements with the fewest dimensions and the most contiguity possible.

Strides count elements. Nothing here knows of devices, dtypes or data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dim:
    """A dimension: what one step along it adds to the input's offset and to the output's.

    For a reduced dimension the output is the index, and ``output_stride`` what one step adds to that.
    """

    size: int
    input_stride: int
    output_stride: int


NO_DIM = Dim(1, 0, 0)
"""What stands for a dimension where there is none: it has one element."""


def ascending(dims: Iterable[Dim], input_base: int, output_base: int) -> tuple[tuple[Dim, ...], int, int]:
    """Turn round dimensions whose input stride is negative; return all, and the bases of the first element.

    >>> ascending((Dim(3, -2, 5),), 4, 0)
    ((Dim(size=3, input_stride=2, output_stride=-5),), 0, 10)
    """
    result = []
    for dim in dims:
        if dim.input_stride < 0:
            input_base += (dim.size - 1) * dim.input_stride
            output_base += (dim.size - 1) * dim.output_stride
            dim = Dim(dim.size, -dim.input_stride, -dim.output_stride)
        result.append(dim)
    return tuple(result), input_base, output_base


def span_of(dims: Iterable[Dim]) -> int:
    """Return the elements of the input from the first to the last, those between them included.

    >>> span_of((Dim(5, 900, 12), Dim(4, -3, 3)))
    3610
    """
    return 1 + sum((dim.size - 1) * abs(dim.input_stride) for dim in dims)


def contiguous(dims: Sequence[Dim], run: int = 1) -> tuple[int, int]:
    """Return how many elements are side by side in the input, and of how many of the last dimensions.

    >>> contiguous((Dim(5, 900, 12), Dim(4, 3, 3), Dim(3, 1, 1)))
    (12, 2)

    Args:
        dims: of which the last ones may follow each other.
        run: elements side by side of dimensions inside of these.
    """
    for count, dim in enumerate(reversed(dims)):
        if dim.input_stride != run:
            return run, count
        run *= dim.size
    return run, len(dims)


@dataclass(frozen=True)
class MemoryOrder:
    """The reduced dimensions as they lie in memory, the nearest last: an order in which to read them.

    Positions are those of the layout: the order of reading does not change which of equal elements wins.
    """

    dims: tuple[Dim, ...]
    """Input strides are positive and descend; ``output_stride`` is what one step adds to the position."""
    input_offset: int
    """Of the first element read, from that of position 0."""
    position: int
    """Of the first element read."""

    @property
    def ascends(self) -> bool:
        """Tell whether the position grows along the outermost dimension."""
        return self.dims[0].output_stride > 0

    @property
    def step(self) -> int:
        """Elements of memory from one to the nearest other."""
        return self.dims[-1].input_stride

    @property
    def stepped_dims(self) -> int:
        """How many of the last dimensions make up a run whose elements are ``step`` apart; 1 at least."""
        return contiguous(self.dims, self.step)[1]

    @property
    def run_dims(self) -> int:
        """How many of the last dimensions are side by side in memory."""
        return contiguous(self.dims)[1]

    @property
    def run_length(self) -> int:
        """Elements that these dimensions have together; 1 if there are none."""
        return contiguous(self.dims)[0]


@dataclass(frozen=True)
class ReduceLayout:
    """An argmin or argmax, canonical: dimensions are row-major, the last varies fastest.

    Reduced dimensions stay in an order in which positions ascend or (with ``reversed_order``) descend with
    the index, so that the first of equals is the first or the last position.
    """

    kept: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    input_base: int
    output_base: int
    index_base: int
    reversed_order: bool

    @property
    def memory_order(self) -> MemoryOrder | None:
        """How the reduced elements lie in memory, if that is another order than that of their positions."""
        order = self.reading_order
        positions = tuple(dim.input_stride for dim in self.reduced)
        if not order.position and tuple(dim.input_stride for dim in order.dims) == positions:
            return None
        return order

    @property
    def reading_order(self) -> MemoryOrder:
        """How the reduced elements lie in memory."""
        position, offset, first = 1, 0, 0
        dims = []
        for dim in reversed(self.reduced):
            stride, step = dim.input_stride, position
            if stride < 0:
                offset += (dim.size - 1) * stride
                first += (dim.size - 1) * step
                stride, step = -stride, -step
            dims.append(Dim(dim.size, stride, step))
            position *= dim.size
        dims.reverse()
        ordered = sorted(dims, key=lambda dim: -dim.input_stride)
        return MemoryOrder(tuple(ordered), offset, first)

    @property
    def is_simple(self) -> bool:
        """Whether at most one dimension is kept, and one reduced."""
        return len(self.kept) <= 1 and len(self.reduced) == 1

    @property
    def outputs(self) -> int:
        return math.prod(dim.size for dim in self.kept)

    @property
    def innermost_of_outputs(self) -> Dim:
        """The kept dimension along which neighbouring outputs lie; there has to be one."""
        return min(self.kept, key=lambda dim: abs(dim.output_stride))

    @property
    def outputs_follow_input(self) -> bool:
        """Whether neighbouring outputs are those of neighbouring elements; there has to be a kept one."""
        return self.innermost_of_outputs is self.kept[-1]

    @property
    def row_starts(self) -> tuple[int, ...]:
        """Numbers of which multiples add up to where rows of the innermost kept dimension start."""
        return self.starts_of_rows(1)

    def starts_of_rows(self, dims: int) -> tuple[int, ...]:
        """Return the same of rows that so many innermost kept dimensions make up."""
        return (self.input_base, *(dim.input_stride for dim in (*self.kept[:-dims], *self.reduced)))

    @property
    def greatest_index(self) -> int:
        """Of those that may be written."""
        return self.index_base + sum((dim.size - 1) * max(dim.output_stride, 0) for dim in self.reduced)

    @property
    def reduce_count(self) -> int:
        return math.prod(dim.size for dim in self.reduced)


@dataclass(frozen=True)
class CopyLayout:
    """A strided copy, canonical: output strides are positive and descend."""

    dims: tuple[Dim, ...]
    input_base: int
    output_base: int

    @property
    def count(self) -> int:
        return math.prod(dim.size for dim in self.dims)


def row_major_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array in C order.

    >>> row_major_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    stride = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def canonical_reduce(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    axes: tuple[int, ...],
    output_strides: tuple[int, ...],
    *,
    take_last: bool,
    input_base: int = 0,
    output_base: int = 0,
    index_weights: tuple[int, ...] | None = None,
) -> ReduceLayout:
    """Return the canonical layout of a reduction over ``axes`` (distinct, ascending, not negative).

    >>> layout = canonical_reduce((2, 3, 4), (12, 4, 1), (1, 2), (1, 0, 0), take_last=False)
    >>> layout.kept, layout.reduced
    ((Dim(size=2, input_stride=12, output_stride=1),), (Dim(size=12, input_stride=1, output_stride=1),))

    Args:
        sizes: of the input, none 0.
        strides: of the input, in elements.
        axes: to reduce.
        output_strides: of the output with its reduced dimensions kept (their strides are ignored).
        take_last: the last of equals wins, not the first.
        input_base: element offset of coordinate (0, ..., 0) in the input.
        output_base: the same for the output.
        index_weights: what a step along each reduced axis adds to the index if this reduction is part of a
            larger one; by default the row-major weights of these sizes.
    """
    kept = []
    reduced = []
    index_base = 0
    weight = 1
    for axis in reversed(range(len(sizes))):
        size, stride = sizes[axis], strides[axis]
        if axis not in axes:
            if size > 1:
                kept.append(Dim(size, stride, output_strides[axis]))
            continue
        if index_weights is not None:
            weight = index_weights[axis]
        if size > 1 and stride != 0:
            reduced.append(Dim(size, stride, weight))
        elif take_last:
            # A stride of 0 repeats one element: its first or its last index is taken.
            index_base += (size - 1) * weight
        weight *= size
    kept.reverse()
    reduced.reverse()

    reversed_order = bool(reduced) and reduced[-1].input_stride < 0
    if reversed_order:
        # All dimensions at once: positions then run exactly backwards.
        input_base += sum((dim.size - 1) * dim.input_stride for dim in reduced)
        index_base += sum((dim.size - 1) * dim.output_stride for dim in reduced)
        reduced = [Dim(dim.size, -dim.input_stride, -dim.output_stride) for dim in reduced]

    # Outputs may be processed in any order: by input stride, repeated ones outermost.
    upright, input_base, output_base = ascending(kept, input_base, output_base)
    ordered = sorted(upright, key=lambda dim: (dim.input_stride != 0, -dim.input_stride))

    return ReduceLayout(merged(ordered), merged(reduced), input_base, output_base, index_base, reversed_order)


def merged(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """Merge neighbouring dimensions that one longer dimension describes."""
    result: list[Dim] = []
    for dim in dims:
        outer = result[-1] if result else None
        if (
            outer
            and outer.input_stride == dim.size * dim.input_stride
            and outer.output_stride == dim.size * dim.output_stride
        ):
            result[-1] = replace(dim, size=outer.size * dim.size)
        else:
            result.append(dim)
    return tuple(result)


def canonical_copy(
    sizes: tuple[int, ...],
    input_strides: tuple[int, ...],
    output_strides: tuple[int, ...],
    *,
    input_base: int = 0,
    output_base: int = 0,
) -> CopyLayout:
    """Return the canonical layout of a copy between two strided arrays of one shape without a 0 in it.

    >>> canonical_copy((2, 3), (3, 1), (3, 1)).dims
    (Dim(size=6, input_stride=1, output_stride=1),)
    """
    dims = []
    for size, input_stride, output_stride in zip(sizes, input_strides, output_strides, strict=True):
        if size == 1:
            continue
        if output_stride < 0:
            input_base += (size - 1) * input_stride
            output_base += (size - 1) * output_stride
            input_stride, output_stride = -input_stride, -output_stride
        dims.append(Dim(size, input_stride, output_stride))
    dims.sort(key=lambda dim: -dim.output_stride)
    return CopyLayout(merged(dims), input_base, output_base)


def canonical_gather(
    sizes: tuple[int, ...], input_strides: tuple[int, ...], place_strides: tuple[int, ...]
) -> tuple[Dim, ...]:
    """Return the dimensions of a gather's compact output; the second stride of each is that of the places.

    >>> canonical_gather((4, 2, 3), (0, 3, 1), (1, 0, 0))
    (Dim(size=4, input_stride=0, output_stride=1), Dim(size=6, input_stride=1, output_stride=0))
    """
    numbers = zip(sizes, input_strides, place_strides, strict=True)
    return merged(Dim(*each) for each in numbers if each[0] != 1)


def extent(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return the lowest offset of a strided array without a 0 in its shape, and one past its highest.

    >>> extent((3, 2), (-2, 1))
    (-4, 2)
    """
    low = high = 0
    for size, stride in zip(sizes, strides, strict=True):
        reach = (size - 1) * stride
        low += min(reach, 0)
        high += max(reach, 0)
    return low, high + 1
