"""Planning a gather: indices become places in the input, and elements are copied from there."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels, loop_steps
from vkdml.plan.layout import Dim
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    check_buffer,
    check_work,
    checked_step,
    dim_words,
)

_PLACE_BYTES = 4
INDEX_WIDTHS = kernels.family("gather_places").numbers_of("element_bytes")


def plan_places(
    dims: tuple[Dim, ...],
    base: int,
    span: int,
    limits: DeviceLimits,
    *,
    index_bytes: int,
    signed: bool,
    size: int,
    stride: int,
    number: int,
) -> Plan:
    """Plan how indices of one dimension become places, and are added to those of the dimensions before.

    Args:
        dims: of the indices, canonical; the output stride of each is not used.
        base: of the first index, in its buffer of ``span`` indices.
        span: see above.
        limits: of the device.
        index_bytes: 4 or 8.
        signed: whether indices may count from the end.
        size: of the dimension.
        stride: of the dimension, in elements.
        number: of the dimension, among those that have indices: 0 writes the places, others add to them.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        TooMuchWork: more than the kernels' 32-bit counters hold, or than the driver's loops make.
    """
    items = math.prod(dim.size for dim in dims)
    check_work("indices", items)
    check_buffer("array of indices", span * index_bytes, limits)
    check_buffer("array of places", items * _PLACE_BYTES, limits)
    workgroup_size, rounds = _shares(items, limits, partial(loop_steps.gather, dims=len(dims), per_item=1))
    family = kernels.family("gather_places")
    placed = family.placed(dim_words(dims))
    push = family.push(
        add=number > 0,
        items=items,
        items_per_workgroup=rounds * workgroup_size,
        dims=len(dims),
        input_base=base,
        size=size,
        stride=stride,
        fault_word=number,
        layout_words=placed.pushed,
    )
    kernel, constants = family.specialize(
        element_bytes=index_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        signed_elements=signed,
    )
    step = Step(
        kernel,
        constants,
        push,
        ceil_div(items, rounds * workgroup_size),
        loop_steps=loop_steps.gather(rounds, len(dims), 1),
    )
    return Plan(
        (checked_step(step, limits),),
        (
            ("input", round_up(span * index_bytes, VECTOR_BYTES)),
            ("faults", 4 * (number + 1)),
            ("places", items * _PLACE_BYTES),
            ("workspace", 4 * len(placed.stored)),
        ),
        placed.stored,
    )


def plan_elements(
    dims: tuple[Dim, ...], base: int, span: int, places: int, element_bytes: int, limits: DeviceLimits
) -> Plan:
    """Plan a copy of elements of 1, 2, 4, 8 or 16 bytes from given places to a compact output.

    Args:
        dims: of the output, canonical; the output stride of each is that of the places.
        base: of the element that all places count from, in the input's buffer of ``span`` elements.
        span: see above.
        places: how many.
        element_bytes: of an element.
        limits: of the device.

    Raises:
        MemoryError, TooMuchWork: as :func:`plan_places`.
    """
    elements = math.prod(dim.size for dim in dims)
    check_work("elements", elements)
    check_buffer("input", span * element_bytes, limits)
    check_buffer("output", elements * element_bytes, limits)
    per_item = max(4 // element_bytes, 1)
    items = ceil_div(elements, per_item)
    steps = partial(loop_steps.gather, dims=len(dims), per_item=per_item)
    workgroup_size, rounds = _shares(items, limits, steps)
    family = kernels.family("gather_elements")
    placed = family.placed(dim_words(dims))
    push = family.push(
        elements=elements,
        items=items,
        items_per_workgroup=rounds * workgroup_size,
        dims=len(dims),
        input_base=base,
        layout_words=placed.pushed,
    )
    kernel, constants = family.specialize(
        element_bytes=element_bytes, workgroup=workgroup_size, layout_in_push=placed.in_push
    )
    step = Step(
        kernel,
        constants,
        push,
        ceil_div(items, rounds * workgroup_size),
        loop_steps=loop_steps.gather(rounds, len(dims), per_item),
    )
    return Plan(
        (checked_step(step, limits),),
        (
            ("input", round_up(span * element_bytes, VECTOR_BYTES)),
            ("places", places * _PLACE_BYTES),
            ("gathered", round_up(elements * element_bytes, 4)),
            ("workspace", 4 * len(placed.stored)),
        ),
        placed.stored,
    )


def _shares(items: int, limits: DeviceLimits, steps: Callable[[int], int]) -> tuple[int, int]:
    """Return the invocations of a workgroup, and how many items each of them has.

    Args:
        items: of all.
        limits: of the device.
        steps: returns the loop steps of an invocation that has so many items.
    """
    tuning = limits.tuning.slice1
    size = min(limits.workgroup_size, tuning.runs_workgroup_size)
    rounds = min(items // (size * tuning.full_workgroups), tuning.workgroup_vectors)
    while rounds > 1 and steps(rounds) > limits.max_loop_steps:
        rounds //= 2
    return size, max(rounds, 1, ceil_div(items, size * limits.max_workgroup_count))
