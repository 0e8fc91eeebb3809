"""Running the kernels of short rows and short stacks beside their NumPy twin."""

from __future__ import annotations

import itertools
import math
import zlib

import numpy as np
import twins_short_rows
from plans import may_build, run_beside_twins
from reduce_kernels import ELEMENTS

from vkdml.plan.layout import canonical_reduce, extent, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.tuning import ShortTuning

# Small tiles, so that small inputs have many of them; kernels that know the number of positions, and others.
SMALL = ShortTuning(workgroup_size=32, tile_bytes=2048, direct=False)


def plan_view(case: str, sizes, strides, axes, base: int, order: Order, limits):
    """The plan of a view, by what a case decides of outputs and options; and the length of its input."""
    kept = tuple(1 if i in axes else size for i, size in enumerate(sizes))
    apart = zlib.crc32(case.encode()) % 2 + 1  # outputs with room between, so that it can be seen to stay
    output_strides = tuple(apart * stride for stride in row_major_strides(kept))
    layout = canonical_reduce(
        *(sizes, strides, axes, output_strides),
        take_last=order.take_last,
        input_base=base,
        output_base=apart - 1,
    )
    count = base + extent(sizes, strides)[1]
    plan = plan_argreduce(
        *(layout, order, count, limits),
        index_bytes=4 * apart,
        with_values=len(case) % 3 > 0,
        output_elements=math.prod(kept) * apart + 3,
    )
    return plan, count


def run_both(device, plan, bits) -> None:
    """Run a plan on the device and by the twin, if the test may build it; all buffers must agree."""
    if may_build(plan):
        run_beside_twins(device, plan, {"input": bits}, twins_short_rows.run)


def rules_of(number: int) -> tuple[bool, bool, bool]:
    return bool(number & 1), bool(number & 2), bool(number & 4)


def check_ties_and_extremes(device, name: str, plan_of, *cases: str) -> None:
    """Run cases by all rules on few values, and on one; ``plan_of`` also says how many elements there are."""
    rng = np.random.default_rng(7)
    width = ELEMENTS[name].nbytes
    special = np.array(
        [0, (1 << (8 * width)) - 1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1], f"<u{width}"
    )
    for case, number in itertools.product(cases, range(8)):
        rules = rules_of(number)
        if rules[2] and not ELEMENTS[name].is_float:
            continue
        plan, count = plan_of(case, rules)
        run_both(device, plan, rng.choice(special, count).view(np.uint8))
        for same in special[:3]:
            run_both(device, plan, np.full(count, same).view(np.uint8))
