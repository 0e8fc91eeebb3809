"""Copies whose output is written in runs, vector by vector; ``slice1.py`` says which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal, run_words
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Step, check_work, words
from vkdml.plan.schema import PlacedLayout
from vkdml.plan.slice.block_copies import block_step
from vkdml.plan.slice.blocks import Blocks, blocks_of
from vkdml.plan.slice.rounds import rounds_of_workgroup
from vkdml.plan.slice.strips import Strips, strips_of
from vkdml.plan.slice.turns import IN_ORDER, turns_of
from vkdml.plan.tuning import SliceTuning

_FAMILY = kernels.family("slice1_runs")
# Of rows of so many vectors, those that cross from one to the next are few.
_VECTORS_OF_LONG_ROW = 4
# Elements. Of rows this long, few workgroups of a processor have vectors from row to row.
_LONG_NARROW_ROW = 32 * 1024
# Dimensions of a run that `advance` in `slice1_runs.comp` goes through without a division.
_MOST_FIXED_DIMS = 4
# Of its numbers, the one for two innermost dimensions that have as many elements as a vector.
_LONG_PLANES = kernels.number("run_of_long_planes")


class _Written(IntEnum):
    """Which vectors of the output a step of ``slice1_runs`` writes."""

    ALL = kernels.number("written_all")
    WHOLE = kernels.number("written_whole")
    INSIDE_ROWS = kernels.number("written_inside_rows")
    AT_BOUNDARIES = kernels.number("written_at_boundaries")
    IN_STRIPS = kernels.number("written_in_strips")


@dataclass(frozen=True)
class _Runs:
    """The contiguous runs of an output."""

    outer: tuple[Dim, ...]
    """The dimensions from run to run."""
    inner: tuple[Dim, ...]
    """Those of a run, at least one."""
    length: int
    """Elements of a run."""
    output_base: int
    element_bytes: int

    @property
    def per_vector(self) -> int:
        return VECTOR_BYTES // self.element_bytes

    @property
    def innermost(self) -> Dim:
        return self.inner[-1]

    @property
    def skipped(self) -> int:
        """Elements of the first vector that lie before the first run."""
        return self.output_base % self.per_vector

    @property
    def vectors_of_run(self) -> int:
        """The most vectors in which a run has elements."""
        starts = (self.output_base, *(dim.output_stride for dim in self.outer))
        start_apart = bool(self.outer) and any(start % self.per_vector for start in starts)
        before = self.per_vector - 1 if start_apart else self.skipped
        return ceil_div(before + self.length, self.per_vector)

    @property
    def vectors(self) -> int:
        """Of all runs."""
        return math.prod(dim.size for dim in self.outer) * self.vectors_of_run

    @property
    def whole_vectors(self) -> bool:
        """Whether the innermost dimension has as many elements as a vector."""
        return self.innermost.size >= self.per_vector

    @property
    def has_kernel(self) -> bool:
        """Whether the kernel has a variant for the input's innermost step."""
        steps = _FAMILY.numbers_of("step", element_bytes=self.element_bytes)
        return self.whole_vectors and self.innermost.input_stride in steps


def _runs_of(layout: CopyLayout, element_bytes: int) -> _Runs:
    outer = list(layout.dims)
    inner: list[Dim] = []
    length = 1
    while outer and outer[-1].output_stride == length:
        inner.insert(0, outer.pop())
        length *= inner[0].size
    if not inner:
        inner.append(Dim(1, 0, 1))
    return _Runs(tuple(outer), tuple(inner), length, layout.output_base, element_bytes)


@dataclass(frozen=True)
class _Parts:
    """The parts in which runs are written, and the order of each."""

    in_one: bool
    """One step writes all vectors; else a second step writes those at boundaries."""
    inside_rows: bool
    """The first step leaves out vectors that cross from row to row."""
    blocks: Blocks | None
    """What the first step transposes, if it does."""
    strips: Strips | None
    """The order of the first step, if it is not that of the output."""
    run_dims: int
    row_vectors: int
    """Vectors of a row where the last row is written first; 0: rows are written in order."""


def _parts_of(runs: _Runs, limits: DeviceLimits) -> _Parts:
    tuning, element_bytes, per_vector = limits.tuning.slice1, runs.element_bytes, runs.per_vector
    large = max(per_vector, tuning.boundaries_from_bytes // element_bytes)
    is_large = not runs.outer and runs.length >= large
    in_one = per_vector == 1 or not is_large
    blocks, strips = None, None
    if not in_one and not runs.has_kernel:
        if element_bytes < 4 and tuning.block_bytes:
            blocks = blocks_of(runs.inner, element_bytes, tuning.block_bytes, runs.output_base)
        if blocks is None:
            strips = strips_of(runs.inner, element_bytes, _workgroup_size(limits), tuning)
    are_rows_long = runs.innermost.size >= _VECTORS_OF_LONG_ROW * per_vector
    is_worth_order = is_large and runs.length * element_bytes >= tuning.rows_last_first_from_bytes
    return _Parts(
        in_one,
        # Only kernels that gather a vector's rows one after the other gain where there is one row.
        inside_rows=not in_one and are_rows_long and runs.has_kernel,
        blocks=blocks,
        strips=strips,
        run_dims=_run_dims(runs.inner, per_vector, whole_vectors=runs.whole_vectors) if is_large else 0,
        row_vectors=_vectors_of_row(runs.inner, element_bytes, tuning) if is_worth_order else 0,
    )


def are_faster_in_parts(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Return whether runs in parts are copied faster than row by row, each with its ends.

    That is so where parts have an order that suits a processor's caches, and where they spare rows of
    adjacent narrow elements, or longer ones, all that is there for the vectors from row to row. Strips of
    wide elements are faster only if their lines would meet in few places of a cache: else rows take 0.40 to
    1.0 of the time (lavapipe).
    """
    runs = _runs_of(layout, element_bytes)
    parts, row = _parts_of(runs, limits), runs.innermost
    if parts.blocks or parts.row_vectors:
        return True
    if parts.strips is not None:
        return element_bytes < 4 or parts.strips.at_pages
    return parts.inside_rows and (abs(row.input_stride) == 1 or row.size >= _LONG_NARROW_ROW)


def _workgroup_size(limits: DeviceLimits) -> int:
    return min(limits.workgroup_size, limits.tuning.slice1.runs_workgroup_size)


def run_copy(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps, and the layout words for the workspace if they do not fit the push constants."""
    runs = _runs_of(layout, element_bytes)
    parts = _parts_of(runs, limits)
    blocks, strips = parts.blocks, parts.strips
    layout_words = run_words((*runs.outer, *runs.inner))
    if strips is not None:
        layout_words += words((strips.groups, reciprocal(strips.groups), strips.rows, strips.row))
    placed = _FAMILY.placed(layout_words)
    stored = placed.stored
    step = partial(_step, runs, parts, placed, layout, last_vector, limits)
    if parts.in_one:
        return (step(_Written.ALL, runs.vectors),), stored

    if blocks is not None:
        first, of_blocks = block_step(blocks, layout, element_bytes, last_vector, len(layout_words), limits)
        boundary_step = blocks.boundary_step
        if of_blocks:
            stored = layout_words + of_blocks
    elif strips is not None:
        first = step(_Written.IN_STRIPS, strips.vectors, per_run=strips.strips, boundary_step=strips.width)
        boundary_step = strips.row
    elif parts.inside_rows:
        first = step(_Written.INSIDE_ROWS, runs.vectors)
        boundary_step = runs.innermost.size
    else:
        first = step(_Written.WHOLE, runs.vectors)
        boundary_step = runs.length
    if not boundary_step or not (runs.skipped or boundary_step % runs.per_vector):
        return (first,), stored
    boundaries = runs.length // boundary_step + 1
    return (first, step(_Written.AT_BOUNDARIES, boundaries, boundary_step=boundary_step)), stored


def _step(
    runs: _Runs,
    parts: _Parts,
    placed: PlacedLayout,
    layout: CopyLayout,
    last_vector: int,
    limits: DeviceLimits,
    written: _Written,
    vectors: int,
    *,
    per_run: int | None = None,
    boundary_step: int = 0,
) -> Step:
    """Return the step that writes so many vectors; ``per_run``: as many of a run as it has, by default."""
    check_work("vectors", vectors)
    tuning, workgroup_size, per_vector = limits.tuning.slice1, _workgroup_size(limits), runs.per_vector
    in_rows = written in (_Written.ALL, _Written.WHOLE, _Written.INSIDE_ROWS)
    rows_last_first = parts.row_vectors > 0 and in_rows
    if rows_last_first:
        per_run = parts.row_vectors
    elif per_run is None:
        per_run = runs.vectors_of_run
    # In each round of a workgroup every invocation writes one vector.
    per_round = loop_steps.runs_per_round(len(runs.outer), len(runs.inner), per_vector)
    in_order = rows_last_first or not in_rows
    turns = IN_ORDER if in_order else turns_of(layout, runs.element_bytes, limits)
    wanted = tuning.workgroup_vectors
    if turns != IN_ORDER and per_vector == 1 and tuning.turns is not None:
        wanted = min(wanted, tuning.turns.most_vectors)
    most = min(wanted, (limits.max_loop_steps - 1) // (1 + per_round))
    rounds = rounds_of_workgroup(vectors, workgroup_size, most, limits)
    per_workgroup = rounds * workgroup_size
    workgroups = ceil_div(vectors, per_workgroup)
    push = _FAMILY.push(
        vectors=vectors,
        outer_dims=len(runs.outer),
        dims=len(runs.outer) + len(runs.inner),
        input_base=layout.input_base,
        output_base=runs.output_base,
        run=runs.length,
        vectors_per_run=per_run,
        vectors_per_run_inverse=reciprocal(per_run),
        vectors_per_workgroup=per_workgroup,
        last_vector=last_vector,
        boundary_step=boundary_step,
        **turns.push(workgroups),
        layout_words=placed.pushed,
    )
    by_words = 4 <= runs.innermost.size < per_vector and written in (_Written.WHOLE, _Written.IN_STRIPS)
    kernel, constants = _FAMILY.specialize(
        whole_vectors=runs.whole_vectors,
        step=runs.innermost.input_stride if runs.has_kernel else 0,
        element_bytes=runs.element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        parted=not parts.in_one,
        written=written,
        run_dims=parts.run_dims,
        **turns.constants,
        rows_last_first=rows_last_first,
        row_words=_row_words(runs.innermost, runs.element_bytes) if by_words else 0,
    )
    loops = loop_steps.loop(rounds, per_round)
    return Step(kernel, constants, push, workgroups, loop_steps=loops)


def _row_words(inner: Dim, element_bytes: int) -> int:
    """Return how kernels read rows of single bytes by words: 1 forwards, 2 backwards; 0 where they do not.

    >>> _row_words(Dim(5, -1, 1), 1), _row_words(Dim(5, 2, 1), 1), _row_words(Dim(5, 1, 1), 2)
    (2, 0, 0)
    """
    return {1: 1, -1: 2}.get(inner.input_stride, 0) if element_bytes == 1 else 0


def _vectors_of_row(inner: Sequence[Dim], element_bytes: int, tuning: SliceTuning) -> int:
    """Return how many vectors make a row that is taken before the one before it; 0: rows are taken in order.

    Rows that lie in the other direction of the input than their elements are read so in one direction.
    """
    if len(inner) < 2 or inner[-1].input_stride * inner[-2].input_stride > 0:
        return 0
    size, stride = inner[-1].size, abs(inner[-1].input_stride)
    least, most = tuning.rows_last_first_bytes
    if not least <= size * stride * element_bytes <= most:
        return 0
    return max(round(size * element_bytes / VECTOR_BYTES), 1)


def _run_dims(inner: Sequence[Dim], per_vector: int, *, whole_vectors: bool) -> int:
    """Return what tells ``slice1_runs.comp`` which dimensions to go through."""
    if not whole_vectors and len(inner) > 2 and inner[-2].size * inner[-1].size >= per_vector:
        return _LONG_PLANES
    return len(inner) if len(inner) <= _MOST_FIXED_DIMS else 0
