"""Running kernels that reduce beside their NumPy twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import twins
from plans import may_build, run_beside_twins

from vkdml.plan import kernels
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.tuning import ShortTuning

# Small tiles, so that small inputs have many of them; few positions, so that little work is split.
SMALL = {
    "workgroup_size": 64,
    "row_lanes": 2,
    "fewest_vectors_per_lane": 1,
    "split_bytes": 0,
    "tile_bytes": 128,
    "positions_per_lane": 2,
    "columns_segment_bytes": 64,
    "target_workgroups": 4,
    "split_workgroups": 4,
    "columns_workgroups": 4,
    "shortest_row_bytes": 16,
    "positions_per_split": 2,
    "fixed_starts_to_bytes": 1 << 40,
    "fixed_row_starts_to_bytes": 1 << 40,
    "short": ShortTuning(workgroup_size=8, tile_bytes=0, direct=False),  # not by these kernels
}
ELEMENTS = kernels.elements()


def of_width(nbytes: int) -> list[str]:
    """The elements that lie in memory alike."""
    return [name for name, element in ELEMENTS.items() if element.nbytes == nbytes]


def alike_elements(name: str) -> list[str]:
    """The elements whose kernels are those of this one."""
    keys = ELEMENTS[name].specialization["keys"]
    return [n for n in of_width(ELEMENTS[name].nbytes) if ELEMENTS[n].specialization["keys"] == keys]


def takes(name: str, number: int) -> bool:
    """Whether the case of this number is this element's: those with the same kernels take turns."""
    alike = alike_elements(name)
    return number % len(alike) == alike.index(name)


@pytest.fixture(scope="module")
def small_limits(device):
    return limits_with_barriers(device, **SMALL)


def limits_with_barriers(device, **changes):
    """Limits of workgroups of several subgroups; test_kernels_one_subgroup.py has those of one."""
    tuning = replace(device.limits.tuning, **changes)
    return replace(device.limits, tuning=tuning, subgroups_are_threads=False)


def element_bits(rng, name: str, count: int) -> np.ndarray:
    """Random bytes with many equal, extreme and special elements among them."""
    width = ELEMENTS[name].nbytes
    bits = rng.integers(0, 256, count * width, np.uint8).view(f"<u{width}")
    special = np.array([0, 1, -1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1]) if width < 8 else None
    if special is not None:
        few = (special % (1 << (8 * width))).astype(bits.dtype)
        bits = np.where(rng.random(count) < 0.3, rng.choice(few, count), bits)
    if rng.random() < 0.5:  # few distinct values: ties everywhere
        bits = rng.choice(bits[: max(count // 50, 2)], count)
    return bits.view(np.uint8)


def run_both(device, plan, contents, run_twin=twins.run) -> None:
    """Run a plan on the device and by the twins, if the test may build it; all buffers must agree."""
    if may_build(plan):
        run_beside_twins(device, plan, contents, run_twin)


# Shape, axes, and the steps of the view taken of a larger array (0: broadcast).
REDUCTIONS = {
    "all": ((1500,), (0,), (1,)),
    "all_backwards": ((700,), (0,), (-1,)),
    "rows": ((5, 77), (1,), (1, 1)),
    "short_rows": ((37, 9), (1,), (1, 1)),
    "many_rows": ((300, 40), (1,), (1, 1)),
    "columns": ((40, 13), (0,), (1, 1)),
    "columns_split": ((400, 21), (0,), (1, 1)),
    "strided_split": ((900, 3), (0,), (1, 2)),
    "far_columns": ((3, 30, 9), (1,), (1, 1, 1)),
    "runs_apart": ((6, 5, 40), (0, 2), (1, 1, 1)),
    "mixed_signs": ((6, 5, 40), (0, 2), (-1, 1, 1)),
    "strided": ((12, 35), (1,), (2, 3)),
    "many_dims": ((3, 2, 4, 3, 2, 5), (0, 2, 4), (1, -2, 1, 2, 1, -1)),
    "repeated": ((4, 6, 8), (1,), (1, 0, 1)),
    "repeated_outputs": ((4, 30), (1,), (0, 1)),
}
# The same of contiguous arrays, whose vectors are aligned.
CONTIGUOUS = {
    "all": ((4096,), (0,)),
    "rows": ((9, 96), (1,)),
    "long_rows": ((3, 2000), (1,)),
    "columns": ((70, 48), (0,)),
    "few_columns": ((300, 16), (0,)),
    "wide_columns": ((9, 1040), (0,)),
    "middle": ((3, 20, 36), (1,)),
    "outer_and_middle": ((5, 2, 7, 32), (0, 2)),
    "outer_and_inner": ((7, 3, 160), (0, 2)),
    "few_positions": ((7, 1040), (0,)),
    "few_unaligned_positions": ((7, 1061), (0,)),
    "unaligned_matrices": ((3, 12, 1061), (1,)),
    "short_matrices": ((40, 11, 7), (1,)),
    "unaligned_split": ((34, 131), (0,)),
}
# Contiguous arrays read through a permutation of their axes, some of them backwards.
PERMUTED = {
    "all": ((40, 37), (1, 0), (0, 1), ()),
    "all_backwards": ((37, 40), (1, 0), (0, 1), (0,)),
    "three": ((5, 32, 16), (2, 0, 1), (0, 1, 2), (2,)),
    "rows_of_two": ((33, 3, 20), (0, 2, 1), (1, 2), ()),
    "rows_apart": ((6, 5, 7, 64), (3, 1, 0, 2), (0, 2, 3), (0, 3)),
    "many_outputs": ((90, 4, 16), (2, 1, 0), (0, 1), (0,)),
    "few_outputs": ((40, 9, 2, 37), (1, 2, 0, 3), (0, 2, 3), ()),
}


def view_layout(shape, steps):
    """Sizes, element strides, base offset and length of a stepped view of a contiguous array."""
    whole = [1 if step == 0 else size * abs(step) + 1 for size, step in zip(shape, steps, strict=True)]
    strides, base, stride = [], 0, 1
    for size, step, extent in reversed(list(zip(shape, steps, whole, strict=True))):
        strides.append(stride * step)
        base += (size - 1) * stride * -step if step < 0 else 0
        stride *= extent
    return tuple(reversed(strides)), base + 1, stride + 1


def cases():
    for shape, axes, steps in REDUCTIONS.values():
        strides, base, count = view_layout(shape, steps)
        yield shape, axes, strides, base, count
    for shape, axes in CONTIGUOUS.values():
        yield shape, axes, row_major_strides(shape), 0, int(np.prod(shape))
    for memory, permutation, axes, backwards in PERMUTED.values():
        shape = tuple(memory[axis] for axis in permutation)
        strides = [row_major_strides(memory)[axis] for axis in permutation]
        base = sum((shape[axis] - 1) * strides[axis] for axis in backwards)
        strides = tuple(-stride if axis in backwards else stride for axis, stride in enumerate(strides))
        yield shape, axes, strides, base, math.prod(memory)


def limits_for(small_limits, fast: bool, width: int = 1):
    return replace(
        small_limits,
        tuning=replace(
            small_limits.tuning,
            is_processor=not fast,
            subgroups=int(fast),
            # Splits of wide elements fill whole waves of three eighths of these.
            columns_workgroups=4 if width < 4 else 16,
        ),
        subgroup_size=small_limits.subgroup_size or 4,
    )


def plan_case(case, name: str, limits, rules=(False, False, False)):
    order = Order(name, *rules)
    shape, axes, strides, base, count = case
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    apart = count % 3 > 0  # outputs with room between, so that it can be seen to stay
    output_strides = tuple(stride * (2 if apart else 1) for stride in row_major_strides(kept))
    layout = canonical_reduce(
        shape,
        strides,
        axes,
        output_strides,
        take_last=order.take_last,
        input_base=base,
        output_base=1 if apart else 0,
    )
    return plan_argreduce(
        layout,
        order,
        count,
        limits,
        index_bytes=8 if count % 5 in (1, 2) else 4,
        with_values=count % 5 in (0, 2),
        output_elements=math.prod(kept) * 2 + 3,
    )


def limits_of_columns(small_limits, nbytes: int):
    """A GPU's that reads as columns what can be read so."""
    limits = limits_for(small_limits, True, nbytes)
    periods = replace(limits.tuning.periods, from_bytes=1 << 40, elements_from_bytes=1 << 40)
    tuning = replace(limits.tuning, periods=periods, joined_from_bytes=1 << 40, columns_apart=False)
    return replace(limits, tuning=replace(tuning, short=replace(tuning.short, from_bytes=1 << 40)))
