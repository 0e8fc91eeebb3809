"""Work for the native runtime, of any length: used by tests, and by the processes that they start."""

from __future__ import annotations

import time
from dataclasses import replace

from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.layout import canonical_copy, canonical_reduce
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.slice.slice1 import plan_slice1

HOST = _native.MemoryKind.host


def rows_plan(device, rows: int, length: int, limits=None):
    """A plan with one dispatch, for anything that needs some work."""
    layout = canonical_reduce((rows, length), (length, 1), (1,), (1, 0), take_last=False)
    return plan_argreduce(
        layout,
        Order("int32"),
        rows * length,
        limits or device.limits,
        index_bytes=4,
        with_values=False,
    )


def copy_plan(device):
    """A plan whose kernel takes drivers on a processor the least time to build."""
    return plan_slice1(canonical_copy((300,), (-1,), (1,), input_base=299), 4, 300, device.limits)


def status_call(device):
    """The function by which a device is asked, at first, whether it is done."""
    return "vkGetEventStatus" if device.native.ends_with_events else "vkGetFenceStatus"


def long_sequence(device, seconds: float, timestamps: int = 0, first=lambda sequence: None):
    """A recorded sequence that keeps the device busy for about that long (never much less).

    ``first`` records what it does before. Each dispatch is one workgroup, so that a driver on a processor
    leaves cores to other programs.
    """
    plan = rows_plan(device, 1024, 1024, replace(device.limits, max_workgroup_count=1))
    step = plan.steps[0]
    kernel = device.executions.pipelines.of(step)
    kind = HOST if device.info.unified_memory else _native.MemoryKind.device
    buffers = {role: device.native.buffer(nbytes, kind) for role, nbytes in plan.buffer_bytes if nbytes}
    bound = [buffers.get(role, buffers["indices"]) for role in kernels.table()[step.kernel].bindings]

    def record(times: int, first=lambda sequence: None):
        sequence = device.native.sequence(timestamps)
        first(sequence)
        for _ in range(times):
            sequence.dispatch(kernel, bound, step.push, (step.workgroups, 1, 1))
        return sequence

    known = device.info.driver_name, kind, step.kernel
    if known not in _dispatch_seconds:
        _dispatch_seconds[known] = _seconds_of_one(record)
    return record(max(2, int(1.5 * seconds / _dispatch_seconds[known])), first)


_dispatch_seconds: dict[object, float] = {}
"""What one dispatch takes in this process: measuring it takes longer than most sequences do."""


def _seconds_of_one(record) -> float:
    times = 1
    while True:
        sequence = record(times)
        readings = []
        for _ in range(2):  # other programs may slow one down
            started = time.perf_counter()
            sequence.eval()
            readings.append(time.perf_counter() - started)
        took = min(readings)
        if took >= 0.1:  # far more than a busy machine takes to give a driver's threads a core
            return took / times
        times *= min(max(int(0.13 / took), 2), 16)
