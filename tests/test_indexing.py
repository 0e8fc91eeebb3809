"""Views of strided arrays against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
import views
from hypothesis import given, settings
from views import positions, whole

from vkdml.arrays.indexing import View, as_shape, broadcast, full_shape, indexed, reshaped


@settings(max_examples=300)
@given(views.shapes_with_keys())
def test_indexing_chooses_what_numpy_chooses(case):
    shape, keys = case
    view, array = whole(shape)
    for key in keys:
        view, array = indexed(view, key), views.view_of(array, key)
        assert view.shape == array.shape
        assert np.array_equal(positions(view), array)


@settings(max_examples=300)
@given(views.reshapes())
def test_reshape_is_a_view_exactly_where_numpy_has_one(case):
    shape, order, key, wanted = case
    view, array = whole(shape)
    view = View(tuple(shape[a] for a in order), tuple(view.strides[a] for a in order), 0)
    view, array = indexed(view, key), views.view_of(array.transpose(order), key)
    result = reshaped(view, wanted)
    expected = array.reshape(wanted)
    if array.size and np.may_share_memory(expected, array):
        assert result is not None
    if result is not None:
        assert result.shape == expected.shape
        assert np.array_equal(positions(result), expected)
        assert not array.size or np.may_share_memory(expected, array)


@settings(max_examples=300)
@given(views.broadcasts())
def test_broadcast_repeats_what_numpy_repeats(case):
    shape, wanted = case
    view, array = whole(shape)
    try:
        expected = np.broadcast_to(array, wanted)
    except ValueError:
        with pytest.raises(ValueError, match="cannot be broadcast"):
            broadcast(view, wanted)
    else:
        assert np.array_equal(positions(broadcast(view, wanted)), expected)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((0, 0, 0), "3 indices for an array of 2 dimensions; accepted are at most 2"),
        (3, "index 3 is out of bounds for dimension 0 with size 3; accepted are -3 to 2"),
        ((0, -5), "index -5 is out of bounds for dimension 1 with size 4"),
        ((..., ...), "only have a single ellipsis"),
        (1.0, "index 1.0 of dimension 0 is of type float; accepted are integers"),
        (True, "index True of dimension 0 is of type bool"),
        ([0, 1], "of type list"),
        (np.array([True, False, True]), "of type ndarray"),
        ("a", "of type str"),
    ],
)
def test_other_indices_are_refused_by_name(key, message):
    with pytest.raises(IndexError, match=message.replace("(", r"\(")):
        indexed(View((3, 4), (4, 1), 0), key)


def test_shapes_are_checked():
    assert full_shape(-1, 12) == (12,)
    assert full_shape((0, 5), 0) == (0, 5)
    assert as_shape(np.array(3)) == as_shape([np.array(3)]) == as_shape(np.array([3])) == (3,)
    for shape, size in [((5, -1), 12), ((-1, -1), 4), ((3, 5), 12), ((0, -1), 0)]:
        with pytest.raises(ValueError, match="shape"):
            full_shape(shape, size)
    for shape in (2.5, {7, 3}, {2: 1}, b"\x02\x03", "23"):  # sets have no order that the caller chose
        with pytest.raises(TypeError, match="a shape is an integer or a sequence of integers"):
            as_shape(shape)
    with pytest.raises(ValueError, match="negative"):
        as_shape((2, -1))
