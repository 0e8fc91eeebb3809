"""What shares sectors of the input in a copy; whether vectors or words are gathered, or boxes loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import CopyLayout, Dim, span_of
from vkdml.plan.plans import GPU_LINE_BYTES, SECTOR_BYTES, VECTOR_BYTES, DeviceLimits
from vkdml.plan.slice import often_read
from vkdml.plan.slice.matrices import FEWEST_PLANES, Matrices, are_planes
from vkdml.plan.slice.word_copies import is_of_words
from vkdml.plan.tuning import SliceTuning

# Runs that read memory so often, out of a cache, are as fast as boxes.
_MOST_READS = 4
# By element width. What lies no further apart is read together: memory is accessed by two sectors. In boxes
# it takes 0.5 to 0.95 of the time (H100, H200).
_NEAR_BYTES = {1: 40, 2: 40, 4: 56, 8: 56, 16: 16}
# From element to element of a long row, from which on words are gathered faster than vectors.
_WORDS_APART_BYTES = 8
# Of bytes that lie nearer to each other, vectors are gathered faster even where parts are long.
_FEWEST_BYTES_APART = 3
# By element width. Words of parts that have shorter rows are slower than boxes.
_LEAST_ROW_BYTES = {1: 32, 2: 24, 4: 96}
# By element width. Shorter parts that a cache holds are read again for each part: 0.1 to 1.1 of the time.
_LONG_PART_BYTES = {1: 32 * 1024, 2: 2000, 4: 8 * 1024}
# From byte to byte, from which on a vector takes a load for each.
_BYTES_IN_WORDS_APART = 4
# So few rows of halves are copied by words that share sectors (0.89 of the time on an H200, 0.80 to 1.00 on
# an H100).
_FEW_ROWS = 4
# Bytes from pixel to pixel. Bytes of larger pixels are copied to planes in tiles.
_SMALL_PIXEL_BYTES = 8
# Longer rows of bytes with steps of 2 and 3 are copied as vectors.
_STEPPED_ROW_BYTES = 400
# By element width the shortest steps for which words are faster than vectors, whatever the row's length, if
# at most the share _MOST_COPIED of what they span is copied.
_LONG_STEP_BYTES = {1: 4, 2: 8, 4: 20}
_MOST_COPIED = 1 / 2
# Scraps, which are rows of up to so many bytes: the nearest cache loses a sector if so many bytes of the
# output lie between elements that share it. For scraps in up to so many places, so many bytes must.
_SCRAP_BYTES, _SCRAPS_APART_BYTES = 5, 10_000
_FEW_SCRAPS, _FEW_SCRAPS_APART_BYTES = 3, 1 << 20
# The nearest cache has a sector again for the next plane if the planes times what lies between bytes of one
# are fewer bytes than this.
_PIXELS_IN_PLANES = 130
# By element width, bytes. Shorter rows are gathered from few sectors, and tiles of pixels load them whole.
_SHORT_ROW_BYTES = {1: 31, 2: 52, 4: 44, 8: 24}
# By element width. Rows of adjacent elements that have so many bytes share sectors at their ends alone.
_LEAST_WHOLE_ROW_BYTES = {1: 22, 2: 32, 4: 32, 8: 32}
# So many bytes of sectors between elements that share one are no longer in any cache.
_SECTORS_OUT_OF_CACHE = 48 << 20


@dataclass(frozen=True)
class Sharing:
    """The dimensions of a copy along which elements of a sector are apart in the output."""

    layout: CopyLayout
    element_bytes: int
    limits: DeviceLimits

    @property
    def _tuning(self) -> SliceTuning:
        return self.limits.tuning.slice1

    @property
    def _row_bytes(self) -> int:
        return self.layout.dims[-1].size * self.element_bytes

    @property
    def _apart_bytes(self) -> int:
        """From element to element of a row."""
        return abs(self.layout.dims[-1].input_stride) * self.element_bytes

    @cached_property
    def _far(self) -> list[Dim]:
        """The dimensions along which elements that lie near each other are far apart in the output."""
        strided = [dim for dim in self.layout.dims if dim.input_stride]
        nearest = min((abs(dim.input_stride) for dim in strided), default=0)
        within = max(nearest, _NEAR_BYTES[self.element_bytes] // self.element_bytes)
        near = [dim for dim in strided if abs(dim.input_stride) <= within]
        return [dim for dim in near if dim.output_stride * self.element_bytes > self._tuning.box_near_bytes]

    @property
    def is_along_one(self) -> bool:
        """Whether sectors are shared along one dimension at most."""
        return len(self._far) <= 1

    @cached_property
    def _between(self) -> int:
        """Bytes that are copied between elements of a sector; of what is read again and again, once."""
        dims = self.layout.dims
        copied = (min(dim.output_stride * dim.size, span_of(dims[dims.index(dim) :])) for dim in self._far)
        return max(copied, default=0) * self.element_bytes

    @property
    def _is_cached(self) -> bool:
        """Whether a cache holds what lies between elements of a sector."""
        return self._between <= self._tuning.box_cache_bytes

    @property
    def are_faster_in_boxes(self) -> bool:
        """Whether words would read sectors again and again that boxes read once."""
        if often_read.are_faster_in_boxes(self.layout, self.element_bytes):
            return True
        return self._are_short_rows_apart or self._are_many_planes

    @property
    def _are_many_planes(self) -> bool:
        """Whether bytes are gathered for so many planes that the nearest cache loses the sectors of one.

        Boxes take 0.25 to 0.85 of the time on an H100, 0.45 to 1.20 on an H200.
        """
        parts, apart = self._parts, self._apart_bytes
        if parts is None or self.element_bytes > 1:
            return False
        return self._row_bytes >= VECTOR_BYTES and parts.size * apart >= _PIXELS_IN_PLANES

    @property
    def _are_short_rows_apart(self) -> bool:
        """Whether these are short rows that share sectors, but so far apart that caches lose them.

        Boxes take 0.33 to 1.35 of the time, in the mean of 48 copies 0.69 (H200) and 0.64 (H100).
        """
        dims = self.layout.dims
        if self._row_bytes >= VECTOR_BYTES or len(dims) < 2 or not self._far:
            return False
        each, row_apart = self._apart_bytes, abs(dims[-2].input_stride) * self.element_bytes
        if each >= SECTOR_BYTES and row_apart:  # what the next row has in the sector is copied next
            each = row_apart
        if self._between // self.element_bytes * min(each, SECTOR_BYTES) >= _SECTORS_OUT_OF_CACHE:
            return True
        few = max(dim.size for dim in self._far) <= _FEW_SCRAPS
        is_scrap = self._row_bytes <= _SCRAP_BYTES and self._apart_bytes < SECTOR_BYTES
        return is_scrap and self._between >= (_FEW_SCRAPS_APART_BYTES if few else _SCRAPS_APART_BYTES)

    @cached_property
    def gathers_well(self) -> bool:
        """Whether runs read each sector while a cache holds it, and few vectors are made of many rows.

        Elements of 16 bytes are half a sector: runs take 0.43 to 0.88 of the time of boxes (H200, 12 copies).
        """
        if not self.layout.dims or self.element_bytes == VECTOR_BYTES:
            return True
        if self.element_bytes < 4 and self._row_bytes < VECTOR_BYTES:
            return False
        if often_read.is_gathered_well(self.layout, self.element_bytes):
            return True
        reads = min(self._apart_bytes, SECTOR_BYTES) / self.element_bytes  # of each sector
        return not self._far or (reads <= _MOST_READS and self._is_cached)

    @property
    def least_tile_bytes(self) -> tuple[int, ...]:
        """The least bytes of a side of a matrix for tiles; then of one that nothing larger contains."""
        tuning = self._tuning
        if self.element_bytes < 4:
            least = tuning.narrow_tile_least_bytes
            has_planes = self.element_bytes == 1 and tuning.has_boxes(self.element_bytes)
            return (least, FEWEST_PLANES) if has_planes and least > FEWEST_PLANES else (least,)
        if not self.gathers_well:
            return (tuning.tile_least_bytes,)
        least = dict(tuning.gathered_tile_least_bytes).get(self.element_bytes, 0)
        least_of_far = dict(tuning.far_tile_least_bytes).get(self.element_bytes) if self._far else None
        numbers = (least,) if least_of_far is None else (least, least_of_far)
        return tuple(max(number, tuning.tile_least_bytes) for number in numbers)

    @cached_property
    def gathers_by_words(self) -> bool:
        """Whether words read each sector while a cache holds it, and no kernel of vectors is faster."""
        if not self.has_words or not is_of_words(self.layout, self.element_bytes, self.limits):
            return False
        if often_read.are_faster_by_words(self.layout, self.element_bytes):
            return True
        # Invocations that write vectors of long rows read what lies side by side, but where all are apart.
        nearest = min(abs(dim.input_stride) for dim in self.layout.dims) * self.element_bytes
        all_apart = (
            self.element_bytes < 4
            and nearest == self._apart_bytes
            and _WORDS_APART_BYTES <= nearest <= SECTOR_BYTES
        )
        if self._row_bytes >= VECTOR_BYTES and not all_apart:
            return self._finds_parts_again
        reads = math.prod(
            min(dim.size, ceil_div(SECTOR_BYTES, abs(dim.input_stride) * self.element_bytes))
            for dim in self._far
        )
        return reads <= _MOST_READS and self._is_cached

    @property
    def has_words(self) -> bool:
        """Whether the device copies such elements by words, and vectors are no faster."""
        if not self._tuning.word_workgroup_size or self.element_bytes > 4 or not self.layout.dims:
            return False
        return not often_read.are_halves_in_vectors(self.layout, self.element_bytes)

    @property
    def are_short_rows(self) -> bool:
        """Whether rows are so short that tiles of pixels, if there are any, may be faster than rows."""
        if not self.layout.dims or often_read.is_read_often(self.layout):
            return False
        return VECTOR_BYTES <= self._row_bytes <= _SHORT_ROW_BYTES.get(self.element_bytes, 0)

    @property
    def are_whole_rows(self) -> bool:
        """Whether rows share sectors at their ends alone, so that gathering them is faster than boxes.

        Pixels of 22 to 39 bytes take 0.47 to 0.84 of the time (H200, 9 copies), words and 8 bytes 0.79 to
        0.97 (15 copies, one more 1.12).
        """
        is_adjacent = abs(self.layout.dims[-1].input_stride) == 1
        return is_adjacent and self._row_bytes >= _LEAST_WHOLE_ROW_BYTES[self.element_bytes]

    @cached_property
    def _parts(self) -> Dim | None:
        """The dimension of parts of the output that share sectors of the input, such as planes of pixels."""
        if len(self._far) != 1 or self._far[0] is self.layout.dims[-1]:
            return None
        return self._far[0] if self._apart_bytes <= self._tuning.beside_bytes else None

    def _part_bytes(self, parts: Dim) -> int:
        return parts.output_stride * self.element_bytes

    @property
    def _finds_parts_again(self) -> bool:
        """Whether parts that a cache holds, such as planes of small images, are read for each in turn."""
        if self._parts is None or not self._is_cached:
            return False
        by_vectors = self.element_bytes > 1 or self._apart_bytes < _BYTES_IN_WORDS_APART
        long = _LONG_PART_BYTES[self.element_bytes]
        return not (self.gathers_well and by_vectors) and self._part_bytes(self._parts) < long

    @cached_property
    def words_beside(self) -> Dim | None:
        """The dimension along which words of long rows share sectors that runs would read too often."""
        parts = self._parts
        if not self.has_words or parts is None:
            return None
        if self._row_bytes < _LEAST_ROW_BYTES[self.element_bytes]:
            return None
        if self.gathers_well and not self._are_long(parts):
            return None
        reach = (parts.size - 1) * abs(parts.input_stride) * self.element_bytes
        is_near = reach < self._tuning.beside_parts_bytes
        return parts if is_near and is_of_words(self.layout, self.element_bytes, self.limits) else None

    def _are_long(self, parts: Dim) -> bool:
        """Whether parts that a cache could hold suffice for words."""
        least = dict(self._tuning.cached_parts_bytes).get(self.element_bytes)
        are_near = self.element_bytes == 1 and self._apart_bytes < _FEWEST_BYTES_APART
        return least is not None and not are_near and self._part_bytes(parts) >= least

    def are_faster_by_words(self, matrices: Matrices) -> bool:
        """Whether words copy matrices with one short side faster than tiles would.

        Words copy planes of pixels of eight bytes, four of which are copied, in 0.81 to 1.14 of the time of
        tiles, 0.94 in the mean of six copies (H100 and H200); boxes take 1.4 times as long as tiles.
        Few short rows of halves take 0.66 to 0.91 of the time (H200; H100: 0.62 to 1.05).
        """
        rows, columns = matrices.rows, matrices.columns
        if are_planes(matrices, self.element_bytes, self._tuning):
            are_pixels_small = abs(columns.dim.input_stride) <= _SMALL_PIXEL_BYTES
            by_words = self.gathers_by_words or self.words_beside is not None
            return are_pixels_small and by_words and not self.are_faster_in_boxes
        if self.element_bytes != 2 or rows.groups or columns.groups:
            return False
        if rows.count <= _FEW_ROWS:
            return self.words_beside is not None
        return 2 * columns.count < SECTOR_BYTES and self.gathers_well and self.are_rows_of_words

    @property
    def _has_long_steps(self) -> bool:
        """Whether vectors would hold too few of the row's elements, such as one channel of pixels.

        Single bytes take 0.56 to 1.04 of the time so (H200, 39 random copies: 0.74; H100: 0.88), halves of
        one row 0.77 and words 0.88 (H200).
        """
        if not _LONG_STEP_BYTES[self.element_bytes] <= self._apart_bytes <= GPU_LINE_BYTES:
            return False
        step = abs(self.layout.dims[-1].input_stride)
        within = [dim.size for dim in self.layout.dims if 0 < abs(dim.input_stride) < step]
        return math.prod(within) <= _MOST_COPIED * step

    @property
    def are_rows_of_words(self) -> bool:
        """Whether rows are copied by words though they are longer than vectors.

        Those of halves are: vectors took 0.94 to 1.14 times as long on an H200 (33 copies: 1.05), 0.99 to 1.4
        on an H100 (1.02). So are short rows of bytes with steps of 2 and 3: words take 0.51 to 1.09 of the
        time on an H200 (35 copies: 0.91), 0.56 to 1.04 on an H100 (0.94); rows with long steps; and some that
        are read often.
        """
        if self.element_bytes > 4 or not self.has_words or self._row_bytes < VECTOR_BYTES:
            return False
        is_faster = self._has_long_steps or often_read.are_rows_of_words(self.layout, self.element_bytes)
        if len(self.layout.dims) > 1 and self.element_bytes < 4:
            are_short = self._apart_bytes in (2, 3) and self._row_bytes <= _STEPPED_ROW_BYTES
            is_faster = is_faster or self.element_bytes == 2 or are_short
        return is_faster and is_of_words(self.layout, self.element_bytes, self.limits)
