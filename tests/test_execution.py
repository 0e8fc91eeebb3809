"""Plans made ready and run, also where the host does not see the memory, as on no software driver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkdml import _native
from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.cache import argreduce_plan, slice1_plan
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.plans import Element
from vkdml.runtime.execution import (
    Execution,
    ExecutionCache,
    record_steps,
    recordable_steps,
    run_plan,
    workspace_for,
)

HOST, LOCAL = _native.MemoryKind.host, _native.MemoryKind.device
ROWS, COLUMNS = 3, 40_000


def cache_of(device, shared_bytes: int) -> ExecutionCache:
    return ExecutionCache(device.native, False, replace(device.limits.tuning, shared_bytes=shared_bytes))


def reduction(device, sizes=(ROWS, COLUMNS), axes=(1,)):
    """With values, and a workspace."""
    strides = row_major_strides(sizes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    count = int(np.prod(sizes))
    rules = (False, False, False)
    plan = argreduce_plan(
        *(sizes, strides, 0, count, axes, row_major_strides(kept), Element("int16", 2)),
        *(*rules, 8, True, device.limits),
    )
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


@pytest.mark.parametrize("shared_bytes", [0, 1 << 20])
def test_what_is_not_shared_is_copied_in_and_out(device, shared_bytes):
    """Twice, with other elements: all of the input arrives, and all that was found."""
    execution = Execution(cache_of(device, shared_bytes), reduction(device))
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
    labels = execution.labels
    copied = {label for label in labels if label.startswith(("upload", "download"))}
    every = {"upload input", "download indices", "download values"}
    assert copied == ({"download values"} if shared_bytes else every)


@pytest.mark.parametrize("count", [1, 3, 16, 1001])
@pytest.mark.parametrize("shared_bytes", [0, 1 << 20])
def test_a_copy_of_any_length_arrives_whole(device, shared_bytes, count):
    plan = slice1_plan((count,), (-1,), count - 1, count, (1,), 1, device.limits)
    execution = Execution(cache_of(device, shared_bytes), plan)
    x = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    execution.views["input"][:count] = x
    execution.views["output"][...] = 0
    execution.run()
    assert np.array_equal(execution.views["output"][:count], x[::-1])


def test_bound_buffers_are_neither_uploaded_nor_downloaded(device):
    plan = reduction(device)
    x = np.random.default_rng(1).integers(-99, 99, (ROWS, COLUMNS)).astype(np.int16)
    bound = {role: device.native.buffer(plan.bytes_of(role), LOCAL) for role in ("input", "indices")}
    moved(device, bound["input"], x.reshape(-1).view(np.uint8).copy(), out=False)
    execution = Execution(cache_of(device, 0), plan, bound=bound)
    execution.run()
    assert set(execution.views) == {"values"}
    assert execution.views["values"][: 2 * ROWS].view(np.int16).tolist() == x.max(1).tolist()
    indices = np.empty(8 * ROWS, np.uint8)
    moved(device, bound["indices"], indices, out=True)
    assert indices.view(np.int64).tolist() == x.argmax(1).tolist()


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
        Element("uint8", 1),
        100,
        device.limits,
        take_min=False,
        take_last=False,
        omit_nan=False,
        index_bytes=4,
        with_values=True,
        output_elements=20,
    )
    x = np.random.default_rng(3).integers(0, 255, (5, 20), np.uint8)
    poison = np.full(80, 0x5A, np.uint8)
    got = run_plan(device.executions, plan, {"input": x.tobytes(), "indices": poison, "values": poison[:20]})
    indices, values = got["indices"].view(np.uint32), got["values"]
    assert np.array_equal(indices[2:17:3], x.argmax(axis=1))
    assert np.array_equal(values[2:17:3], x.max(axis=1))
    untouched = np.ones(20, bool)
    untouched[2:17:3] = False
    assert (indices[untouched] == 0x5A5A5A5A).all()
    assert (values[untouched] == 0x5A).all()
