"""Whether strided arrays share a byte, in host memory and in memory that the host cannot read."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkdml.common import overlap
from vkdml.common.overlap import Layout, may_share_bytes


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Layouts that end before byte 2000."""
    rank, itemsize = draw(st.integers(0, 3)), draw(st.sampled_from([1, 2, 4, 8]))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    return Layout(draw(st.integers(0, 160)), shape, tuple(draw(st.integers(0, 96)) for _ in shape), itemsize)


def bytes_of(layout: Layout) -> set[int]:
    starts = (
        layout.start + sum(i * stride for i, stride in zip(place, layout.byte_strides, strict=True))
        for place in itertools.product(*map(range, layout.shape))
    )
    return {byte for start in starts for byte in range(start, start + layout.itemsize)}


@settings(max_examples=300)
@given(first=layouts(), second=layouts())
def test_a_shared_byte_is_found_exactly_where_there_is_one(first: Layout, second: Layout) -> None:
    expected = not bytes_of(first).isdisjoint(bytes_of(second))
    memory = np.zeros(2000, np.uint8)

    def readable(layout: Layout) -> npt.NDArray[np.void]:
        return np.ndarray(layout.shape, f"V{layout.itemsize}", memory, layout.start, layout.byte_strides)

    assert may_share_bytes(readable(first), readable(second)) == expected
    assert may_share_bytes(first, second) == expected


@pytest.mark.parametrize("start", [0, 2**32, 2**46])
def test_positions_beyond_32_bits(start: int) -> None:
    """Two interleaved layouts of 2^40 bytes: one has the even bytes, the other the odd ones."""
    shape, strides = (2**20, 2**19), (2**20, 2)
    even, odd = (Layout(start + i, shape, strides, 1) for i in (0, 1))
    assert not may_share_bytes(even, odd)
    assert may_share_bytes(even, Layout(start + 2**39 + 2, (1,), (1,), 1))


def test_layouts_that_take_too_long_to_compare_count_as_overlapping() -> None:
    """NumPy's documentation has these: they share no byte, which takes it a minute to find."""
    first = Layout(0, (1049, 1049, 1049), (36674, 61119, 85569), 1)
    second = Layout(64023025, (1049, 1049, 1), (12223, 12224, 1), 1)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(first, second, max_work=overlap.SEARCH_STEPS)  # type: ignore[arg-type]
    assert may_share_bytes(first, second)
