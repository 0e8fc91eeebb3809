"""Which memory of a host array is sent: its span as it lies, or a compact copy where that is much smaller."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import vkdml
from vkdml.arrays.host_span import host_span
from vkdml.runtime.host_memory import empty


def elements(span) -> np.ndarray:
    """The array that a span describes, rebuilt from its flat elements."""
    offsets = np.full(span.sizes, span.base)
    for axis, (size, stride) in enumerate(zip(span.sizes, span.strides, strict=True)):
        shape = [1] * len(span.sizes)
        shape[axis] = size
        offsets = offsets + (np.arange(size) * stride).reshape(shape)
    return span.flat[offsets]


WHOLE = np.arange(4 * 6 * 8, dtype=np.int32).reshape(4, 6, 8)
AS_IT_LIES = {
    "contiguous": (WHOLE, 192),
    "transposed": (WHOLE.transpose(2, 0, 1), 192),
    "reversed": (WHOLE[::-1, :, ::-1], 192),
    "every second": (WHOLE[:, :, ::2], 191),
    "window": (WHOLE[1:3, :, 1:7], 94),
    "one element": (WHOLE[2:3, 3:4, 4:5], 1),
    "overlapping": (np.lib.stride_tricks.sliding_window_view(WHOLE.reshape(-1), 50), 192),
    "repeated": (np.broadcast_to(WHOLE[:1, :, ::-1], (9, 6, 8)), 48),
    "no dimensions": (WHOLE[1, 1, 1, ...], 1),
}
COMPACT = {
    "every third": (WHOLE[:, ::3, :4], 32),
    "corner points": (WHOLE[::3, ::5, ::7], 8),
    "corner points, transposed": (WHOLE[::3, ::5, ::7].T, 8),
    "one column, repeated": (np.broadcast_to(WHOLE[:, :, 0:1], (4, 6, 5)), 24),
}


@pytest.mark.parametrize("name", AS_IT_LIES)
def test_a_span_of_at_most_twice_the_data_is_not_copied(name):
    x, count = AS_IT_LIES[name]
    span = host_span(x)
    assert span.flat.size == count
    assert np.shares_memory(span.flat, WHOLE)
    assert np.array_equal(np.broadcast_to(elements(span), x.shape), x)


@pytest.mark.parametrize("name", COMPACT)
def test_a_wider_one_is_gathered_and_repeated_elements_once(name):
    x, count = COMPACT[name]
    span = host_span(x)
    assert span.flat.size == count
    assert not np.shares_memory(span.flat, WHOLE)
    assert np.array_equal(np.broadcast_to(elements(span), x.shape), x)


def test_strides_of_no_whole_elements_are_gathered():
    records = np.zeros(5, np.dtype([("a", "i1"), ("b", "i4")]))
    records["b"] = np.arange(5)
    span = host_span(records["b"])
    assert span.strides == (1,)
    assert np.array_equal(elements(span), records["b"])


def test_extension_types_are_described_too():
    x = np.arange(20, dtype=np.float32).astype(ml_dtypes.float8_e5m2).reshape(4, 5)[::-1, ::2]
    span = host_span(x)
    assert span.flat.dtype == x.dtype
    assert np.array_equal(elements(span), x)


def test_a_result_that_no_memory_can_hold_is_refused_before_it_is_filled():
    free = vkdml._native.available_host_memory()
    with pytest.raises(MemoryError, match=rf"the result of {1 << 50} bytes does not fit in the \d+ bytes"):
        empty((1 << 47,), np.int64)
    assert free > 1 << 20
    assert empty((3,), np.int8).shape == (3,)
