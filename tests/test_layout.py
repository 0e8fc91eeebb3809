"""Canonical layouts describe the elements and indices of the arrays they came from. No device needed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkdml.plan.layout import Dim, canonical_copy, canonical_reduce, extent, row_major_strides


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


@given(reductions(), st.booleans())
def test_a_reduction_keeps_its_elements_indices_and_outputs(reduction, take_last):
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


@given(reductions(), st.lists(st.sampled_from([1, -1, 2]), min_size=6, max_size=6))
def test_a_copy_keeps_its_pairs(reduction, steps):
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


@pytest.mark.parametrize(
    ("sizes", "axes", "kept", "reduced"),
    [
        ((4, 5, 6), (0, 1, 2), [], [120]),
        ((4, 5, 6), (2,), [20], [6]),
        ((4, 5, 6), (1,), [4, 6], [5]),
        ((4, 5, 6), (0,), [30], [4]),
        ((4, 1, 6), (0, 2), [], [24]),
        ((4, 5, 6, 7), (0, 1), [42], [20]),
        ((4, 5, 6), (0, 2), [5], [4, 6]),
        ((1, 1, 6), (0, 1), [6], []),
    ],
)
def test_most_contiguous_reductions_become_outer_reduce_inner(sizes, axes, kept, reduced):
    layout = reduce_layout(sizes, row_major_strides(sizes), axes)
    assert [dim.size for dim in layout.kept] == kept
    assert [dim.size for dim in layout.reduced] == reduced


def test_outputs_are_reordered_so_that_the_nearest_in_memory_is_innermost():
    layout = reduce_layout((5, 6, 7), (1, 35, 5), (1,))  # of a transposed array
    assert layout.kept == (Dim(7, 5, 1), Dim(5, 1, 7))
    layout = reduce_layout((5, 6, 7), (1, 5, 30), (2,))  # of an array in Fortran order
    assert [dim.input_stride for dim in layout.kept] == [5, 1]


def test_a_backwards_reduction_runs_forwards_with_the_tie_rule_turned_round():
    layout = reduce_layout((8, 10), (-10, -1), (0, 1))
    assert layout.reversed_order
    assert layout.reduced == (Dim(80, 1, -1),)
    assert (layout.input_base, layout.index_base) == (-79, 79)


def test_repeated_elements_are_reduced_once():
    first = reduce_layout((1 << 40, 3), (0, 1), (0, 1))
    last = reduce_layout((1 << 40, 3), (0, 1), (0, 1), take_last=True)
    assert first.reduced == last.reduced == (Dim(3, 1, 1),)
    assert first.index_base == 0
    assert last.index_base == ((1 << 40) - 1) * 3


def test_extent():
    assert extent((), ()) == (0, 1)
    assert extent((3, 2), (-2, 1)) == (-4, 2)
    assert extent((1, 9), (-77, 0)) == (0, 1)
