"""How the columns that periods left are divided among invocations, and what any division must keep to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import twins_combine
from hypothesis import given
from hypothesis import strategies as st
from plans import GPU_LIMITS
from reduce_kernels import element_bits, run_both

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, SOFTWARE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.combining import CombineDivision, combine_division


def division(outputs: int, candidates: int, limits: DeviceLimits = GPU_LIMITS) -> CombineDivision:
    layout = canonical_reduce((2, outputs), (outputs, 1), (0,), (1, 1), take_last=False)
    return combine_division(layout, candidates, 2, limits)


@pytest.mark.parametrize(
    ("outputs", "candidates", "workgroup", "lanes", "splits"),
    [
        # Of up to 25 divisions that were timed on an H200, the fastest or one within 3% of it.
        (8, 528, 256, 256, 1),
        (2, 1584, 512, 512, 1),
        (64, 3960, 512, 512, 1),
        (513, 1288, 256, 128, 1),
        (1280, 576, 256, 64, 1),
        (10622, 72, 256, 8, 1),
        (53928, 8, 256, 1, 1),
        (1, 195072, 256, 256, 191),
        (7, 9152, 256, 256, 9),
    ],
)
def test_what_was_fastest_is_chosen(outputs, candidates, workgroup, lanes, splits):
    found = division(outputs, candidates)
    assert (found.workgroup_size, found.lanes, found.splits) == (workgroup, lanes, splits)


@given(
    st.integers(1, 1 << 20),
    st.integers(1, 1 << 18),
    st.sampled_from([128, 256, 512, 1024]),
    st.sampled_from([DISCRETE, SOFTWARE]),
)
def test_each_candidate_is_combined_once_within_the_limits(outputs, candidates, invocations, tuning):
    found = division(
        outputs, candidates, replace(GPU_LIMITS, tuning=tuning, max_workgroup_invocations=invocations)
    )
    assert found.workgroup_size <= invocations
    assert found.workgroup_size % found.lanes == 0
    assert found.blocks * (found.workgroup_size // found.lanes) >= outputs
    assert (found.splits - 1) * found.candidates_per_split < candidates
    assert found.splits * found.candidates_per_split >= candidates


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 18))
def test_invocations_of_a_gpu_are_not_more_than_run_at_the_same_time(outputs, candidates):
    found = division(outputs, candidates)
    if found.lanes > 1:
        assert (
            outputs * found.lanes * found.splits
            <= GPU_LIMITS.tuning.split_workgroups * GPU_LIMITS.workgroup_size
        )


@pytest.mark.parametrize("name", ["uint8", "float32", "int64"])
@pytest.mark.parametrize("take_last", [False, True])
def test_wide_workgroups_combine_what_their_twin_combines(device, name, take_last):
    tuning = replace(
        DISCRETE,
        workgroup_size=64,
        positions_per_split=1,
        periods=replace(
            DISCRETE.periods, from_bytes=0, elements_from_bytes=0, narrow_from_bytes=0, wide_from_bytes=0
        ),
        joined_from_bytes=1 << 40,
        joined_dims_from_bytes=1 << 40,
    )
    limits = replace(device.limits, tuning=tuning)
    shape = (20_000, 3)
    layout = canonical_reduce(shape, row_major_strides(shape), (0,), (3, 1), take_last=take_last)
    order = Order(name, take_last=take_last)
    plan = plan_argreduce(layout, order, 60_000, limits, index_bytes=4, with_values=True)
    _, second = plan.steps
    constants = kernels.table()[second.kernel].named(second.constants)
    assert (constants["workgroup"], constants["split"]) == (128, 0)
    rng = np.random.default_rng(len(name))
    run_both(device, plan, {"input": element_bits(rng, name, 60_000)}, twins_combine.run)
