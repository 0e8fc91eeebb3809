"""Random layouts, and what canonical ones must keep of them: element by element, in the slowest way."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from vkdml.plan.layout import canonical_copy, canonical_reduce, row_major_strides


def reduce_layout(sizes, strides, axes, take_last=False):
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    return canonical_reduce(sizes, strides, axes, row_major_strides(kept), take_last=take_last)


@st.composite
def reductions(draw):
    rank = draw(st.integers(0, 6))
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    strides = list(row_major_strides(sizes))
    for axis in range(rank):
        strides[axis] *= draw(st.sampled_from([1, 1, 1, -1, 2, 0, -3]))
    order = draw(st.permutations(range(rank)))
    sizes = tuple(sizes[axis] for axis in order)
    strides = tuple(strides[axis] for axis in order)
    axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1))))) if rank else ()
    return sizes, strides, axes


def check_reduction(reduction, take_last) -> None:
    """Assert that its canonical layout has the elements, indices and outputs of a reduction."""
    sizes, strides, axes = reduction
    layout = reduce_layout(sizes, strides, axes, take_last)
    expected: dict[int, dict[int, int]] = {}  # output offset -> index -> input offset
    kept_axes = [axis for axis in range(len(sizes)) if axis not in axes]
    kept_sizes = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    output_strides = row_major_strides(kept_sizes)
    for coordinates in itertools.product(*map(range, sizes)):
        output = sum(coordinates[axis] * output_strides[axis] for axis in kept_axes)
        index = 0
        for axis in axes:
            index = index * sizes[axis] + coordinates[axis]
        offset = sum(c * s for c, s in zip(coordinates, strides, strict=True))
        expected.setdefault(output, {})[index] = offset

    seen = set()
    for kept in itertools.product(*(range(dim.size) for dim in layout.kept)):
        output = layout.output_base + sum(c * d.output_stride for c, d in zip(kept, layout.kept, strict=True))
        base = layout.input_base + sum(c * d.input_stride for c, d in zip(kept, layout.kept, strict=True))
        assert output not in seen
        seen.add(output)
        indices = []
        for position in itertools.product(*(range(dim.size) for dim in layout.reduced)):
            steps = list(zip(position, layout.reduced, strict=True))
            index = layout.index_base + sum(c * d.output_stride for c, d in steps)
            assert expected[output][index] == base + sum(c * d.input_stride for c, d in steps)
            indices.append(index)
        # Positions run with the index, or exactly against it.
        assert indices == sorted(indices, reverse=layout.reversed_order)
        # Every element is there, those repeated along a stride of 0 once: by their first or last index.
        wanted = {}
        for index, offset in sorted(expected[output].items(), reverse=not take_last):
            wanted[offset] = index
        if len(set(expected[output].values())) == len(indices):
            assert set(indices) == set(wanted.values())
    assert seen == set(expected)


def check_copy(reduction, steps) -> None:
    """Assert that its canonical layout has the pairs of elements of a copy."""
    sizes, strides, _ = reduction
    outputs = tuple(s * step for s, step in zip(row_major_strides(sizes), steps, strict=False))
    layout = canonical_copy(sizes, strides, outputs)

    def pairs(sizes, a, b, a_base=0, b_base=0):
        found = set()
        for coordinates in itertools.product(*map(range, sizes)):
            found.add((a_base + np.dot(coordinates, a), b_base + np.dot(coordinates, b)))
        return found

    dims = layout.dims
    assert pairs(sizes, strides, outputs) == pairs(
        [d.size for d in dims],
        [d.input_stride for d in dims],
        [d.output_stride for d in dims],
        layout.input_base,
        layout.output_base,
    )
    assert all(dim.output_stride > 0 for dim in dims)
    assert [d.output_stride for d in dims] == sorted((d.output_stride for d in dims), reverse=True)
