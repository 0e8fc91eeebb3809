"""Recording the dispatches of a plan, and the workspace that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.plans import Plan

if TYPE_CHECKING:
    from vkdml.runtime.execution_cache import ExecutionCache

Buffer = _native.Buffer
"""A piece of a device's memory."""
NativeSequence = _native.Sequence
"""What the device runs: operations recorded once and evaluated any number of times."""
Region = tuple[Buffer, int]
"""A buffer, and the byte in it from which on a kernel sees it."""


MOST_WATCHED_BYTES = 256
"""The largest result that is watched. Of larger ones, the device tells sooner that it is done."""

_Bound = TypeVar("_Bound")


@dataclass(frozen=True)
class RecordableStep:
    """A step with its pipeline, and the roles of the buffers that it takes, in order."""

    kernel: _native.Kernel
    roles: tuple[str, ...]
    push: bytes
    workgroups: int


def recordable_steps(cache: ExecutionCache, plan: Plan) -> tuple[RecordableStep, ...]:
    """Build what is missing of the pipelines of a plan."""
    return tuple(
        RecordableStep(
            cache.pipelines.of(step),
            kernels.table()[step.kernel].bindings,
            b"" if step.fixed_parameters else step.push,
            step.workgroups,
        )
        for step in plan.steps
    )


def record_steps(
    sequence: NativeSequence,
    steps: tuple[RecordableStep, ...],
    workspace: Buffer | None,
    regions: Mapping[str, Region],
) -> None:
    """Record a plan's steps on these buffers; the last of them must be one that the steps write."""
    given = dict(regions)
    if workspace is not None:
        given["workspace"] = (workspace, 0)
    spare = spare_binding(regions)
    for step in steps:
        bound = [given.get(role, spare) for role in step.roles]
        sequence.dispatch(
            step.kernel,
            [buffer for buffer, _ in bound],
            step.push,
            (step.workgroups, 1, 1),
            [offset for _, offset in bound],
            [role == "input" or role not in given for role in step.roles],
        )


def spare_binding(written_last: Mapping[str, _Bound]) -> _Bound:
    """Return what a binding gets that a step's constants leave unused, since it still needs some buffer.

    It is one that the steps write anyway: the shader might write it, and others may read the input at the
    same time.
    """
    *_, spare = written_last.values()
    return spare


def watched_words(plan: Plan) -> int:
    """Return the words of a plan's result if the host may take it as soon as all of them are written; else 0.

    That are few indices without values: kernels write each of them once, after all that they read for it.
    """
    roles = {role for role, nbytes in plan.buffer_bytes if nbytes}
    nbytes = plan.bytes_of("indices")
    return nbytes // 4 if roles <= {"input", "indices", "workspace"} and nbytes <= MOST_WATCHED_BYTES else 0


def workspace_for(cache: ExecutionCache, plan: Plan) -> Buffer | None:
    """Return a workspace of the plan's own, made ready, or None if it needs none."""
    nbytes = plan.bytes_of("workspace")
    if not nbytes:
        return None
    workspace = cache.buffer(nbytes)
    content = np.array((*plan.layout, *(0,) * plan.counters), np.uint32).view(np.uint8)
    if content.size:  # what no run changes
        visible = workspace if cache.unified_memory else cache.buffer(content.size, visible=True)
        visible.view()[: content.size] = content
        if visible is not workspace:
            upload = cache.device.sequence()
            upload.copy(visible, workspace, content.size)
            upload.eval()
    return workspace
