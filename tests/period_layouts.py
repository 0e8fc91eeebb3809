"""Layouts of short repeated blocks, and plans that read them in periods."""

from __future__ import annotations

import math

from reduce_kernels import ELEMENTS

from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce import periods
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import Results
from vkdml.plan.reduce.repetition import repetitions

# The array in memory, its order of axes as it is reduced, the axes, and where it starts.
CASES = {
    "reduced, kept, reduced": ((80, 3, 5), (0, 1, 2), (0, 2), 0),
    "stretches that start anywhere": ((7, 161, 3), (1, 0, 2), (0, 1), 1),
    "outer kept": ((3, 200, 2, 5), (0, 1, 2, 3), (1, 3), 3),
    "few columns": ((1300, 2), (0, 1), (0,), 0),
    "few columns, not a whole period": ((1301, 3), (0, 1), (0,), 5),
    "long block": ((70, 17, 9), (1, 0, 2), (0, 1), 0),
    "many candidates": ((150, 150, 2), (1, 0, 2), (0, 1), 2),
    "all reduced, out of order": ((50, 30), (1, 0), (0, 1), 7),
    "kept out of order": ((3, 130, 2, 4), (3, 1, 0, 2), (1,), 0),
    "vectors": ((77, 64), (0, 1), (0,), 0),
}


def layout_of_window(sizes, strides, axes, base, *, take_last):
    """The reduction of a window of an array, to contiguous outputs."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    return canonical_reduce(
        sizes, strides, axes, row_major_strides(kept), take_last=take_last, input_base=base
    )


def layout_of(case, rules):
    """The reduction of a case like those above, and how many elements its input has."""
    memory, order, axes, base = case
    memory_strides = row_major_strides(memory)
    sizes, strides = (tuple(each[axis] for axis in order) for each in (memory, memory_strides))
    layout = layout_of_window(sizes, strides, axes, base, take_last=rules[1])
    return layout, math.prod(memory) + base


def pattern_case(pattern: str, permuted: bool):
    """A case of a pattern in memory, the innermost first: words like K4 and R30, kept and reduced."""
    memory = [(word[0], int(word[1:])) for word in reversed(pattern.split())]
    order = list(range(len(memory)))
    if permuted:
        backwards = iter([axis for axis in reversed(order) if memory[axis][0] == "R"])
        order = [next(backwards) if memory[axis][0] == "R" else axis for axis in order]
    axes = tuple(place for place, axis in enumerate(order) if memory[axis][0] == "R")
    return tuple(size for _, size in memory), tuple(order), axes, 0


def whole_blocks(layout, element):
    """Return the way to read whole blocks, with what gaps they have, that has the fewest columns."""
    return min(repetitions(layout, 16 // element.nbytes, gaps=True), key=lambda way: way.columns)


def plan_case(case, name, limits, rules=(False, False, False)):
    layout, count = layout_of(case, rules)
    input_bytes = count * ELEMENTS[name].nbytes
    repetition = whole_blocks(layout, ELEMENTS[name])
    results = Results(
        8 if count % 5 in (1, 2) else 4, count % 2 == 0, layout.outputs + 1, layout.greatest_index
    )
    return periods.plan_repetition(
        repetition, Reduction(layout, Order(name, *rules), input_bytes, limits), results
    )
