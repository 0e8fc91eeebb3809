"""Pipelines of one plan, with its push constants compiled in: built in the background, for who calls often.

A dispatch of such a pipeline starts sooner, and drivers fold what depends on the shape: kernels take 0.6 to
1.0 of the time. To build one takes a tenth of a second on an NVIDIA card, so calls begin with pipelines that
all shapes share.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from vkdml.common.newest import Newest
from vkdml.plan.fixed_parameters import with_fixed_parameters
from vkdml.plan.plans import Plan
from vkdml.plan.tuning import Tuning
from vkdml.runtime.recording import RecordableStep, recordable_steps

if TYPE_CHECKING:
    from vkdml.runtime.execution_cache import ExecutionCache

MOST_PLANS = 1024
RUNS_BETWEEN = 16
"""After so many more runs it is asked again whether the pipelines are there."""

Steps = tuple[RecordableStep, ...]


class FixedPipelines:
    """The newest plans of a device that have pipelines of their own. Thread-safe."""

    def __init__(self) -> None:
        # No steps: they could not be built.
        self._built: Newest[Steps] = Newest(MOST_PLANS)
        self._wanted: deque[Plan] = deque()
        self._is_building = False
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # a signal handler may call in the middle of a call

    def runs_before(self, plan: Plan, tuning: Tuning) -> int:
        """Return after how many runs a plan is asked for; 0 where it is built, or gains nothing."""
        if self.built(plan) or with_fixed_parameters(plan, tuning) is plan:
            return 0
        return tuning.fixed_parameters_after

    def built(self, plan: Plan) -> Steps | None:
        """Return the plan's steps if their pipelines are there."""
        return self._built.get(plan) or None

    def ask_for(self, cache: ExecutionCache, plan: Plan) -> Steps | None:
        """Return the plan's steps if their pipelines are there; else have a thread build them."""
        steps = self._built.get(plan)
        if steps is None:
            with self._lock:
                if plan not in self._wanted:
                    self._wanted.append(plan)
                if not self._is_building:
                    self._start(cache)
        return steps or None

    def wait(self) -> None:
        """Wait until all that was asked for is built."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self, cache: ExecutionCache) -> None:
        # Python waits for it at the end of the process, which must not come while a driver compiles.
        thread = threading.Thread(target=self._build_all, args=(cache,), name="vkdml pipelines", daemon=False)
        self._is_building = True
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter ends
            self._is_building = False
            self._wanted.clear()
        else:
            self._thread = thread

    def _build_all(self, cache: ExecutionCache) -> None:
        while True:
            with self._lock:
                if not self._wanted or not threading.main_thread().is_alive():
                    self._is_building = False
                    return
                plan = self._wanted[0]
            try:
                steps = recordable_steps(cache, with_fixed_parameters(plan, cache.tuning))
            except Exception:  # calls go on with the pipelines that they have
                steps = ()
            with self._lock:
                self._built[plan] = steps
                self._wanted.popleft()
