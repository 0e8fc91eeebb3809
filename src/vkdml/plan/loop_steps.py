"""Counts the loop steps of one invocation of each kernel: an upper bound from the numbers of its plan.

Some drivers end a shader's loops, without an error, after a fixed total number of steps. A plan therefore
states the number of steps of each of its kernels, and the planner refuses a plan that exceeds the device's
limit (:func:`vkdml.plan.plans.checked_step`). The invocations of a subgroup run a loop together, as often as
the invocation that needs the most steps; each loop takes one extra step to detect its end. Loops that a
compiler may unroll are counted too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.drivers import is_lavapipe

LAVAPIPE_LOOP_STEPS = 65535
UNLIMITED_LOOP_STEPS = 1 << 63

# Candidates that `combine_splits` loads in one batch.
_CANDIDATES_AT_ONCE = kernels.number("candidates_at_once")
_SHARED_LAYOUT_WORDS = kernels.number("shared_layout_words")
_VECTORS_PER_LINE = kernels.number("vectors_per_line")
_VECTORS_PER_SECTOR = kernels.number("vectors_per_sector")
_WORDS_OF_VECTOR = kernels.number("vector_bytes") // 4
_BOX_TURNS = kernels.number("box_turns")
# The most words of a row before the vectors within it, or after them.
_END_WORDS = kernels.number("end_words")


def most_loop_steps(driver_name: str) -> int:
    """Return how many loop steps an invocation may make on a driver.

    >>> most_loop_steps("llvmpipe")
    65535

    The source is Mesa's ``LP_MAX_TGSI_LOOP_ITERATIONS``: one counter for all loops of an invocation.
    """
    return LAVAPIPE_LOOP_STEPS if is_lavapipe(driver_name) else UNLIMITED_LOOP_STEPS


def loop(times: int, body: int = 0) -> int:
    """Return the steps of a loop and of the loops in its body.

    >>> loop(3, loop(2))
    13
    """
    return times * (1 + body) + 1


def rounds_of(items: int, max_workgroup_count: int) -> int:
    """Return how many items one workgroup processes in sequence."""
    return math.ceil(items / max_workgroup_count) if items > max_workgroup_count else 1


@dataclass(frozen=True)
class ReduceLoops:
    """What all argreduce kernels have in common."""

    workgroup_size: int
    subgroup_size: int
    lanes: int
    kept_dims: int
    reduced_dims: int
    blocks: int
    splits: int
    max_workgroup_count: int

    @property
    def _halvings(self) -> int:
        return self.workgroup_size.bit_length()

    @property
    def result(self) -> int:
        """``write_result``: the index of a position, and the offset of its element."""
        return 2 * loop(self.reduced_dims)

    def combine(self, outputs: int) -> int:
        """``combine_splits`` of a block with this number of outputs."""
        if self.splits == 1:
            return 0
        width = 1 << (min(outputs, self.workgroup_size) - 1).bit_length()
        members = self.workgroup_size // width
        loads = ceil_div(self.splits, members * _CANDIDATES_AT_ONCE)
        candidates = loop(loads, 2 * loop(_CANDIDATES_AT_ONCE))
        exchange = 2 * self._exchange + loop(self._halvings)
        each = candidates + exchange + loop(self.kept_dims) + self.result
        return loop(self._halvings) + loop(ceil_div(outputs, width), each)

    @property
    def _exchange(self) -> int:
        """``exchange_best`` or ``reduce_candidates``."""
        if not self.subgroup_size:
            return loop(self._halvings)
        return 2 * loop(self._halvings) + loop(ceil_div(self.workgroup_size, self.subgroup_size**2))

    def all_items(self, each: int) -> int:
        items = self.blocks * self.splits
        return loop(rounds_of(items, self.max_workgroup_count), loop(self.kept_dims) + each)

    def rows(
        self,
        units: int,
        tile_vectors: int,
        batch: int,
        outputs_per_block: int,
        pieces: int = 0,
        parts: int = 1,
    ) -> int:
        """Return the steps of ``argreduce_rows``.

        Args:
            units: tiles of an output.
            tile_vectors: vectors of a tile.
            batch: vectors that an invocation loads at once.
            outputs_per_block: outputs of one workgroup at most.
            pieces: rows of the innermost dimension to which a vector that is read in memory order belongs.
            parts: into which a workgroup divides its split of each output.
        """
        offset = loop(self.reduced_dims - 1)
        equal = 2 * loop(batch, loop(4) + offset + loop(pieces, offset)) if pieces else 0
        look = loop(1) + loop(self.lanes) if pieces else 0
        chunks = loop(ceil_div(tile_vectors, batch * self.lanes), look + equal)
        if not pieces:
            chunks += 2  # what lies between the first and the last batch has a loop of its own
        tiles = loop(ceil_div(units, self.splits * parts), offset + chunks)
        find = offset + loop(batch) + loop(4)
        best_of_parts = loop(parts) if parts > 1 else 0
        exchanges = 3 * self._exchange + best_of_parts
        each = tiles + exchanges + find + self.result + self.combine(outputs_per_block)
        return self.all_items(each) + 4 * loop(self.reduced_dims)

    def _fold(
        self, positions: int, innermost: int, at_once: int, dims: int, *, whole_segments: bool = False
    ) -> int:
        """``fold_split`` of columns: positions of these many dimensions, by segments of the innermost one."""
        if whole_segments:
            segments = ceil_div(ceil_div(positions, innermost) + 1, self.lanes)
            return loop(segments, loop(dims - 1) + loop(innermost // at_once))
        if dims == 1:
            segments = 1
        elif innermost < self.lanes:
            segments = ceil_div(positions, self.lanes)
        else:
            segments = min(ceil_div(positions, innermost) + 1, positions)
        folds = ceil_div(min(innermost, positions), self.lanes) // at_once
        return loop(segments, loop(dims - 1) + loop(folds))

    def columns(
        self,
        positions: int,
        innermost: int,
        at_once: int,
        columns: int,
        outputs_per_block: int,
        *,
        columns_apart: bool,
        whole_segments: bool,
    ) -> int:
        """Return the steps of ``argreduce_columns``.

        Args:
            positions: of one split.
            innermost: size of the innermost reduced dimension.
            at_once: positions that an invocation loads at once.
            columns: neighbouring outputs of one invocation.
            outputs_per_block: outputs of one workgroup at most.
            columns_apart: neighbouring outputs are not side by side in the output.
            whole_segments: an invocation folds all positions along the innermost dimension.
        """
        fold = self._fold(positions, innermost, at_once, self.reduced_dims, whole_segments=whole_segments)
        parts = 3 * loop(columns, loop(1))  # to begin with, to settle, and to gather the places
        members = loop(self.lanes.bit_length(), 2 * loop(columns, loop(1)))
        results = loop(columns, 1 + self.result + (loop(self.kept_dims) if columns_apart else 0))
        results += 3 * loop(columns + 4)  # to exchange places, and to gather and store words of values
        if self.splits > 1:
            results = loop(columns, loop(1)) + self.combine(outputs_per_block)
        return self.all_items(fold + parts + members + results)

    def phases(self, positions: int, at_once: int, columns: int, columns_of_block: int) -> int:
        """Return the steps of ``argreduce_phases``.

        Args:
            positions: of one split.
            at_once: positions that an invocation loads at once.
            columns: of a vector.
            columns_of_block: outputs of one workgroup at most.
        """
        fold = loop(ceil_div(positions, self.lanes) // at_once)
        parts = 2 * loop(columns)  # to begin with, and to settle
        found = loop(ceil_div(columns_of_block, self.workgroup_size) + 1, loop(self.lanes) + self.result)
        exchanges = 2 * (loop(columns, loop(1)) + found)
        return self.all_items(fold + parts + exchanges + self.combine(columns_of_block))

    def across(self, positions: int, innermost: int, at_once: int, columns: int, columns_written: int) -> int:
        """Return the steps of ``argreduce_across``.

        Args:
            positions: of an output.
            innermost: size of the innermost reduced dimension.
            at_once: positions that an invocation loads at once.
            columns: neighbouring outputs of one invocation.
            columns_written: outputs that an invocation writes for a tile.
        """
        fold = self._fold(positions, innermost, at_once, self.reduced_dims)
        parts = 3 * loop(columns, loop(1))  # to begin with, to settle, and to leave the positions
        written = loop(self.kept_dims) + loop(columns_written, self.result)
        return self.all_items(fold + parts + written)

    def joined(
        self,
        positions: int,
        folded: tuple[int, ...],
        at_once: int,
        columns: int,
        outputs_per_block: int,
        columns_of_joiner: int,
        joiners: int,
    ) -> int:
        """Return the steps of ``argreduce_joined``.

        Args:
            positions: of one split.
            folded: sizes of the folded dimensions.
            at_once: positions that an invocation loads at once.
            columns: neighbouring columns of one invocation.
            outputs_per_block: outputs of one workgroup at most.
            columns_of_joiner: that an invocation compares for an output.
            joiners: invocations that do so.
        """
        fold = 2 * self._fold(positions, folded[-1], at_once, len(folded))
        parts = 4 * loop(columns, loop(1))  # to begin with, to settle, to exchange and to leave
        members = loop(self.lanes.bit_length(), 2 * loop(columns, loop(1)))
        each = loop(columns_of_joiner) + self._exchange + loop(self.kept_dims) + self.result
        rounds = ceil_div(outputs_per_block * joiners, self.workgroup_size)
        return self.all_items(fold + parts + members + loop(rounds, each) + self.combine(outputs_per_block))


def runs_per_round(outer_dims: int, inner_dims: int, per_vector: int) -> int:
    """Return the steps of ``slice1_runs`` for one vector of each invocation of a workgroup."""
    outer = loop(outer_dims) if outer_dims else 0
    offset_in_run = loop(inner_dims - 1)
    gather = loop(4)
    by_elements = 2 * (offset_in_run + loop(per_vector, offset_in_run)) if per_vector > 1 else 0
    return outer + offset_in_run + 2 * gather + by_elements


def _find_plane(dims: int, near_dims: int) -> int:
    """Return the steps in which a workgroup of ``slice1_words`` or ``slice1_rows`` finds its place."""
    return loop(near_dims) + loop(dims - 1 - near_dims)


def words(dims: int, parts: int, rounds: int, at_once: int, per_word: int, near_dims: int) -> int:
    """Return the steps of ``slice1_words``.

    Args:
        dims: of the layout.
        parts: of which a workgroup has a share each.
        rounds: of a share.
        at_once: words that an invocation loads in a round.
        per_word: elements of a word.
        near_dims: in which words find their place by division.
    """
    source = loop(near_dims)
    # lavapipe counts the loop over the elements of a word once more than its elements and its end.
    gather = loop(at_once, 1 + loop(per_word, source) if per_word > 1 else source)
    share = _find_plane(dims, near_dims) + loop(rounds, gather + loop(at_once))
    return share if parts == 1 else loop(parts, share)


def pixels(rounds: int, dims: int, channels: int, at_once: int, per_word: int) -> int:
    """Return the steps of ``slice1_pixels``.

    Args:
        rounds: of a workgroup.
        dims: of pixels.
        channels: elements of a pixel.
        at_once: words that an invocation loads together from each plane.
        per_word: elements of a word.
    """
    places = loop(dims) + loop(per_word, loop(dims))
    planes = loop(channels) + loop(channels, 1 + loop(per_word))
    made = loop(channels, 1 + loop(per_word))
    stored = loop(ceil_div(at_once * channels, 4), loop(4))
    return loop(rounds, loop(at_once, places + planes) + loop(at_once, made) + stored)


def planes(rounds: int, dims: int, pixel_elements: int, channels: int, at_once: int) -> int:
    """Return the steps of ``slice1_planes``.

    Args:
        rounds: of a workgroup.
        dims: from row to row of pixels.
        pixel_elements: from one pixel to the next.
        channels: that are copied.
        at_once: words of an invocation in each plane.
    """
    loaded = loop(ceil_div(at_once * pixel_elements, 4) + 2)
    read = 2 * loop(pixel_elements + 1) + loop(channels)
    return loop(rounds, loop(dims) + loaded + loop(at_once, read) + 2 * loop(at_once, loop(channels)))


def copied_rows(dims: int, rounds: int, near_dims: int) -> int:
    """Return the steps of ``slice1_rows``.

    Args:
        dims: of the layout.
        rounds: of a workgroup's share.
        near_dims: in which vectors find their place by division.
    """
    gather = loop(4)
    return _find_plane(dims, near_dims) + loop(rounds, 2 * loop(near_dims) + gather + loop(4))


def apart(dims: int, rounds: int, at_once: int, per_word: int) -> int:
    """Return the steps of ``slice1_apart``.

    Args:
        dims: from row to row.
        rounds: of a workgroup's share.
        at_once: items of an invocation that are loaded together.
        per_word: elements of a word; 1 if a word has no more.
    """
    load = (loop(dims) if dims else 1) + (2 * loop(per_word) if per_word > 1 else 0)
    return loop(rounds, loop(at_once, load) + loop(at_once))


def tile(parts: int, columns_at_once: int, rows: int, vectors: int, size: int) -> int:
    """Return the steps of a tile of ``slice1_tiles``.

    Args:
        parts: in which it is loaded, each by one invocation.
        columns_at_once: of a part.
        rows: of the tile.
        vectors: of a row.
        size: invocations of a workgroup.
    """
    load = loop(columns_at_once, 2 * loop(3)) + loop(columns_at_once, loop(_WORDS_OF_VECTOR))
    store = loop(ceil_div(rows, size // vectors))
    return loop(ceil_div(parts, size), load) + store + _ends_of_rows(rows, size)


def _ends_of_rows(rows: int, size: int) -> int:
    return loop(ceil_div(2 * _VECTORS_PER_SECTOR * _END_WORDS * rows, size))


@dataclass(frozen=True)
class PixelTileLoops:
    """What ``slice1_pixel_tiles`` loops over."""

    workgroup_size: int
    dims: int
    """Of matrices."""
    rows: int
    """Of a tile."""
    vectors: int
    """Of a row."""
    parts: int
    """In which a tile is loaded, each by one invocation."""
    lines: int
    """Of a part."""
    words_of_line: int
    """That an invocation loads of a line."""
    rows_at_once: int
    channels: int

    def tiles(self, count: int) -> int:
        """Return the steps of so many tiles."""
        load = 2 * loop(self.lines, loop(self.words_of_line))
        load += loop(self.rows_at_once, loop(self.channels, loop(self.lines)))
        loads = loop(ceil_div(self.parts, self.workgroup_size), load)
        store = loop(ceil_div(self.rows * self.vectors, self.workgroup_size))
        return loop(count, loop(self.dims) + loads + store + _ends_of_rows(self.rows, self.workgroup_size))


@dataclass(frozen=True)
class BoxLoops:
    """What ``slice1_boxes`` loops over; ``workgroup_size`` is in invocations, the rest in a box."""

    workgroup_size: int
    per_word: int
    grid_dims: int
    row_dims: int
    output_row_dims: int
    within_dims: int
    rows: int
    vectors: int
    output_rows: int
    output_vectors: int

    def _rounds(self, items: int) -> int:
        return ceil_div(items, self.workgroup_size)

    @property
    def first(self) -> int:
        """Steps before the first box."""
        elements = self.per_word * loop(self.within_dims)
        return (
            loop(self._rounds(kernels.number("box_layout_words")))
            + loop(self._rounds(self.rows), loop(self.row_dims))
            + loop(self._rounds(self.output_rows), loop(self.output_row_dims))
            + _BOX_TURNS * (loop(self.output_row_dims) + elements)
        )

    @property
    def each(self) -> int:
        """Steps of a box."""
        # Two vectors at once.
        load = loop(self._rounds(ceil_div(self.vectors, 2)))
        ends = loop(self._rounds(2 * _END_WORDS * self.output_rows))
        return loop(self.grid_dims) + load + loop(self._rounds(self.output_vectors)) + ends

    def boxes(self, count: int) -> int:
        """Return the steps of so many boxes."""
        return self.first + loop(count, self.each)

    def most_boxes(self, max_loop_steps: int) -> int:
        """Return how many boxes a workgroup can copy within a limit, or 1."""
        return max((max_loop_steps - self.first - 1) // (1 + self.each), 1)


@dataclass(frozen=True)
class PeriodLoops:
    """``argreduce_periods`` and ``argreduce_combine``."""

    workgroup_size: int
    max_workgroup_count: int

    @property
    def _halvings(self) -> int:
        return self.workgroup_size.bit_length()

    def periods(
        self, items: int, dims: int, periods: int, lanes: int, at_once: int, columns: int, ahead: int
    ) -> int:
        """Return the steps of ``argreduce_periods``.

        Args:
            items: blocks of all splits.
            dims: of stretches.
            periods: of one split.
            lanes: invocations that share them.
            at_once: periods that an invocation loads at once.
            columns: elements of a vector.
            ahead: vectors of each period that are read ahead.
        """
        lines = loop(periods, loop(ceil_div(ahead, _VECTORS_PER_LINE * self.workgroup_size))) if ahead else 0
        fold = loop(ceil_div(periods, lanes) // at_once)
        parts = 6 * loop(columns, loop(1))  # to begin with, to settle, twice a part of a vector, to store
        members = loop(self._halvings, 2 * loop(columns, loop(1)))
        return loop(rounds_of(items, self.max_workgroup_count), loop(dims) + lines + fold + parts + members)

    def combine(
        self,
        blocks: int,
        splits: int,
        kept_dims: int,
        reduced_dims: int,
        candidate_dims: int,
        candidates: int,
        lanes: int,
    ) -> int:
        """Return the steps of ``argreduce_combine``; ``candidates``: of one output in one split."""
        shared = ReduceLoops(
            self.workgroup_size, 0, lanes, kept_dims, reduced_dims, blocks, splits, self.max_workgroup_count
        )
        batch = loop(candidate_dims) + loop(_CANDIDATES_AT_ONCE)
        loads = loop(ceil_div(candidates, lanes * _CANDIDATES_AT_ONCE), batch)
        each = loop(kept_dims) + loads + loop(self._halvings) + shared.result
        each += shared.combine(self.workgroup_size // lanes)
        return loop(ceil_div(_SHARED_LAYOUT_WORDS, self.workgroup_size)) + shared.all_items(each)


def short(rounds: int, outer_dims: int, tile_vectors: int, outputs: int, positions: int, size: int) -> int:
    """Return the steps of ``argreduce_short``.

    Args:
        rounds: tiles of one workgroup.
        outer_dims: kept dimensions outside of tiles.
        tile_vectors: vectors of 16 bytes in a tile at most.
        outputs: of a tile, or more where words of narrow columns are partly empty.
        positions: that compete for one output.
        size: invocations of a workgroup.
    """
    each = ceil_div(outputs, size)
    load = loop(ceil_div(tile_vectors, 4 * size))
    results = loop(4, loop(1))  # of a word of columns
    return loop(rounds, loop(outer_dims) + load + 2 * loop(each, loop(positions) + results))


def walks(
    rounds: int,
    dims: tuple[int, int],
    takes: int,
    columns: int,
    sizes: tuple[int, ...],
    size: int,
    tile_vectors: int = 0,
) -> int:
    """Return the steps of ``argreduce_short`` where it walks through the elements of outputs.

    Args:
        rounds: tiles of one workgroup.
        dims: kept dimensions outside of tiles, and reduced dimensions.
        takes: outputs of a tile, or groups of columns.
        columns: of such a group.
        sizes: of the dimensions of a walk, the innermost first, in loads.
        size: invocations of a workgroup.
        tile_vectors: vectors of 16 bytes that are copied to shared memory, if any.
    """
    outer_dims, reduced_dims = dims
    fold = 0
    for each in sizes:
        fold = loop(each, fold)
    load = loop(ceil_div(tile_vectors, 4 * size)) if tile_vectors else 0
    folds = loop(ceil_div(takes, size), fold + columns * loop(reduced_dims))
    return loop(rounds, loop(outer_dims) + load + folds)


def gather(rounds: int, dims: int, per_item: int) -> int:
    """Return the steps of ``gather_places`` and ``gather_elements``.

    Args:
        rounds: items of each invocation.
        dims: of the layout.
        per_item: elements of an item.
    """
    offsets = loop(dims)
    # lavapipe counts the loop over the elements of a word once more than its elements and its end.
    return loop(rounds, 1 + loop(per_item, offsets) if per_item > 1 else offsets)
