"""Running kernels that copy beside their NumPy twins; all bytes that they write, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import twins_slice1
from plans import may_build, run_beside_twins

import vkdml
from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout
from vkdml.plan.slice import slice1 as plan_slice1
from vkdml.plan.tuning import BoxWorkgroups, SliceTuning

WIDTHS = kernels.family("slice1_runs").numbers_of("element_bytes")
BLOCKS = kernels.family("slice1_blocks")
PLAN_SLICE1 = plan_slice1.plan_slice1
# Of `SliceTuning`: no matrix is copied in tiles.
NO_TILES = {"tile_least_bytes": 1 << 32, "narrow_tile_least_bytes": 1 << 32}
# Small tiles and shares, so that small inputs have many of them.
DOWN, ACROSS = 2, 8
SMALL = SliceTuning(
    runs_workgroup_size=32,
    workgroup_vectors=2,
    full_workgroups=2,
    boundaries_from_bytes=1 << 40,
    tile_shapes=tuple((width, (DOWN, ACROSS)) for width in WIDTHS),
    tile_band=2,
    tile_least_bytes=1,
    narrow_tile_least_bytes=1,
    tile_least_fill=0.0,
    box_near_bytes=0,
    box_cache_bytes=0,
    box_bytes=0,
    narrow_box_bytes=0,
    box_rows=32,
    box_workgroup_size=32,
    box_workgroups=((1, BoxWorkgroups(2, 3, 9)), (2, BoxWorkgroups(3, 3, 1)), (4, BoxWorkgroups(3, 3, 1))),
)


def use(monkeypatch, **changes):
    """Plan with these numbers, whatever the device."""
    tuning = replace(vkdml.default_device().limits.tuning, slice1=replace(SMALL, **changes))

    def plan_small(layout, width, count, limits, **options):
        return PLAN_SLICE1(layout, width, count, replace(limits, tuning=tuning), **options)

    monkeypatch.setattr(plan_slice1, "plan_slice1", plan_small)


def reach(base: int, strides, sizes) -> tuple[int, int]:
    ends = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    return base + sum(min(end, 0) for end in ends), base + sum(max(end, 0) for end in ends)


def kernel_for(family: str, width: int, **variant: int) -> str:
    """The module for elements of a width."""
    (name,) = {
        kernel.name
        for key, kernel in kernels.family(family).kernels.items()
        if {axis: kernel.family.axes[axis][value] for axis, value in key}
        == {**variant, "element_bytes": width}
    }
    return name


def constants_of(device, layout: CopyLayout, width: int, limits=None) -> dict[str, int]:
    """The specialization constants of a copy's first step, as the tests' tuning plans it."""
    step = plan_slice1.plan_slice1(layout, width, 1 << 24, limits or device.limits).steps[0]
    return kernels.table()[step.kernel].named(step.constants)


def check(device, layout: CopyLayout, width: int, limits=None, spare: int = 0) -> str:
    """Run a layout on the device and by its twin, if the test may build the plan; all bytes must agree.

    Returns:
        The kernel that copies it.
    """
    sizes = [dim.size for dim in layout.dims]
    low, high = reach(layout.input_base, [dim.input_stride for dim in layout.dims], sizes)
    assert low >= 0
    _, last = reach(layout.output_base, [dim.output_stride for dim in layout.dims], sizes)
    plan = plan_slice1.plan_slice1(
        layout, width, high + 1 + spare, limits or device.limits, output_elements=last + 1 + spare
    )
    kernel, *others = dict.fromkeys(step.kernel for step in plan.steps)
    assert not others or kernels.table()[kernel].family is BLOCKS
    if not may_build(plan):
        return kernel
    content = np.random.default_rng(high).integers(0, 256, plan.bytes_of("input"), np.uint8)
    got = run_beside_twins(device, plan, {"input": content}, twins_slice1.run)
    # The twin is no judge of the plan: the elements, one by one.
    opaque = f"V{width}"
    source = content.view(opaque)
    whole = np.full(plan.bytes_of("output"), 0xA5, np.uint8)
    target = whole[: whole.size // width * width].view(opaque)
    read, written = np.int64(layout.input_base), np.int64(layout.output_base)
    for dim in layout.dims:
        coordinates = np.arange(dim.size)
        read = np.add.outer(read, coordinates * dim.input_stride)
        written = np.add.outer(written, coordinates * dim.output_stride)
    target[written] = source[read]
    np.testing.assert_array_equal(got["output"], whole, err_msg=f"{layout}, {width} B: {plan.steps}")
    return kernel


def base_of(dims) -> int:
    """The least base that keeps all input offsets at 0 or more."""
    return sum(-(dim.size - 1) * dim.input_stride for dim in dims if dim.input_stride < 0)
