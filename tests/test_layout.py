"""Canonical layouts describe the elements and indices of the arrays they came from. No device needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_rules import check_copy, check_reduction, reduce_layout, reductions

from vkdml.plan.layout import Dim, extent, row_major_strides


@given(reductions(), st.booleans())
def test_a_reduction_keeps_its_elements_indices_and_outputs(reduction, take_last):
    check_reduction(reduction, take_last)


@given(reductions(), st.lists(st.sampled_from([1, -1, 2]), min_size=6, max_size=6))
def test_a_copy_keeps_its_pairs(reduction, steps):
    check_copy(reduction, steps)


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
