"""Chains: one operation recorded 256 times in one submission, and the whole time divided by 256.

Between the timestamps around one kernel lie its way to the device and a barrier. Where kernels are short, a
chain says what one more of them costs. Operations of a dependent chain wait for each other; independent ones
may overlap. Other libraries are timed in the same way, by the host's clock from the submission to the end:
JAX's chain is one compiled program, torch's one CUDA graph.
"""

from __future__ import annotations

from vkdml.bench.calls import require_same
from vkdml.bench.cases import Case
from vkdml.bench.contents import Bytes
from vkdml.bench.host_clock import time_calls
from vkdml.bench.record import Times
from vkdml.measuring import OUTPUT_ROLES, content_of, poisoned
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

CHAIN = 256
"""Operations of a chain."""
CHAIN_READINGS = 15
LONGEST_CHAIN_SECONDS = 0.05
"""Operations of which 256 take longer have no chain: what lies between them is no part of their time."""


class _Chain:
    """One plan recorded 256 times on one input."""

    def __init__(self, device: Device, plan: Plan, memory: Memory, *, independent: bool) -> None:
        executions = device.executions
        steps = recordable_steps(executions, plan)
        self.sizes = {role: plan.bytes_of(role) for role in OUTPUT_ROLES if plan.bytes_of(role)}
        self._sequence = executions.device.sequence()
        self._spin_us = executions.tuning.spin_microseconds
        # Operations that write the same memory are ordered; those that write memory of their own are not.
        sets = CHAIN if independent else 1
        self.outputs = [
            {role: poisoned(device, nbytes) for role, nbytes in self.sizes.items()} for _ in range(sets)
        ]
        workspaces = [workspace_for(executions, plan) for _ in range(sets)]
        self._input = memory
        for number in range(CHAIN):
            outputs = self.outputs[number % sets]
            regions = {role: (each.buffer, 0) for role, each in {"input": memory, **outputs}.items()}
            record_steps(self._sequence, steps, workspaces[number % sets], regions)

    def run(self) -> None:
        self._sequence.eval(None, self._spin_us)


def time_chain(
    device: Device,
    case: Case,
    plan: Plan,
    memory: Memory,
    right: dict[str, Bytes],
    kernel_us: float,
    *,
    independent: bool,
) -> Times | None:
    """Time an operation of a chain.

    Args:
        device: that the plan was made for.
        case: that the plan is of.
        plan: one operation.
        memory: the input.
        right: what the operation writes, found right before.
        kernel_us: how long the operation takes alone.
        independent: operations may overlap.

    Returns:
        The whole time of a chain divided by its operations; None where it would take too long.

    Raises:
        WrongResult: an operation of the chain wrote something else.
        MemoryError: a buffer that the device cannot hold.
        DeviceError: the device failed.
    """
    if kernel_us * CHAIN > LONGEST_CHAIN_SECONDS * 1e6:
        return None
    chain = _Chain(device, plan, memory, independent=independent)
    times = time_calls(chain.run, readings=CHAIN_READINGS, operations=CHAIN)
    for number, outputs in enumerate(chain.outputs):
        got = {role: content_of(outputs[role], nbytes) for role, nbytes in chain.sizes.items()}
        require_same(f"operation {number} of a chain", case, got, right)
    return times
