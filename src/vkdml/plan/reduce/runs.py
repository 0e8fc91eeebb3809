"""Runs: reduced elements that are side by side in memory, or a step apart, and which layouts have them."""

from __future__ import annotations

import math
from typing import NamedTuple

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import MemoryOrder, ReduceLayout
from vkdml.plan.plans import SECTOR_BYTES, VECTOR_BYTES, DeviceLimits
from vkdml.plan.reduce.element_costs import ElementCosts
from vkdml.plan.reduce.work_division import are_multiples, subgroup_size_of
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import Tuning

# Outputs with so many short runs are reduced as repeated blocks if they can be.
_MANY_RUNS = 32
# Bytes. Out of memory order, runs of wide elements in whole vectors are rows from this size on. Read one by
# one, their elements take up to four times as long (H200).
_SHORTEST_WHOLE_ROW = 32
# If vectors do not have whole steps, what a vector has of the row is looked up for each. That is worth its
# time for single bytes with this step alone.
_STEP_OF_PIXELS = 3
# Bytes. Shorter runs with steps, several of which compete for an output, are read element by element if their
# elements are wide.
SHORTEST_STEPPED_RUN = 1024
# The fewest elements of a run with steps out of the order of positions. Fewer are read element by element.
_FEWEST_OUT_OF_ORDER = 6
# Unaligned rows with longer steps are read element by element, and with steps of more than 2 elements if they
# have fewer bytes together.
UNALIGNED_STEP_BYTES = 4
UNALIGNED_STEPS_FROM = 32 << 20
# The fewest adjacent narrow elements that are read as a run if an output has several of them.
_FEWEST_NARROW = 4


class Runs(NamedTuple):
    """Reduced elements that are side by side in memory, or ``step`` apart."""

    length: int
    """Elements of one."""
    outer_strides: tuple[int, ...]
    """Of the reduced dimensions outside a run."""
    first: int
    """Offset of the first run from that of the layout."""
    reading: MemoryOrder | None = None
    """The order in which runs are read, if it is not that of positions."""
    step: int = 1
    """Elements of memory from one to the next."""

    @property
    def extent(self) -> int:
        """Elements of memory from the first to the last."""
        return (self.length - 1) * self.step + 1

    def pieces_of(self, elements: int) -> int:
        """Return over how many rows of the last dimension these elements extend; 0 if it does not matter."""
        if self.reading is None:
            return 0
        return min(elements, (elements - 2) // self.reading.dims[-1].size + 2)


def long_runs_of(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> Runs | None:
    """Return the runs of a layout if they are long enough for rows."""
    tuning = limits.tuning
    runs = _runs_of(layout, in_memory_order=True)
    if runs is None:
        return None
    shortest = tuning.shortest_row_bytes
    are_whole = element.nbytes >= 4 and vectors_of_run(layout, runs, element)[1]
    if runs.reading and not tuning.is_processor and are_whole:
        shortest = min(shortest, _SHORTEST_WHOLE_ROW)
    return runs if runs.length * element.nbytes >= shortest else None


def short_runs_of(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> Runs | None:
    """Return the runs of a layout, however short, if a GPU reads each at once.

    It does if each output has one, or several of narrow elements that lie apart from the next output's.
    Read one by one, the elements of rows of 6 to 60 bytes with others between them take 0.9 to 10 times as
    long (H200).
    """
    runs = None if limits.tuning.is_processor else _runs_of(layout, in_memory_order=False)
    if runs is None or runs.length == 1:
        return None
    are_apart = bool(layout.kept) and layout.kept[-1].input_stride >= 2 * runs.length
    are_narrow = element.nbytes < 4 and runs.length >= _FEWEST_NARROW and are_apart
    return runs if are_narrow or runs.length == layout.reduce_count else None


def out_of_order_runs_of(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> Runs | None:
    """Return the runs of a layout out of memory order, however short, if a GPU reads each at once.

    Position by position, the elements of one sector are read far apart in time: 14 words in each of 20 places
    at a twelfth of the rate (H100).
    """
    if limits.tuning.is_processor:
        return None
    runs = _runs_of(layout, in_memory_order=True)
    if runs is None or runs.reading is None or not ElementCosts(layout, element.nbytes).is_in_rows:
        return None
    return runs


def stepped_runs_of(layout: ReduceLayout, element: ElementType, limits: DeviceLimits) -> Runs | None:
    """Return the runs of which a GPU reads what lies between the elements too; None where that takes longer.

    Between them there may be no others that take part.
    """
    if not subgroup_size_of(limits):
        return None
    innermost, order = layout.reduced[-1], layout.reading_order
    step = order.step
    is_in_order = innermost.input_stride == step
    if not 1 < step <= SECTOR_BYTES // element.nbytes:
        return None
    if is_in_order:
        outer_strides = tuple(dim.input_stride for dim in layout.reduced[:-1])
        runs = Runs(innermost.size, outer_strides, 0, step=step)
    else:
        runs = _runs_in_order_of(order)
    others = (*(dim.input_stride for dim in layout.kept), *runs.outer_strides)
    are_mixed = any(0 < abs(stride) < runs.extent for stride in others)
    are_several_wide = is_in_order and len(runs.outer_strides) > 0 and element.nbytes >= 4
    shortest = SHORTEST_STEPPED_RUN if are_several_wide else limits.tuning.shortest_row_bytes
    are_few = not is_in_order and runs.length < _FEWEST_OUT_OF_ORDER
    if are_mixed or are_few or runs.extent * element.nbytes < shortest:
        return None
    # Out of order, single elements take longest.
    return None if is_in_order and not _are_faster_in_vectors(layout, runs, element) else runs


def _are_faster_in_vectors(layout: ReduceLayout, runs: Runs, element: ElementType) -> bool:
    """Whether rows with a step take less time in vectors than element by element.

    Aligned rows take 0.82 of the time; those of pixels of three bytes, and unaligned rows of narrow elements,
    0.85 (H200, 820 random shapes).
    """
    step, nbytes = runs.step, element.nbytes
    _, are_whole = vectors_of_run(layout, runs, element)
    if are_whole and VECTOR_BYTES // nbytes % step == 0:
        return True
    if are_whole and nbytes == 1 and step == _STEP_OF_PIXELS and layout.outputs > 1:
        return True
    is_large = layout.outputs * layout.reduce_count * step * nbytes >= UNALIGNED_STEPS_FROM
    return step * nbytes <= UNALIGNED_STEP_BYTES and (step == 2 or is_large)


def are_many_and_short(runs: Runs, layout: ReduceLayout, element: ElementType, tuning: Tuning) -> bool:
    """Tell whether an output has so many short runs that the way from one to the next decides."""
    are_short = runs.extent * element.nbytes <= tuning.periods.longest_row_bytes
    return are_short and layout.reduce_count // runs.length >= _MANY_RUNS


def _runs_of(layout: ReduceLayout, in_memory_order: bool) -> Runs | None:
    *outer, innermost = layout.reduced
    order = layout.memory_order if in_memory_order else None
    in_run = order.run_dims if order is not None else 0
    if innermost.input_stride == 1 and (order is None or in_run == 1):
        return Runs(innermost.size, tuple(dim.input_stride for dim in outer), 0)
    if order is None or in_run == 0:
        return None
    return _runs_in_order_of(order)


def _runs_in_order_of(order: MemoryOrder) -> Runs:
    """Return the runs that are read in this order, whose elements are its step apart."""
    outer, inner = order.dims[: -order.stepped_dims], order.dims[-order.stepped_dims :]
    length, strides = math.prod(dim.size for dim in inner), tuple(dim.input_stride for dim in outer)
    return Runs(length, strides, order.input_offset, order, order.step)


def vectors_of_run(layout: ReduceLayout, runs: Runs, element: ElementType) -> tuple[int, bool]:
    """Return the vectors that a run lies in, wherever it starts, and whether all are aligned and whole."""
    per_vector = VECTOR_BYTES // element.nbytes
    if not _runs_are_aligned(layout, runs, per_vector):
        return ceil_div(runs.extent - 1, per_vector) + 1, False
    are_whole = runs.step <= per_vector and runs.length * runs.step % per_vector == 0
    return ceil_div(first_in_step(layout, runs) + runs.extent, per_vector), are_whole


def _runs_are_aligned(layout: ReduceLayout, runs: Runs, per_vector: int) -> bool:
    """Whether all of them start with a vector, but for the elements before the first of a step."""
    kept = (dim.input_stride for dim in layout.kept)
    first = layout.input_base + runs.first - first_in_step(layout, runs)
    return are_multiples((first, *runs.outer_strides, *kept), per_vector)


def first_in_step(layout: ReduceLayout, runs: Runs) -> int:
    """Return which element of a step of memory is that of the row, such as a channel's number."""
    return (layout.input_base + runs.first) % runs.step
