"""Plans of reductions, and which families of kernels they have."""

from __future__ import annotations

import math
from dataclasses import replace

from plans import GPU_LIMITS

from vkdml.plan import kernels
from vkdml.plan.device_classes import SOFTWARE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce

MIB = 1 << 20
PROCESSOR = replace(GPU_LIMITS, tuning=SOFTWARE, subgroup_size=0)
WALKED = ["periods", "combine"]


def families_of(memory, order, axes, name, limits=GPU_LIMITS):
    """The kernels that reduce ``axes`` of an array whose axes are read in this order."""
    return families(steps_of(memory, order, axes, name, limits))


def families(steps):
    return [kernels.table()[step.kernel].family.name.removeprefix("argreduce_") for step in steps]


def steps_of(memory, order, axes, name, limits=GPU_LIMITS, *, with_values=False):
    sizes, strides = (tuple(each[axis] for axis in order) for each in (memory, row_major_strides(memory)))
    return steps_of_view(sizes, strides, axes, math.prod(memory), name, limits, with_values=with_values)


def steps_of_view(sizes, strides, axes, count, name, limits=GPU_LIMITS, *, with_values=False):
    """The steps that reduce a view of so many elements."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    layout = canonical_reduce(sizes, strides, axes, row_major_strides(kept), take_last=False)
    options = {"index_bytes": 4, "with_values": with_values}
    plan = plan_argreduce(layout, Order(name), count, limits, **options)
    assert plan.bytes_of("workspace") <= count * kernels.elements()[name].nbytes // 100 + MIB
    return plan.steps


def plan_of(shape, axes, limits, index_bytes: int, with_values: bool, name: str):
    """The plan that reduces ``axes`` of a contiguous array; of equal elements the last one wins."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    order = Order(name, False, True, False)
    layout = canonical_reduce(
        shape, row_major_strides(shape), axes, row_major_strides(kept), take_last=order.take_last
    )
    return plan_argreduce(
        layout, order, math.prod(shape), limits, index_bytes=index_bytes, with_values=with_values
    )
