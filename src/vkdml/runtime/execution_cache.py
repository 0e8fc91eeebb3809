"""What a device keeps between calls: plans made ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vkdml import _native
from vkdml.common.newest import Newest
from vkdml.plan.plans import Plan, whole_vectors
from vkdml.plan.tuning import Tuning
from vkdml.runtime.execution import Execution
from vkdml.runtime.fixed_pipelines import FixedPipelines
from vkdml.runtime.pipelines import Pipelines
from vkdml.runtime.pool import Lender, Pool
from vkdml.runtime.rebindable import Rebindable
from vkdml.runtime.recording import Buffer, NativeSequence, RecordableStep, Region, recordable_steps
from vkdml.runtime.small_transfers import SmallTransfers

_Made = TypeVar("_Made")

IDLE_SEQUENCES = 16
IDLE_CUDA_MAPPINGS = 256
MOST_CALLS = 1024
# From here on a copy on the host takes longer than giving a kernel other memory at each call.
IMPORTED_BYTES = 1 << 20
_HOST, _DEVICE, _MAPPED = _native.MemoryKind.host, _native.MemoryKind.device, _native.MemoryKind.mapped


class ExecutionCache:
    """The pipelines of a device, and the executions that wait for another call. Thread-safe."""

    execution_type: type[Execution] = Execution
    """What :meth:`take` lends."""

    def __init__(self, device: _native.Device, unified_memory: bool, tuning: Tuning) -> None:
        self.device = device
        self.unified_memory = unified_memory
        self.tuning = tuning
        self._mapped_bytes = tuning.mapped_bytes if device.maps_device_memory and not unified_memory else -1
        self._imports_host_memory = unified_memory and device.imports_host_memory
        self.pipelines = Pipelines(device)
        self.fixed_pipelines = FixedPipelines()
        bounds = tuning.execution_cache_count, tuning.execution_cache_bytes, tuning.cached_execution_bytes
        self._executions: Pool[Plan, Execution] = Pool(*bounds)
        self._rebindables: Pool[Plan, Rebindable] = Pool(*bounds)
        self._sequences: Pool[None, NativeSequence] = Pool(IDLE_SEQUENCES, 0)
        # By size class and whether the host sees it; what CUDA maps is slow to make.
        self.cuda_mappings: Pool[tuple[int, bool], Any] = Pool(IDLE_CUDA_MAPPINGS, device.memory()["limit"])
        self.small_transfers = SmallTransfers(self)
        self.known_calls: Newest[Any] = Newest(MOST_CALLS)
        """Valid calls of the public functions on this device, in the form that the adding module needs."""

    # ---- pipelines and memory ------------------------------------------------------------------------------

    def steps(self, plan: Plan) -> tuple[RecordableStep, ...]:
        """Return a plan's steps with pipelines of its own if these are built, else with shared ones."""
        return self.fixed_pipelines.built(plan) or recordable_steps(self, plan)

    def buffer(self, nbytes: int, *, visible: bool = False, writable: bool = False) -> Buffer:
        """Return memory where kernels are fastest; what waits for another call is given up for it.

        Args:
            nbytes: at least so many.
            visible: the host must see it, though kernels be slower there.
            writable: the host will write it, and should be able to where that is faster than a copy; its
                kind is ``mapped`` or ``host`` then.
        """
        kind = _HOST if visible or self.unified_memory else _DEVICE
        if writable and kind is _DEVICE and self.maps(nbytes):
            kind = _MAPPED
        return self.insist(lambda: self.device.buffer(nbytes, kind))

    def maps(self, nbytes: int) -> bool:
        """Whether the host writes so many bytes to the device's memory itself, faster than a copy is."""
        return nbytes <= self._mapped_bytes

    def imports(self, nbytes: int) -> bool:
        """Whether kernels reach so many bytes of the host's where they lie, faster than after a copy."""
        return self._imports_host_memory and nbytes >= IMPORTED_BYTES

    def is_near_host(self, nbytes: int) -> bool:
        """Whether a result of so many bytes, which the host probably reads soon, lies where it sees it."""
        return self.unified_memory or nbytes <= self.tuning.host_memory_bytes

    def result_memory(self, nbytes: int) -> tuple[int, _native.MemoryKind]:
        """Return bytes and kind of memory for a result that the host probably reads soon."""
        return whole_vectors(nbytes), _HOST if self.is_near_host(nbytes) else _DEVICE

    def exportable_buffer(self, nbytes: int, *, visible: bool = False) -> Buffer:
        """Return memory like that of :meth:`buffer`, which other libraries on the GPU can map."""
        kind = _HOST if visible or self.unified_memory else _DEVICE
        return self.insist(lambda: self.device.exportable_buffer(nbytes, kind))

    def insist(self, make: Callable[[], _Made]) -> _Made:
        """Make something that needs memory; what waits for another call must never be why it fails."""
        try:
            return make()
        except MemoryError as error:
            return self._again(make, error)

    def _again(self, make: Callable[[], _Made], error: MemoryError) -> _Made:
        """Make once more what failed, if anything that waits for another call can be dropped."""
        if not self.clear():
            raise error
        return make()

    def explained(self, error: MemoryError, plan: Plan) -> MemoryError:
        """Return the error with what the plan needs and what there is."""
        memory = self.device.memory()
        needed = sum(nbytes for _, nbytes in plan.buffer_bytes)
        return MemoryError(
            f"{error}; this call needs buffers of {needed} bytes, vkdml "
            f"holds {memory['used']} bytes of this device and {memory['pooled']} more for reuse"
        )

    def clear(self) -> bool:
        """Drop all that waits for another call; False when there was nothing."""
        pools = self._executions, self._rebindables, self._sequences, self.cuda_mappings
        dropped = [each.clear() for each in (*pools, self.small_transfers)]
        return any(dropped)

    # ---- plans on buffers of their own ---------------------------------------------------------------------

    def take(self, plan: Plan) -> Execution:
        """Lend an execution of the plan that nobody else uses: :meth:`give_back`, or drop it if it failed."""
        try:
            return self._executions.take(plan) or self.execution_type(self, plan)
        except MemoryError as error:
            return self._made_again(self.execution_type, plan, error)

    def give_back(self, plan: Plan, execution: Execution) -> None:
        """Keep an execution for the next call with its plan, within the tuning's limits."""
        self._executions.put(plan, execution, execution.nbytes)

    def execution_lender(self, plan: Plan) -> Lender[Plan, Execution]:
        """Return what lends the plan's executions to a caller that comes again and again."""
        return Lender(self._executions, plan)

    # ---- plans on buffers that lie on the device -----------------------------------------------------------

    def run(self, plan: Plan, regions: Mapping[str, Region]) -> None:
        """Run a plan on buffers that lie on the device, and wait."""
        rebindable = self.take_rebindable(plan)
        rebindable.runs_left -= 1
        if not rebindable.runs_left:
            rebindable.take_fixed_pipelines(self)
        try:
            rebindable.run(regions)
        except MemoryError as error:
            raise self.explained(error, plan) from None
        self.give_back_rebindable(rebindable)

    def take_rebindable(self, plan: Plan) -> Rebindable:
        """Lend a plan made ready for buffers on the device: :meth:`give_back_rebindable`, or drop it."""
        try:
            return self._rebindables.take(plan) or Rebindable(self, plan)
        except MemoryError as error:
            return self._made_again(Rebindable, plan, error)

    def give_back_rebindable(self, rebindable: Rebindable) -> None:
        """Keep it for the next call with its plan, within the tuning's limits."""
        self._rebindables.put(rebindable.plan, rebindable, rebindable.nbytes)

    def rebindable_lender(self, plan: Plan) -> Lender[Plan, Rebindable]:
        """Return what lends the plan's rebindables to a caller that comes again and again."""
        return Lender(self._rebindables, plan)

    def _made_again(
        self, make: Callable[[ExecutionCache, Plan], _Made], plan: Plan, error: MemoryError
    ) -> _Made:
        """Make a plan ready once more; the error says what it needs."""
        try:
            return self._again(lambda: make(self, plan), error)
        except MemoryError as last:
            raise self.explained(last, plan) from None

    # ---- sequences -----------------------------------------------------------------------------------------

    def sequence(self, operations: int) -> NativeSequence:
        """Return a sequence that keeps its buffers, for this many operations."""
        return self.device.sequence()

    def take_sequence(self) -> NativeSequence:
        """Lend a sequence that holds its buffers only while it runs; :meth:`give_back_sequence`."""
        return self._sequences.take(None) or self.device.sequence(0, False)

    def give_back_sequence(self, sequence: NativeSequence) -> None:
        """Keep a sequence that is not running for another caller, who clears it."""
        self._sequences.put(None, sequence, 0)
