"""Where arrays in chunks are cut: at borders of chunks, in pieces that stay within their bytes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkdml.plan.tiles import Pieces, PiecewiseTiling, Steps, Tile, Tiling, cut_at_chunks


@st.composite
def dimensions(draw):
    chunk = draw(st.integers(1, 40))
    step = draw(st.integers(1, 60)) * draw(st.sampled_from((1, -1)))
    count = draw(st.integers(1, 60))
    lowest = draw(st.integers(0, 100))
    return Steps(lowest + (count - 1) * -step if step < 0 else lowest, step, count, chunk)


def read_elements(steps: list[Steps], piece: Tile) -> int:
    spans = zip(steps, piece.start, piece.sizes, strict=True)
    slices = [dim.reading(begin, begin + size) for dim, begin, size in spans]
    return math.prod(len(range(s.start, s.stop, s.step)) for s in slices)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_pieces_hold_whole_chunks_within_their_bytes(data):
    steps = data.draw(st.lists(dimensions(), min_size=1, max_size=3))
    growing = data.draw(st.permutations(range(len(steps))))
    piece_bytes = data.draw(st.integers(8, 4000))
    pieces = cut_at_chunks(steps, 4, growing, piece_bytes, 4 * piece_bytes)
    assert pieces.sizes == tuple(dim.count for dim in steps)
    one_chunk = math.prod(1 if dim.read_step > 1 else dim.chunk for dim in steps) * 4
    most = max(piece_bytes, min(one_chunk, 4 * piece_bytes))
    assert all(read_elements(steps, piece) * 4 <= most for piece in pieces)
    if one_chunk <= 4 * piece_bytes:
        for dim, places in zip(steps, pieces.places, strict=True):
            for place in places[1:-1]:
                before, after = (dim.first + at * dim.step for at in (place - 1, place))
                assert before // dim.chunk != after // dim.chunk or dim.read_step > 1


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_tiles_of_pieces_cover_the_array_once(data):
    rank = data.draw(st.integers(0, 3))
    places = []
    for _ in range(rank):
        inner = data.draw(st.sets(st.integers(1, 19)))
        places.append((0, *sorted(inner), 20))
    pieces = Pieces(tuple(places))
    tiling = PiecewiseTiling(
        pieces, lambda sizes: Tiling(sizes, tuple(min(3, n) for n in sizes), tuple(range(rank)))
    )
    counts = np.zeros(tiling.sizes, int)
    for tile in tiling:
        counts[tile.slices] += 1
        around = pieces.around(tile)
        assert all(low <= begin for low, begin in zip(around.start, tile.start, strict=True))
        ends = zip(around.start, around.sizes, tile.start, tile.sizes, strict=True)
        assert all(begin + size <= low + extent for low, extent, begin, size in ends)
    assert (counts == 1).all()
    assert len(tiling) == len(list(tiling))
    assert len(pieces) == len(list(pieces))


def test_borders_of_both_where_they_meet_and_else_of_what_is_written():
    meeting = [Steps(0, 1, 240, 8)]
    assert cut_at_chunks(meeting, 1, [0], 24, 96, (12,)).places == (tuple(range(0, 241, 24)),)
    apart = [Steps(3, 1, 240, 8)]
    assert set(np.diff(cut_at_chunks(apart, 1, [0], 24, 96, (12,)).places[0])) == {24}
    # 7 and 8 meet every 56 elements, which would be too many at once.
    too_far = [Steps(0, 1, 560, 8)]
    assert set(np.diff(cut_at_chunks(too_far, 1, [0], 8, 32, (7,)).places[0])) == {7}


def test_pieces_grow_along_the_given_dimension_first():
    steps = [Steps(0, 1, 100, 10), Steps(0, 1, 100, 10)]
    assert [len(p) - 1 for p in cut_at_chunks(steps, 1, [0, 1], 1000, 4000).places] == [1, 10]
    assert [len(p) - 1 for p in cut_at_chunks(steps, 1, [1, 0], 1000, 4000).places] == [10, 1]


@pytest.mark.parametrize("shape", [(7,), (3, 5), ()])
def test_equal_sizes_come_one_after_the_other(shape):
    pieces = Pieces(tuple((0, *range(2, size, 3), size) for size in shape))
    sizes = [piece.sizes for piece in pieces]
    assert len([key for key, _ in itertools.groupby(sizes)]) == len(set(sizes))
