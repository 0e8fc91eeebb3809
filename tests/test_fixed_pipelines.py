"""Pipelines with a plan's push constants compiled in: what they write, and how calls come to have them."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import processes
import pytest
from plans import NONE_FIXED, run_plan
from separate import separate_device

import vkdml
from vkdml import dml
from vkdml.bench.sweep import sweep_cases
from vkdml.common.read_only import fix
from vkdml.errors import DeviceError
from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.fixed_parameters import with_fixed_parameters
from vkdml.plan.plans import DeviceLimits
from vkdml.runtime import fixed_pipelines
from vkdml.runtime.fixed_pipelines import RUNS_BETWEEN

AFTER = 3
FAMILIES_OF_GPUS = (
    "argreduce_columns", "argreduce_joined", "argreduce_periods", "argreduce_rows", "argreduce_short",
    "slice1_boxes", "slice1_rows", "slice1_runs", "slice1_tiles", "slice1_words",
)  # fmt: skip
FAMILIES_OF_PROCESSORS = "argreduce_columns", "argreduce_rows", "argreduce_short", "slice1_runs"


def first_plan(family: str, limits: DeviceLimits):
    for seed in range(100):
        for case in sweep_cases(seed, 30, 1 << 17):
            plan = case.plan(limits)
            if kernels.table()[plan.steps[0].kernel].family.name == family:
                return plan
    raise AssertionError(f"no case of the sweep runs {family}")


def check_fixed_plan(device, plan) -> None:
    """Check that all bytes of all buffers are those that the plan writes without fixed parameters."""
    start = {role: np.full(nbytes, 0xA5, np.uint8) for role, nbytes in plan.buffer_bytes if nbytes}
    start["input"][:] = np.random.default_rng(8).integers(0, 256, start["input"].size, np.uint8)
    words = np.array((*plan.layout, *(0,) * plan.counters), np.uint32)
    if "workspace" in start:
        start["workspace"][: words.nbytes] = words.view(np.uint8)
    tuning = replace(DISCRETE, fixed_parameters_to_bytes=1 << 40, fixed_parameters_kernels=())
    fixed = with_fixed_parameters(plan, tuning)
    assert all(step.fixed_parameters for step in fixed.steps)
    expected = run_plan(device, plan, start, tuple(start))
    got = run_plan(device, fixed, start, tuple(start))
    for role in start:
        np.testing.assert_array_equal(got[role], expected[role], err_msg=f"{role} of {plan.steps}")


@pytest.mark.parametrize("family", FAMILIES_OF_PROCESSORS)
def test_kernels_of_processors_write_the_same(family):
    device = vkdml.default_device()
    check_fixed_plan(device, first_plan(family, device.limits))


@pytest.mark.parametrize("family", FAMILIES_OF_GPUS)
def test_kernels_of_gpus_write_the_same(family):
    device = vkdml.default_device()
    tuning = replace(
        DISCRETE,
        joined_from_bytes=0,
        short=replace(DISCRETE.short, from_bytes=0, **NONE_FIXED),
        periods=replace(DISCRETE.periods, from_bytes=1 << 14, elements_from_bytes=1 << 14),
    )
    check_fixed_plan(device, first_plan(family, replace(device.limits, tuning=tuning)))


@pytest.fixture
def device():
    """A device whose plans get pipelines of their own after three runs."""
    opened = separate_device()
    tuning = replace(
        opened.limits.tuning,
        fixed_parameters_after=AFTER,
        fixed_parameters_to_bytes=1 << 20,
        fixed_parameters_kernels=(),
    )
    opened.executions.tuning = tuning
    fix(opened, "limits", replace(opened.limits, tuning=tuning))
    yield opened
    opened.executions.fixed_pipelines.wait()


def built(device) -> int:
    """How many plans have pipelines of their own."""
    pipelines = device.executions.fixed_pipelines
    pipelines.wait()
    return sum(map(bool, pipelines._built._values.values()))


def settled(device, call) -> int:
    """Call until pipelines of its own are used; return how many plans have some."""
    for _ in range(AFTER):
        call()
    count = built(device)
    for _ in range(RUNS_BETWEEN):
        call()
    return count


def test_calls_on_host_arrays_and_on_arrays_come_to_have_them(device, monkeypatch):
    x = np.random.default_rng(1).random((70, 300), np.float32)
    a = vkdml.asarray(x, device=device)
    assert settled(device, lambda: vkdml.argmax(x, axis=1, device=device)) == 1
    np.testing.assert_array_equal(vkdml.argmax(x, axis=1, device=device), x.argmax(1))
    assert settled(device, lambda: a.argmax(0)) == 2
    np.testing.assert_array_equal(a.argmax(0).numpy(), x.argmax(0))
    out = vkdml.empty((300, 70), np.float32, device=device)
    assert settled(device, lambda: vkdml.slice1(a.T, (0, 0), (300, 70), (1, 1), out=out)) == 3
    np.testing.assert_array_equal(out.numpy(), x.T)
    # What is made from now on has them at once.
    monkeypatch.setattr(device.executions.pipelines, "of", lambda step: pytest.fail("a pipeline was built"))
    device.executions.clear()
    np.testing.assert_array_equal(a.argmax(0).numpy(), x.argmax(0))


def test_one_call_more_or_less_does_not_ask_for_them(device):
    x = np.arange(500, dtype=np.int32)
    for _ in range(AFTER - 1):
        vkdml.argmax(x, device=device)
    assert built(device) == 0
    vkdml.argmax(x, device=device)
    assert built(device) == 1


def test_sequences_come_to_have_them(device):
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(40, 90))
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(40, 1))
    host = np.random.default_rng(2).random((40, 90), np.float32)
    elements = vkdml.asarray(host, device=device)
    sequence = device.sequence()
    indices = sequence.record(device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,))), input=elements)
    backwards = sequence.download(elements[::-1, ::-1])
    assert settled(device, sequence.eval) == 2
    assert all(step.push == b"" for operation in sequence._recorded for step in operation.steps)
    elements[...] = -host
    sequence.eval()
    np.testing.assert_array_equal(indices.numpy()[:, 0], (-host).argmax(1))
    np.testing.assert_array_equal(backwards.numpy(), -host[::-1, ::-1])


@pytest.mark.parametrize("error", [MemoryError, DeviceError, ValueError, KeyError])
def test_calls_go_on_with_shared_pipelines_where_none_can_be_built(device, monkeypatch, error):
    asked = []

    def fail(cache, plan):
        asked.append(plan)
        raise error("no")

    monkeypatch.setattr(fixed_pipelines, "recordable_steps", fail)
    x = np.arange(700, dtype=np.int16)
    assert settled(device, lambda: vkdml.argmax(x, device=device)) == 0
    assert len(asked) == 1  # once is enough
    assert vkdml.argmax(x, device=device) == 699
    monkeypatch.undo()
    settled(device, lambda: vkdml.argmax(x[::-1].copy().reshape(7, 100), axis=1, device=device))
    assert built(device) == 1


def test_where_no_thread_starts_calls_go_on(device, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    x = np.arange(900, dtype=np.int8).reshape(9, 100) % 100
    assert settled(device, lambda: vkdml.argmax(x, axis=1, device=device)) == 0
    monkeypatch.undo()
    settled(device, lambda: vkdml.argmax(x, axis=1, device=device))
    assert built(device) == 1


def test_a_process_may_end_while_they_are_built():
    said = processes.printed(
        f"""
        from dataclasses import replace
        device = vkdml.default_device()
        device.executions.tuning = replace(
            device.limits.tuning,
            fixed_parameters_after={AFTER}, fixed_parameters_to_bytes=1 << 20, fixed_parameters_kernels=())
        for size in range(200, 260):
            x = np.arange(size, dtype=np.float32)
            for _ in range({AFTER}):
                assert vkdml.argmax(x) == size - 1
        print(len(device.executions.fixed_pipelines._wanted) > 10)
        """,
        MESA_SHADER_CACHE_DISABLE="1",
    )
    assert said.strip() == "True"


def test_kernels_have_either_push_constants_or_fixed_parameters(device):
    spirv = kernels.spirv("slice1_runs_4_bytes")
    for push_bytes, fixed in ((128, bytes(128)), (0, bytes(127))):
        with pytest.raises(ValueError, match="fixed parameters are whole words"):
            device.native.kernel(spirv, 3, push_bytes, [64], 0, fixed)
