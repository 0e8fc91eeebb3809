"""Flags compiled into the kernels of reductions: which plans have them, and what such kernels write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import twins
import twins_combine
import twins_short_rows
from planned_reductions import plan_of
from plans import GPU_LIMITS, run_beside_twins

import vkdml
from vkdml.plan import kernels
from vkdml.plan.device_classes import TUNING, tuning_for

# Shape, axes and family; the layout of the one with many dimensions does not fit the push constants.
CASES = {
    "rows": ((5, 900), (1,), "argreduce_rows"),
    "columns": ((40, 21), (0,), "argreduce_columns"),
    "far apart": ((7, 3, 5, 3, 2, 5, 3), (0, 2, 4, 6), "argreduce_columns"),
    "short rows": ((300, 5), (1,), "argreduce_short"),
    "blocks": ((4000, 3), (0,), "argreduce_periods"),
}
TWINS = {**twins.TWINS, **twins_combine.TWINS, **twins_short_rows.TWINS}
RESULTS = [(4, False), (8, True), (4, True), (8, False)]


def plan_case(case: str, limits, index_bytes: int, with_values: bool, name: str):
    shape, axes, _ = CASES[case]
    return plan_of(shape, axes, limits, index_bytes, with_values, name)


def limits_with(limits, from_bytes: int):
    short = replace(limits.tuning.short, from_bytes=0)
    periods = replace(limits.tuning.periods, from_bytes=0, elements_from_bytes=0)
    changed = replace(
        limits.tuning,
        fixed_flags_from_bytes=from_bytes,
        fixed_vector_flags_from_bytes=from_bytes,
        periods=periods,
        short=short,
    )
    return replace(limits, tuning=changed)


def flags_of(step) -> tuple[int, dict[str, int]]:
    """The constant, and the flags in the push constants."""
    kernel = kernels.table()[step.kernel]
    pushed = kernel.family.unpack(step.push)
    (flags,) = (field.flags for field in kernel.family.push_fields if field.type == "flags")
    return kernel.named(step.constants)["fixed_flags"], {flag: pushed[flag] for flag in flags}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("index_bytes", "with_values"), RESULTS)
def test_kernels_with_fixed_flags_write_what_their_twin_writes(case, index_bytes, with_values):
    device = vkdml.default_device()
    name = "int16" if with_values else "int32"
    plan = plan_case(case, limits_with(device.limits, 0), index_bytes, with_values, name)
    assert kernels.table()[plan.steps[0].kernel].family.name == CASES[case][2]
    for step in plan.steps:
        fixed, flags = flags_of(step)
        family = kernels.table()[step.kernel].family
        if family.name == "argreduce_periods":  # it writes no results
            flags |= {"wide_indices": 0, "with_values": 0}
        assert fixed == family.fixed_flags(**flags)
    # The flags in the push constants are not asked.
    cleared = replace(plan, steps=tuple(replace(s, push=b"\0" * 4 + s.push[4:]) for s in plan.steps))
    with_flags = dict(zip(cleared.steps, plan.steps, strict=True))

    def run_twin(step, buffers) -> None:
        TWINS[kernels.table()[step.kernel].family.name](with_flags[step], buffers)

    content = np.random.default_rng(5).integers(0, 256, plan.bytes_of("input"), np.uint8)
    run_beside_twins(device, cleared, {"input": content}, run_twin)


@pytest.mark.parametrize("case", CASES)
def test_without_fixed_flags_all_calls_of_one_kind_share_a_kernel(case):
    limits = limits_with(vkdml.default_device().limits, 1 << 40)
    plans = [plan_case(case, limits, *results, "int32") for results in RESULTS]
    assert len({(step.kernel, step.constants) for plan in plans for step in plan.steps}) == len(
        plans[0].steps
    )
    assert {flags_of(step)[0] for plan in plans for step in plan.steps} == {0}


def test_only_processors_have_them_in_all_kernels_and_only_for_inputs_that_pay_for_a_pipeline():
    assert tuning_for("software").fixed_flags_from_bytes == 64 * 1024
    others = [TUNING["discrete"], TUNING["integrated"]]
    assert min(tuning.fixed_flags_from_bytes for tuning in others) > 1 << 40


# Shape, axes, and whether the kernel writes vectors of results.
VECTOR_CASES = {
    "columns": ((40, 1 << 18), (0,), True),
    "columns of one vector": ((1 << 17, 40), (0,), False),
    "split columns": ((1 << 14, 1 << 9), (0,), False),
    "short rows": ((1 << 21, 5), (1,), True),
    "rows": ((1 << 12, 1 << 11), (1,), False),
    "too few bytes": ((40, 1 << 12), (0,), False),
}


@pytest.mark.parametrize("case", VECTOR_CASES)
def test_gpus_have_them_in_kernels_that_write_vectors(case):
    shape, axes, are_fixed = VECTOR_CASES[case]
    plan = plan_of(shape, axes, GPU_LIMITS, 4, False, "float32")
    assert [flags_of(step)[0] != 0 for step in plan.steps] == [are_fixed] * len(plan.steps)
