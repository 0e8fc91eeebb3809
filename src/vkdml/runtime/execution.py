"""Running a plan on buffers of its own: the host writes its input, and reads its outputs."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml.plan.plans import Plan
from vkdml.plan.tuning import Tuning
from vkdml.runtime.fixed_pipelines import RUNS_BETWEEN
from vkdml.runtime.recording import (
    NativeSequence,
    Region,
    record_steps,
    watched_words,
    workspace_for,
)

if TYPE_CHECKING:
    from vkdml.runtime.execution_cache import ExecutionCache

Bytes = npt.NDArray[np.uint8]

# A plan serves calls on arrays of several shapes and types.
MOST_TYPED = 16


class Execution:
    """A plan made ready on a device: its buffers, and a sequence that uploads, computes and downloads.

    One thread at a time. ``views`` maps the role of each buffer but the workspace to its bytes as the host
    sees them: write the input before :meth:`run`, read the outputs after it. ``uploaded`` and ``downloaded``
    are the roles whose bytes are copied to the device and back; others lie where both reach them.
    """

    def __init__(self, cache: ExecutionCache, plan: Plan) -> None:
        self._plan, self._cache = plan, ref(cache)
        unified = cache.unified_memory
        sizes = {role: nbytes for role, nbytes in plan.buffer_bytes if nbytes and role != "workspace"}
        self.nbytes = (sum(sizes.values()) + plan.bytes_of("workspace")) * (1 if unified else 2)
        # Roles whose buffers kernels use in memory that the host sees, so that nothing is copied.
        host_visible = set(sizes) if unified else _read_over_the_bus(plan, cache.tuning)
        written = {"input"} if cache.maps(plan.bytes_of("input")) else set[str]()
        buffers = {
            role: cache.buffer(n, visible=role in host_visible - written, writable=role in written)
            for role, n in sizes.items()
        }
        direct = host_visible | written
        visible = {
            role: buffer if role in direct else cache.buffer(sizes[role], visible=True)
            for role, buffer in buffers.items()
        }
        self.views: dict[str, Bytes] = {role: buffer.view() for role, buffer in visible.items()}
        copied = [role for role in sizes if role not in direct]
        self.uploaded = tuple(role for role in copied if role == "input")
        self.downloaded = tuple(role for role in copied if role != "input")
        self._typed: dict[tuple[str, tuple[int, ...], np.dtype[Any]], npt.NDArray[Any]] = {}
        self._spin_us = cache.tuning.spin_microseconds
        self._sizes, self._visible = sizes, visible
        self._regions: dict[str, Region] = {role: (buffer, 0) for role, buffer in buffers.items()}
        self._workspace = workspace_for(cache, plan)
        # Until the plan's own pipelines are taken; 0 or less: never.
        self._runs_left = cache.fixed_pipelines.runs_before(plan, cache.tuning)
        self._sequence = self._begun(cache)
        record_steps(self._sequence, cache.steps(plan), self._workspace, self._regions)
        self._end(self._sequence)

    def _begun(self, cache: ExecutionCache) -> NativeSequence:
        """Return a sequence with the uploads."""
        sequence = cache.sequence(len(self.uploaded) + len(self.downloaded) + len(self._plan.steps))
        for role in self.uploaded:
            sequence.copy(self._visible[role], self._regions[role][0], self._sizes[role])
        return sequence

    def _end(self, sequence: NativeSequence) -> None:
        """Record the downloads, and what the host watches."""
        for role in self.downloaded:
            sequence.copy(self._regions[role][0], self._visible[role], self._sizes[role])
        words = watched_words(self._plan)
        if words and self._visible["indices"] is self._regions["indices"][0]:
            sequence.watch(self._visible["indices"], words)

    def _count_run(self) -> None:
        """Go over to pipelines of the plan's own after enough runs, when they are built."""
        self._runs_left -= 1
        cache = None if self._runs_left else self._cache()
        if cache is None:
            return
        steps = cache.fixed_pipelines.ask_for(cache, self._plan)
        if steps is None:
            self._runs_left = RUNS_BETWEEN
            return
        with suppress(MemoryError, RuntimeError):  # what there is goes on serving
            sequence = self._begun(cache)
            record_steps(sequence, steps, self._workspace, self._regions)
            self._end(sequence)
            self._sequence = sequence

    def typed(self, role: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return the first bytes of a role's view as a compact array, made once for each description."""
        key = role, shape, dtype
        array = self._typed.get(key)
        if array is None:
            if len(self._typed) >= MOST_TYPED:
                self._typed.clear()
            content = self.views[role][: math.prod(shape) * dtype.itemsize]
            array = self._typed[key] = content.view(dtype).reshape(shape)
        return array

    def run(self) -> None:
        """Evaluate once and wait. Raises what the device raises; the execution must then be dropped."""
        self._count_run()
        self._sequence.eval(None, self._spin_us)

    def submit(self) -> None:
        """Start an evaluation; raises as :meth:`run`. :meth:`wait` before touching ``views``."""
        self._count_run()
        self._sequence.submit()

    def wait(self) -> None:
        """Wait for what :meth:`submit` started; raises as :meth:`run`."""
        self._sequence.wait(None, self._spin_us)


def _read_over_the_bus(plan: Plan, tuning: Tuning) -> set[str]:
    """Return the buffers of a small plan that kernels access in host memory: a copy would take longer."""
    roles: set[str] = {"input", "indices"} & dict(plan.buffer_bytes).keys()
    return roles if sum(map(plan.bytes_of, roles)) <= tuning.host_memory_bytes else set()
