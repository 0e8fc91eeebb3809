"""Operations as a sequence records them: dispatches or one copy, and the memory that they use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import ref

from vkdml.errors import DeviceError
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import (
    Buffer,
    NativeSequence,
    RecordableStep,
    record_steps,
    workspace_for,
)


@dataclass(frozen=True)
class Place:
    """A byte in memory that an operation uses: in an array's memory, held weakly, or in a staging buffer."""

    role: str
    memory: ref[Memory] | None
    staging: Buffer | None
    offset: int

    @property
    def is_gone(self) -> bool:
        """Whether the array's memory was freed."""
        return self.memory is not None and self.memory() is None

    def region(self) -> tuple[Buffer, int] | None:
        """Return the buffer and the byte in it; None if the array's memory was freed."""
        if self.staging is not None:
            return self.staging, self.offset
        memory = None if self.memory is None else self.memory()
        return None if memory is None else (memory.buffer, self.offset)


@dataclass(frozen=True)
class RecordedOperation:
    """An operator, an upload or a download: dispatches, or else one copy of bytes."""

    label: str
    places: tuple[Place, ...]
    """Of a copy: the source, then the target."""
    shared: Plan | None = None
    """The plan, while its steps have pipelines that other plans use too and may get their own."""
    steps: tuple[RecordableStep, ...] = ()
    workspace: Buffer | None = None
    copied_bytes: int = 0

    @property
    def native_operations(self) -> int:
        return len(self.steps) or 1

    def with_fixed_pipelines(self, executions: ExecutionCache) -> RecordedOperation:
        """Return the operation with pipelines of its own if they are built; else have them built."""
        steps = self.shared and executions.fixed_pipelines.ask_for(executions, self.shared)
        return replace(self, steps=steps, shared=None) if steps else self

    def record(self, sequence: NativeSequence, number: int) -> None:
        """Record the operation, which is number `number` of its sequence, in a native sequence.

        Raises:
            DeviceError: an array that it uses was freed.
        """
        regions = {}
        for place in self.places:
            region = place.region()
            if region is None:
                raise self._freed(number, place)
            regions[place.role] = region
        if self.steps:
            record_steps(sequence, self.steps, self.workspace, regions)
        else:
            (source, source_offset), (target, target_offset) = regions.values()
            sequence.copy(source, target, self.copied_bytes, source_offset, target_offset)

    def require_arrays(self, number: int) -> None:
        """Raise DeviceError if an array that the operation uses was freed; wait for others that share one."""
        for place in self.places:
            memory = None if place.memory is None else place.memory()
            if memory is not None:
                if memory.is_cuda:
                    memory.wait_for_others()
            elif place.is_gone:
                raise self._freed(number, place)

    def _freed(self, number: int, place: Place) -> DeviceError:
        return DeviceError(
            f"the {place.role} array of operation {number} ({self.label}) was freed: a sequence keeps no "
            "reference to the arrays that it uses; accepted: keep them until the last evaluation, or clear() "
            "the sequence and record it again with other arrays"
        )


def recorded_dispatches(
    device: Device, label: str, plan: Plan, places: tuple[Place, ...]
) -> RecordedOperation:
    """Return the dispatches of a plan with a workspace of their own.

    Raises:
        MemoryError: no memory for the workspace.
    """
    executions = device.executions
    shared = plan if executions.fixed_pipelines.runs_before(plan, executions.tuning) else None
    try:
        steps, workspace = executions.insist(
            lambda: (executions.steps(plan), workspace_for(executions, plan))
        )
    except MemoryError as error:
        raise executions.explained(error, plan) from None
    return RecordedOperation(label, places, shared, steps, workspace)
