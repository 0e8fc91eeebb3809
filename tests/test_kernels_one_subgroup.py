"""Kernels of a software driver whose workgroups are one subgroup: the same results without barriers."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins_combine
from period_layouts import CASES
from period_layouts import plan_case as plan_periods
from reduce_kernels import SMALL, cases, element_bits, plan_case, run_both

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, subgroups_are_threads
from vkdml.plan.plans import DeviceLimits


def one_subgroup_limits(device) -> DeviceLimits:
    """As on lavapipe, whichever driver this is; without subgroups of a required size there are barriers."""
    tuning = replace(device.limits.tuning, **SMALL, is_processor=True, subgroups=0)
    return replace(device.limits, tuning=tuning, subgroups_are_threads=True)


def constants_of(step) -> dict[str, int]:
    return kernels.table()[step.kernel].named(step.constants)


@pytest.mark.parametrize("name", ["uint8", "bfloat16", "float32", "int64"])
def test_rows_and_columns_leave_what_their_twins_do(device, name):
    limits = one_subgroup_limits(device)
    size = limits.subgroup_size
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    seen = set()
    for number, case in enumerate(cases()):
        plan = plan_case(case, name, limits, (number % 2 > 0, number % 3 > 0, number % 5 > 0))
        (step,) = plan.steps
        kernel, constants = kernels.table()[step.kernel], constants_of(step)
        seen.add((kernel.family.name, kernel.variant.get("memory_order"), bool(constants["split"])))
        assert (constants["workgroup"], step.subgroup_size) == (size or SMALL["workgroup_size"], size)
        assert constants["one_subgroup"] == (size > 0)
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})
    families = {("argreduce_rows", ""), ("argreduce_rows", "memory_order"), ("argreduce_columns", None)}
    assert seen >= {(*family, split) for family in families for split in (False, True)}


@pytest.mark.parametrize("name", ["int8", "float16", "int32", "float64"])
def test_periods_leave_what_their_twins_do(device, name):
    limits = one_subgroup_limits(device)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    splits = set()
    for number, case in enumerate(CASES.values()):
        rules = number % 2 > 0, number % 3 > 0, number % 5 > 0
        plan = plan_periods(case, name, limits, rules)
        for step in plan.steps:
            assert constants_of(step)["one_subgroup"] == (limits.subgroup_size > 0)
            assert step.subgroup_size == limits.subgroup_size
        splits.add(plan.counters > 0)
        content = element_bits(rng, name, case[3] + math.prod(case[0]))
        run_both(device, plan, {"input": content}, twins_combine.run)
    assert splits == {False, True}


def test_a_workgroup_is_a_subgroup_where_the_driver_executes_one_in_a_thread(device):
    assert device.limits.subgroups_are_threads == subgroups_are_threads(device.info.driver_name)
    limits = one_subgroup_limits(device)
    for size in (4, 8, 16):
        sized = replace(limits, subgroup_size=size).with_workgroup_size(8)
        # A wider subgroup would not be full.
        assert (sized.workgroup_size, sized.one_subgroup) == (min(size, 8), size if size <= 8 else 0)
    others = (
        replace(limits, subgroup_size=0),
        replace(limits, subgroups_are_threads=False),
        replace(limits, tuning=DISCRETE),
    )
    for other in others:
        assert other.workgroup_size > 8
        assert not other.one_subgroup
