"""NumPy twins of the slice1 kernels: for one step of a plan, what the kernel of that name writes.

Each takes the step and the buffers (bytes, by role) and changes the buffers as the kernel does, vector by
vector or tile by tile, from the same push constants.
"""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from plans import by_family

from vkdml.plan import kernels

Integers = npt.NDArray[np.int64]

WORD = 1 << 32
VECTOR_BYTES, SECTOR_BYTES = 16, 32
WRITTEN = {
    kernels.number(f"written_{name}"): name
    for name in ("all", "whole", "inside_rows", "at_boundaries", "in_strips")
}
DIM_WORDS = kernels.number("copied_dim_words")


class CopyStep:
    """One step of a kernel that copies: its numbers and its layout."""

    def __init__(self, step, buffers) -> None:
        kernel = kernels.table()[step.kernel]
        self.element_bytes = kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]]
        self.constants = SimpleNamespace(**kernel.named(step.constants))
        self.p = p = SimpleNamespace(**kernel.family.unpack(step.push))
        in_push = self.constants.layout_in_push
        self.layout = layout = p.layout_words if in_push else buffers["workspace"].view(np.uint32).tolist()
        if kernel.family.name in (
            "slice1_runs",
            "slice1_words",
            "slice1_rows",
            "slice1_pixels",
            "slice1_apart",
        ):
            words = kernels.number("run_dim_words")  # the second is an inverse of the first
            dims = p.dims if kernel.family.name == "slice1_runs" else self.constants.dims
            self.dims = [[layout[words * i], *layout[words * i + 2 : words * (i + 1)]] for i in range(dims)]
        elif kernel.family.name == "slice1_blocks":
            words, base = kernels.number("run_dim_words"), p.layout_base
            places = [base + words * i for i in range(p.outer_dims)]
            self.dims = [[layout[place], *layout[place + 2 : place + words]] for place in places]
        else:
            dims = self.constants.dims if kernel.family.name == "slice1_planes" else p.dims
            self.dims = [layout[DIM_WORDS * i : DIM_WORDS * (i + 1)] for i in range(dims)]


class SliceStep(CopyStep):
    """One slice1 step, with its buffers as elements."""

    def __init__(self, step, buffers) -> None:
        super().__init__(step, buffers)
        self.source = buffers["input"].view(f"V{self.element_bytes}")
        output = buffers["output"]
        self.target = output[: output.size // self.element_bytes * self.element_bytes].view(
            f"V{self.element_bytes}"
        )

    def copy(self, source: int | Integers, target: int | Integers) -> None:
        """Copy an element, or elements."""
        self.target[target % WORD] = self.source[source % WORD]


def offsets_of(number: Any, dims, source: Any, target: Any) -> tuple[Any, Any]:
    """The offsets of the element of this number, or of elements."""
    for size, input_stride, output_stride in reversed(dims):
        number, coordinate = divmod(number, size)
        # Not in place: arrays are the caller's.
        source = source + coordinate * input_stride
        target = target + coordinate * output_stride
    return source % WORD, target % WORD


def elements_of(parts: list[tuple[range, int, int]]) -> tuple[Integers, Integers, Integers]:
    """The elements of all parts, and where the source and the target of each part start."""
    counts = [len(elements) for elements, _, _ in parts]
    elements = np.fromiter(itertools.chain.from_iterable(elements for elements, _, _ in parts), np.int64)
    starts = np.array([(source, target) for _, source, target in parts], np.int64).reshape(-1, 2)
    sources, targets = np.repeat(starts, counts, axis=0).T
    return elements, sources, targets


def vector_in_strip(s: SliceStep, item: int, skipped: int, per_vector: int) -> int | None:
    """The vector of this number in the order of strips; None if the row has none there."""
    workgroup = s.constants.workgroup
    groups, _, rows, row = s.layout[kernels.number("run_dim_words") * s.p.dims :][:4]
    rest, lane = divmod(item, workgroup)
    rest, group = divmod(rest, groups)
    outer, strip = divmod(rest, s.p.vectors_per_run)
    place, column = divmod(lane, s.p.boundary_step)
    place += group * (workgroup // s.p.boundary_step)
    begin = skipped + (outer * rows + place) * row
    vector = -(-begin // per_vector) + strip * s.p.boundary_step + column
    return vector if place < rows and (vector + 1) * per_vector <= begin + row else None


def slice1_runs(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p = s.p
    per_vector = VECTOR_BYTES // s.element_bytes
    written = WRITTEN[getattr(s.constants, "written", 0)]
    vectors: list[tuple[range, int, int]] = []
    for begin in range(0, step.workgroups * p.vectors_per_workgroup, p.vectors_per_workgroup):
        for item in range(begin, min(begin + p.vectors_per_workgroup, p.vectors)):
            number, vector = divmod(item, p.vectors_per_run) if p.outer_dims else (0, item)
            source, target = offsets_of(number, s.dims[: p.outer_dims], p.input_base, p.output_base)
            if written == "at_boundaries":
                vector, inside = divmod(target % per_vector + vector * p.boundary_step, per_vector)
                if not inside:
                    continue
            if written == "in_strips":
                vector = vector_in_strip(s, item, target % per_vector, per_vector)
                if vector is None:
                    continue
            first = vector * per_vector - target % per_vector
            elements = range(max(first, 0), min(first + per_vector, p.run))
            if written not in ("all", "at_boundaries") and len(elements) < per_vector:
                continue
            row = s.dims[-1][0]
            if written == "inside_rows" and elements[0] // row != elements[-1] // row:
                continue
            vectors.append((elements, source, target))
    elements, sources, targets = elements_of(vectors)
    offsets, _ = offsets_of(elements, s.dims[p.outer_dims :], sources, 0)
    s.copy(offsets, targets + elements)


def require_counted(s: SliceStep, most: int) -> None:
    """A workgroup of so many elements comes into one more plane at most, and its quotients are exact."""
    sizes = [size for size, *_ in s.dims]
    along = len(sizes) - 1 - s.constants.near_dims
    assert along == 0 or math.prod(sizes[along:]) >= most
    near = math.prod(sizes[along + 1 :])
    assert (near + most) * near < 1 << 32


def slice1_words(step, buffers) -> None:
    s = SliceStep(step, buffers)
    parts = s.constants.parts
    assert s.p.shares_of_part == -(-s.p.words_of_part // s.p.words_per_workgroup)
    assert step.workgroups % s.p.shares_of_part == 0
    assert step.workgroups // s.p.shares_of_part * parts * s.p.words_of_part >= s.p.words
    per_word = 4 // s.element_bytes
    require_counted(s, s.p.words_per_workgroup * per_word + per_word)
    if s.constants.rows_of_words:
        assert s.p.output_base % per_word == s.dims[-1][0] % per_word == 0
    copy_run(s, s.p.words * per_word, per_word)


def slice1_pixels(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, c, per_word, near = s.p, s.constants, 4 // s.element_bytes, s.dims[-1][1]
    pixels_of_share = c.workgroup * c.at_once * per_word
    assert step.workgroups <= p.shares == -(-p.pixels // pixels_of_share)
    assert c.side_by_side == (near in (1, WORD - 1))
    assert c.backward == (near >= WORD // 2)
    pixels, channels = np.arange(p.pixels)[:, None], np.arange(c.channels)
    planes = channels // c.group_channels * p.group_stride + channels % c.group_channels * p.channel_stride
    places, _ = offsets_of(pixels, s.dims, p.input_base, 0)
    if c.side_by_side and not c.input_unaligned:
        words = offsets_of(pixels[::per_word], s.dims, p.input_base, 0)[0] - c.backward * (per_word - 1)
        left = s.dims[-1][0] - pixels[::per_word] % s.dims[-1][0]
        assert not ((words + planes)[left[:, 0] >= per_word] % per_word).any()
    first = p.output_vector * VECTOR_BYTES // s.element_bytes
    s.copy(places + planes, first + pixels * c.channels + channels)


def slice1_planes(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, c, per_word = s.p, s.constants, 4 // s.element_bytes
    in_segment = c.workgroup * c.at_once * per_word
    assert step.workgroups <= p.shares
    assert p.shares % p.segments == p.segment_step % per_word == 0
    assert p.segment_step <= in_segment - (per_word if c.output_unaligned else 0)
    assert in_segment <= p.pixels <= (p.segments - 1) * p.segment_step + in_segment
    channels = np.arange(c.channels)
    places = channels // c.group_channels * c.group_step + channels % c.group_channels * c.channel_step
    assert places.max() < c.pixel_elements
    planes = channels // c.group_channels * p.group_output_stride
    planes += channels % c.group_channels * p.channel_output_stride
    rows, firsts = np.arange(p.shares // p.segments), np.arange(p.segments) * p.segment_step
    sources, targets = offsets_of(rows, s.dims, p.input_base + 0 * rows, p.output_base + 0 * rows)
    firsts = np.minimum(firsts, p.pixels - in_segment)
    spans = sources[:, None] + (-(firsts + in_segment - 1) if c.backward else firsts) * c.pixel_elements
    assert c.input_unaligned or not (spans % per_word).any()
    starts = targets[:, None, None] + planes[:, None] + firsts
    assert c.output_unaligned or not (starts % per_word).any()
    pixels = (firsts[:, None] + np.arange(in_segment)).ravel()
    steps = (-pixels if c.backward else pixels) * c.pixel_elements
    s.copy(
        sources[:, None, None] + places[:, None] + steps, targets[:, None, None] + planes[:, None] + pixels
    )


def slice1_apart(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, step_of_words = s.p, s.constants.output_step
    per_word = max(4 // s.element_bytes, 1)
    assert p.items_per_workgroup % s.constants.workgroup == 0
    assert (step.workgroups - 1) * p.items_per_workgroup < p.items <= step.workgroups * p.items_per_workgroup
    rows, number = np.divmod(np.arange(p.items), p.items_of_row)
    bases = np.full(p.items, p.input_base), np.full(p.items, p.output_base)
    sources, targets = offsets_of(rows, s.dims, *bases)
    if not step_of_words:  # an item is an element
        assert p.items_of_row == p.row
        s.copy(sources + number * p.row_input_stride, targets + number * p.row_output_stride)
        return
    # An item is a word: each element of a row that lies within it.
    assert p.row_output_stride == step_of_words < per_word
    words = targets // per_word + number
    copied = np.zeros(p.items, np.int64)
    for place in range(per_word):
        element, rest = np.divmod(words * per_word + place - targets, step_of_words)
        ours = (rest == 0) & (element >= 0) & (element < p.row)
        s.copy(sources[ours] + element[ours] * p.row_input_stride, (words * per_word + place)[ours])
        copied += ours
    # No element lies beyond the items of its row.
    assert copied.sum() == p.row * math.prod(size for size, *_ in s.dims)


def slice1_rows(step, buffers) -> None:
    s = SliceStep(step, buffers)
    per_vector = VECTOR_BYTES // s.element_bytes
    assert step.workgroups * s.p.vectors_per_workgroup >= s.p.vectors
    assert s.dims[-1][0] >= per_vector
    require_counted(s, s.p.vectors_per_workgroup * per_vector + per_vector)
    copy_run(s, s.p.vectors * per_vector, per_vector)


def copy_run(s: SliceStep, count: int, at_once: int) -> None:
    """The run's elements among ``count`` from the start of the word or vector in which it starts."""
    numbers = np.arange(min(count - s.p.output_base % at_once, s.p.elements))
    source, _ = offsets_of(numbers, s.dims, s.p.input_base, 0)
    s.copy(source, s.p.output_base + numbers)


def slice1_blocks(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, c, per_word, apart = s.p, s.constants, 4 // s.element_bytes, 1 + s.constants.every_second_row
    assert step.workgroups * p.items_per_workgroup >= p.items
    for item in range(p.items):
        rest, block = divmod(item, p.blocks)
        number, chunk = divmod(rest, p.chunks)
        source, target = offsets_of(number, s.dims, p.input_base, p.output_base)
        first_row = chunk * p.chunk_groups * per_word
        if c.joined:
            copy_joined(s, source, target, first_row, per_word)
            continue
        group_rows = c.at_once * per_word
        at_once = min(group_rows, p.rows)
        assert c.at_once == 1 or p.rows >= group_rows
        assert c.few_rows == (p.rows if p.rows < per_word else 0)
        last_row = min(first_row + p.chunk_groups * per_word, p.rows) - at_once
        for group in range(first_row, last_row + at_once, group_rows):
            for row in range(min(group, last_row), min(group, last_row) + at_once):
                start = (target + row * p.row_output_stride) % WORD
                assert not (c.output_aligned and start % per_word)
                first = block * p.block_columns + -start % per_word
                for word in range(first, min(first + p.block_columns, p.row - per_word + 1), per_word):
                    for column in range(word, word + per_word):
                        outer = column // p.column_size
                        assert not (outer and c.one_column_dim)
                        offset = column * p.column_stride + outer * p.column_jump
                        assert not c.columns_of_three or (offset, apart, p.rows) == (3 * column, 1, 3)
                        assert not (c.input_aligned and (source + apart * group + offset) % per_word)
                        s.copy(source + apart * row + offset, start + column)


def copy_joined(s: SliceStep, source: int, target: int, first_row: int, per_word: int) -> None:
    """The words that lie within a word's number of rows, of which the first starts with a word."""
    p, apart = s.p, 1 + s.constants.every_second_row
    assert p.blocks == 1
    assert s.constants.short_row == (p.row if p.row < per_word else 0)
    before_first = next(row for row in range(per_word) if (target + row * p.row) % per_word == 0)
    first = first_row + before_first - (per_word if before_first and not first_row else 0)
    for group in range(first, min(first_row + before_first + p.chunk_groups * per_word, p.rows), per_word):
        row = min(max(group, 0), p.rows - per_word)
        assert not (s.constants.input_aligned and (source + apart * row) % per_word)
        begin, end = target + row * p.row, target + (row + per_word) * p.row
        for at in range(-(-begin // per_word) * per_word, end // per_word * per_word):
            in_row, column = divmod(at - target, p.row)
            outer = column // p.column_size
            assert not (outer and s.constants.one_column_dim)
            s.copy(source + apart * in_row + column * p.column_stride + outer * p.column_jump, at)


def tiles_of(s: SliceStep, height: int, width: int):
    """Yield of each tile: the offsets of its matrix, its rows, and where its columns start."""
    p = s.p
    for tile in range(p.tiles):
        matrix, number = divmod(tile, p.tiles_down * p.tiles_across)
        band, rest = divmod(number, s.constants.band * p.tiles_across)
        first = band * s.constants.band
        across, down = divmod(rest, min(s.constants.band, p.tiles_down - first))
        down += first
        source, target = offsets_of(matrix, s.dims, p.input_base, p.output_base)
        yield source, target, range(down * height, min((down + 1) * height, p.rows)), across * width


def slice1_tiles(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, c = s.p, s.constants
    kernel = kernels.table()[step.kernel]
    row_step = kernel.family.axes["row_step"][kernel.variant["row_step"]]
    per_vector, per_cell = VECTOR_BYTES // s.element_bytes, max(4 // s.element_bytes, 1)
    width = p.tile_vectors * per_vector
    per_unit = per_vector * (SECTOR_BYTES // VECTOR_BYTES if c.whole_sectors else 1)
    assert width % per_unit == 0
    descending = (p.row_group_output_stride if c.row_groups else p.row_output_stride) > WORD // 2
    at_start, at_end = set(range(p.group_rows if c.row_groups else 1)), {p.rows - 1}
    if c.row_groups:
        at_end = set(range(p.rows - 1 - (p.copied_rows - 1) * c.rows_apart, p.rows))
    first_rows, last_rows = (at_end, at_start) if descending else (at_start, at_end)
    next_row = p.next_row_input_offset - (WORD if descending else 0)
    assert not (c.continued and c.row_blocks)
    parts: list[tuple[range, int, int]] = []
    for source, target, rows, begin in tiles_of(s, c.down * per_vector, width):
        beyond = (per_unit - 1) * c.continued
        loaded = min(width + per_vector * (c.output_unaligned + c.whole_sectors), p.columns - begin + beyond)
        assert -(-loaded // per_cell) <= c.across
        if not c.input_unaligned:
            starts = source, p.column_input_stride, p.column_group_input_stride, next_row * c.continued
            assert not any(start % per_vector for start in starts)
        for row in rows:
            start, in_block = target, row
            if c.row_blocks:
                assert c.row_groups
                block_rows, _, copied_groups, block_output_stride = s.layout[len(s.dims) * DIM_WORDS :][:4]
                block, in_block = divmod(row, block_rows)
                start += block * block_output_stride
            group, in_group = divmod(in_block, p.group_rows)
            if c.row_blocks and group >= copied_groups:
                continue
            in_group, between = divmod(in_group, c.rows_apart)
            if between or in_group >= p.copied_rows:
                continue
            start += in_group * p.row_output_stride
            start = (start + group * p.row_group_output_stride) % WORD
            assert c.output_unaligned or start % per_vector == 0
            # A tile has the units that begin in it, and what lies before the first of a row.
            before = -start % per_unit
            assert before + width <= loaded or loaded == p.columns - begin + beyond
            first = begin + before
            end = first + width
            if c.continued:
                units = -(-max(p.columns - before, 0) // per_unit)
                end = min(end, before + units * per_unit)
            else:
                end = min(end, p.columns)
            if c.continued and row in last_rows:
                end = min(end, p.columns)
            if begin == 0 and (not c.continued or row in first_rows):
                first = 0
            parts.append((range(first, end), source + row * row_step, start))
    columns, sources, targets = elements_of(parts)
    beyond = columns >= p.columns
    group, in_group = np.divmod(columns - p.columns * beyond, p.group_columns)
    offsets = in_group * p.column_input_stride + group * p.column_group_input_stride
    if c.column_blocks:
        assert c.column_groups
        place = len(s.dims) * DIM_WORDS + kernels.number("row_block_words") * c.row_blocks
        block_groups, _, next_block = s.layout[place:][:3]
        offsets += group // block_groups * next_block
    s.copy(sources + next_row * beyond + offsets, targets + columns)


def slice1_pixel_tiles(step, buffers) -> None:
    s = SliceStep(step, buffers)
    p, c = s.p, s.constants
    per_vector, per_word = VECTOR_BYTES // s.element_bytes, 4 // s.element_bytes
    width = p.tile_vectors * per_vector
    per_sector = SECTOR_BYTES // s.element_bytes
    per_unit = per_sector if c.whole_sectors else per_vector
    assert not (c.output_unaligned and not c.whole_sectors)
    assert width % per_sector == width % c.channels == p.columns % c.channels == c.down % c.rows_at_once == 0
    parts: list[tuple[range, int, int]] = []
    for source, target, rows, begin in tiles_of(s, c.down, width):
        loaded = min(width + (per_unit - 1) * c.whole_sectors, p.columns - begin)
        assert -(-loaded // (per_word * c.channels)) * c.channels <= c.across
        if not c.input_unaligned:
            starts = source, p.line_input_stride, c.rows_at_once * c.pixel_elements
            assert not any(start % per_word for start in starts)
        for row in rows:
            start = (target + row * p.row_output_stride) % WORD
            assert c.output_unaligned or start % per_vector == 0
            # A tile has the units that begin in it, and what lies before the first of a row.
            before = -start % per_unit if c.whole_sectors else 0
            assert c.whole_sectors or start % per_sector == 0
            end = min(begin + before + width, p.columns)
            parts.append((range(begin + before if begin else 0, end), source + row * c.pixel_elements, start))
    columns, sources, targets = elements_of(parts)
    pixels, channels = np.divmod(columns, c.channels)
    channels = c.channels - 1 - channels if c.backward else channels
    s.copy(sources + pixels * p.line_input_stride + channels * c.channel_step, targets + columns)


def slice1_boxes(step, buffers) -> None:
    kernel = kernels.table()[step.kernel]
    element_bytes = kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]]
    per_word = 4 // element_bytes
    c, p = SimpleNamespace(**kernel.named(step.constants)), SimpleNamespace(**kernel.family.unpack(step.push))
    layout = list(p.layout_words if c.layout_in_push else buffers["workspace"].view(np.uint32).tolist())

    def take(count: int, words: int) -> list[list[int]]:
        return [[layout.pop(0) for _ in range(words)] for _ in range(count)]

    grid = take(p.grid_dims, kernels.number("grid_dim_words"))
    row_dims, output_row_dims, within_dims = (
        take(count, kernels.number("box_dim_words"))
        for count in (p.row_dims, p.output_row_dims, p.within_dims)
    )

    def offsets(count: int, dims) -> np.ndarray:
        """Two offsets of each item of a box along dimensions."""
        numbers, found = np.arange(count), np.zeros((2, count), np.int64)
        for number, (size, inverse, first, second) in reversed(list(enumerate(dims))):
            quotient = numbers if not inverse else numbers * inverse >> 32
            outer = quotient if number else np.zeros_like(numbers)
            found += (numbers - outer * size) * np.array([[first], [second]])
            numbers = outer
        return found % WORD

    assert p.rows <= c.table
    assert p.output_row_count <= c.table
    assert p.first_gathered + p.output_row_count * p.output_row_pitch <= c.cells
    assert p.output_row_count * p.output_row_words <= kernels.number("box_turns") * c.workgroup
    rows, row_places = offsets(p.rows, row_dims)
    assert not ((rows - row_places) % per_word).any()
    starts_in_word = np.arange(per_word if c.input_unaligned else 1)
    first_words = (row_places[:, None] + starts_in_word) // per_word
    last_words = (row_places[:, None] + p.row_length - 1 + starts_in_word) // per_word
    order = np.argsort(row_places)
    assert (last_words[order[:-1]] < first_words[order[1:]]).all()
    assert last_words.max() < p.first_gathered
    memory = np.full(row_places.max() + p.row_length, -1)
    memory[row_places[:, None] + np.arange(p.row_length)] = rows[:, None] + np.arange(p.row_length)
    output_rows, row_cells = offsets(p.output_row_count, output_row_dims)
    cells = (p.first_cell + row_cells[:, None] + offsets(p.output_row_length, within_dims)[1]) % WORD
    sources = memory[cells]
    assert sources.min() >= 0

    source = buffers["input"].view(f"V{element_bytes}")
    output = buffers["output"]
    target = output[: output.size // element_bytes * element_bytes].view(f"V{element_bytes}")
    for box in range(p.boxes):
        number, bases, at_start, at_end = box, np.array([p.input_base, p.output_base]), True, True
        for dim, (count, step_of_box, last, *strides) in reversed(list(enumerate(grid))):
            number, coordinate = divmod(number, count) if dim else (0, number)
            origin = min(coordinate * step_of_box, last)
            bases = bases + origin * np.array(strides)
            if dim == p.output_grid_dim:
                at_start, at_end = origin == 0, origin == last
        starts = (bases[1] + output_rows) % WORD
        assert c.input_unaligned or not ((bases[0] + rows) % per_word).any()
        assert c.output_unaligned or not (starts % per_word).any()
        places = starts[:, None] + np.arange(p.output_row_length)
        words = places // per_word * per_word
        # Of the words that two boxes share, one box has all.
        written = (words >= starts[:, None]) | at_start
        written &= (words + per_word <= starts[:, None] + p.output_row_length) | at_end
        target[places[written]] = source[(bases[0] + sources[written]) % WORD]


TWINS = {
    "slice1_runs": slice1_runs,
    "slice1_tiles": slice1_tiles,
    "slice1_boxes": slice1_boxes,
    "slice1_words": slice1_words,
    "slice1_pixels": slice1_pixels,
    "slice1_planes": slice1_planes,
    "slice1_pixel_tiles": slice1_pixel_tiles,
    "slice1_rows": slice1_rows,
    "slice1_apart": slice1_apart,
    "slice1_blocks": slice1_blocks,
}
"""Every twin by the family of its kernels: how these read differs, what they write does not."""
run = by_family(TWINS)
