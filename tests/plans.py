"""Running a plan on given contents of its buffers, for tests that look into them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import thinned

import vkdml
from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, SOFTWARE, TUNING, tuning_for
from vkdml.plan.plans import DeviceLimits, Plan, Step
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

Bytes = npt.NDArray[np.uint8]
# Those of NVIDIA's cards.
GPU_LIMITS = DeviceLimits(DISCRETE, (1 << 32) - 1, (1 << 31) - 1, 1024, 48 << 10, 32, max_subgroups=32)
# Those of a device of every class, and the lowest: plans for them are made on any machine.
LIMITS = {
    "swiftshader": DeviceLimits(tuning_for("software", "SwiftShader driver"), 1 << 30, 65535, 256),
    "lavapipe": DeviceLimits(
        TUNING["software"],
        1 << 27,
        65535,
        1024,
        32 << 10,
        8,
        max_loop_steps=65535,
        subgroups_are_threads=True,
    ),
    "h200": DeviceLimits(TUNING["discrete"], (1 << 32) - 1, (1 << 31) - 1, 1024, 48 << 10, 32),
    "least": DeviceLimits(TUNING["integrated"], 1 << 27, 65535, 128, 16 << 10),
}


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


# Of `ShortTuning`: kernels compiled for any number of positions.
NONE_FIXED = {"most_fixed_positions": 0, "narrow_most_fixed_positions": 0}


def as_of_a_processor(limits: DeviceLimits) -> DeviceLimits:
    """Return limits with the numbers of processors: their own, or lavapipe's on a GPU."""
    return limits if limits.tuning.is_processor else replace(limits, tuning=SOFTWARE)


_built: dict[str, set[tuple[Any, ...]]] = {}


def may_build(plan: Plan) -> bool:
    """Tell whether the running test may build the plan's pipelines, which it has from then on."""
    test = os.environ["PYTEST_CURRENT_TEST"]
    wanted = _built.get(test, set()) | {(step.kernel, step.constants) for step in plan.steps}
    if max(Counter(kernel for kernel, _ in wanted).values()) > thinned.pipelines_of_a_kernel():
        return False
    _built.clear()  # of the tests before
    _built[test] = wanted
    return True


def by_family(
    twins: Mapping[str, Callable[[Step, dict[str, Bytes]], None]],
) -> Callable[[Step, dict[str, Bytes]], None]:
    """What changes buffers as a step's kernel does, by the twin of its family."""

    def run(step: Step, buffers: dict[str, Bytes]) -> None:
        twins[kernels.table()[step.kernel].family.name](step, buffers)

    return run


def run_beside_twins(
    device: vkdml.Device,
    plan: Plan,
    contents: Mapping[str, Bytes],
    run_twin: Callable[[Step, dict[str, Bytes]], None],
) -> dict[str, Bytes]:
    """Run a plan on the device and by the twins of its kernels; all bytes of all buffers must agree.

    What ``contents`` does not fill is 0xA5 at first, the plan's layout and counters aside.

    Returns:
        The buffers afterwards.
    """
    start = {role: np.full(nbytes, 0xA5, np.uint8) for role, nbytes in plan.buffer_bytes if nbytes}
    for role, content in contents.items():
        start[role][: content.size] = content
    if plan.layout or plan.counters:
        first_words = np.array((*plan.layout, *(0,) * plan.counters), np.uint32)
        start["workspace"][: first_words.nbytes] = first_words.view(np.uint8)
    got = run_plan(device, plan, start, tuple(start))
    expected = {role: data.copy() for role, data in start.items()}
    for step in plan.steps:
        run_twin(step, expected)
    for role in start:
        np.testing.assert_array_equal(got[role], expected[role], err_msg=f"{role} of {plan.steps}")
    return got
