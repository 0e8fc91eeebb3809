"""A device's pipelines, each of which is built once."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from plans import GPU_LIMITS
from separate import separate_device

import vkdml
from vkdml.plan import kernels
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.order import Order
from vkdml.runtime import pipelines as module
from vkdml.runtime.pipelines import Pipelines


def rows_step(device):
    x = Operand((40, 77), (77, 1), 0, 40 * 77)
    call = ReduceCall(x, (1,), Order("float32"), Operand.compact((40, 1)), 4, False)
    return plan_for(call, device.limits).steps[0]


class SlowToBuild:
    """The native device of pipelines, which counts the pipelines that it is asked for."""

    def __init__(self, native, fails: int = 0):
        self.native, self.fails, self.built = native, fails, 0

    def kernel(self, *arguments):
        self.built += 1
        time.sleep(0.05)  # so that all threads have asked for it
        if self.built <= self.fails:
            raise vkdml.DeviceError("no memory")
        return self.native.kernel(*arguments)


@pytest.mark.parametrize("fails", [0, 2])
def test_threads_that_need_a_pipeline_at_once_build_it_once(fails):
    """Where it fails, the next thread tries."""
    pipelines = separate_device().executions.pipelines
    slow = pipelines._device = SlowToBuild(pipelines._device, fails)
    step = rows_step(vkdml.default_device())
    found, failed = [], []

    def need():
        try:
            found.append(pipelines.of(step))
        except vkdml.DeviceError as error:
            failed.append(error)

    threads = [threading.Thread(target=need) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (slow.built, len(failed)) == (1 + fails, fails)
    assert len({id(kernel) for kernel in found}) == 1
    assert pipelines.of(step) is found[0]


def test_of_pipelines_whose_constants_are_numbers_of_a_shape_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_ONE_SHAPE", 3)
    made = separate_device().executions.pipelines
    built = []
    monkeypatch.setattr(made, "_built", lambda step: built.append(step) or object())
    steps = [plan_pixels(channels) for channels in (3, 4, 5, 6, 7)]
    kept = [made.of(step) for step in steps]
    assert [made.of(step) for step in steps[2:]] == kept[2:]
    assert built == steps
    assert made.of(steps[0]) is not kept[0]
    assert not made._of_any_shape


def plan_pixels(channels: int):
    """The step that copies so many planes to pixels on a GPU."""
    source = Operand((1 << 20, channels), (1, 1 << 20), 0, channels << 20)
    (step,) = plan_for(CopyCall(source, Operand.compact(source.sizes), 4), GPU_LIMITS).steps
    assert "pixels" in step.kernel
    return step


def test_a_signal_handler_may_build_the_pipeline_that_its_thread_builds(device, monkeypatch):
    """A lock that this thread already has would be waited for as long as the process lives."""
    pipelines = separate_device().executions.pipelines
    step = rows_step(device)
    built = []

    def build(step):
        built.append(len(built))
        if len(built) == 1:
            pipelines.of(step)  # as a handler would that comes now
        return Pipelines._built(pipelines, step)

    monkeypatch.setattr(pipelines, "_built", build)
    former = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the thread waits for itself"))
    signal.alarm(20)
    try:
        kernel = pipelines.of(step)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    assert built == [0, 1]
    assert pipelines.of(step) is kernel
    assert not pipelines._being_built


def test_a_pipeline_that_could_not_be_built_leaves_nothing(device, monkeypatch):
    pipelines = separate_device().executions.pipelines
    step = rows_step(device)

    def fail(step):
        raise MemoryError("no")

    with monkeypatch.context() as patch:
        patch.setattr(pipelines, "_built", fail)
        with pytest.raises(MemoryError):
            pipelines.of(step)
    assert not pipelines._being_built
    assert pipelines.of(step) is pipelines.of(step)


def test_constants_of_shapes_are_not_remembered():
    """There is no end of them."""
    family = kernels.family("slice1_pixels")
    assert family.has_constants_of_shape
    remembered = len(family._specialized)
    assert len({plan_pixels(channels).constants for channels in range(3, 30)}) > 20
    assert len(family._specialized) == remembered
