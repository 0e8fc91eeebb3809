"""Every kernel of the table against its NumPy twin: all bytes that every pass writes, and no others."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins

import vkdml
from vkdml import kernels
from vkdml.execute import run_plan
from vkdml.layout import canonical_copy, canonical_reduce
from vkdml.plan import Element
from vkdml.plan_argreduce import plan_argreduce
from vkdml.plan_slice1 import plan_slice1

# Small tiles, so that small inputs have many of them; few positions, so that little work is split.
SMALL = {
    "workgroup_size": 64,
    "rows_batch": 2,
    "vectors_per_lane": 2,
    "columns_batch": 2,
    "positions_per_lane": 2,
    "tile_bytes": 128,
    "target_workgroups": 64,
    "shortest_row_bytes": 16,
    "positions_per_split": 2,
}
ELEMENTS = sorted({entry.variant for entry in kernels.table().values() if entry.kernel == "argreduce_rows"})


@pytest.fixture(scope="module")
def device():
    return vkdml.default_device()


@pytest.fixture(scope="module")
def small_limits(device):
    return replace(device.limits, tuning=replace(device.limits.tuning, **SMALL))


def element_bits(rng, name: str, count: int) -> np.ndarray:
    """Random bytes with many equal, extreme and special elements among them."""
    width = twins.element(name).bytes
    bits = rng.integers(0, 256, count * width, np.uint8).view(f"<u{width}")
    special = np.array([0, 1, -1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1]) if width < 8 else None
    if special is not None:
        few = (special % (1 << (8 * width))).astype(bits.dtype)
        bits = np.where(rng.random(count) < 0.3, rng.choice(few, count), bits)
    if rng.random() < 0.5:  # few distinct values: ties everywhere
        bits = rng.choice(bits[: max(count // 50, 2)], count)
    return bits.view(np.uint8)


def run_both(device, plan, contents) -> list[str]:
    """Run a plan on the device and by the twins; all buffers must agree. Returns the kernels run."""
    roles = tuple(role for role, nbytes in plan.buffer_bytes if nbytes)
    start = {}
    for role in roles:
        start[role] = np.full(plan.bytes_of(role), 0xA5, np.uint8)
        if role in contents:
            start[role][: contents[role].size] = contents[role]
    if plan.layout:
        start["workspace"][: 4 * len(plan.layout)] = np.array(plan.layout, np.uint32).view(np.uint8)
    got = run_plan(device.executions, plan, start, roles)
    expected = {role: data.copy() for role, data in start.items()}
    for step in plan.steps:
        getattr(twins, kernels.table()[step.kernel].kernel)(step, expected)
    for role in roles:
        np.testing.assert_array_equal(got[role], expected[role], err_msg=f"{role} of {plan.steps}")
    return [step.kernel for step in plan.steps]


# Shape, axes, and the steps of the view taken of a larger array (0: broadcast).
REDUCTIONS = {
    "all": ((1500,), (0,), (1,)),
    "all_backwards": ((700,), (0,), (-1,)),
    "rows": ((5, 77), (1,), (1, 1)),
    "short_rows": ((37, 9), (1,), (1, 1)),
    "columns": ((40, 13), (0,), (1, 1)),
    "far_columns": ((3, 30, 9), (1,), (1, 1, 1)),
    "runs_apart": ((6, 5, 40), (0, 2), (1, 1, 1)),
    "mixed_signs": ((6, 5, 40), (0, 2), (-1, 1, 1)),
    "strided": ((12, 35), (1,), (2, 3)),
    "many_dims": ((3, 2, 4, 3, 2, 5), (0, 2, 4), (1, -2, 1, 2, 1, -1)),
    "repeated": ((4, 6, 8), (1,), (1, 0, 1)),
    "repeated_outputs": ((4, 30), (1,), (0, 1)),
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


@pytest.mark.parametrize("name", ELEMENTS)
def test_argreduce_kernels_write_what_their_twins_write(device, small_limits, name):
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng(seed)
    width = twins.element(name).bytes
    ran = set()
    rules = itertools.cycle(itertools.product((False, True), (False, True), (False, True)))
    for shape, axes, steps in REDUCTIONS.values():
        strides, base, count = view_layout(shape, steps)
        take_min, take_last, omit_nan = next(rules)
        for wide in (False, True):
            kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
            # Outputs lie apart, so that what is between them can be seen to stay.
            output_strides, room = [], 2
            for size in reversed(kept):
                output_strides.append(room)
                room *= size
            layout = canonical_reduce(
                shape,
                strides,
                axes,
                tuple(reversed(output_strides)),
                take_last=take_last,
                input_base=base,
                output_base=1,
            )
            plan = plan_argreduce(
                layout,
                Element(name, width),
                count,
                small_limits,
                take_min=take_min,
                take_last=take_last,
                omit_nan=omit_nan,
                index_bytes=8 if wide else 4,
                with_values=wide,
                output_elements=room + 1,
            )
            ran.update(run_both(device, plan, {"input": element_bits(rng, name, count)}))
    expected = {"argreduce_rows", "argreduce_strided"} | ({"argreduce_columns"} if width < 4 else set())
    assert {f"{kernel}_{name}" for kernel in expected} | {f"argreduce_combine_{width}_bytes"} == ran


COPIES = {
    "plain": ((1000,), (1,), (1,)),
    "rows": ((7, 11), (1, 1), (1, 1)),
    "mirrored": ((5, 9, 7), (-1, 2, -3), (1, 1, 1)),
    "scattered": ((6, 10), (1, 1), (2, 3)),
    "gaps_between_rows": ((9, 5), (1, 1), (2, 1)),
    "backwards_out": ((9, 5), (1, 1), (1, -1)),
    "repeated_input": ((4, 6), (0, 1), (1, 1)),
    "many_dims": ((2, 3, 2, 3, 2, 3, 2, 3, 2), (2,) * 9, (2,) * 9),
}


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_slice1_kernels_write_what_their_twins_write(device, small_limits, width):
    rng = np.random.default_rng(width)
    ran = set()
    for shape, input_steps, output_steps in COPIES.values():
        input_strides, input_base, input_count = view_layout(shape, input_steps)
        output_strides, output_base, output_count = view_layout(shape, output_steps)
        layout = canonical_copy(
            shape, input_strides, output_strides, input_base=input_base, output_base=output_base
        )
        plan = plan_slice1(layout, width, input_count, small_limits, output_elements=output_count)
        content = rng.integers(0, 256, input_count * width, np.uint8)
        ran.update(run_both(device, plan, {"input": content}))
    assert ran == {f"slice1_{'narrow' if width < 4 else 'wide'}_{width}_bytes"}


def test_every_kernel_of_the_table_is_tested_here():
    tested = {f"argreduce_{kernel}_{name}" for kernel in ("rows", "strided") for name in ELEMENTS}
    tested |= {f"argreduce_columns_{name}" for name in ELEMENTS if twins.element(name).bytes < 4}
    tested |= {f"argreduce_combine_{width}_bytes" for width in (1, 2, 4, 8)}
    tested |= {f"slice1_{'narrow' if width < 4 else 'wide'}_{width}_bytes" for width in (1, 2, 4, 8, 16)}
    assert tested == set(kernels.table())


def test_more_workgroups_than_the_device_allows_are_looped_over(device, small_limits):
    few = replace(small_limits, max_workgroup_count=3)
    rng = np.random.default_rng(0)
    for shape, axes, _ in REDUCTIONS.values():
        strides, base, count = view_layout(shape, (1,) * len(shape))
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        layout = canonical_reduce(
            shape,
            strides,
            axes,
            tuple(int(np.prod(kept[i + 1 :])) for i in range(len(kept))),
            take_last=False,
            input_base=base,
        )
        plan = plan_argreduce(
            layout,
            Element("int16", 2),
            count,
            few,
            take_min=False,
            take_last=False,
            omit_nan=False,
            index_bytes=4,
            with_values=True,
        )
        assert all(step.workgroups <= 3 for step in plan.steps)
        run_both(device, plan, {"input": element_bits(rng, "int16", count)})
