"""Which reductions are read in periods: those of which other kernels would read memory in short pieces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.layout import contiguous
from vkdml.plan.plans import GPU_LINE_BYTES, LINE_BYTES, VECTOR_BYTES
from vkdml.plan.reduce.gaps import Gaps
from vkdml.plan.reduce.other_ways import OtherWays
from vkdml.plan.reduce.period_division import reads_ahead
from vkdml.plan.reduce.repetition import Repetition, best_repetition
from vkdml.plan.reduce.work_division import are_multiples
from vkdml.plan.tuning import PeriodTuning

# The fewest positions of columns of unaligned rows that a processor reads in periods to load memory in order.
# The candidate of a column of fewer takes longer.
_FEWEST_UNALIGNED_AHEAD = 256
# Positions of narrow columns in unaligned rows from which on a GPU reads them in periods.
_MANY_UNALIGNED_POSITIONS = 4500
# Bytes of rows of wide elements, of whole vectors but not of whole lines, that are read in periods; the
# fewest of a matrix, if there is one; the longest rows of a larger one, by element width; and the fewest
# bytes of the input, and of each matrix, if there are several.
_UNEVEN_ROW_BYTES = (48, 512)
_UNEVEN_MATRIX_FROM = 12 << 20
_LONGEST_UNEVEN_ROW_BYTES = {4: 4096, 8: 2048}
_LARGE_UNEVEN_MATRIX_FROM = 192 << 20
_UNEVEN_MATRICES_FROM, _UNEVEN_MATRICES_LEAST = 96 << 20, 4 << 20
# Positions of columns in rows shorter than a line which a GPU reads as columns: fewer; and of halves, along
# the innermost dimension. Of those out of order: bytes of the longest rows, fewer positions, and fewer of
# these along the dimension that lies near.
_NEAR_POSITIONS, _NEAR_HALVES = 20000, 500
_NEAR_ROW_BYTES_OUT_OF_ORDER, _NEAR_POSITIONS_OUT_OF_ORDER, _NEAR_ALONG_OUT_OF_ORDER = 32, 10000, 460


@dataclass(frozen=True)
class Periodicity(OtherWays):
    """What speaks for and against reading a reduction in periods."""

    @property
    def _tuning(self) -> PeriodTuning:
        return self.limits.tuning.periods

    @cached_property
    def repetition(self) -> Repetition | None:
        """How it would be read without gaps in blocks; None if it cannot be."""
        return best_repetition(self.layout, self.element, self.input_bytes)

    @cached_property
    def _gaps(self) -> Gaps:
        return Gaps(self)

    @property
    def instead_of_elements(self) -> Repetition | None:
        """How memory with gaps is read where elements would be read by themselves otherwise."""
        return self._gaps.instead_of_elements

    @property
    def must_read_gaps(self) -> bool:
        """Whether it is read in periods whose blocks have gaps, and there is no way without these."""
        return self.with_gaps is not None and all(way.has_gaps for way in self._gaps.ways)

    @cached_property
    def with_gaps(self) -> Repetition | None:
        """How memory with gaps is read, whole or in parts of blocks; None if that is not faster.

        A processor reads gaps only where it would not read periods without them.
        """
        is_processor = self.limits.tuning.is_processor
        if is_processor and self.repetition is not None and self.is_worthwhile():
            return None
        return self._gaps.fastest

    @property
    def best(self) -> Repetition | None:
        """How it is read in periods; None if that is not faster."""
        if self.with_gaps is not None or not self.is_faster:
            return self.with_gaps
        if self.repetition is None or self.limits.tuning.is_processor:
            return self.repetition
        return self._gaps.fastest_of((self.repetition, *self._gaps.ways))

    def is_worthwhile(self) -> bool:
        """Tell whether other kernels would read the memory in short pieces, and so much that it matters."""
        tuning = self._tuning
        if self.input_bytes < tuning.elements_from_bytes or not self._has_long_columns(tuning.column_bytes):
            return False
        if self.input_bytes < tuning.from_bytes and not self.are_elements:
            return False
        if self.is_out_of_order:
            return True
        if not any(dim.input_stride for dim in self.layout.kept) or self.are_near_columns:
            return False
        if self.row_of_outputs_bytes:
            return self._are_short_pieces_of_columns
        return self._are_short_rows

    @property
    def is_faster(self) -> bool:
        """Whether periods without gaps take less time than what reads the memory otherwise."""
        return self.is_worthwhile() or self.are_columns_ahead

    @cached_property
    def may_be_ahead(self) -> bool:
        """Whether a processor loads memory in order if it reads it in periods."""
        return (
            reads_ahead(self.input_bytes, self.limits.tuning)
            and any(dim.input_stride for dim in self.layout.kept)
            and self.repetition is not None
            and self._has_long_columns(self._tuning.column_bytes)
        )

    @property
    def are_columns_ahead(self) -> bool:
        """Whether columns of unaligned rows are faster in periods, which are loaded in order of memory."""
        if not (self.may_be_ahead and self.row_of_outputs_bytes):
            return False
        is_unaligned = self.columns.variant["loads"] == "unaligned"
        return is_unaligned and self.layout.reduce_count >= _FEWEST_UNALIGNED_AHEAD

    @property
    def are_aligned_columns(self) -> bool:
        """Whether columns are read in aligned vectors, along several lines of a row in the input."""
        run_bytes = self.columns.run * self.element.nbytes
        return self.columns.variant["loads"] == "vectors" and run_bytes > LINE_BYTES

    def _has_long_columns(self, least: int) -> bool:
        """Whether there are at least so many bytes for each column, which leaves a candidate."""
        if not least:
            return True
        nbytes = self.layout.outputs * self.layout.reduce_count * self.element.nbytes
        return self.repetition is not None and nbytes >= self.repetition.columns * least

    @cached_property
    def is_out_of_order(self) -> bool:
        """Whether positions lie in another order than memory, and the way from one to the next decides.

        It does where columns jump along the innermost dimension of positions, unless lanes read together what
        is near (``are_near_columns``). In short rows of narrow elements, of which many are equal, most of
        what may win needs divisions to tell its position. To a processor that matters in rows of any length;
        there the number of candidates decides.
        """
        tuning, strides = self._tuning, [dim.input_stride for dim in self.layout.reduced]
        if not tuning.out_of_order_row_bytes or self.input_bytes < tuning.out_of_order_from_bytes:
            return False
        if min(strides) > 1:
            in_vectors = bool(self.layout.kept) and self.layout.kept[-1].input_stride == 1
            return in_vectors and min(strides) < strides[-1] and not self.are_near_columns
        order = self.layout.memory_order
        if order is None or not order.run_dims:
            return False
        if tuning.column_bytes:
            return self._has_long_columns(tuning.column_bytes)
        in_rows_of_positions = strides[-1] == 1
        is_processor = self.limits.tuning.is_processor
        if not self.is_narrow or (in_rows_of_positions and (not is_processor or order.run_dims == 1)):
            return False
        # The third dimension of a position takes one more division.
        most = tuning.out_of_order_row_bytes * (2 if order.run_dims > 2 else 1)
        row, rest = divmod(order.dims[-1].size * self.element.nbytes, VECTOR_BYTES)
        # Vectors within a row tell by one division whether they may win; a processor asks that of four.
        return row * VECTOR_BYTES + rest <= most and (rest > 0 or row < 2 or is_processor)

    @cached_property
    def are_near_columns(self) -> bool:
        """Whether neighbouring lanes of a GPU read neighbouring positions of aligned columns in short rows.

        In periods they take 0.72 to 1.92 of the time, 1.2 on average (60 shapes, H200).
        """
        reduced, kept, row_bytes = self.layout.reduced, self.layout.kept, self.row_of_outputs_bytes
        if self.limits.tuning.is_processor or self.element.nbytes == 1 or not row_bytes < GPU_LINE_BYTES:
            return False
        if row_bytes < VECTOR_BYTES or self.columns.variant["loads"] != "vectors":
            return False
        row, positions = kept[-1].size, self.layout.reduce_count
        if abs(reduced[-1].input_stride) == row:
            return positions < _NEAR_POSITIONS and (not self.is_narrow or reduced[-1].size < _NEAR_HALVES)
        if (
            len(reduced) < 2
            or abs(reduced[-2].input_stride) != row
            or not self.columns.variant["whole_segments"]
        ):
            return False
        is_short = row_bytes <= _NEAR_ROW_BYTES_OUT_OF_ORDER and positions < _NEAR_POSITIONS_OUT_OF_ORDER
        return is_short and reduced[-2].size < _NEAR_ALONG_OUT_OF_ORDER

    @property
    def row_of_outputs_bytes(self) -> int:
        """Of elements side by side that belong to different outputs; 0 where they belong to the same."""
        inner = self.layout.kept[-1]
        return inner.size * self.element.nbytes if inner.input_stride == 1 else 0

    @property
    def _are_short_pieces_of_columns(self) -> bool:
        """Whether columns would be read in short pieces, or by vectors that are not aligned."""
        tuning, row_bytes = self._tuning, self.row_of_outputs_bytes
        if row_bytes < VECTOR_BYTES:
            return True
        if self.is_narrow and (self.input_bytes >= tuning.narrow_from_bytes or self._are_many_narrow_rows):
            # With values single bytes take 3% to 6% longer so.
            in_columns = self.element.nbytes > 1 or not self.with_values
            return not (in_columns and self._are_unsplit_columns)
        if self.is_narrow and self._is_unaligned_matrix:
            return True
        if not self.is_narrow and self._are_uneven_matrices:
            return True
        if self.input_bytes >= tuning.wide_from_bytes:
            if self._are_narrow_matrices:
                return True
            if self._are_unaligned_matrices:
                return self._has_long_columns(tuning.wide_column_bytes[self.element.nbytes == 8])
        # Several reduced dimensions, of which the innermost lies side by side with the kept one.
        reduced, beside = self.layout.reduced, self.layout.kept[-1].size
        has_pieces = len(reduced) > 1 and any(dim.input_stride == beside for dim in reduced)
        return has_pieces and row_bytes < self.limits.tuning.columns_segment_bytes

    @property
    def _are_many_narrow_rows(self) -> bool:
        """Whether so many rows are reduced to one that periods are faster in small inputs, too.

        Bytes and halves of 4 to 24 MiB take 0.56 to 1.0 of the time (H100). Fewer rows take up to twice as
        long.
        """
        from_bytes, rows = self._tuning.narrow_rows
        return self.input_bytes >= from_bytes and self.repetition is not None and self.repetition.size >= rows

    @property
    def are_many_unaligned_rows(self) -> bool:
        """Whether a GPU would read many positions of each column in unaligned rows."""
        if self.limits.tuning.is_processor or not self.layout.kept or not self.row_of_outputs_bytes:
            return False
        is_unaligned = self.columns.variant["loads"] == "unaligned"
        return is_unaligned and self.layout.reduce_count >= _MANY_UNALIGNED_POSITIONS

    @property
    def _are_unsplit_columns(self) -> bool:
        """Whether narrow columns in aligned rows fill a GPU unsplit, which takes less time.

        They take 0.67 to 1.07 of the time (H100, H200); if they are fewer than fill one, up to 1.6.
        """
        if self.row_of_outputs_bytes < self._tuning.unsplit_row_bytes:
            return False
        if not are_multiples(self.layout.row_starts, VECTOR_BYTES // self.element.nbytes):
            return False
        division = self.columns
        fill = division.blocks >= self._tuning.unsplit_workgroups
        return division.splits == 1 and (
            fill or self.input_bytes <= division.blocks * self._tuning.unsplit_workgroup_bytes
        )

    @property
    def _is_unaligned_matrix(self) -> bool:
        """Whether many rows that follow each other, not all aligned, are reduced to one."""
        if not self._tuning.unaligned_rows or not len(self.layout.kept) == len(self.layout.reduced) == 1:
            return False
        rows = self.layout.reduced[0]
        is_unaligned = rows.input_stride * self.element.nbytes % VECTOR_BYTES != 0
        return is_unaligned and rows.size >= self._tuning.unaligned_rows

    @cached_property
    def _row_of_matrices(self) -> int:
        """Elements in a row of matrices, each of which is reduced to a row; 0 if that is not so.

        Nor for floats of 8 bytes on GPUs: periods take a quarter more, since to compare them takes the time.
        """
        row, _ = contiguous(self.layout.kept)
        reduced = self.layout.reduced
        are_matrices = len(reduced) == 1 and reduced[0].input_stride == row
        is_double = self.element.is_float and self.element.nbytes == 8
        return row if are_matrices and (self.limits.tuning.is_processor or not is_double) else 0

    @property
    def _are_narrow_matrices(self) -> bool:
        """Whether matrices have many rows of a few whole vectors.

        Few invocations of a subgroup would read the same matrix. In periods they take 0.53 to 1.0 of the time
        (H100, H200).
        """
        row_bytes, rows = self._row_of_matrices * self.element.nbytes, self.layout.reduced[0].size
        if not row_bytes or row_bytes % VECTOR_BYTES:
            return False
        return any(row_bytes <= most and rows >= least for most, least in self._tuning.narrow_matrices)

    @property
    def _are_uneven_matrices(self) -> bool:
        """Whether matrices are large and have short rows of whole vectors, but not of whole lines.

        As columns most of these leave invocations without work, and workgroups share lines. In periods they
        take 0.70 to 1.06 of the time, 0.92 in the mean of 100 shapes (H100, H200). Of longer rows, in one
        large matrix, it is 0.94 (15 shapes on an H100, 0.90 to 0.98) and 0.95 (23 on an H200, 0.80 to 1.01).
        """
        row_bytes, rows = self._row_of_matrices * self.element.nbytes, self.layout.reduced[0].size
        shortest, longest = _UNEVEN_ROW_BYTES
        is_uneven = row_bytes % VECTOR_BYTES == 0 and row_bytes % GPU_LINE_BYTES != 0
        if self.limits.tuning.is_processor or not is_uneven or row_bytes < shortest:
            return False
        is_one, nbytes = self.layout.outputs == self._row_of_matrices, row_bytes * rows
        if row_bytes > longest:
            is_long = row_bytes <= _LONGEST_UNEVEN_ROW_BYTES[self.element.nbytes]
            return is_one and is_long and nbytes >= _LARGE_UNEVEN_MATRIX_FROM
        if is_one:
            return nbytes >= _UNEVEN_MATRIX_FROM
        return self.input_bytes >= _UNEVEN_MATRICES_FROM and row_bytes * rows >= _UNEVEN_MATRICES_LEAST

    @property
    def _are_unaligned_matrices(self) -> bool:
        """Whether matrices have many unaligned rows, neither long nor so short that they are joined.

        In periods, whose vectors are aligned, they take 3% to 16% less time (H200), on lavapipe 0.5 to 0.8 of
        it.
        """
        row, rows, nbytes = self._row_of_matrices, self.layout.reduced[0].size, self.element.nbytes
        longest, fewest = self._tuning.unaligned_matrices
        joined, joined_bytes = self._tuning.joined_matrices
        is_joined = row <= joined and rows * nbytes < joined_bytes
        return row * nbytes % VECTOR_BYTES != 0 and row <= longest and rows >= fewest and not is_joined

    @property
    def _are_short_rows(self) -> bool:
        """Whether an output has several rows, which are short."""
        inner = [dim for dim in self.layout.reduced if dim.input_stride == 1]
        if not inner or len(self.layout.reduced) == 1:
            return False
        row_bytes = inner[0].size * self.element.nbytes
        return row_bytes <= self._tuning.longest_row_bytes and not self._are_fast_rows(row_bytes)

    def _are_fast_rows(self, row_bytes: int) -> bool:
        """Whether a processor reads rows faster than periods, of which each column would have few positions.

        On lavapipe rows take 0.49 to 1.2 of the time then.
        """
        tuning = self._tuning
        if not tuning.row_positions or row_bytes < tuning.long_row_bytes or self.element.nbytes == 8:
            return False
        repetition = self.repetition
        return repetition is not None and repetition.size < tuning.row_positions * repetition.copies

    @property
    def are_long_walks(self) -> bool:
        """Whether periods take less time than walks from element to element out of memory order (lavapipe).

        Each invocation of a walk waits for lines of its own: in periods halves take 0.36 to 1.0 of the time
        and bytes 0.59 to 1.0, but for those of whole words.
        """
        order, fewest = self.layout.memory_order, dict(self._tuning.walked_groups).get(self.element.nbytes)
        if order is not None and order.run_dims == 3:
            return self._are_long_walks_in_planes(order.dims[-1].size)
        if order is None or order.run_dims != 2 or fewest is None:
            return False
        side_by_side = order.dims[-1].size
        if side_by_side > self._tuning.most_walked_side_by_side:
            return False
        if self.element.nbytes == 1 and side_by_side % 4 == 0:
            return False
        in_few_words = side_by_side in (2, 4)
        return self.layout.reduce_count // side_by_side >= fewest[0 if in_few_words else 1]

    def _are_long_walks_in_planes(self, side_by_side: int) -> bool:
        """Whether the same is true of runs along three dimensions (0.58 of the time, 218 shapes).

        What a walk takes for an element depends on how many are side by side, and what periods take on how
        many there are for each column, which leaves a candidate.
        """
        least = dict(self._tuning.walked_planes).get(self.element.nbytes)
        if least is None or self.repetition is None or not self.repetition.is_aligned:
            return False
        if self.element.nbytes == 1 and side_by_side % 4 == 0:
            return False
        return self._has_long_columns((least[0] + least[1] * side_by_side) * self.element.nbytes)
