"""Planning columns whose outputs lie in another order than the input; see ``argreduce_across.comp``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Plan, Step, check_work, checked_step
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    VECTOR_LOADS,
    Results,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    order_rules,
)
from vkdml.plan.reduce.work_division import are_multiples, loops_of
from vkdml.plan.schema import ElementType

_FAMILY = kernels.family("argreduce_across")
# Bytes that compete for an output. With more of them it matters little how indices are written.
_MOST_BYTES = 192
# With fewer, pieces of rows are half as long: then more of the indices, which are most, are side by side.
_FEW_BYTES = 32
# Bytes of a row of columns. Those of 8 bytes have to be more, since tiles of them have few outputs.
_FEWEST_ROW_BYTES = 128
_FEWEST_WIDE_ROW_BYTES = 512
# Outputs that are side by side.
_FEWEST_SIDE_BY_SIDE = 8
# Other pieces of rows than the tuning's keep so many times as many invocations busy.
_WORTHWHILE = 3 / 2
# Pieces of a row that are taken before the next rows.
_BAND = 4


@dataclass(frozen=True)
class _Division:
    """How the work is divided; see the push constants in ``shaders/kernels.json``."""

    workgroup_size: int
    vectors: int
    """Of a row, in a tile."""
    rows: int
    """Of a tile."""
    found_words: int
    pieces: int
    """Of a row."""
    tiles: int


def _are_across(layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits) -> bool:
    """Tell whether columns side by side in the input have other outputs between theirs, and few positions."""
    tuning = limits.tuning
    if not tuning.across_vectors or input_bytes < tuning.short.from_bytes or len(layout.kept) < 2:
        return False
    *rows, columns = layout.kept
    between = (dim.size for dim in rows if abs(dim.output_stride) < abs(columns.output_stride))
    fewest_bytes = _FEWEST_WIDE_ROW_BYTES if element.nbytes == 8 else _FEWEST_ROW_BYTES
    return (
        columns.input_stride == 1
        and columns.size * element.nbytes >= fewest_bytes
        and math.prod(between) >= _FEWEST_SIDE_BY_SIDE
        and layout.reduce_count * element.nbytes <= _MOST_BYTES
    )


def _in_output_order(layout: ReduceLayout) -> ReduceLayout:
    """Return the layout with its rows of columns in the order of their outputs."""
    *rows, columns = layout.kept
    rows.sort(key=lambda dim: -abs(dim.output_stride))
    return replace(layout, kept=(*rows, columns))


def _division(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> _Division:
    per_vector, columns = VECTOR_BYTES // element.nbytes, layout.kept[-1].size
    most = limits.tuning.across_vectors
    if layout.reduce_count * element.nbytes <= _FEW_BYTES:
        most = ceil_div(most, 2)
    workgroup_size = limits.workgroup_size
    pieces, vectors = _pieces(ceil_div(columns, per_vector), most, layout.outputs // columns, workgroup_size)
    while 4 * _found_words(vectors * per_vector, workgroup_size // vectors) > limits.max_shared_memory // 2:
        workgroup_size //= 2
    rows = workgroup_size // vectors
    return _Division(
        workgroup_size=workgroup_size,
        vectors=vectors,
        rows=rows,
        found_words=_found_words(vectors * per_vector, rows),
        pieces=pieces,
        tiles=pieces * ceil_div(layout.outputs // columns, rows),
    )


def _pieces(vectors_of_row: int, most: int, rows: int, workgroup_size: int) -> tuple[int, int]:
    """Return how many pieces each row has, and the vectors of one: few rows have longer pieces.

    So most invocations of a workgroup have a row. Where half as many more have one, pieces of another length
    than the tuning's take 0.57 to 1.05 of the time (H100).

    >>> _pieces(1000, 16, 5000, 256), _pieces(1000, 16, 10, 256)
    ((63, 16), (40, 25))
    """

    def pieces(longest: int) -> tuple[int, int]:
        count = ceil_div(vectors_of_row, longest)
        return count, ceil_div(vectors_of_row, count)

    def busy(longest: int) -> float:
        count, vectors = pieces(longest)
        at_once = workgroup_size // vectors
        return vectors_of_row * rows / (count * ceil_div(rows, at_once) * workgroup_size)

    best = max(range(ceil_div(most, 2), min(4 * most, workgroup_size) + 1), key=busy)
    return pieces(best if busy(best) > _WORTHWHILE * busy(most) else most)


def _found_words(columns: int, rows: int) -> int:
    """Return the shared memory of a tile's positions; a word more for each column keeps banks apart."""
    return columns * (rows + 1)


def plan_across(reduction: Reduction, results: Results) -> Plan | None:
    """Plan a reduction so if its outputs are such."""
    element, input_bytes, limits = reduction.element, reduction.input_bytes, reduction.limits
    if not _are_across(reduction.layout, element, input_bytes, limits):
        return None
    layout = _in_output_order(reduction.layout)
    division = _division(layout, element, limits)
    if division.tiles < limits.tuning.across_tiles:
        return None
    check_work("tiles", division.tiles)
    per_vector = VECTOR_BYTES // element.nbytes
    columns = layout.kept[-1]
    placed = _FAMILY.placed(dimension_words(layout))
    flags = {"layout_in_push": placed.in_push, **results.flags, "positions_adjacent": False}
    push = _FAMILY.push(
        **flags,
        lanes=1,
        outputs=layout.outputs,
        reduce_count=layout.reduce_count,
        splits=1,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        scratch_base=0,
        run=columns.size,
        tiles_per_run=division.pieces,
        tile_vectors=division.vectors,
        positions_per_split=layout.reduce_count,
        rows=layout.outputs // columns.size,
        tile_rows=division.rows,
        layout_words=placed.pushed,
    )
    is_aligned = are_multiples(layout.row_starts, per_vector) and columns.size % per_vector == 0
    kernel, constants = _FAMILY.specialize(
        **element.specialization,
        loads="vectors" if is_aligned else "unaligned",
        one_stride=len(layout.reduced) == 1,
        found_words=division.found_words,
        band=_BAND,
        workgroup=division.workgroup_size,
        **order_rules(layout, reduction.order),
        split=False,
        fixed_flags=fixed_flags(_FAMILY, flags, input_bytes, limits, writes_vectors=True),
        in_rounds=limits.in_rounds(division.tiles, input_bytes),
        one_subgroup=False,
    )
    workgroups = limits.started(division.tiles)
    loops = loops_of(layout, limits, 1, division.tiles, 1)
    columns_written = ceil_div(division.vectors * per_vector, division.workgroup_size // division.rows)
    steps = loops.across(
        layout.reduce_count, layout.reduced[-1].size, VECTOR_LOADS, per_vector, columns_written
    )
    return Plan(
        (checked_step(Step(kernel, constants, push, workgroups, loop_steps=steps), limits),),
        buffer_bytes(element, input_bytes, results, len(placed.stored)),
        placed.stored,
    )
