"""Running a plan on given contents of its buffers, for tests that look into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vkdml
from vkdml.plan.device_classes import DISCRETE, SOFTWARE
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

Bytes = npt.NDArray[np.uint8]
# Those of NVIDIA's cards.
GPU_LIMITS = DeviceLimits(DISCRETE, (1 << 32) - 1, (1 << 31) - 1, 1024, 48 << 10, 32, max_subgroups=32)


def never_plans_batched_kernels(device: vkdml.Device) -> bool:
    """Tell of SwiftShader, whose compiler takes all memory for kernels with several loads in flight."""
    if device.limits.tuning.batched_loads:
        return False
    assert "SwiftShader" in device.name
    return True


def skip_where_no_batched_kernel_is_planned(device: vkdml.Device) -> None:
    """Skip a test of such a kernel alone."""
    if never_plans_batched_kernels(device):
        pytest.skip("SwiftShader never runs this kernel: its compiler would take all memory")


def run_plan(
    device: vkdml.Device,
    plan: Plan,
    contents: Mapping[str, Any],
    downloads: tuple[str, ...] = ("indices", "values", "output"),
) -> dict[str, Bytes]:
    """Run a plan once with given buffer contents and return all of every buffer in ``downloads``.

    Without contents for the workspace, it is made ready as calls do.
    """
    sizes = {role: nbytes for role, nbytes in plan.buffer_bytes if nbytes}
    memories = {
        role: Memory(device, nbytes)
        for role, nbytes in sizes.items()
        if role != "workspace" or role in contents
    }
    for role, content in contents.items():
        memories[role].write(0, np.frombuffer(content, np.uint8))
    regions = {role: (memory.buffer, 0) for role, memory in memories.items()}
    given = regions.pop("workspace", None)
    workspace = given[0] if given else workspace_for(device.executions, plan)
    sequence = device.executions.device.sequence()
    record_steps(sequence, recordable_steps(device.executions, plan), workspace, regions)
    sequence.eval()
    results = {}
    for role in downloads:
        if role in memories:
            results[role] = np.empty(sizes[role], np.uint8)
            memories[role].read(0, results[role])
    return results


def as_of_a_processor(limits: DeviceLimits) -> DeviceLimits:
    """Return limits with the numbers of processors: their own, or lavapipe's on a GPU."""
    return limits if limits.tuning.is_processor else replace(limits, tuning=SOFTWARE)
