"""Running a plan on buffers that lie on the device already, others at each run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from vkdml.plan.plans import Plan
from vkdml.runtime.fixed_pipelines import RUNS_BETWEEN
from vkdml.runtime.recording import (
    RecordableStep,
    Region,
    spare_binding,
    watched_words,
    workspace_for,
)

if TYPE_CHECKING:
    from vkdml.runtime.execution_cache import ExecutionCache

_WORKSPACE = -1


class Rebindable:
    """A plan made ready for buffers that lie on the device already, others at each run.

    It keeps a workspace, a recorded sequence and nothing else: recorded buffers are not kept alive, and the
    same ones again are not recorded again. One thread at a time.
    """

    __slots__ = ("_replay", "_roles", "_workspace", "nbytes", "plan", "runs_left", "start_on", "wait")

    def __init__(self, cache: ExecutionCache, plan: Plan) -> None:
        self.plan = plan
        self.nbytes = plan.bytes_of("workspace")
        self._roles = tuple(role for role, nbytes in plan.buffer_bytes if nbytes and role != "workspace")
        self._workspace = workspace_for(cache, plan)
        self.runs_left = cache.fixed_pipelines.runs_before(plan, cache.tuning)
        """Until :meth:`take_fixed_pipelines` is due; 0 or less: never."""
        self._record(cache, cache.steps(plan))

    def _record(self, cache: ExecutionCache, steps: tuple[RecordableStep, ...]) -> None:
        plan, workspace = self.plan, self._workspace
        places = {role: (place, role != "input") for place, role in enumerate(self._roles)}
        spare = (spare_binding(places)[0], False)
        if workspace is not None:
            places["workspace"] = (_WORKSPACE, True)
        dispatches = [
            (step.kernel, step.push, step.workgroups, [places.get(role, spare) for role in step.roles])
            for step in steps
        ]
        results = [cache.result_memory(plan.bytes_of(role)) for role in self._roles if role != "input"]
        self._replay = cache.device.replay(
            workspace, dispatches, results, watched_words(plan), cache.tuning.spin_microseconds
        )
        # Not methods: they are called where each tenth of a microsecond counts.
        self.start_on = self._replay.start_on
        """Start an evaluation on an input, a buffer from a byte on, and on new memory for each result.

        Returns the results, or None, and nothing was done, where their memory is not to be had.
        """
        self.wait = self._replay.wait
        """Wait for what was started; raises as :meth:`run`."""

    def take_fixed_pipelines(self, cache: ExecutionCache) -> None:
        """Go over to pipelines of the plan's own if they are built; else have them built.

        Not while it runs.
        """
        steps = cache.fixed_pipelines.ask_for(cache, self.plan)
        if steps is None:
            self.runs_left = RUNS_BETWEEN
            return
        with suppress(MemoryError, RuntimeError):  # what there is goes on serving
            self._record(cache, steps)

    def run(self, regions: Mapping[str, Region]) -> None:
        """Evaluate on these buffers and wait. Raises what the device raises; drop it then."""
        self._replay.run([regions[role] for role in self._roles])

    def submit(self, regions: Mapping[str, Region]) -> None:
        """Start an evaluation on these buffers; :meth:`wait` for it."""
        self._replay.submit([regions[role] for role in self._roles])
