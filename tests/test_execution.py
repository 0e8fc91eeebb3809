"""Plans made ready and run, also where the host does not see the memory, as on no software driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plans import as_of_a_processor, run_plan
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.runtime.execution import Execution
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.memory import Memory
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

HOST, LOCAL = _native.MemoryKind.host, _native.MemoryKind.device
ROWS, COLUMNS = 3, 40_000


def cache_of(device, host_memory_bytes: int, mapped_bytes: int = -1) -> ExecutionCache:
    tuning = replace(device.limits.tuning, host_memory_bytes=host_memory_bytes, mapped_bytes=mapped_bytes)
    return ExecutionCache(device.native, False, tuning)


def reduction(device, sizes=(ROWS, COLUMNS), axes=(1,)):
    """With values, and a workspace."""
    strides = row_major_strides(sizes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    count = int(np.prod(sizes))
    source = Operand(sizes, strides, 0, count)
    target = Operand(kept, row_major_strides(kept), 0, int(np.prod(kept)))
    limits = as_of_a_processor(device.limits)  # a GPU reduces this few rows in one step
    limits = replace(limits, tuning=replace(limits.tuning, split_bytes=0))
    plan = plan_for(ReduceCall(source, axes, Order("int16"), target, 8, True), limits)
    assert plan.bytes_of("workspace")
    return plan


def moved(device, buffer: _native.Buffer, contents: np.ndarray, out: bool) -> None:
    """Copy bytes to a buffer, or from it."""
    staging = device.native.buffer(contents.size, HOST)
    ends = (buffer, staging) if out else (staging, buffer)
    staging.view()[: contents.size] = contents
    sequence = device.native.sequence()
    sequence.copy(*ends, contents.size)
    sequence.eval()
    contents[...] = staging.view()[: contents.size]


@pytest.mark.parametrize("sizes", [(ROWS, COLUMNS), (2, 3, 2, 3, 2, 3, 2, 5000)])
def test_a_workspace_starts_with_its_layout_and_zeros(device, sizes):
    """In memory that held something else before."""
    axes = tuple(range(1, len(sizes), 2))
    plan = reduction(device, sizes, axes)
    cache = cache_of(device, 0)
    nbytes = plan.bytes_of("workspace")
    used = [device.native.buffer(nbytes, LOCAL) for _ in range(3)]
    for buffer in used:
        moved(device, buffer, np.full(nbytes, 0xA5, np.uint8), out=False)
    del used, buffer
    workspace = workspace_for(cache, plan)
    assert workspace.kind == LOCAL
    written = np.empty(nbytes, np.uint8)
    moved(device, workspace, written, out=True)
    words = np.array((*plan.layout, *(0,) * plan.counters), np.uint32)
    assert words.size
    assert np.array_equal(written[: words.nbytes].view(np.uint32), words)


@pytest.mark.parametrize("mapped_bytes", [0, 1 << 20])
@pytest.mark.parametrize("host_memory_bytes", [0, 1 << 20])
def test_what_the_host_does_not_see_is_copied_in_and_out(device, host_memory_bytes, mapped_bytes):
    """Twice, with other elements: all of the input arrives, and all that was found."""
    execution = Execution(cache_of(device, host_memory_bytes, mapped_bytes), reduction(device))
    rng = np.random.default_rng(3)
    for _ in range(2):
        x = rng.integers(-99, 99, (ROWS, COLUMNS)).astype(np.int16)
        x[0, -1], x[1, 0], x[2, -2:] = 100, 100, 100
        execution.views["input"][: x.nbytes] = x.reshape(-1).view(np.uint8)
        for role in ("indices", "values"):
            execution.views[role][...] = 0x5A
        execution.run()
        assert execution.views["indices"][: 8 * ROWS].view(np.int64).tolist() == x.argmax(1).tolist()
        assert execution.views["values"][: 2 * ROWS].view(np.int16).tolist() == [100] * ROWS
    is_written = mapped_bytes and device.native.maps_device_memory
    assert execution.uploaded == (() if host_memory_bytes or is_written else ("input",))
    assert execution.downloaded == (("values",) if host_memory_bytes else ("indices", "values"))


@pytest.mark.parametrize("count", [1, 3, 16, 1001])
@pytest.mark.parametrize("host_memory_bytes", [0, 1 << 20])
def test_a_copy_of_any_length_arrives_whole(device, host_memory_bytes, count):
    source, target = Operand((count,), (-1,), count - 1, count), Operand((count,), (1,), 0, count)
    plan = plan_for(CopyCall(source, target, 1), device.limits)
    execution = Execution(cache_of(device, host_memory_bytes), plan)
    x = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    execution.views["input"][:count] = x
    execution.views["output"][...] = 0
    execution.run()
    assert np.array_equal(execution.views["output"][:count], x[::-1])


class Recorder:
    """Notes dispatches instead of recording them."""

    def __init__(self) -> None:
        self.dispatches: list[dict[object, list[bool]]] = []

    def dispatch(self, kernel, buffers, push, workgroups, offsets, read_only) -> None:
        said: dict[object, list[bool]] = {}
        for buffer, alone in zip(buffers, read_only, strict=True):
            said.setdefault(buffer, []).append(alone)
        self.dispatches.append(said)


@pytest.mark.parametrize("with_workspace", [True, False])
@pytest.mark.parametrize("with_values", [True, False])
def test_what_is_written_is_said_to_be(device, with_values, with_workspace):
    """Operations wait for each other by it, which drivers that run one after the other do not show."""
    cache = device.executions
    plan = reduction(device)
    roles = ["input", "indices", *(["values"] if with_values else [])]
    regions = {role: (role, 0) for role in roles}
    recorder = Recorder()
    record_steps(recorder, recordable_steps(cache, plan), "workspace" if with_workspace else None, regions)
    for said in recorder.dispatches:
        # Once: what stands for a binding that nobody gave is none that others may be reading.
        assert said["input"] == [True]
        assert all(False in said[role] for role in (*roles[1:], *(["workspace"] if with_workspace else [])))
        assert set(said) <= {*roles, "workspace"}


def test_run_plan_leaves_what_lies_between_the_outputs(device):
    layout = canonical_reduce((5, 20), (20, 1), (1,), (3, 0), take_last=False, output_base=2)
    plan = plan_argreduce(
        layout,
        Order("uint8"),
        100,
        device.limits,
        index_bytes=4,
        with_values=True,
        output_elements=20,
    )
    x = np.random.default_rng(3).integers(0, 255, (5, 20), np.uint8)
    poison = np.full(80, 0x5A, np.uint8)
    got = run_plan(device, plan, {"input": x.tobytes(), "indices": poison, "values": poison[:20]})
    indices, values = got["indices"].view(np.uint32), got["values"]
    assert np.array_equal(indices[2:17:3], x.argmax(axis=1))
    assert np.array_equal(values[2:17:3], x.max(axis=1))
    untouched = np.ones(20, bool)
    untouched[2:17:3] = False
    assert (indices[untouched] == 0x5A5A5A5A).all()
    assert (values[untouched] == 0x5A).all()


# ---- what is kept between calls ----------------------------------------------------------------------------


def bigger(plan, nbytes):
    """The same plan with more workspace than it needs."""
    sizes = {**dict(plan.buffer_bytes), "workspace": nbytes}
    return replace(plan, buffer_bytes=tuple(sizes.items()))


@pytest.fixture
def run_on_memory():
    device = separate_device()
    x = np.random.default_rng(5).integers(-99, 99, (ROWS, COLUMNS)).astype(np.int16)
    source, indices, values = Memory(device, x.nbytes), Memory(device, 8 * ROWS), Memory(device, 2 * ROWS)
    source.write(0, x.reshape(-1).view(np.uint8))
    memories = {"input": source, "indices": indices, "values": values}

    def run(plan):
        found = np.full(8 * ROWS, 0xA5, np.uint8)
        indices.write(0, found)
        device.executions.run(plan, {role: (memory.buffer, 0) for role, memory in memories.items()})
        indices.read(0, found)
        assert found.view(np.int64).tolist() == x.argmax(1).tolist()

    return device, run


def counted(run, plan) -> int:
    """Return how many Vulkan calls that can fail a run makes."""
    _native.inject_failure(0)
    run(plan)
    return _native.fallible_calls()


@pytest.mark.parametrize("workspace", [1 << 16, 2 << 20, 40 << 20])
def test_a_plan_with_a_large_workspace_is_kept_for_the_next_call(run_on_memory, workspace):
    device, run = run_on_memory
    plan = bigger(reduction(device), workspace)
    first = counted(run, plan)
    again = {counted(run, plan) for _ in range(3)}
    assert max(again) < first
    assert len(again) == 1
    used = device.memory()["used"]
    assert device.trim() >= workspace
    assert device.memory()["used"] <= used - workspace
    run(plan)


def test_kept_workspaces_stay_within_the_tunings_bytes(run_on_memory):
    device, run = run_on_memory
    tuning = device.limits.tuning
    before = device.memory()["used"]
    plan = reduction(device)
    for number in range(12):
        run(bigger(plan, (40 << 20) + (number << 18)))
        assert device.memory()["used"] - before <= tuning.execution_cache_bytes * 9 // 8
    assert device.memory()["used"] - before > tuning.execution_cache_bytes // 2
    run(bigger(plan, tuning.cached_execution_bytes + 4))  # too large to be kept
    run(plan)
    device.trim()
    assert device.memory()["used"] <= before


def test_memory_that_waits_for_another_call_is_given_up_when_it_is_short(run_on_memory):
    device, run = run_on_memory
    plan = bigger(reduction(device), 40 << 20)
    run(plan)
    used = device.memory()["used"]
    device.native.trim()  # the native pool would give up its own first
    _native.inject_failure(1, -2, "vkAllocateMemory")
    try:
        kept = Memory(device, 3 << 20)
    finally:
        _native.inject_failure(0)
    assert kept.buffer.nbytes == 3 << 20
    assert device.memory()["used"] < used
    run(plan)


@pytest.mark.parametrize(
    "call", ["vkAllocateMemory", "vkCreateDescriptorPool", "vkCreateCommandPool", "vkCreateFence"]
)
def test_whatever_a_plan_needs_is_made_again_without_what_waits(run_on_memory, call):
    device, run = run_on_memory
    run(bigger(reduction(device), 40 << 20))
    vkdml.argmax(np.arange(99), device=device)  # its kernels are built
    device.native.trim()
    _native.inject_failure(1, -1, call)  # VK_ERROR_OUT_OF_HOST_MEMORY
    try:
        assert vkdml.argmax(np.arange(999), device=device) == 998
        assert _native.fallible_calls()
    finally:
        _native.inject_failure(0)


# ---- a damaged installation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda code: code[:-4], r"is no whole SPIR-V module \(\d+ bytes\)"),
        (lambda code: code[:-1], r"is no whole SPIR-V module \(\d+ bytes\)"),
        (lambda code: b"", r"is no whole SPIR-V module \(0 bytes\)"),
        (lambda code: bytes(len(code)), r"is no whole SPIR-V module \(\d+ bytes\)"),
        (None, "cannot be read .*No such file"),
    ],
)
def test_a_damaged_kernel_file_is_a_named_error(monkeypatch, damage, said):
    """Drivers crash on what is cut off."""
    device = separate_device()
    real = kernels.spirv

    def damaged(name):
        return (Path("/nowhere") / name).read_bytes() if damage is None else damage(real(name))

    monkeypatch.setattr(kernels, "spirv", damaged)
    with pytest.raises(vkdml.DeviceError, match=rf"^argmax of .*: the kernel \w+ {said}.*reinstall it"):
        vkdml.argmax(np.int32([1, 3, 2]), device=device)
    monkeypatch.undo()
    assert vkdml.argmax(np.int32([1, 3, 2]), device=device) == 1
