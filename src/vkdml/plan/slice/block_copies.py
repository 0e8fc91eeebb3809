"""The step that a processor transposes blocks of narrow elements in; ``run_copies.py`` says when."""

from __future__ import annotations

import math

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import reciprocal, run_words
from vkdml.plan.layout import CopyLayout
from vkdml.plan.plans import DeviceLimits, Step, check_work
from vkdml.plan.slice.blocks import Blocks
from vkdml.plan.slice.rounds import rounds_of_workgroup


def block_step(
    blocks: Blocks,
    layout: CopyLayout,
    element_bytes: int,
    last_vector: int,
    layout_base: int,
    limits: DeviceLimits,
) -> tuple[Step, tuple[int, ...]]:
    """Return the step that writes all whole words of rows, and its layout words if they are not pushed.

    In the workspace, these begin at word ``layout_base``.
    """
    workgroup_size = min(limits.workgroup_size, limits.tuning.slice1.runs_workgroup_size)
    per_word = 4 // element_bytes
    rows, row = blocks.rows.size, blocks.row
    chunks, of_row = ceil_div(rows, blocks.chunk_groups * per_word), ceil_div(row, blocks.block_columns)
    items = math.prod(dim.size for dim in blocks.outer) * chunks * of_row
    check_work("items", items)
    inner = blocks.columns[-1]
    family = kernels.family("slice1_blocks")
    placed = family.placed(run_words(blocks.outer))
    per_item = loop_steps.loop(len(blocks.outer)) + loop_steps.loop(
        blocks.chunk_groups + blocks.joined, loop_steps.loop(ceil_div(blocks.block_columns, per_word) + 1)
    )
    most = (limits.max_loop_steps - 1) // (1 + per_item)
    rounds = rounds_of_workgroup(items, workgroup_size, most, limits)
    push = family.push(
        items=items,
        items_per_workgroup=rounds * workgroup_size,
        outer_dims=len(blocks.outer),
        layout_base=0 if placed.in_push else layout_base,
        input_base=layout.input_base + blocks.first_input,
        output_base=layout.output_base + blocks.first_output,
        last_vector=last_vector,
        rows=rows,
        row=row,
        row_output_stride=blocks.rows.output_stride,
        chunk_groups=blocks.chunk_groups,
        chunks=chunks,
        chunks_inverse=reciprocal(chunks),
        block_columns=blocks.block_columns,
        blocks=of_row,
        blocks_inverse=reciprocal(of_row),
        column_size=inner.size,
        column_size_inverse=reciprocal(inner.size),
        column_stride=inner.input_stride,
        column_jump=blocks.column_jump,
        layout_words=placed.pushed,
    )
    input_aligned = _input_aligned(blocks, layout, per_word)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        input_aligned=input_aligned,
        output_aligned=blocks.output_aligned,
        joined=blocks.joined,
        every_second_row=blocks.rows.input_stride == 2,
        one_column_dim=len(blocks.columns) == 1,
        few_rows=rows if rows < per_word else 0,
        columns_of_three=blocks.are_columns_of_three and element_bytes == 1,
        short_row=row if blocks.joined and row < per_word else 0,
        at_once=_at_once(blocks, per_word, input_aligned=input_aligned),
    )
    loops = loop_steps.loop(rounds, per_item)
    step = Step(kernel, constants, push, ceil_div(items, rounds * workgroup_size), loop_steps=loops)
    return step, placed.stored


def _at_once(blocks: Blocks, per_word: int, *, input_aligned: bool) -> int:
    """Return how many words of a column are loaded at once.

    What counts is how often a chunk accesses memory. A word takes a load and a store, or two loads where
    every second row is copied. Where columns begin within words of the input, what is at once takes one load
    more. What exceeds the chunk is copied twice.
    """
    if blocks.joined or blocks.are_columns_of_three:
        return 1
    groups, step = blocks.chunk_groups, blocks.rows.input_stride

    def accesses(at_once: int) -> int:
        return ceil_div(groups, at_once) * (at_once * (step + 1) + (not input_aligned))

    possible = [1, *(at_once for at_once in (2, 4) if at_once * per_word <= blocks.rows.size)]
    return min(possible, key=lambda at_once: (accesses(at_once), -at_once))


def _input_aligned(blocks: Blocks, layout: CopyLayout, per_word: int) -> bool:
    """Whether the words of columns that are loaded are aligned in the input."""
    # Joined rows begin with those that start with a word.
    if blocks.joined and any(dim.output_stride % per_word for dim in blocks.outer):
        return False
    strides = (dim.input_stride for dim in (*blocks.outer, *blocks.columns))
    starts = (layout.input_base + blocks.first_input, blocks.rows.size, *strides)
    return all(start % per_word == 0 for start in starts)
