"""Kernels compiled for simple layouts and for all their workgroups: which plans have them; their results."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from planned_reductions import plan_of
from plans import GPU_LIMITS
from reduce_kernels import run_both

import vkdml
from vkdml.plan import kernels
from vkdml.plan.calls import CopyCall, Operand, plan_for
from vkdml.plan.device_classes import TUNING

# Shape, axes, and whether the layout is simple.
CASES = {
    "rows": ((5, 900), (1,), True),
    "all": ((3000,), (0,), True),
    "rows in planes": ((3, 7, 2, 160), (1, 3), False),
    "columns": ((40, 21), (0,), True),
}
ALWAYS = 1 << 40
RESULTS = [(4, False), (8, True)]


def limits_with(limits, *, fixed: bool, workgroups: int = 0):
    """Limits of which all plans are of rows and columns, in several workgroups."""
    tuning, to_bytes = limits.tuning, ALWAYS * fixed
    changed = replace(
        tuning,
        fixed_starts_to_bytes=to_bytes,
        fixed_row_starts_to_bytes=to_bytes,
        target_workgroups=4,
        split_workgroups=4,
        split_bytes=0,
        periods=replace(tuning.periods, from_bytes=ALWAYS, elements_from_bytes=ALWAYS),
        short=replace(tuning.short, from_bytes=ALWAYS),
    )
    return replace(limits, tuning=changed, max_workgroup_count=workgroups or limits.max_workgroup_count)


def constants_of(plan) -> list[dict[str, int]]:
    return [kernels.table()[step.kernel].named(step.constants) for step in plan.steps]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("index_bytes", "with_values"), RESULTS)
@pytest.mark.parametrize(("is_fixed", "workgroups"), [(True, 0), (True, 1), (False, 0)])
def test_kernels_write_what_their_twin_writes(case, index_bytes, with_values, is_fixed, workgroups):
    device = vkdml.default_device()
    shape, axes, is_simple = CASES[case]
    limits = limits_with(device.limits, fixed=is_fixed, workgroups=workgroups)
    plan = plan_of(shape, axes, limits, index_bytes, with_values, "int32")
    (step,), (constants,) = plan.steps, constants_of(plan)
    family = kernels.table()[step.kernel].family.name
    assert family == ("argreduce_columns" if case == "columns" else "argreduce_rows")
    unlimited = plan_of(
        shape, axes, limits_with(device.limits, fixed=True), index_bytes, with_values, "int32"
    )
    assert constants["in_rounds"] == (not is_fixed or step.workgroups < unlimited.steps[0].workgroups)
    if family == "argreduce_rows":
        assert constants["simple_layout"] == (is_fixed and is_simple)
    elements = np.random.default_rng(3).integers(-9, 9, math.prod(shape), np.int32)
    run_both(device, plan, {"input": elements.view(np.uint8)})


def rows_of(kib: int) -> dict[str, int]:
    plan = plan_of((kib, 256), (1,), GPU_LIMITS, 4, False, "float32")
    assert plan.steps[0].kernel.startswith("argreduce_rows")
    return constants_of(plan)[0]


def test_kernels_for_large_inputs_and_those_of_processors_are_compiled_for_any():
    small, large = rows_of(64 << 10), rows_of((64 << 10) + 1)
    assert (small["in_rounds"], small["simple_layout"]) == (0, 1)
    assert (large["in_rounds"], large["simple_layout"]) == (1, 0)
    software = TUNING["software"]
    assert (software.fixed_starts_to_bytes, software.fixed_row_starts_to_bytes) == (0, 0)


def test_unaligned_rows_in_loops_are_compiled_for_any_layout():
    plan = plan_of((3000, 2999), (1,), GPU_LIMITS, 4, False, "float32")
    (constants,) = constants_of(plan)
    assert (constants["aligned"], constants["kept_vectors"], constants["split"]) == (0, 0, 0)
    assert (constants["in_rounds"], constants["simple_layout"]) == (0, 0)


@pytest.mark.parametrize(
    ("most", "size", "in_rounds"), [(1 << 31, 2048, 0), (100, 2048, 1), (1 << 31, 4096, 1)]
)
def test_tiles_of_small_copies_start_at_once_if_the_device_allows_so_many(most, size, in_rounds):
    call = CopyCall(Operand((size, size), (1, size), 0, size * size), Operand.compact((size, size)), 4)
    plan = plan_for(call, replace(GPU_LIMITS, max_workgroup_count=most))
    assert plan.steps[0].kernel.startswith("slice1_tiles")
    assert [constants["in_rounds"] for constants in constants_of(plan)] == [in_rounds]
