"""The pipelines that compile-amd takes from calls which nothing runs."""

from __future__ import annotations

import planned_pipelines

import vkdml
from vkdml.plan import kernels


def test_calls_that_nothing_runs_have_pipelines_of_both_operators():
    found = {
        pipeline.kernel for pipeline in planned_pipelines.of_drawn_calls(vkdml.default_device(), count=20)
    }
    assert found <= kernels.table().keys()
    assert {kernel.partition("_")[0] for kernel in found} == {"argreduce", "slice1"}
