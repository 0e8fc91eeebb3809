"""Sequences of the native module: waiting, timeouts, threads, interruption, misuse, what they hold."""

from __future__ import annotations

import signal
import subprocess
import threading
import time

import emulated_limits
import numpy as np
import processes
import pytest
from native_work import HOST, long_sequence, rows_plan, status_call
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.plan.plans import PUSH_BYTES
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


def test_a_timeout_harms_nothing_and_can_be_waited_out(device):
    sequence = long_sequence(device, 0.4)
    sequence.submit()
    assert sequence.wait(timeout=0.01) is False
    with pytest.raises(vkdml.DeviceError, match=r"cannot submit a sequence that is running: wait\(\)"):
        sequence.submit()
    with pytest.raises(vkdml.DeviceError, match="cannot clear a sequence that is running"):
        sequence.clear()
    with pytest.raises(vkdml.DeviceError, match="cannot watch a sequence that is running"):
        sequence.watch(device.native.buffer(8, HOST), 2)
    assert sequence.wait(timeout=60) is True
    assert sequence.eval(timeout=60) is True


def watched_sequence(device):
    """A sequence that copies two words to a second buffer, works for a while, and copies them to a third."""
    source, result, last = (device.native.buffer(8, HOST) for _ in range(3))
    sequence = long_sequence(device, 0.5, first=lambda sequence: sequence.copy(source, result, 8))
    sequence.copy(result, last, 8)
    sequence.watch(result, 2)
    return sequence, *(buffer.view()[:8].view(np.uint32) for buffer in (source, result, last))


@pytest.fixture
def watched(device):
    return watched_sequence(device)


def test_a_wait_ends_with_the_result_that_it_watches(device, watched):
    sequence, source, result, last = watched
    # Of the last the device must tell.
    for content in ([3, 0], [4, 1], [0xFFFFFFFF, 0]):
        source[:] = content
        sequence.submit()
        assert sequence.wait(timeout=60, spin_us=60e6) is True  # unless told, it looks for a millisecond only
        is_early = last.tolist() != content
        assert result.tolist() == content
        assert is_early == (device.native.ends_with_events and content[0] < 0xFFFFFFFF)


def test_timestamps_are_waited_for_though_the_result_is_there(device):
    source, result = (device.native.buffer(8, HOST) for _ in range(2))
    source.view()[:] = 7
    sequence = long_sequence(device, 0.3, 1, first=lambda sequence: sequence.copy(source, result, 8))
    sequence.watch(result, 2)
    sequence.submit()
    started = time.perf_counter()
    assert sequence.wait(timeout=60) is True
    assert time.perf_counter() - started > 0.1
    assert len(sequence.timings()) == 1


@pytest.mark.parametrize("use", ["submit", "clear", "wait"])
def test_a_sequence_whose_result_is_there_is_used_while_the_device_still_runs_it(device, watched, use):
    sequence, source, result, _ = watched
    source[:] = 5
    sequence.submit()
    assert sequence.wait(timeout=60, spin_us=60e6) is True
    source[:] = 6
    if use == "submit":
        assert sequence.eval(timeout=60) is True
        assert result.tolist() == [6, 6]
    elif use == "clear":
        sequence.clear()
        long_sequence(device, 0.01).eval()
        assert result.tolist() == [5, 5]
    else:
        started = time.perf_counter()
        assert sequence.wait(timeout=60) is True
        assert (time.perf_counter() - started > 0.1) == device.native.ends_with_events
        assert sequence.eval(timeout=60) is True
    assert vkdml.argmax(np.arange(10.0), device=device) == 9


def test_a_sequence_whose_result_is_there_is_dropped_while_the_device_still_runs_it(device):
    sequence, source, result, _ = watched_sequence(device)
    source[:] = 5
    sequence.submit()
    assert sequence.wait(timeout=60, spin_us=60e6) is True
    used = device.memory()["used"]
    del sequence
    assert result.tolist() == [5, 5]
    long_sequence(device, 0.01).eval()  # comes after it
    assert device.memory()["used"] < used
    assert vkdml.argmax(np.arange(10.0), device=device) == 9


def test_other_threads_run_while_a_sequence_settles(device, watched):
    sequence, *_ = watched
    sequence.submit()
    assert sequence.wait(timeout=60, spin_us=60e6) is True
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.wait(0.01):
            ticks.append(time.perf_counter())

    ticking = threading.Thread(target=tick)
    ticking.start()
    began = time.perf_counter()
    sequence.submit()
    took = time.perf_counter() - began
    is_over.set()
    ticking.join()
    assert (took > 0.1) == device.native.ends_with_events
    assert len(ticks) > took / 0.05 - 2
    assert sequence.wait(timeout=60) is True


class Alarm(Exception):
    """Raised by a signal."""


def test_a_signal_ends_the_wait_for_a_sequence_that_settles(device, watched):
    sequence, source, result, _ = watched

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        source[:] = 5
        sequence.submit()
        assert sequence.wait(timeout=60, spin_us=60e6) is True
        if device.native.ends_with_events:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Alarm):
                sequence.submit()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    source[:] = 6
    assert sequence.eval(timeout=60) is True
    assert result.tolist() == [6, 6]


def test_no_more_is_watched_than_there_is_and_not_more_operations_are_timed_than_there_are_queries(device):
    buffer, sequence = device.native.buffer(8, HOST), device.native.sequence()
    words = buffer.capacity // 4
    sequence.watch(buffer, words)
    with pytest.raises(ValueError, match=f"cannot watch {words + 1} words of a buffer of {4 * words} bytes"):
        sequence.watch(buffer, words + 1)
    with pytest.raises(ValueError, match=f"a sequence times at most {2**31 - 1} operations, not {2**31}"):
        device.native.sequence(2**31)


def test_dropping_a_running_sequence_does_not_wait_and_its_memory_stays_until_it_is_done(device):
    sequence = long_sequence(device, 0.6)
    used = device.memory()["used"]
    started = time.perf_counter()
    sequence.submit()
    del sequence
    assert time.perf_counter() - started < 0.5
    assert device.memory()["used"] == used
    assert vkdml.argmax(np.arange(10.0), device=device) == 9
    long_sequence(device, 0.01).eval()  # a later submission collects what has finished
    assert device.memory()["used"] < used


def test_a_second_thread_is_refused_while_one_waits(device):
    sequence = long_sequence(device, 0.6)
    sequence.submit()
    waiter = threading.Thread(target=sequence.wait)
    waiter.start()
    time.sleep(0.1)
    with pytest.raises(vkdml.DeviceError, match="another thread is using this sequence"):
        sequence.wait()
    waiter.join()


def test_ctrl_c_works_during_a_wait_and_the_device_afterwards():
    script = """
        import native_work
        device = vkdml.Device()
        sequence = native_work.long_sequence(device, 1)
        sequence.submit()
        print("waiting", flush=True)
        try:
            sequence.wait()
        except KeyboardInterrupt:
            print("interrupted", "late" if sequence.wait(timeout=0) else "early", flush=True)
        del sequence
        print("index", vkdml.argmax(np.arange(1000.0), device=device), flush=True)
    """
    with subprocess.Popen(processes.command(script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted early\n"
        assert process.stdout.readline() == "index 999\n"
        assert process.wait(60) == 0


def test_misuse_is_refused_with_numbers(device):
    native = device.native
    sequence = native.sequence()
    with pytest.raises(vkdml.DeviceError, match="the sequence is empty"):
        sequence.submit()
    small, large = native.buffer(100, HOST), native.buffer(5000, HOST)
    with pytest.raises(ValueError, match=rf"copy 5000 bytes from offset 0 of {large.capacity}"):
        sequence.copy(large, small, 5000)
    step = rows_plan(device, 2, 64).steps[0]
    kernel = device.executions.pipelines.of(step)
    with pytest.raises(ValueError, match=f"takes 4 buffers and {PUSH_BYTES} bytes.* given are 1 and 4"):
        sequence.dispatch(kernel, [small], b"1234", (1, 1, 1))
    with pytest.raises(ValueError, match=r"dimension 1 takes 1 to .* workgroups on this device, not 0"):
        sequence.dispatch(kernel, [small] * 4, step.push, (1, 0, 1))
    assert vkdml.argmax(np.arange(10.0), device=device) == 9


def test_none_among_buffers_is_refused(device):
    plan = rows_plan(device, 4, 16)
    kernel = device.executions.pipelines.of(plan.steps[0])
    buffer = device.native.buffer(64, HOST)
    sequence = device.native.sequence()
    with pytest.raises(TypeError, match="a buffer is a Buffer, not None"):
        sequence.dispatch(kernel, [buffer, None, None, None], plan.steps[0].push, (1, 1, 1))
    sequence.copy(buffer, device.native.buffer(64, HOST), 64)
    for call in (sequence.submit, lambda holding: sequence.eval(holding=holding)):
        with pytest.raises(TypeError, match="a buffer is a Buffer, not None"):
            call([buffer, None])
    assert sequence.eval()


def test_a_sequence_is_held_by_the_memory_that_it_uses_and_no_other(device):
    """The device must not write where memory has gone to another owner."""
    source, target, other = (device.native.buffer(64, HOST) for _ in range(3))
    target.view()[:] = 0
    source.view()[:] = 7
    sequence = device.native.sequence(0, False)
    sequence.copy(source, target, 64)
    for holding in ([other], [source], [source, other]):
        with pytest.raises(vkdml.DeviceError, match="is not among those to be held"):
            sequence.submit(holding)
    assert not target.view().any()
    sequence.eval(holding=[other, target, source])
    assert (target.view() == 7).all()
    del target
    with pytest.raises(vkdml.DeviceError, match="is gone"):
        sequence.submit()


def test_timestamps_are_in_nanoseconds(device):
    if not device.info.queue_timestamp_bits:
        with pytest.raises(vkdml.DeviceError, match="no timestamps"):
            device.native.sequence(timestamps=1)
        return
    plan = rows_plan(device, 1024, 1024)
    cache = device.executions
    workspace = workspace_for(cache, plan)
    buffers = {role: cache.buffer(nbytes) for role, nbytes in plan.buffer_bytes if nbytes}
    sequence = device.native.sequence(timestamps=2)
    for _ in range(2):
        regions = {role: (buffers[role], 0) for role in ("input", "indices")}
        record_steps(sequence, recordable_steps(cache, plan), workspace, regions)
    started = time.perf_counter_ns()
    sequence.eval()
    wall = time.perf_counter_ns() - started
    assert len(sequence.timings()) == 2 * len(plan.steps) == 2
    assert 0 < sum(sequence.timings()) < wall
    sequence.eval()
    assert len(sequence.timings()) == 2


def test_work_in_flight_at_the_end_of_a_process_ends_cleanly():
    processes.printed("""
        import native_work
        sequence = native_work.long_sequence(vkdml.Device(), 0.3)
        sequence.submit()
    """)


# ---- how the host learns that a sequence is done -----------------------------------------------------------


@pytest.mark.parametrize("timestamps", [0, 1])
def test_the_host_asks_for_one_thing_only(device, timestamps):
    sequence = long_sequence(device, 0.001, timestamps)
    sequence.eval()
    asked = set()
    for function in ("vkGetEventStatus", "vkGetFenceStatus", "vkWaitForFences"):
        _native.inject_failure(1 << 40, -1, function)
        sequence.eval(spin_us=1e6)
        if _native.fallible_calls():
            asked.add(function)
        _native.inject_failure(0)
    assert asked == {"vkGetFenceStatus" if timestamps else status_call(device)}


def test_a_wait_without_spinning_ends_when_the_work_does(device):
    for seconds in (0.001, 0.03, 0.2):  # pauses; the last asks for a fence after the first slice
        sequence = long_sequence(device, seconds)
        for _ in range(3):
            assert sequence.eval(spin_us=0)


@pytest.mark.parametrize("layers", ["", "VK_LAYER_none_such", "*validation*"])
def test_under_validation_layers_a_fence_tells(device, layers):
    printed = processes.printed(
        "print(vkdml.Device().native.ends_with_events)", VK_INSTANCE_LAYERS="", VK_LOADER_LAYERS_ENABLE=layers
    )
    assert printed == f"{'SwiftShader' not in device.name and layers != '*validation*'}\n"


LEAVES_LATE = {
    **emulated_limits.Emulated("late", "leaves commands late", leaves_late=True).environment(),
    "VK_INSTANCE_LAYERS": emulated_limits.LAYER,  # no validation: under it there are no events
    "VK_LOADER_LAYERS_ENABLE": "",
}


@pytest.mark.parametrize(
    "use",
    [
        "",  # the sequence is dropped, and then the device
        "sequence.clear(); sequence.copy(target, source, 256); sequence.clear()",
        "run(native.sequence()); sequence.clear(); run(sequence)",
        "[(sequence.clear(), run(sequence)) for _ in range(5)]",
        "vkdml.asarray(np.arange(1000), device=device)[::-1].argmax(), vkdml.argmax(x, device=device)",
    ],
)
def test_commands_are_kept_until_the_driver_has_left_them(use):
    """An event that they set tells that they are done, while the driver may still read what comes after."""
    printed = processes.printed(
        f"""
        import native_work
        from separate import separate_device
        device = separate_device()
        native, x = device.native, np.arange(1000)
        assert native.ends_with_events
        source, target = (native.buffer(256, native_work.HOST) for _ in range(2))
        source.view()[:] = 7
        def run(sequence):
            target.view()[:] = 0
            sequence.copy(source, target, 256)
            sequence.eval()
            assert (target.view() == 7).all()
        sequence = native.sequence()
        run(sequence)
        {use}
        del sequence
        del native, device, source, target, run
        print("done")
        """,
        **LEAVES_LATE,
    )
    assert printed == "done\n"
