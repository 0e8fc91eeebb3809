"""Copies whose output is written in runs, vector by vector; ``slice1.py`` says which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal, run_words
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Step, check_work, words
from vkdml.plan.slice.block_copies import block_step
from vkdml.plan.slice.blocks import blocks_of
from vkdml.plan.slice.strips import strips_of
from vkdml.plan.tuning import SliceTuning

# Of rows of so many vectors, those that cross from one to the next are few.
_VECTORS_OF_LONG_ROW = 4
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


def run_copy(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps, and the layout words for the workspace if they do not fit the push constants."""
    tuning, per_vector = limits.tuning.slice1, VECTOR_BYTES // element_bytes
    outer = list(layout.dims)
    inner: list[Dim] = []
    run = 1
    while outer and outer[-1].output_stride == run:
        inner.insert(0, outer.pop())
        run *= inner[0].size
    if not inner:
        inner.append(Dim(1, 0, 1))
    innermost = inner[-1]
    skipped = layout.output_base % per_vector
    if outer and any(
        number % per_vector for number in (layout.output_base, *(d.output_stride for d in outer))
    ):
        before = per_vector - 1  # at most: each run starts elsewhere in a vector
    else:
        before = skipped
    vectors_per_run = ceil_div(before + run, per_vector)
    family = kernels.family("slice1_runs")
    whole_vectors = innermost.size >= per_vector
    steps_with_kernel = family.numbers_of("step", element_bytes=element_bytes)
    has_kernel = whole_vectors and innermost.input_stride in steps_with_kernel
    workgroup_size = min(limits.workgroup_size, tuning.runs_workgroup_size)
    layout_words = run_words((*outer, *inner))
    is_large = not outer and run >= max(per_vector, tuning.boundaries_from_bytes // element_bytes)
    in_one = per_vector == 1 or not is_large
    inside_rows = not in_one and innermost.size >= _VECTORS_OF_LONG_ROW * per_vector
    # Only kernels that gather a vector's rows one after the other gain where there is one row.
    inside_rows = inside_rows and has_kernel
    blocks = None
    if element_bytes < 4 and not in_one and not has_kernel and tuning.block_bytes:
        blocks = blocks_of(inner, element_bytes, tuning.block_bytes, layout.output_base)
    strips = None
    if not (in_one or has_kernel or blocks):
        strips = strips_of(inner, element_bytes, workgroup_size, tuning)
    if strips is not None:
        layout_words += words((strips.groups, reciprocal(strips.groups), strips.rows, strips.row))
    placed = family.placed(layout_words)

    by_words = _row_words(innermost, element_bytes) if 4 <= innermost.size < per_vector else 0
    run_dims = _run_dims(inner, per_vector, whole_vectors=whole_vectors) if is_large else 0
    is_worth_order = is_large and run * element_bytes >= tuning.rows_last_first_from_bytes
    row_vectors = _vectors_of_row(inner, element_bytes, tuning) if is_worth_order else 0

    def step(written: _Written, vectors: int, per_run: int = vectors_per_run, boundary_step: int = 0) -> Step:
        check_work("vectors", vectors)
        rows_last_first = row_vectors > 0 and written in (_Written.ALL, _Written.WHOLE, _Written.INSIDE_ROWS)
        per_run = row_vectors if rows_last_first else per_run
        rounds = min(vectors // (workgroup_size * tuning.full_workgroups), tuning.workgroup_vectors)
        # In each round of a workgroup every invocation writes one vector.
        per_round = loop_steps.runs_per_round(len(outer), len(inner), per_vector)
        rounds = min(rounds, (limits.max_loop_steps - 1) // (1 + per_round))
        rounds = max(rounds, 1, ceil_div(vectors, workgroup_size * limits.max_workgroup_count))
        per_workgroup = rounds * workgroup_size
        push = family.push(
            vectors=vectors,
            outer_dims=len(outer),
            dims=len(outer) + len(inner),
            input_base=layout.input_base,
            output_base=layout.output_base,
            run=run,
            vectors_per_run=per_run,
            vectors_per_run_inverse=reciprocal(per_run),
            vectors_per_workgroup=per_workgroup,
            last_vector=last_vector,
            boundary_step=boundary_step,
            layout_words=placed.pushed,
        )
        kernel, constants = family.specialize(
            whole_vectors=whole_vectors,
            step=innermost.input_stride if has_kernel else 0,
            element_bytes=element_bytes,
            workgroup=workgroup_size,
            layout_in_push=placed.in_push,
            parted=not in_one,
            written=written,
            run_dims=run_dims,
            rows_last_first=rows_last_first,
            row_words=by_words if written in (_Written.WHOLE, _Written.IN_STRIPS) else 0,
        )
        loops = loop_steps.loop(rounds, per_round)
        return Step(kernel, constants, push, ceil_div(vectors, per_workgroup), loop_steps=loops)

    vectors = math.prod(dim.size for dim in outer) * vectors_per_run
    of_blocks: tuple[int, ...] = ()
    if in_one:
        steps = [step(_Written.ALL, vectors)]
    else:
        if blocks is not None:
            layout_base = len(layout_words)
            first, of_blocks = block_step(blocks, layout, element_bytes, last_vector, layout_base, limits)
            steps = [first]
        elif strips is not None:
            steps = [step(_Written.IN_STRIPS, strips.vectors, strips.strips, strips.width)]
        else:
            steps = [step(_Written.INSIDE_ROWS if inside_rows else _Written.WHOLE, vectors)]
        boundary_step = innermost.size if inside_rows else run
        if strips is not None:
            boundary_step = strips.row
        if blocks is not None:
            boundary_step = blocks.boundary_step
        if boundary_step and (skipped or boundary_step % per_vector):
            boundaries = run // boundary_step + 1
            steps.append(step(_Written.AT_BOUNDARIES, boundaries, boundary_step=boundary_step))
    return tuple(steps), layout_words + of_blocks if of_blocks else placed.stored


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
