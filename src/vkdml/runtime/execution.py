"""Running plans: buffers and a recorded sequence for each plan, kept for the next call with the same plan."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.plans import PUSH_BYTES, Plan, Step
from vkdml.plan.tuning import Tuning

Bytes = npt.NDArray[np.uint8]
_Made = TypeVar("_Made")

IDLE_SEQUENCES = 16
# Plans with greater workspaces are made ready anew at each call, which takes long anyway.
KEPT_WORKSPACE_BYTES = 1 << 20


class Execution:
    """A plan made ready on a device: its buffers, and a sequence that uploads, computes and downloads.

    One thread at a time. ``views`` maps each buffer's role to its bytes as the host sees them: write those
    in ``uploads`` before :meth:`run`, read the outputs after it.
    """

    def __init__(
        self,
        cache: ExecutionCache,
        plan: Plan,
        uploads: tuple[str, ...] = ("input",),
        downloads: tuple[str, ...] = ("indices", "values", "output"),
        timestamps: bool = False,
        bound: Mapping[str, _native.Buffer] | None = None,
        repeats: int = 1,
    ) -> None:
        """Record the plan.

        Args:
            cache: of the device.
            plan: to record.
            uploads: roles that the host writes before each run.
            downloads: roles that the host reads after each run.
            timestamps: measure each operation.
            bound: buffers that lie on the device already, by role; they are neither uploaded nor downloaded.
            repeats: how often each run does the plan's steps; for measuring.
        """
        device = cache.device
        bound = bound or {}
        unified = cache.unified_memory
        host, local = _native.MemoryKind.host, _native.MemoryKind.device
        sizes = {role: nbytes for role, nbytes in plan.buffer_bytes if nbytes and role not in bound}
        self.nbytes = sum(sizes.values()) * (1 if unified else 2)
        # Roles whose buffers the host and the kernels share, so that nothing is copied.
        shared = set(sizes) if unified else self._read_over_the_bus(plan, cache.tuning)
        buffers = {
            role: device.buffer(nbytes, host if role in shared else local) for role, nbytes in sizes.items()
        }
        uploads = tuple(role for role in uploads if role in sizes)
        downloads = tuple(role for role in downloads if role in sizes)
        visible = {
            role: buffers[role] if role in shared else device.buffer(sizes[role], host)
            for role in sizes
            if unified or role in (*uploads, *downloads)
        }
        self.views: dict[str, Bytes] = {role: buffer.view() for role, buffer in visible.items()}
        copied_in = [role for role in uploads if role not in shared]
        copied_out = [role for role in downloads if role not in shared]
        operations = len(plan.steps) * repeats + len(copied_in) + len(copied_out)
        self._sequence = device.sequence(operations if timestamps else 0)
        self._spin_us = cache.tuning.spin_microseconds
        if "workspace" in buffers:
            prepare_workspace(cache, plan, buffers["workspace"])

        self.labels: list[str] = []
        for role in copied_in:
            self._sequence.copy(visible[role], buffers[role], sizes[role])
            self.labels.append(f"upload {role}")
        buffers |= bound
        steps = recordable_steps(cache, plan)
        regions = {role: (buffer, 0) for role, buffer in buffers.items()}
        for _ in range(repeats):
            record_steps(self._sequence, steps, None, regions)
            self.labels += [step.kernel for step in plan.steps]
        for role in copied_out:
            self._sequence.copy(buffers[role], visible[role], sizes[role])
            self.labels.append(f"download {role}")

    @staticmethod
    def _read_over_the_bus(plan: Plan, tuning: Tuning) -> set[str]:
        """Of small plans what is read or written once, where a copy would take longer than the way there."""
        roles: set[str] = {"input", "indices"} & dict(plan.buffer_bytes).keys()
        return roles if sum(map(plan.bytes_of, roles)) <= tuning.shared_bytes else set()

    def run(self) -> None:
        """Evaluate once and wait. Raises what the device raises; the execution must then be dropped."""
        self._sequence.eval(None, self._spin_us)

    def submit(self) -> None:
        """Start an evaluation; raises as :meth:`run`. :meth:`wait` before touching ``views``."""
        self._sequence.submit()

    def wait(self) -> None:
        """Wait for what :meth:`submit` started; raises as :meth:`run`."""
        self._sequence.wait(None, self._spin_us)

    def timings(self) -> list[tuple[str, float]]:
        """Return (operation, nanoseconds) for each operation of the last run, if made with timestamps."""
        return list(zip(self.labels, self._sequence.timings(), strict=False))


Region = tuple[_native.Buffer, int]
"""A buffer, and the byte in it from which on a kernel sees it."""


class Rebindable:
    """A plan made ready for buffers that lie on the device already, others at each run.

    It keeps a workspace, a recorded sequence and nothing else: recorded buffers are not kept alive, and the
    same ones again are not recorded again. One thread at a time.
    """

    def __init__(self, cache: ExecutionCache, plan: Plan) -> None:
        self.plan = plan
        self.nbytes = plan.bytes_of("workspace")
        self._workspace = workspace_for(cache, plan)
        self._steps = recordable_steps(cache, plan)
        self._sequence = cache.device.sequence(0, False)
        self._spin_us = cache.tuning.spin_microseconds
        self._recorded: tuple[tuple[str, int, int], ...] = ()

    def run(self, regions: Mapping[str, Region]) -> None:
        """Evaluate on these buffers and wait. Raises what the device raises; drop it then."""
        self._sequence.eval(None, self._spin_us, self._recorded_for(regions))

    def submit(self, regions: Mapping[str, Region]) -> None:
        """Start an evaluation on these buffers; :meth:`wait` for it."""
        self._sequence.submit(self._recorded_for(regions))

    def _recorded_for(self, regions: Mapping[str, Region]) -> list[_native.Buffer]:
        """Record unless that is done; return the buffers that must last until the evaluation ends."""
        wanted = tuple([(role, buffer.id, offset) for role, (buffer, offset) in regions.items()])
        if wanted != self._recorded:
            self._recorded = ()
            self._sequence.clear()
            record_steps(self._sequence, self._steps, self._workspace, regions)
            self._recorded = wanted
        held = [buffer for buffer, _ in regions.values()]
        if self._workspace is not None:
            held.append(self._workspace)
        return held

    def wait(self) -> None:
        """Wait for what :meth:`submit` started."""
        self._sequence.wait(None, self._spin_us)


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
        RecordableStep(cache.kernel(step), kernels.table()[step.kernel].bindings, step.push, step.workgroups)
        for step in plan.steps
    )


def workspace_for(cache: ExecutionCache, plan: Plan) -> _native.Buffer | None:
    """Return a workspace of the plan's own, made ready, or None if it needs none."""
    nbytes = plan.bytes_of("workspace")
    if not nbytes:
        return None
    kind = _native.MemoryKind.host if cache.unified_memory else _native.MemoryKind.device
    workspace = cache.device.buffer(nbytes, kind)
    prepare_workspace(cache, plan, workspace)
    return workspace


def record_steps(
    sequence: _native.Sequence,
    steps: tuple[RecordableStep, ...],
    workspace: _native.Buffer | None,
    regions: Mapping[str, Region],
) -> None:
    """Record a plan's steps on these buffers."""
    given = dict(regions)
    if workspace is not None:
        given["workspace"] = (workspace, 0)
    # A binding that the step's constants leave unused still needs some buffer: one that the step writes
    # anyway, since the shader might write it, and others may read the input at the same time.
    *_, spare = regions.values()
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


def prepare_workspace(cache: ExecutionCache, plan: Plan, workspace: _native.Buffer) -> None:
    """Write what no run changes."""
    content = np.array((*plan.layout, *(0,) * plan.counters), np.uint32).view(np.uint8)
    if not content.size:
        return
    unified = cache.unified_memory
    visible = workspace if unified else cache.device.buffer(content.size, _native.MemoryKind.host)
    visible.view()[: content.size] = content
    if not unified:
        upload = cache.device.sequence()
        upload.copy(visible, workspace, content.size)
        upload.eval()


class ExecutionCache:
    """The kernels of a device, and the executions that wait for another call. Thread-safe."""

    def __init__(self, device: _native.Device, unified_memory: bool, tuning: Tuning) -> None:
        self.device = device
        self.unified_memory = unified_memory
        self.tuning = tuning
        # The benchmark puts one with timestamps here for as long as it times calls.
        self.make_execution: Callable[[ExecutionCache, Plan], Execution] = Execution
        self._lock = threading.Lock()
        self._kernels: dict[tuple[str, tuple[int, ...], int], _native.Kernel] = {}
        self._idle: OrderedDict[Plan, list[Execution]] = OrderedDict()
        self._idle_bytes = 0
        self._idle_count = 0
        self._idle_rebindables: OrderedDict[Plan, list[Rebindable]] = OrderedDict()
        self._idle_rebindable_count = 0
        self._idle_sequences: list[_native.Sequence] = []

    def kernel(self, step: Step) -> _native.Kernel:
        """Return the pipeline of a step; pipelines are built once and kept."""
        key = (step.kernel, step.constants, step.subgroup_size)
        kernel = self._kernels.get(key)
        if kernel is None:
            bindings = len(kernels.table()[step.kernel].bindings)
            kernel = self.device.kernel(
                kernels.spirv(step.kernel), bindings, PUSH_BYTES, list(step.constants), step.subgroup_size
            )
            # Two threads may have built it: one of the two stays.
            kernel = self._kernels.setdefault(key, kernel)
        return kernel

    def take(self, plan: Plan) -> Execution:
        """Lend an execution of the plan that nobody else uses: :meth:`give_back`, or drop it if it failed."""
        with self._lock:
            if self._idle.get(plan):
                return self._remove_idle(plan)
        try:
            return self.insist(lambda: self.make_execution(self, plan))
        except MemoryError as error:
            raise self.explained(error, plan) from None

    def take_rebindable(self, plan: Plan) -> Rebindable:
        """Lend a plan made ready for buffers on the device: :meth:`give_back_rebindable`, or drop it."""
        with self._lock:
            if self._idle_rebindables.get(plan):
                return self._remove_idle_rebindable(plan)
        try:
            return self.insist(lambda: Rebindable(self, plan))
        except MemoryError as error:
            raise self.explained(error, plan) from None

    def run(self, plan: Plan, regions: Mapping[str, Region]) -> None:
        """Run a plan on buffers that lie on the device, and wait."""
        rebindable = self.take_rebindable(plan)
        try:
            rebindable.run(regions)
        except MemoryError as error:
            raise self.explained(error, plan) from None
        self.give_back_rebindable(rebindable)

    def give_back_rebindable(self, rebindable: Rebindable) -> None:
        """Keep it for the next call with its plan, least recently used plan first out."""
        if rebindable.nbytes > KEPT_WORKSPACE_BYTES:
            return
        dropped = []
        with self._lock:
            self._idle_rebindables.setdefault(rebindable.plan, []).append(rebindable)
            self._idle_rebindables.move_to_end(rebindable.plan)
            self._idle_rebindable_count += 1
            while self._idle_rebindables and self._idle_rebindable_count > self.tuning.execution_cache_count:
                oldest = next(iter(self._idle_rebindables))
                if self._idle_rebindables[oldest]:
                    dropped.append(self._remove_idle_rebindable(oldest))
                else:
                    del self._idle_rebindables[oldest]
            if not self._idle_rebindables:
                self._idle_rebindable_count = 0

    def _remove_idle_rebindable(self, plan: Plan) -> Rebindable:
        """Take out one that is there. The caller holds the lock."""
        idle = self._idle_rebindables[plan]
        rebindable = idle.pop()
        self._idle_rebindable_count -= 1
        if not idle:
            del self._idle_rebindables[plan]
        return rebindable

    def take_sequence(self) -> _native.Sequence:
        """Lend a sequence that holds its buffers only while it runs; :meth:`give_back_sequence`."""
        with self._lock:
            if self._idle_sequences:
                return self._idle_sequences.pop()
        return self.device.sequence(0, False)

    def give_back_sequence(self, sequence: _native.Sequence) -> None:
        """Keep a sequence that is not running for another caller, who clears it."""
        with self._lock:
            if len(self._idle_sequences) < IDLE_SEQUENCES:
                self._idle_sequences.append(sequence)

    def buffer(self, nbytes: int, kind: _native.MemoryKind) -> _native.Buffer:
        """Return memory; what waits for another call is given up for it."""
        return self.insist(lambda: self.device.buffer(nbytes, kind))

    def insist(self, make: Callable[[], _Made]) -> _Made:
        """Make something that needs memory; what waits for another call must never be why it fails."""
        try:
            return make()
        except MemoryError:
            if not self.clear():
                raise
        return make()

    def explained(self, error: MemoryError, plan: Plan) -> MemoryError:
        """Return the error with what the plan needs and what there is."""
        memory = self.device.memory()
        needed = sum(nbytes for _, nbytes in plan.buffer_bytes)
        return MemoryError(
            f"{error}; this call needs buffers of {needed} bytes, vkdml "
            f"holds {memory['used']} bytes of this device and {memory['pooled']} more for reuse"
        )

    def _remove_idle(self, plan: Plan) -> Execution:
        """Take out one that is there, and the books with it. The caller holds the lock.

        Ctrl-C may come between any two lines, here as in :meth:`give_back`: then an empty list is left, and
        the books are wrong by one execution until there is none.
        """
        idle = self._idle[plan]
        execution = idle.pop()
        self._idle_count -= 1
        self._idle_bytes -= execution.nbytes
        if not idle:
            del self._idle[plan]
        return execution

    def give_back(self, plan: Plan, execution: Execution) -> None:
        """Keep an execution for the next call, within the tuning's limits, least recently used first out."""
        if execution.nbytes > self.tuning.cached_execution_bytes:
            return
        dropped = []
        with self._lock:
            self._idle.setdefault(plan, []).append(execution)
            self._idle.move_to_end(plan)
            self._idle_bytes += execution.nbytes
            self._idle_count += 1
            while self._idle and (
                self._idle_bytes > self.tuning.execution_cache_bytes
                or self._idle_count > self.tuning.execution_cache_count
            ):
                oldest = next(iter(self._idle))
                if self._idle[oldest]:
                    dropped.append(self._remove_idle(oldest))
                else:
                    del self._idle[oldest]
            if not self._idle:
                self._idle_bytes = self._idle_count = 0

    def clear(self) -> bool:
        """Drop all that waits for another call; False when there was nothing."""
        with self._lock:
            dropped = (self._idle, self._idle_rebindables, self._idle_sequences)
            self._idle, self._idle_rebindables, self._idle_sequences = OrderedDict(), OrderedDict(), []
            self._idle_bytes = self._idle_count = self._idle_rebindable_count = 0
        return any(dropped)


def run_plan(
    cache: ExecutionCache,
    plan: Plan,
    contents: Mapping[str, Any],
    downloads: tuple[str, ...] = ("indices", "values", "output"),
) -> dict[str, Bytes]:
    """Run a plan once with given buffer contents and return all of every buffer in ``downloads``.

    For tests and tools that look into buffers: public functions go through :meth:`ExecutionCache.take`.
    """
    execution = Execution(cache, plan, tuple(contents), downloads)
    for role, content in contents.items():
        data = np.frombuffer(content, np.uint8)
        execution.views[role][: data.size] = data
    execution.run()
    return {role: execution.views[role].copy() for role in downloads if role in execution.views}
