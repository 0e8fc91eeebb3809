"""Memory that runs out, at every call that can fail: MemoryError, and a device that still works."""

from __future__ import annotations

import gc
import time

import numpy as np
import processes
import pytest
from native_work import HOST, long_sequence, status_call
from separate import MAKING_KERNELS, devices_that_fail, separate_device

import vkdml
from vkdml import _native
from vkdml.plan import kernels

VK_ERROR_OUT_OF_HOST_MEMORY = -1
VK_ERROR_OUT_OF_DEVICE_MEMORY = -2
OUT_OF_MEMORY = (VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY)
VK_ERROR_DEVICE_LOST = -4

LOST = r"was lost .*, and what lay on it is gone: select the device again"


def reduce_all(device):
    x = np.arange(300_000, dtype=np.float32)
    assert vkdml.argmax(x, device=device) == 299_999


def reduce_rows_with_values(device):
    x = np.random.default_rng(0).integers(0, 250, (40, 60), np.uint8)
    indices, values = vkdml.argmin(x, axis=1, return_values=True, device=device)
    assert np.array_equal(indices, x.argmin(axis=1))
    assert np.array_equal(values, x.min(axis=1))


def reduce_many_dimensions(device):
    x = np.random.default_rng(1).integers(0, 9, (3, 4) * 4, np.int32).transpose(0, 2, 4, 6, 1, 3, 5, 7)
    axes = (0, 2, 4, 6)
    rows = np.moveaxis(x, axes, (-4, -3, -2, -1))
    expected = rows.reshape(*rows.shape[:4], -1).argmax(axis=-1)
    assert np.array_equal(vkdml.argmax(x, axis=axes, device=device), expected)


def slice_window(device):
    x = np.arange(10_000, dtype=np.uint8).reshape(100, 100)
    assert np.array_equal(vkdml.slice1(x, (5, 5), (90, 90), (-2, 3), device=device), x[5:95, 5:95][::-2, ::3])


ACTIONS = [reduce_all, reduce_rows_with_values, reduce_many_dimensions, slice_window]


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("action", ACTIONS)
def test_a_failed_allocation_at_each_call_is_survived(action, record_property):
    """The host's memory and the device's run out in turn."""
    device = separate_device()
    action(device)  # a driver that compiles then takes so long that the host asks for a fence, too
    device.trim()
    _native.inject_failure(0)
    action(device)
    calls = len(MAKING_KERNELS) + _native.fallible_calls()
    assert calls > 10
    failed = []
    for device in devices_that_fail(calls, OUT_OF_MEMORY):
        with pytest.raises(
            MemoryError, match=r"of \(.*\) .*: .*this call needs buffers of \d+ bytes"
        ) as caught:
            action(device)
        failed.append(_native.injected_call())
        if failed[-1] in ("vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"):
            assert "cannot allocate" in str(caught.value)
            assert "limit for one buffer is" in str(caught.value)
        del caught
        gc.collect()
        assert device.memory()["used"] == 0  # nothing leaked
        _native.inject_failure(0)
        action(device)
        action(device)
    record_property("injected_failures_survived", len(failed))
    assert len(failed) == calls
    assert {"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"} <= set(failed)
    assert {"vkCreateComputePipelines", "vkCreateFence", "vkQueueSubmit"} <= set(failed)


def test_a_device_that_cannot_be_opened_leaves_others_usable():
    _native.inject_failure(1, VK_ERROR_OUT_OF_DEVICE_MEMORY)
    with pytest.raises(MemoryError):
        separate_device()
    assert _native.injected_call() == "vkCreateDevice"
    _native.inject_failure(0)
    reduce_all(separate_device())


LOSING_CALLS = ("vkQueueSubmit", "status", "vkGetFenceStatus", "vkWaitForFences")
"""``status`` stands for the one that tells, at first, whether the device is done."""


def lose(device, call):
    """The device is lost at a call, though in truth it works on; returns the sequence that met with it."""
    sequence = long_sequence(device, 0.3)
    call = status_call(device) if call == "status" else call
    if call != "vkQueueSubmit":
        sequence.submit()
    _native.inject_failure(1, VK_ERROR_DEVICE_LOST, call)
    with pytest.raises(vkdml.DeviceLostError, match=LOST):
        sequence.submit() if call == "vkQueueSubmit" else sequence.wait(spin_us=0)
    assert _native.injected_call() == call
    _native.inject_failure(0)
    return sequence


@pytest.mark.parametrize("call", LOSING_CALLS)
def test_a_lost_device_says_so_at_once_from_then_on_and_a_new_one_works(call):
    device = separate_device()
    slice_window(device)
    idle = long_sequence(device, 0.01)
    running = lose(device, call)
    used = device.memory()["used"]
    assert used > 0
    code = kernels.spirv(next(iter(kernels.table())))
    later = [
        reduce_all,
        slice_window,
        lambda _: running.wait(),
        lambda _: idle.submit(),
        lambda _: idle.eval(),
    ]
    later += [
        lambda _: idle.clear(),
        lambda _: device.native.sequence(),
        lambda _: device.native.buffer(64, HOST),
    ]
    later += [lambda _: device.native.kernel(code, 4, 128)]
    for action in later:
        started = time.perf_counter()
        with pytest.raises(vkdml.DeviceLostError, match=LOST):
            action(device)
        # What other tests have left running takes cores from this one, but nothing waits without end.
        assert time.perf_counter() - started < 5
    slice_window(separate_device())
    assert device.name in repr(device)
    assert device.memory()["used"] <= used
    device.trim()


@pytest.mark.parametrize("call", ["status", "vkWaitForFences"])
def test_what_a_lost_device_may_still_use_is_not_freed_under_it(call):
    device = separate_device()
    running = lose(device, call)
    used = device.memory()["used"]
    del running
    gc.collect()
    assert device.memory()["used"] == used > 0
    slice_window(separate_device())


@pytest.mark.parametrize("call", LOSING_CALLS[:2])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_public_function_that_meets_with_the_loss_says_so(action, call):
    device = separate_device()
    action(device)
    call = status_call(device) if call == "status" else call
    _native.inject_failure(1, VK_ERROR_DEVICE_LOST, call)
    with pytest.raises(vkdml.DeviceLostError, match=r"^(argm..|slice1) of .*was lost"):
        action(device)
    assert _native.injected_call() == call
    _native.inject_failure(0)
    with pytest.raises(vkdml.DeviceLostError, match=r"^(argm..|slice1) of .*was lost"):
        action(device)
    action(separate_device())


@pytest.mark.parametrize("call", LOSING_CALLS)
def test_a_process_that_lost_a_device_with_work_in_flight_ends_cleanly(call):
    assert (
        processes.printed(f"""
            import test_faults
            device = vkdml.Device()
            kept = test_faults.lose(device, {call!r})
            test_faults.slice_window(vkdml.Device())
            try:
                vkdml.argmax([1, 2], device=device)
            except vkdml.DeviceLostError:
                print("lost")
        """)
        == "lost\n"
    )


def test_failures_are_injected_only_into_functions_that_are_checked_and_can_fail():
    for name in ("vkNoSuchFunction", "vkDestroyBuffer", "vkCmdDispatch"):
        with pytest.raises(ValueError, match=f"no failure can be injected into '{name}': accepted are"):
            _native.inject_failure(1, -2, name)
    reduce_all(separate_device())


def test_more_than_a_buffer_can_hold_is_refused_with_numbers():
    device = separate_device()
    limit = device.limits.max_storage_buffer_range
    spread = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (3, limit // 2), (0, 0), writeable=False)
    assert vkdml.argmax(spread, device=device) == 0  # repeated elements take no memory
    limit_said = rf"the device's limit for one (buffer|allocation) is {limit} bytes"
    fault = rf"an array of \({limit + 1},\) uint8 on .*: {limit_said}"
    with pytest.raises(MemoryError, match=fault):
        vkdml.empty((limit + 1,), np.uint8, device=device)
    with pytest.raises(MemoryError, match=fault):
        vkdml.asarray(np.broadcast_to(np.uint8(0), (limit + 1,)), device=device)
    reduce_all(device)


@pytest.mark.parametrize(
    "result", [-3, -13, -1000012000], ids=["initialization", "unknown", "of an extension"]
)
def test_whatever_else_the_driver_fails_in_is_a_device_error(device, result):
    slice_window(device)  # what follows is not about pipelines
    device.trim()
    _native.inject_failure(0)
    slice_window(device)
    failed = set()
    for number in range(1, _native.fallible_calls() + 1):
        device.trim()
        _native.inject_failure(number, result)
        with pytest.raises(vkdml.DeviceError, match=r"^slice1 of \(100, 100\) uint8"):
            slice_window(device)
        failed.add(_native.injected_call())
        _native.inject_failure(0)
        slice_window(device)
    assert {"vkCreateBuffer", "vkCreateFence", "vkBeginCommandBuffer", "vkQueueSubmit"} <= failed
