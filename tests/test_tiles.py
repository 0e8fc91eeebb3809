"""Arrays are cut into boxes that are all of it, small enough, long in memory and whole in what is reduced."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkdml.plan.layout import row_major_strides
from vkdml.plan.tiles import (
    CANDIDATE_INDEX_BYTES,
    LEAST_POSITIONS,
    RUN_BYTES,
    Tiling,
    copy_tiling,
    memory_order,
    reduction_tiling,
)

MIB = 1 << 20


@st.composite
def arrays(draw):
    rank = draw(st.integers(0, 5))
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank)))
    itemsize = draw(st.sampled_from([1, 2, 4, 8, 16]))
    order = draw(st.permutations(range(rank)))
    strides = [0] * rank
    step = itemsize
    for dim in order:
        strides[dim] = draw(st.sampled_from([1, -1])) * step if sizes[dim] > 1 else 0
        step *= sizes[dim] * draw(st.sampled_from([1, 1, 3]))
    axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1))))) if rank else ()
    return sizes, tuple(strides), itemsize, axes


def assert_tiles(tiling: Tiling, sizes: tuple[int, ...]) -> None:
    """Each element is in one box; boxes of one size come together."""
    met = np.zeros(sizes, int)
    tiles = list(tiling)
    for tile in tiles:
        met[tile.slices] += 1
        assert met[tile.slices].shape == tile.sizes
        assert all(map(int.__le__, tile.sizes, tiling.extents))
    assert (met == 1).all()
    assert len(tiles) == len(tiling)
    shapes = [shape for shape, _ in itertools.groupby(tile.sizes for tile in tiles)]
    assert len(shapes) == len(set(shapes))
    assert shapes[0] == tiling.extents


@settings(max_examples=200)
@given(arrays(), st.sampled_from([1, 16, 64, 100, 1000, 4096]))
def test_a_reduction_is_cut_into_all_of_it(array, tile_bytes):
    sizes, strides, itemsize, axes = array
    tiling = reduction_tiling(sizes, strides, itemsize, axes, tile_bytes)
    assert_tiles(tiling, sizes)
    assert math.prod(tiling.extents) * itemsize <= max(tile_bytes, itemsize)
    outputs = math.prod(size for dim, size in enumerate(tiling.extents) if dim not in axes)
    assert outputs * CANDIDATE_INDEX_BYTES <= max(tile_bytes, CANDIDATE_INDEX_BYTES)


@settings(max_examples=200)
@given(arrays(), st.sampled_from([1, 16, 64, 100, 1000, 4096]))
def test_a_copy_is_cut_into_all_of_it(array, tile_bytes):
    sizes, strides, itemsize, _ = array
    tiling = copy_tiling(sizes, strides, itemsize, tile_bytes)
    assert_tiles(tiling, sizes)
    assert math.prod(tiling.extents) * itemsize <= max(tile_bytes, itemsize)


@settings(max_examples=200)
@given(arrays())
def test_what_fits_is_not_cut(array):
    sizes, strides, itemsize, axes = array
    tile_bytes = math.prod(sizes) * max(itemsize, CANDIDATE_INDEX_BYTES)
    assert list(reduction_tiling(sizes, strides, itemsize, axes, tile_bytes)) == list(
        copy_tiling(sizes, strides, itemsize, tile_bytes)
    )
    assert len(copy_tiling(sizes, strides, itemsize, tile_bytes)) == 1


def test_boxes_of_a_size_come_in_the_order_of_memory():
    tiling = reduction_tiling((6, 4), (4, 24), 4, (), 24)
    assert tiling.order == (1, 0)
    starts = [tile.start for tile in tiling]
    assert starts == sorted(starts, key=lambda start: (start[1], start[0]))


def byte_strides(sizes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(stride * itemsize for stride in row_major_strides(sizes))


@pytest.mark.parametrize(
    ("sizes", "axes", "itemsize"),
    [
        ((10**6, 50_000), (1,), 4),
        ((400, 10**8), (0,), 1),
        ((500, 10**6), (0,), 4),
        ((100, 21, 513, 513), (1,), 2),
        ((10**9, 3), (1,), 2),
        ((10**6, 50, 50), (1,), 8),
        ((2, 10**9), (0,), 1),
    ],
)
def test_kept_dimensions_are_cut_rather_than_reduced_ones(sizes, axes, itemsize):
    tile_bytes = 32 * MIB
    tiling = reduction_tiling(sizes, byte_strides(sizes, itemsize), itemsize, axes, tile_bytes)
    assert not tiling.cuts(axes)
    assert tiling.cuts(set(range(len(sizes))) - set(axes))
    assert shortest_run(tiling, byte_strides(sizes, itemsize), itemsize) >= 0.9 * RUN_BYTES
    # Nor are the boxes smaller than they must be.
    assert math.prod(tiling.extents) * max(itemsize, CANDIDATE_INDEX_BYTES) >= tile_bytes / 4


@pytest.mark.parametrize(
    ("sizes", "axes", "itemsize"),
    [
        ((10**7, 1000), (0,), 4),
        ((10**6, 50_000), (0,), 4),
        ((10**5, 10**6), (0,), 1),
        ((3000, 7, 10**5), (0,), 2),
        ((3000, 7, 10**5), (0, 1), 2),
        ((10**10,), (0,), 1),
        ((7, 10**10), (0, 1), 8),
    ],
)
def test_a_cut_through_what_is_reduced_leaves_few_candidates(sizes, axes, itemsize):
    tiling = reduction_tiling(sizes, byte_strides(sizes, itemsize), itemsize, axes, 32 * MIB)
    assert tiling.cuts(axes)
    assert math.prod(tiling.extents[axis] for axis in axes) >= 0.9 * LEAST_POSITIONS
    assert shortest_run(tiling, byte_strides(sizes, itemsize), itemsize) >= min(
        0.9 * RUN_BYTES, math.prod(sizes[1:]) * itemsize if len(sizes) > 1 else RUN_BYTES
    )
    assert math.prod(tiling.extents) * itemsize >= 8 * MIB


def test_small_tiles_too_have_positions_enough_to_make_up_for_their_candidates():
    sizes, axes = (10**6, 50_000), (0,)
    tiling = reduction_tiling(sizes, byte_strides(sizes, 4), 4, axes, MIB)
    assert tiling.extents[0] >= 0.9 * LEAST_POSITIONS


def shortest_run(tiling: Tiling, strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes side by side in memory in a full box."""
    run = itemsize
    for dim in reversed(memory_order(strides)):
        if strides[dim] == run:
            run *= tiling.extents[dim]
            if tiling.extents[dim] < tiling.sizes[dim]:
                break
    return run


def test_a_transposed_copy_has_long_runs_on_both_sides():
    sizes, itemsize = (100_000, 100_000), 4
    tiling = copy_tiling(sizes, (itemsize, itemsize * sizes[0]), itemsize, 32 * MIB)
    assert min(tiling.extents) >= 1024
    assert math.prod(tiling.extents) * itemsize >= 8 * MIB


def test_a_plain_copy_is_cut_along_the_slowest_dimension():
    sizes = (100_000, 1000)
    assert copy_tiling(sizes, byte_strides(sizes, 4), 4, 32 * MIB).extents[1] == 1000


def test_sizes_beyond_any_memory_are_cut_at_once():
    sizes = (1 << 40, 3, 1 << 40)
    tiling = reduction_tiling(sizes, byte_strides(sizes, 8), 8, (0, 2), 32 * MIB)
    assert len(tiling) > 1 << 59
    assert math.prod(tiling.extents) * 8 <= 32 * MIB
    assert next(iter(tiling)).start == (0, 0, 0)


def test_any_rank():
    sizes = (2,) * 16 + (1,) * 12 + (3,) * 4
    tiling = reduction_tiling(sizes, byte_strides(sizes, 1), 1, tuple(range(0, 32, 2)), 1 << 14)
    assert_tiles(tiling, sizes)
    assert_tiles(reduction_tiling((), (), 4, (), 1), ())
