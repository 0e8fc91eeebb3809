"""What kernels read about reduced elements that they take as these lie in memory."""

from __future__ import annotations

from vkdml.plan import kernels
from vkdml.plan.divisions import reciprocal_below
from vkdml.plan.layout import MemoryOrder, ReduceLayout
from vkdml.plan.plans import dim_words, words
from vkdml.plan.reduce.reductions import reduced_words


def reading_layout_words(layout: ReduceLayout, order: MemoryOrder, *, with_values: bool) -> tuple[int, ...]:
    """Return the layout of a reduction that is read in memory order; what each vector needs comes first.

    The reduced dimensions in the order of positions end it, unless nothing asks for them: positions are
    indices, and no values are copied.
    """
    number = kernels.number
    nearest_first = order.dims[::-1]
    near = nearest_first[: number("reading_near_dims")]
    dims = dim_words((*near, *layout.kept, *nearest_first[len(near) :]))
    unneeded = positions_are_indices(layout) and not with_values
    header = {
        number("reading_offset"): order.input_offset,
        number("reading_position"): order.position,
        number("reading_dims_outside_run"): len(order.dims) - order.stepped_dims,
        number("reading_reduced_dims"): 0 if unneeded else number("reading_words") + len(dims),
        number("reading_innermost_reciprocal"): reciprocal_below(near[0].size),
        number("reading_second_reciprocal"): reciprocal_below(near[1].size),
    }
    reduced = () if unneeded else reduced_words(layout)
    return (*words(header[word] for word in range(number("reading_words"))), *dims, *reduced)


def positions_are_indices(layout: ReduceLayout) -> bool:
    """Tell whether an index is its position more than the first one."""
    weight = 1
    for dim in reversed(layout.reduced):
        if dim.output_stride != weight:
            return False
        weight *= dim.size
    return True
