"""The native runtime: lifetimes, misuse, waiting, threads, fork and interruption."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from plans import run_plan
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.layout import canonical_reduce
from vkdml.plan.order import Order
from vkdml.plan.plans import PUSH_BYTES
from vkdml.runtime.execution import Execution
from vkdml.runtime.recording import record_steps, recordable_steps, workspace_for

HOST = _native.MemoryKind.host


@pytest.fixture
def device():
    return separate_device()


def rows_plan(device, rows: int, length: int):
    """A plan with one dispatch, for anything that needs some work."""
    layout = canonical_reduce((rows, length), (length, 1), (1,), (1, 0), take_last=False)
    return plan_argreduce(
        layout,
        Order("float32"),
        rows * length,
        device.limits,
        index_bytes=4,
        with_values=False,
    )


def long_sequence(device, seconds: float):
    """A recorded sequence that keeps the device busy for about that long (never much less)."""
    plan = rows_plan(device, 512 if device.info.type == "software" else 1 << 16, 1024)
    step = plan.steps[0]
    kernel = device.executions.kernel(step)
    kind = HOST if device.info.unified_memory else _native.MemoryKind.device
    buffers = {role: device.native.buffer(nbytes, kind) for role, nbytes in plan.buffer_bytes if nbytes}
    bound = [buffers.get(role, buffers["indices"]) for role in kernels.table()[step.kernel].bindings]

    def record(times: int):
        sequence = device.native.sequence()
        for _ in range(times):
            sequence.dispatch(kernel, bound, step.push, (step.workgroups, 1, 1))
        return sequence

    times, took = 1, 0.0
    while took < 0.02:  # long enough to tell what a dispatch takes when there are many
        times *= 4
        sequence = record(times)
        readings = []
        for _ in range(3):  # other programs may slow one down
            started = time.perf_counter()
            sequence.eval()
            readings.append(time.perf_counter() - started)
        took = min(readings)
    return record(max(2, int(1.5 * seconds * times / took)))


def test_a_timeout_harms_nothing_and_can_be_waited_out(device):
    sequence = long_sequence(device, 0.4)
    sequence.submit()
    assert sequence.wait(timeout=0.01) is False
    with pytest.raises(vkdml.DeviceError, match=r"cannot submit a sequence that is running: wait\(\)"):
        sequence.submit()
    with pytest.raises(vkdml.DeviceError, match="cannot clear a sequence that is running"):
        sequence.clear()
    assert sequence.wait(timeout=60) is True
    assert sequence.eval(timeout=60) is True


def test_dropping_a_running_sequence_does_not_wait_and_its_memory_stays_until_it_is_done(device):
    sequence = long_sequence(device, 1)
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


def test_misuse_is_refused_with_numbers(device):
    native = device.native
    sequence = native.sequence()
    with pytest.raises(vkdml.DeviceError, match="the sequence is empty"):
        sequence.submit()
    small, large = native.buffer(100, HOST), native.buffer(5000, HOST)
    with pytest.raises(ValueError, match=rf"copy 5000 bytes from offset 0 of {large.capacity}"):
        sequence.copy(large, small, 5000)
    step = rows_plan(device, 2, 64).steps[0]
    kernel = device.executions.kernel(step)
    with pytest.raises(ValueError, match=f"takes 4 buffers and {PUSH_BYTES} bytes.* given are 1 and 4"):
        sequence.dispatch(kernel, [small], b"1234", (1, 1, 1))
    with pytest.raises(ValueError, match=r"dimension 1 takes 1 to .* workgroups on this device, not 0"):
        sequence.dispatch(kernel, [small] * 4, step.push, (1, 0, 1))
    other = separate_device()
    with pytest.raises(vkdml.DeviceError, match="a buffer belongs to another device"):
        sequence.dispatch(kernel, [other.native.buffer(64, HOST)] * 4, step.push, (1, 1, 1))
    with pytest.raises(vkdml.DeviceError, match="the kernel belongs to another device"):
        other.native.sequence().dispatch(kernel, [small] * 4, step.push, (1, 1, 1))
    for code in (b"", bytes(63)):
        with pytest.raises(ValueError, match=rf"SPIR-V comes in words of 4 bytes, not {len(code)} bytes"):
            native.kernel(code, 1, 0)
    code = kernels.spirv(step.kernel)
    with pytest.raises(ValueError, match=r"a kernel binds 1 to .* not 0"):
        native.kernel(code, 0, PUSH_BYTES)
    with pytest.raises(ValueError, match="push constants are whole words of at most"):
        native.kernel(code, 4, 1 << 20)
    limit = device.limits.max_storage_buffer_range
    with pytest.raises(MemoryError, match=rf"cannot allocate {limit + 64} bytes .* limit .* is \d+ bytes"):
        native.buffer(limit + 64, HOST)
    assert vkdml.argmax(np.arange(10.0), device=device) == 9


def test_a_view_keeps_its_memory_alive(device):
    view = device.native.buffer(4096, HOST).view()
    view[:] = 7
    used = device.memory()["used"]
    del device
    gc.collect()
    other = separate_device()
    other.native.buffer(4096, HOST).view()[:] = 9
    assert (view == 7).all()
    assert used >= 4096


def test_objects_may_be_destroyed_in_any_order_and_thread():
    for order in itertools.permutations(range(4)):
        device = separate_device()
        plan = rows_plan(device, 3, 100)
        execution = Execution(device.executions, plan)
        execution.run()
        kernel = device.executions.kernel(plan.steps[0])
        objects = {0: [device], 1: [execution], 2: [kernel], 3: [execution.views["indices"]]}
        del device, execution, kernel
        for key in order:
            thread = threading.Thread(target=objects[key].clear)
            thread.start()
            thread.join()


def test_buffers_are_reused_trimmed_and_counted(device):
    native = device.native
    before = device.memory()
    buffer = native.buffer(100_000, HOST)
    assert device.memory()["used"] == before["used"] + buffer.capacity
    del buffer
    assert device.memory()["pooled"] == before["pooled"] + 131072
    again = native.buffer(131072, HOST)
    assert device.memory()["pooled"] == before["pooled"]
    del again
    assert device.trim() >= 131072
    assert device.memory()["pooled"] == 0


def test_nearly_the_largest_buffer_can_be_had(device):
    kind = HOST if device.info.unified_memory else _native.MemoryKind.device
    nearly = device.limits.max_storage_buffer_range - (64 << 10)
    assert device.native.buffer(nearly // 4 * 4, kind).capacity >= nearly // 4 * 4


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


def run_script(script: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_a_forked_child_gets_a_clear_error_not_a_hang():
    done = run_script("""
        import os, vkdml
        kept = vkdml.Device()
        assert vkdml.argmax([1, 3, 2]) == 1
        child = os.fork()
        if child == 0:
            attempts = (lambda: vkdml.argmax([1, 3, 2]), vkdml.Device, vkdml.devices, lambda: kept.native.buffer(64, vkdml._native.MemoryKind.host))
            for attempt in attempts:
                try:
                    attempt()
                    os._exit(1)
                except vkdml.DeviceError as error:
                    if "forked" not in str(error) or "spawn" not in str(error):
                        os._exit(2)
            del kept
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert vkdml.argmax([1, 2, 5]) == 2
        raise SystemExit(os.waitstatus_to_exitcode(status))
    """)  # noqa: E501
    assert done.returncode == 0, done.stderr


def test_ctrl_c_works_during_a_wait_and_the_device_afterwards():
    script = f"""
        import sys, time
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import numpy as np, vkdml, test_native
        device = vkdml.Device()
        sequence = test_native.long_sequence(device, 4)
        sequence.submit()
        print("waiting", flush=True)
        started = time.perf_counter()
        try:
            sequence.wait()
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - started, flush=True)
        del sequence
        print("index", vkdml.argmax(np.arange(1000.0), device=device), flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        word, seconds = process.stdout.readline().split()
        assert word == "interrupted"
        assert float(seconds) < 1.5
        assert process.stdout.readline() == "index 999\n"
        assert process.wait(60) == 0


def test_import_works_without_vulkan_and_the_first_use_names_the_remedy(tmp_path):
    (tmp_path / "libvulkan.so.1").write_text("no library")
    script = """
        import vkdml, vkdml._native
        assert vkdml._native.loader()["path"] is None
        try:
            vkdml.argmax([1, 3, 2])
        except vkdml.NoDeviceError as error:
            print(error)
    """
    done = run_script(script, LD_LIBRARY_PATH=str(tmp_path))
    assert "no Vulkan loader" in done.stdout, done.stderr
    assert "apt install" in done.stdout
    missing = str(tmp_path / "missing.json")
    done = run_script(script.replace('assert vkdml._native.loader()["path"] is None', ""),
                      VK_DRIVER_FILES=missing, VK_ICD_FILENAMES=missing)  # fmt: skip
    assert "argmax of (3,) int64: the Vulkan loader found no usable driver" in done.stdout, done.stderr


def test_work_in_flight_at_interpreter_exit_ends_cleanly():
    done = run_script(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import vkdml, test_native
        device = vkdml.Device()
        sequence = test_native.long_sequence(device, 0.3)
        sequence.submit()
    """)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("nbytes", [2**63 + 1, 2**64 - 1, 2**64 - 4, 2**64, 2**70, 10**30])
@pytest.mark.parametrize("kind", list(_native.MemoryKind))
def test_sizes_of_any_number_of_bits_are_refused_with_the_limit(device, nbytes, kind):
    limit = r"the device's limit for one (buffer|allocation) is \d+ bytes"
    visible = kind == HOST
    for make in (
        lambda nbytes: device.native.buffer(nbytes, kind),
        lambda nbytes: device.executions.buffer(nbytes, visible=visible),
    ):
        with pytest.raises(MemoryError, match=rf"cannot allocate \d+ bytes .*{limit}"):
            make(nbytes)


def test_other_sizes_are_refused_by_name(device):
    with pytest.raises(ValueError, match="a buffer has 0 bytes or more, not -1"):
        device.native.buffer(-1, HOST)
    for size in (1.5, "3"):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            device.native.buffer(size, HOST)
    assert device.native.buffer(0, HOST).nbytes == 0
    assert device.native.buffer(np.int64(5), HOST).nbytes == 5


def test_none_among_buffers_is_refused(device):
    plan = rows_plan(device, 4, 16)
    kernel = device.executions.kernel(plan.steps[0])
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
