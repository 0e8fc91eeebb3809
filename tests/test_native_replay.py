"""Replays of the native module: other buffers, what is recorded again, what they hold, misuse."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest
from native_work import HOST, rows_plan
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.runtime.rebindable import Rebindable

ROWS, LENGTH = 6, 50


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


def filled(device, content):
    """A buffer that the host sees, with this content 512 bytes after its start."""
    buffer = device.native.buffer(512 + content.nbytes, HOST)
    buffer.view()[512:] = content.reshape(-1).view(np.uint8)
    return buffer


def rows(seed: int):
    return np.random.default_rng(seed).integers(0, 1000, (ROWS, LENGTH), np.int32)


def indices_in(buffer):
    return buffer.view()[: 4 * ROWS].view(np.int32).tolist()


def run_on(replay, buffer, offset):
    """Evaluate with the results in new memory."""
    results = replay.start_on(buffer, offset)
    if results is not None:
        replay.wait()
    return results


def test_other_buffers_at_each_run(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    contents = [rows(seed) for seed in range(4)]
    inputs = [filled(device, content) for content in contents]
    outputs = [device.native.buffer(4 * ROWS, HOST) for _ in contents]
    for order in ((0, 1, 2, 3), (3, 3, 0, 2)):
        for number in order:
            outputs[number].view()[:] = 255
            replay.run({"input": (inputs[number], 512), "indices": (outputs[number], 0)})
            assert indices_in(outputs[number]) == contents[number].argmax(1).tolist()


def test_results_in_new_memory(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    contents = [rows(seed) for seed in range(5)]
    results = [run_on(replay, filled(device, content), 512) for content in contents]
    for content, made in zip(contents, results, strict=True):
        (indices,) = made
        assert indices_in(indices) == content.argmax(1).tolist()


def test_the_same_buffers_are_not_recorded_again(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    regions = {"input": (filled(device, rows(0)), 512), "indices": (device.native.buffer(4 * ROWS, HOST), 0)}
    replay.run(regions)
    _native.inject_failure(0)
    for _ in range(3):
        replay.run(regions)
    assert _native.fallible_calls() == 3  # one submission each


def test_no_buffer_is_kept_alive(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    used = device.memory()["used"]
    (indices,) = run_on(replay, filled(device, rows(0)), 512)
    assert device.memory()["used"] > used
    del indices
    gc.collect()
    assert device.memory()["used"] == used


def test_a_run_without_memory_for_its_result_does_nothing(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    given = filled(device, rows(0))
    device.trim()
    _native.inject_failure(1, -2, "vkAllocateMemory")
    assert run_on(replay, given, 512) is None
    _native.inject_failure(0)
    (indices,) = run_on(replay, given, 512)
    assert indices_in(indices) == rows(0).argmax(1).tolist()


def test_what_failed_to_be_recorded_is_recorded_anew(device):
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    given = filled(device, rows(1))
    with pytest.raises(ValueError, match=r"a buffer of .* bytes is bound from a multiple of"):
        run_on(replay, given, 1)
    (indices,) = run_on(replay, given, 512)
    assert indices_in(indices) == rows(1).argmax(1).tolist()
    with pytest.raises(ValueError, match=r"a buffer of .* bytes is bound from a multiple of"):
        run_on(replay, given, 1)
    (indices,) = run_on(replay, given, 512)
    assert indices_in(indices) == rows(1).argmax(1).tolist()


def test_input_and_result_in_one_buffer_after_two(device):
    """What depends on what decides where barriers stand, so such buffers are recorded anew."""
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    both = device.native.buffer(1 << 14, HOST)
    both.view()[512 : 512 + rows(2).nbytes] = rows(2).reshape(-1).view(np.uint8)
    run_on(replay, filled(device, rows(0)), 512)
    for _ in range(2):
        replay.run({"input": (both, 512), "indices": (both, 8192)})
        assert both.view()[8192 : 8192 + 4 * ROWS].view(np.int32).tolist() == rows(2).argmax(1).tolist()


def test_a_binding_of_a_region_that_there_is_not(device):
    step = (device.executions.pipelines.of(rows_plan(device, ROWS, LENGTH).steps[0]), b"", 1, [(-1, True)])
    with pytest.raises(ValueError, match="a binding takes region -1, which there is not"):
        device.native.replay(None, [step], [], 0, 1000.0)


def test_a_dropped_device_and_its_replays():
    device = separate_device()
    replay = Rebindable(device.executions, rows_plan(device, ROWS, LENGTH))
    (indices,) = run_on(replay, filled(device, rows(0)), 512)
    gone = ref(device)
    del device
    gc.collect()
    assert gone() is None
    assert indices_in(indices) == rows(0).argmax(1).tolist()


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", -5), ("uint16", 65535), ("int32", -(2**31)), ("uint64", 2**64 - 1)]
)
def test_an_integer_of_the_hosts_memory(device, dtype, value):
    buffer = device.native.buffer(32, HOST)
    content = np.array([value], dtype)
    buffer.view()[8 : 8 + content.nbytes] = content.view(np.uint8)
    found = device.native.integer(buffer, 8, content.itemsize, dtype[0] == "i")
    assert (type(found), found) == (int, value)
    with pytest.raises(ValueError, match="are not inside a buffer of 32"):
        device.native.integer(buffer, 32, content.itemsize, True)
    with pytest.raises(ValueError, match="an integer has 1, 2, 4 or 8 bytes, not 3"):
        device.native.integer(buffer, 0, 3, True)
