"""Views: hypothesis strategies for shapes, keys of basic indexing, reshapes, broadcasts; their elements."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vkdml.arrays.indexing import View
from vkdml.plan.layout import row_major_strides

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


def view_of(array: np.ndarray, key) -> np.ndarray:
    """Index without ever making a scalar of an array of no dimensions."""
    parts = key if isinstance(key, tuple) else (key,)
    return array[parts if Ellipsis in parts else (*parts, ...)]


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]):
    """A key of basic indexing that fits the shape."""
    return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6))


@st.composite
def shapes_with_keys(draw: st.DrawFn):
    """A shape, and keys to be applied one after the other."""
    shape = draw(shapes)
    array = np.empty(shape, np.uint8)
    chain = []
    for _ in range(draw(st.integers(1, 3))):
        key = draw(keys(array.shape))
        chain.append(key)
        array = view_of(array, key)
    return shape, chain


@st.composite
def factorizations(draw: st.DrawFn, size: int):
    """A shape of so many elements."""
    sizes = []
    while size > 1 and len(sizes) < 5:
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        sizes.append(draw(st.sampled_from(divisors)))
        size //= sizes[-1]
    return (*sizes, size, *([1] * draw(st.integers(0, 1))))


@st.composite
def reshapes(draw: st.DrawFn):
    """A shape, an order of its dimensions, a key, and another shape of as many elements as are left."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=6))
    order = draw(st.permutations(range(len(shape))))
    array = np.empty(shape, np.uint8).transpose(order)
    key = draw(hnp.basic_indices(array.shape))
    return shape, tuple(order), key, draw(factorizations(view_of(array, key).size))


@st.composite
def broadcasts(draw: st.DrawFn):
    """Two shapes of which the first can, or nearly can, be repeated to the second."""
    wanted = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    shape = [draw(st.sampled_from([size, 1])) for size in wanted[draw(st.integers(0, len(wanted))) :]]
    if shape and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(1, 4))
    return tuple(shape), wanted


def positions(view: View) -> np.ndarray:
    """The offsets of a view's elements, in its shape."""
    offsets = np.full(view.shape, view.offset)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        shape = [1] * len(view.shape)
        shape[axis] = size
        offsets += (np.arange(size) * stride).reshape(shape)
    return offsets


def whole(shape: tuple[int, ...]) -> tuple[View, np.ndarray]:
    return View(shape, row_major_strides(shape), 0), np.arange(int(np.prod(shape))).reshape(shape)
