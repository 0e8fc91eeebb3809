"""Running plans: buffers and a recorded sequence for each plan, kept for the next call with the same plan."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml import _native, kernels
from vkdml.plan import PUSH_BYTES, Plan, Step
from vkdml.tuning import Tuning

Bytes = npt.NDArray[np.uint8]


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
        if plan.layout or plan.counters:
            self._prepare(device, buffers["workspace"], (*plan.layout, *(0,) * plan.counters), unified)

        self.labels: list[str] = []
        for role in copied_in:
            self._sequence.copy(visible[role], buffers[role], sizes[role])
            self.labels.append(f"upload {role}")
        buffers |= bound
        for step in plan.steps * repeats:
            bindings = kernels.table()[step.kernel].bindings
            # A binding that the step's constants leave unused still needs some buffer.
            spare = next(iter(buffers.values()))
            arguments = [buffers.get(role, spare) for role in bindings]
            self._sequence.dispatch(cache.kernel(step), arguments, step.push, (step.workgroups, 1, 1))
            self.labels.append(step.kernel)
        for role in copied_out:
            self._sequence.copy(buffers[role], visible[role], sizes[role])
            self.labels.append(f"download {role}")

    @staticmethod
    def _read_over_the_bus(plan: Plan, tuning: Tuning) -> set[str]:
        """Of small plans what is read or written once, where a copy would take longer than the way there."""
        roles: set[str] = {"input", "indices"} & dict(plan.buffer_bytes).keys()
        return roles if sum(map(plan.bytes_of, roles)) <= tuning.shared_bytes else set()

    @staticmethod
    def _prepare(
        device: _native.Device, workspace: _native.Buffer, first_words: tuple[int, ...], unified: bool
    ) -> None:
        """Write what no run changes."""
        content = np.array(first_words, np.uint32).view(np.uint8)
        visible = workspace if unified else device.buffer(content.size, _native.MemoryKind.host)
        visible.view()[: content.size] = content
        if not unified:
            upload = device.sequence()
            upload.copy(visible, workspace, content.size)
            upload.eval()

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


class ExecutionCache:
    """The kernels of a device, and the executions that wait for another call. Thread-safe."""

    def __init__(self, device: _native.Device, unified_memory: bool, tuning: Tuning) -> None:
        self.device = device
        self.unified_memory = unified_memory
        self.tuning = tuning
        self._lock = threading.Lock()
        self._kernels: dict[tuple[str, tuple[int, ...], int], _native.Kernel] = {}
        self._idle: OrderedDict[Plan, list[Execution]] = OrderedDict()
        self._idle_bytes = 0
        self._idle_count = 0

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
            if plan in self._idle:
                return self._remove_idle(plan)
        try:
            return Execution(self, plan)
        except MemoryError as error:
            # What waits for another call must never be the reason of a failure.
            if not self.clear():
                raise self.explained(error, plan) from None
        try:
            return Execution(self, plan)
        except MemoryError as error:
            raise self.explained(error, plan) from None

    def explained(self, error: MemoryError, plan: Plan) -> MemoryError:
        """Return the error with what the plan needs and what there is."""
        memory = self.device.memory()
        needed = sum(nbytes for _, nbytes in plan.buffer_bytes)
        return MemoryError(
            f"{error}; this call needs buffers of {needed} bytes, vkdml "
            f"holds {memory['used']} bytes of this device and {memory['pooled']} more for reuse"
        )

    def _remove_idle(self, plan: Plan) -> Execution:
        """Take out one that is there, and the books with it. The caller holds the lock."""
        idle = self._idle[plan]
        execution = idle.pop()
        if not idle:
            del self._idle[plan]
        self._idle_count -= 1
        self._idle_bytes -= execution.nbytes
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
            while (
                self._idle_bytes > self.tuning.execution_cache_bytes
                or self._idle_count > self.tuning.execution_cache_count
            ):
                dropped.append(self._remove_idle(next(iter(self._idle))))

    def clear(self) -> bool:
        """Drop all idle executions; False when there were none."""
        with self._lock:
            dropped = self._idle
            self._idle = OrderedDict()
            self._idle_bytes = 0
            self._idle_count = 0
        return bool(dropped)


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
