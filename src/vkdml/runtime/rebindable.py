"""Running a plan on buffers that lie on the device already, others at each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vkdml.plan.plans import Plan
from vkdml.runtime.recording import Buffer, Region, record_steps, recordable_steps, workspace_for

if TYPE_CHECKING:
    from vkdml.runtime.executions import ExecutionCache


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

    def wait(self) -> None:
        """Wait for what :meth:`submit` started."""
        self._sequence.wait(None, self._spin_us)

    def _recorded_for(self, regions: Mapping[str, Region]) -> list[Buffer]:
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
