"""Each kernel at the largest plan that a limit on loop steps allows: lavapipe leaves longer loops silently.

One workgroup does all the work, so that small arrays take as many steps as large ones take elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import as_strided
from plans import run_plan
from twins import TWINS, is_split
from twins_combine import TWINS as TWINS_OF_COLUMNS

import vkdml
from vkdml.plan import kernels, loop_steps
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import ReduceLayout, canonical_copy, canonical_reduce, extent, row_major_strides
from vkdml.plan.loop_steps import LAVAPIPE_LOOP_STEPS
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits, Plan, Step, checked_step
from vkdml.plan.reduce import columns
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.periods import plan_repetition
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import Results
from vkdml.plan.reduce.repetition import repetitions
from vkdml.plan.schema import Kernel
from vkdml.plan.slice.slice1 import plan_slice1
from vkdml.plan.tuning import BoxWorkgroups, PhaseTuning, ShortTuning, SliceTuning

SMALL = {
    "workgroup_size": 8,
    "row_lanes": 2,
    "fewest_vectors_per_lane": 1,
    "split_bytes": 0,
    "tile_bytes": 1 << 13,
    "positions_per_lane": 2,
    "columns_segment_bytes": 64,
    "target_workgroups": 1,
    "split_workgroups": 1,
    "columns_workgroups": 1,
    "shortest_row_bytes": 16,
    "positions_per_split": 8,
    "periods": replace(DISCRETE.periods, from_bytes=1 << 40, elements_from_bytes=1 << 40),
    "joined_from_bytes": 1 << 40,
    "joined_dims_from_bytes": 1 << 40,
    "short": ShortTuning(workgroup_size=8, tile_bytes=0, direct=False),
    "slice1": SliceTuning(
        runs_workgroup_size=8,
        workgroup_vectors=1 << 20,
        full_workgroups=1,
        boundaries_from_bytes=1 << 40,
        tile_shapes=tuple((width, (8, 8)) for width in (1, 2, 4, 8, 16)),
        tile_band=1,
        tile_least_bytes=1 << 32,
        narrow_tile_least_bytes=1 << 32,
        tile_least_fill=0.0,
        box_near_bytes=-1,
        box_cache_bytes=0,
        box_bytes=0,
        narrow_box_bytes=0,
        box_rows=16,
        box_workgroup_size=8,
        box_workgroups=tuple((width, BoxWorkgroups(1, 1, 1)) for width in (1, 2, 4)),
    ),
}
SPLIT = {"target_workgroups": 16, "split_workgroups": 16, "columns_workgroups": 16}
# One element type of each width: the others run the same loops.
ELEMENTS = {"int8": np.int8, "float16": np.float16, "float32": np.float32, "int64": np.int64}
# The greatest number that shapes grow to, and what counts as having come to the limit.
MOST = 1 << 17
AT_THE_LIMIT = LAVAPIPE_LOOP_STEPS * 9 // 10


@pytest.fixture(scope="module")
def device() -> vkdml.Device:
    return vkdml.default_device()


def limits_for(device: vkdml.Device, **changes: Any) -> DeviceLimits:
    tuning = replace(device.limits.tuning, **{**SMALL, **changes})
    return replace(device.limits, tuning=tuning, max_workgroup_count=1, max_loop_steps=LAVAPIPE_LOOP_STEPS)


@dataclass(frozen=True)
class Shape:
    """An array by its sizes and strides, in elements, and the axes to reduce."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    axes: tuple[int, ...] = ()

    @property
    def base(self) -> int:
        return -extent(self.sizes, self.strides)[0]

    @property
    def span(self) -> int:
        low, high = extent(self.sizes, self.strides)
        return high - low

    def of(self, flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return as_strided(flat[self.base :], self.sizes, [stride * flat.itemsize for stride in self.strides])


def largest(plan_of: Callable[[int], Plan], is_it: Callable[[Step], bool]) -> int | None:
    """The greatest number, about, whose plan is accepted and runs the kernel meant; None where none does."""

    def accepted(number: int) -> bool:
        try:
            plan = plan_of(number)
        except ValueError as error:
            if "loop steps" not in str(error):
                raise
            return False
        assert all(step.loop_steps <= LAVAPIPE_LOOP_STEPS for step in plan.steps)
        return any(is_it(step) for step in plan.steps)

    low = next((number for number in (1, 8, 64, 512) if accepted(number)), None)
    if low is None:
        return None
    while 2 * low <= MOST and accepted(2 * low):
        low *= 2
    high = 2 * low
    while high - low > max(low // 50, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


# ---- argmin and argmax -------------------------------------------------------------------------------------

# Shapes that grow with a number: by the reduction, the outputs, or the dimensions that an offset is made of.
# By how the kernel loads columns; rows are not loaded so.
GROWING = {
    None: {
        "one long row": lambda n: Shape((64 * n,), (1,), (0,)),
        "many rows": lambda n: Shape((n, 100), (101, 1), (1,)),
        "many short runs": lambda n: Shape((3, n, 40), (40, 123, 1), (1, 2)),
        "many dimensions": lambda n: Shape((3, 2, n, 3, 40), (1700, 850, 5101, 50, 1), (1, 2, 3, 4)),
    },
    "memory_order": {
        "transposed": lambda n: Shape((64, n), (1, 64), (0, 1)),
        "many rows": lambda n: Shape((n, 3, 40), (121, 1, 3), (1, 2)),
        "short inner rows": lambda n: Shape((3, n, 2, 40), (1, 250, 120, 3), (0, 1, 3)),
        "backwards": lambda n: Shape((5, 16, n), (-1, 5, -80), (0, 1, 2)),
    },
    "vectors": {
        "long columns": lambda n: Shape((n, 64), (64, 1), (0,)),
        "many columns": lambda n: Shape((40, 16 * n), (16 * n, 1), (0,)),
        "short inner reduction": lambda n: Shape((n, 3, 64), (256, 64, 1), (0, 1)),
        "many dimensions": lambda n: Shape((n, 3, 2, 5, 16), (1920, 640, 320, 48, 1), (0, 1, 3)),
    },
    "unaligned": {
        "long columns": lambda n: Shape((n, 17), (17, 1), (0,)),
        "many columns": lambda n: Shape((40, 16 * n + 1), (16 * n + 1, 1), (0,)),
        "short inner reduction": lambda n: Shape((n, 3, 21), (85, 21, 1), (0, 1)),
    },
    "elements": {
        "one long row": lambda n: Shape((8 * n,), (2,), (0,)),
        "many rows": lambda n: Shape((n, 3), (7, 2), (1,)),
        "short inner reduction": lambda n: Shape((5, n, 3), (7, 38, 2), (1, 2)),
        "many dimensions": lambda n: Shape((n, 2, 3, 2, 3), (390, 190, 60, 31, 7), (0, 2, 4)),
    },
}
# For the kernels of short repeated blocks, these and what combines them; and for joined columns.
GROWING_COLUMNS = {
    "argreduce_periods": {
        "long stretch": lambda n: Shape((32 * n, 2), (2, 1), (0,)),
        "many stretches": lambda n: Shape((n, 96, 3), (290, 3, 1), (1,)),
        "long period": lambda n: Shape((80, 3, n), (3 * n, 1, 3), (0, 2)),
    },
    "argreduce_combine": {
        "many outputs": lambda n: Shape((n, 96, 3), (290, 3, 1), (1,)),
        "many candidates": lambda n: Shape((n, 200, 2), (2, 2 * n, 1), (0, 1)),
        "many splits": lambda n: Shape((4 * n, 2), (2, 1), (0,)),
    },
    "argreduce_joined": {
        "long columns": lambda n: Shape((16 * n, 16, 4), (64, 4, 1), (0, 2)),
        "long unaligned columns": lambda n: Shape((16 * n, 7, 3), (21, 3, 1), (0, 2)),
        "many outputs": lambda n: Shape((20, 16 * n, 4), (64 * n, 4, 1), (0, 2)),
        "many unaligned outputs": lambda n: Shape((20, 16 * n + 1, 3), (48 * n + 3, 3, 1), (0, 2)),
        "short segments": lambda n: Shape((n, 3, 16, 4), (208, 64, 4, 1), (0, 1, 3)),
        "short unaligned segments": lambda n: Shape((n, 3, 17, 3), (157, 51, 3, 1), (0, 1, 3)),
        "parts of a dimension": lambda n: Shape((n, 320, 2), (643, 2, 1), (1,)),
    },
    "argreduce_across": {
        "many rows": lambda n: Shape((128, 2, 64 * n), (1, 8192 * n, 128), (1,)),
        "many unaligned rows": lambda n: Shape((131, 2, 64 * n), (1, 8384 * n + 1, 131), (1,)),
        "many pieces": lambda n: Shape((128 * n, 3, 40), (1, 5120 * n, 128 * n), (1,)),
        "many unaligned pieces": lambda n: Shape((128 * n + 1, 3, 40), (1, 6400 * n, 128 * n + 1), (1,)),
        "many dimensions": lambda n: Shape((128, 2, 3, 2, n), (1, 768 * n, 128, 384, 768), (1, 3)),
    },
    "argreduce_phases": {
        "columns": lambda n: Shape((n, 700, 19), (13300, 19, 1), (1,)),
        "long columns": lambda n: Shape((n, 2000, 13), (26000, 13, 1), (1,)),
        "long rows": lambda n: Shape((24, 16 * n + 1), (16 * n + 1, 1), (0,)),
        "many rows of outputs": lambda n: Shape((n, 80, 301), (80 * 301, 301, 1), (1,)),
    },
}
# Windows, whose rows start anywhere in a vector.
GROWING_WINDOWS = {
    "long stretch": lambda n: Shape((17, 16 * n), (2, 35), (0, 1)),
    "many stretches": lambda n: Shape((n, 17, 40), (1500, 2, 35), (1, 2)),
    "long period": lambda n: Shape((16 * n, 40), (2, 32 * n + 1), (0, 1)),
}
Kind = tuple[str, tuple[tuple[str, str], ...], bool]


def kinds(kernel: Kernel, split: bool | None = None) -> set[Kind]:
    """What a kernel can be, whatever its elements: family, variant, and whether it splits reductions."""
    left_out = {"keys", "element_bytes"}
    variant = tuple((axis, value) for axis, value in kernel.variant.items() if axis not in left_out)
    return {(kernel.family.name, variant, each) for each in (False, True) if split is None or each == split}


ARGREDUCE_KINDS = sorted(
    set().union(*(kinds(kernel) for kernel in kernels.table().values() if kernel.family.name in TWINS))
)
COLUMN_KINDS = sorted(
    {
        kind
        for kernel in kernels.table().values()
        if kernel.family.name in TWINS_OF_COLUMNS
        for kind in kinds(kernel)
        # Some have no splits, or do not combine them.
        if kind[0] not in ("argreduce_periods", "argreduce_across") or not kind[2]
    },
    # A kind's number decides what elements it is tried on: not each reaches the limit with all.
    key=lambda kind: (kind[0] == "argreduce_across", kind),
)


def kind_of(step: Step) -> Kind:
    (kind,) = kinds(kernels.table()[step.kernel], is_split(step))
    return kind


def layout_of(shape: Shape) -> ReduceLayout:
    kept = tuple(1 if axis in shape.axes else size for axis, size in enumerate(shape.sizes))
    return canonical_reduce(
        *(shape.sizes, shape.strides, shape.axes, row_major_strides(kept)),
        take_last=True,
        input_base=shape.base,
    )


def reduce_plan(shape: Shape, name: str, limits: DeviceLimits) -> Plan:
    order = Order(name, take_last=True)
    return plan_argreduce(layout_of(shape), order, shape.span, limits, index_bytes=8, with_values=True)


def window_plan(shape: Shape, name: str, limits: DeviceLimits) -> Plan:
    """Plan it as GPUs read large windows: whole, with loads that start at any element."""
    layout, order = layout_of(shape), Order(name, take_last=True)
    input_bytes = shape.span * order.element_type.nbytes
    row = shape.strides[shape.axes[-1]]
    (rows,) = (way for way in repetitions(layout, 1, gaps=True) if way.block == row)
    results = Results(8, True, layout.outputs, layout.greatest_index)
    return plan_repetition(
        replace(rows, is_aligned=False), Reduction(layout, order, input_bytes, limits), results
    )


@pytest.mark.parametrize("kind", ARGREDUCE_KINDS, ids=str)
def test_argreduce_kernels_finish_the_largest_plans_allowed(device, monkeypatch, kind):
    _, variant, split = kind
    own = dict(variant)
    in_pairs = own.get("vector_words") == "pairs"
    if in_pairs:  # and not of few positions alone
        monkeypatch.setattr(columns, "are_in_pairs", lambda *_: True)
    flags = {"subgroups": int(bool(own.get("subgroups")))}
    if flags["subgroups"]:  # a workgroup has whole subgroups
        flags["workgroup_size"] = max(SMALL["workgroup_size"], device.limits.subgroup_size)
    limits = limits_for(device, **flags, **(SPLIT if split else {}))
    growing = GROWING[own.get("loads") or own.get("memory_order") or None]
    names = ["int8"] if in_pairs else list(ELEMENTS)
    check_largest(device, kind, growing, limits, ARGREDUCE_KINDS.index(kind), names=names)


@pytest.mark.parametrize("kind", COLUMN_KINDS, ids=str)
def test_kernels_of_short_blocks_finish_the_largest_plans_allowed(device, kind):
    name, variant, split = kind
    first: dict[str, object] = {"periods": replace(DISCRETE.periods, from_bytes=0, elements_from_bytes=0)}
    if name == "argreduce_joined":
        first = {"joined_from_bytes": 0, "joined_dims_from_bytes": 0}
    elif name == "argreduce_across":
        first = {"across_vectors": 8, "across_tiles": 0}
    elif name == "argreduce_phases":
        phases = tuple(PhaseTuning(nbytes, 0, 1, 1, 1) for nbytes in (1, 2, 4))
        first |= {"is_processor": False, "phases": phases, "workgroup_size": 256}
    of_splits = SPLIT if split else {}
    if name == "argreduce_phases" and split:
        of_splits = SPLIT | {"columns_workgroups": 2112}  # for fewer multiprocessors one split is the best
    limits = limits_for(device, **first, **of_splits)
    if name == "argreduce_periods" and dict(variant)["loads"] == "unaligned":
        check_largest(device, kind, GROWING_WINDOWS, limits, COLUMN_KINDS.index(kind), window_plan)
        return
    check_largest(device, kind, GROWING_COLUMNS[name], limits, COLUMN_KINDS.index(kind))


def check_largest(
    device: vkdml.Device,
    kind: Kind,
    growing: dict[str, Callable[[int], Shape]],
    limits: DeviceLimits,
    turn: int,
    plan_of: Callable[[Shape, str, DeviceLimits], Plan] = reduce_plan,
    names: Sequence[str] = tuple(ELEMENTS),
) -> None:
    reached = []
    for number, shape_of in enumerate(growing.values()):
        name = names[(number + turn) % len(names)]
        n = largest(
            lambda n, of=shape_of, name=name: plan_of(of(n), name, limits),
            lambda step: kind_of(step) == kind,
        )
        if n is None:
            continue
        shape = shape_of(n)
        plan = plan_of(shape, name, limits)
        # Of two kernels the first comes to the limit, since scratch memory bounds what the second combines.
        reached.append(max(step.loop_steps for step in plan.steps))
        # Of two values, the last of equals wins: every output's winner lies near the end of its loops.
        flat = np.random.default_rng(n).integers(0, 2, shape.span).astype(ELEMENTS[name])
        found = run_plan(device, plan, {"input": flat.view(np.uint8)})
        x = shape.of(flat)
        rows = np.moveaxis(x, shape.axes, range(-len(shape.axes), 0))
        rows = rows.reshape(*rows.shape[: -len(shape.axes)], -1)
        want = rows.shape[-1] - 1 - rows[..., ::-1].argmax(axis=-1)
        what = f"{shape}, {name}: {reached[-1]} steps"
        np.testing.assert_array_equal(
            found["indices"].view(np.uint64)[: want.size], want.reshape(-1), err_msg=what
        )
        values = found["values"][: want.size * flat.itemsize].view(flat.dtype)
        np.testing.assert_array_equal(values, rows.max(axis=-1).reshape(-1), err_msg=what)
    # Workgroups of 512 invocations, which SwiftShader does not have, divide columns by phases more finely.
    is_coarse = kind[0] == "argreduce_phases" and device.limits.max_workgroup_invocations < 512
    assert max(reached) > AT_THE_LIMIT * (5 / 6 if is_coarse else 1), reached


# ---- slice1 ------------------------------------------------------------------------------------------------

SLICE1_KERNELS = sorted(kernel.name for kernel in kernels.table().values() if "output" in kernel.bindings)


def copies(kernel: Kernel, width: int) -> Iterator[Callable[[int], tuple[Shape, tuple[int, ...]]]]:
    """Growing inputs for a kernel, with the output's strides: side by side, and in runs that lie apart."""
    if kernel.family.name == "slice1_tiles":
        step = kernel.family.axes["row_step"][kernel.variant["row_step"]]
        yield lambda n: (Shape((40, 8 * n), (step, 41 * step)), (8 * n, 1))
        yield lambda n: (
            Shape((n, 3, 50, 50), (7803 * step, 2601 * step, step, 51 * step)),
            (7653, 2551, 51, 1),
        )
        return
    if kernel.family.name == "slice1_blocks":
        # Without boundaries, whose loops would be longer.
        yield lambda n: (Shape((8 * n, 64), (1, 8 * n + 1)), (64, 1))
        yield lambda n: (Shape((n, 5, 3, 67), (1300, 1, 400, 6)), (1005, 201, 67, 1))
        return
    if kernel.family.name == "slice1_words":
        yield lambda n: (Shape((64 * n,), (3,)), (1,))
        yield lambda n: (Shape((n, 5, 3), (60, 11, 1)), (15, 3, 1))
        yield lambda n: (Shape((n, 2, 3, 7), (300, 150, -40, 3)), (42, 21, 7, 1))
        if width < 4:  # parts that are made of the same memory
            yield lambda n: (Shape((2, 3, 64 * n), (192 * n + 1, 1, 3)), (192 * n, 64 * n, 1))
        return
    if kernel.family.name == "slice1_pixels":
        for step in (1, 2):
            yield lambda n, step=step: (Shape((50 * n, 2), (step, 100 * n + 1)), (2, 1))
            yield lambda n, step=step: (Shape((n, 3, 5, 7), (n + 3, n, step, 3 * n * n)), (105, 35, 7, 1))
        return
    if kernel.family.name == "slice1_planes":
        yield lambda n: (Shape((3, 64 * n), (1, 3)), (64 * n, 1))
        yield lambda n: (Shape((n, 3, 5, 700), (3500 * n, 3500, 1, 5)), (10500, 3500, 700, 1))
        yield lambda n: (Shape((2, 2, 64 * n + 1), (1, 3, 7)), (128 * n + 2, 64 * n + 1, 1))
        return
    if kernel.family.name == "slice1_apart":
        yield lambda n: (Shape((64 * n,), (1,)), (3,))
        yield lambda n: (Shape((n, 5), (5, 1)), (7, 1))
        yield lambda n: (Shape((n, 2, 3, 5), (70, 33, -11, 2)), (77, 38, 11, 2))
        return
    if kernel.family.name == "slice1_pixel_tiles":
        yield lambda n: (Shape((16 * n, 70, 3), (3, 48 * n + 1, 1)), (210, 3, 1))
        yield lambda n: (Shape((33, 16 * n, 7), (7, 233, 1)), (112 * n, 7, 1))
        yield lambda n: (Shape((n, 9, 40, 3), (1500, 3, 30, 1)), (1080, 120, 3, 1))
        return
    if kernel.family.name == "slice1_boxes":
        yield lambda n: (Shape((3, 20 * n), (1, 3)), (20 * n, 1))
        yield lambda n: (Shape((8 * n, 5, 7), (1, 16 * n, 40 * n)), (35, 7, 1))
        yield lambda n: (Shape((n, 3, 30), (101, 31, 1)), (90, 30, 1))
        return
    by_elements = kernel.variant.get("whole_vectors") == "elements"
    step = -1 if by_elements else kernel.family.axes["step"][kernel.variant["step"]] or 3
    # Shorter than a vector, or a little longer: most vectors then lie in two stretches.
    inner = 3 if by_elements else 17
    if width == 8 and by_elements:
        inner = 1
    yield lambda n: (Shape((n, inner), (101, step)), (inner, 1))
    yield lambda n: (Shape((n, inner), (101, step)), (inner + 2, 1))
    yield lambda n: (Shape((n, 3, 2, inner), (1300, 400, -199, step)), (6 * inner, 2 * inner, inner, 1))
    outer = (3 * (4 * inner + 1), 4 * inner + 1, 2 * inner, inner, 1)
    yield lambda n: (Shape((n, 3, 2, 2, inner), (1300, 400, -199, 97, step)), outer)
    if inner > 3:
        yield lambda n: (Shape((64 * n,), (step,)), (1,))


def kind_and_width(name: str) -> tuple[str, str]:
    width = str(kernels.table()[name].variant["element_bytes"])
    return name.removesuffix(f"_{width}"), width


@pytest.mark.parametrize(("kind", "elements"), [kind_and_width(name) for name in SLICE1_KERNELS])
def test_slice1_kernels_finish_the_largest_plans_allowed(device, kind, elements):
    name = f"{kind}_{elements}"
    kernel = kernels.table()[name]
    width = kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]]
    slice1 = SMALL["slice1"]
    if kernel.family.name == "slice1_tiles":
        slice1 = replace(slice1, tile_least_bytes=1, narrow_tile_least_bytes=1)
    if kernel.family.name == "slice1_boxes":
        slice1 = replace(slice1, box_bytes=1024, narrow_box_bytes=1024)
    if kernel.family.name == "slice1_words":
        beside = {
            "beside_bytes": 1 << 10,
            "beside_parts_bytes": 1 << 20,
        }
        slice1 = replace(slice1, word_workgroup_size=8, box_near_bytes=1 << 10, box_cache_bytes=0, **beside)
    if kernel.family.name == "slice1_pixels":
        slice1 = replace(slice1, pixel_channels=((width, 2, 8),))
    if kernel.family.name == "slice1_planes":
        slice1 = replace(slice1, plane_pixels=((width, 2, 8),))
    if kernel.family.name == "slice1_apart":
        slice1 = replace(slice1, whole_row_bytes=((width, 1 << 40, 1 << 40),))
    if kernel.family.name == "slice1_pixel_tiles":
        slice1 = replace(slice1, pixel_tile_bytes=2560, box_near_bytes=0, box_cache_bytes=0)
    if kernel.family.name == "slice1_rows":
        slice1 = replace(slice1, row_workgroup_size=8)
    if kernel.family.name == "slice1_blocks":
        slice1 = replace(slice1, block_bytes=32)
    if kernel.variant.get("parted") == "parted" or kernel.family.name == "slice1_blocks":
        slice1 = replace(slice1, boundaries_from_bytes=0)
    limits = limits_for(device, slice1=slice1)
    reached = []
    for copy_of in copies(kernel, width):

        def plan_of(n: int, of=copy_of) -> Plan:
            shape, output_strides = of(n)
            output = Shape(shape.sizes, output_strides)
            layout = canonical_copy(shape.sizes, shape.strides, output_strides, input_base=shape.base)
            return plan_slice1(layout, width, shape.span, limits, output_elements=output.span + 5)

        n = largest(plan_of, lambda step: step.kernel == name)
        if n is None:
            continue
        shape, output_strides = copy_of(n)
        plan = plan_of(n)
        reached.append(max(step.loop_steps for step in plan.steps if step.kernel == name))
        rng = np.random.default_rng(n)
        opaque = f"V{width}"
        flat = rng.integers(0, 256, shape.span * width, np.uint8)
        before = rng.integers(0, 256, plan.bytes_of("output"), np.uint8)
        found = run_plan(device, plan, {"input": flat, "output": before})
        want = before.copy()
        elements = want[: want.size // width * width].view(opaque)
        Shape(shape.sizes, output_strides).of(elements)[...] = shape.of(flat.view(opaque))
        different = np.flatnonzero(found["output"] != want)
        assert not different.size, (
            f"{different.size} of {want.size} bytes are wrong, the first is {different[0]}: "
            f"{shape} to {output_strides}, {plan.steps[0].loop_steps} steps"
        )
    assert max(reached) > AT_THE_LIMIT, reached


# ---- the limit itself --------------------------------------------------------------------------------------


def test_lavapipe_has_the_limit_and_no_other_driver():
    assert loop_steps.most_loop_steps("llvmpipe") == LAVAPIPE_LOOP_STEPS
    assert loop_steps.most_loop_steps("SwiftShader driver") > 1 << 40
    for info in vkdml.devices():
        limited = info.plan_limits.max_loop_steps == LAVAPIPE_LOOP_STEPS
        assert limited == (info.driver_name == "llvmpipe")


def test_a_step_that_the_driver_would_not_finish_is_refused(device):
    limits = limits_for(device)
    step = Step("some_kernel", (), b"", 1, loop_steps=LAVAPIPE_LOOP_STEPS)
    assert checked_step(step, limits) is step
    most = LAVAPIPE_LOOP_STEPS
    with pytest.raises(ValueError, match=rf"{most + 1} loop steps .* after {most}: process it in parts"):
        checked_step(replace(step, loop_steps=LAVAPIPE_LOOP_STEPS + 1), limits)


def test_a_reduction_too_long_for_one_call_is_refused_and_not_left_early(device):
    limits = limits_for(device)
    with pytest.raises(ValueError, match="splits in one call"):
        reduce_plan(Shape((1 << 20, 1 << 20), (0, 1), (1,)), "int8", limits)
    with pytest.raises(ValueError, match="loop steps"):
        plan_slice1(canonical_copy((1 << 20, 64), (0, -1), (64, 1), input_base=63), 1, 64, limits)
