"""Native devices: what belongs to which, ends in any order, calls from many threads."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from native_work import HOST, copy_plan, rows_plan
from separate import separate_device

import vkdml
from vkdml.runtime.execution import Execution


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


def test_objects_may_be_destroyed_in_any_order_and_thread():
    for order in itertools.permutations(range(4)):
        device = separate_device()
        plan = copy_plan(device)
        execution = Execution(device.executions, plan)
        execution.run()
        kernel = device.executions.pipelines.of(plan.steps[0])
        objects = {0: [device], 1: [execution], 2: [kernel], 3: [execution.views["output"]]}
        content = execution.views["output"].copy()
        del device, execution, kernel
        for key in order:
            # Elements that the host sees keep what they lie in.
            assert all(np.array_equal(view, content) for view in objects[3])
            thread = threading.Thread(target=objects[key].clear)
            thread.start()
            thread.join()


def test_concurrent_calls_from_eight_threads_are_right(device):
    failures = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for i in range(25):
            x = rng.integers(-99, 99, (7, 50 + 10 * (i % 3), 11)).astype(np.int16)
            axis = i % 3
            if not np.array_equal(vkdml.argmin(x, axis=axis, device=device), x.argmin(axis=axis)):
                failures.append((seed, i))
            window = vkdml.slice1(x, (1, 2, 0), (5, 40, 11), (1, -3, 2), device=device)
            if not np.array_equal(window, x[1:6, 2:42][:, ::-3, ::2]):
                failures.append((seed, i, "slice1"))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_belongs_to_another_device_is_refused(device):
    other = separate_device()
    step = rows_plan(device, 2, 64).steps[0]
    kernel, own = device.executions.pipelines.of(step), device.native.buffer(64, HOST)
    foreign = other.native.buffer(64, HOST)
    with pytest.raises(vkdml.DeviceError, match="a buffer belongs to another device"):
        device.native.sequence().dispatch(kernel, [foreign] * 4, step.push, (1, 1, 1))
    with pytest.raises(vkdml.DeviceError, match="between buffers of its own device"):
        device.native.sequence().copy(own, foreign, 64)
    with pytest.raises(vkdml.DeviceError, match="the kernel belongs to another device"):
        other.native.sequence().dispatch(kernel, [foreign] * 4, step.push, (1, 1, 1))
