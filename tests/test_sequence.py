"""Recorded sequences: order, reuse, transfers, waiting, misuse, threads, asyncio and faults."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dml_tensors import tensor
from recorded_work import COUNT, Long, reverse
from separate import separate_device

import vkdml
from vkdml import _native, dml
from vkdml.compiled.transfers import HostArray


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def copy(device, count=COUNT):
    x = tensor("INT32", count)
    return device.compile(dml.Slice1OperatorDesc(x, x, (0,), (count,), (1,)))


def argmax(device, count=COUNT):
    return device.compile(dml.ArgMaxOperatorDesc(tensor("INT32", count), tensor("INT64", 1), (0,)))


def numbers(rng, count=COUNT):
    return rng.integers(0, 1 << 30, count, np.int32)


def test_a_chain_of_intermediate_arrays(device, rng):
    hosts = [numbers(rng) for _ in range(5)]
    host, source = np.empty(COUNT, np.int32), vkdml.empty(COUNT, np.int32)
    sequence = device.sequence()
    sequence.upload(source, host)
    backwards = sequence.record(reverse(device), input=source)
    forwards = sequence.record(reverse(device), input=backwards)
    position = sequence.record(argmax(device), input=backwards)
    found = sequence.download(position)
    all_elements = sequence.download(forwards)
    assert len(sequence) == 6
    assert sequence.device is device
    for number, elements in enumerate(hosts):
        host[...] = elements
        assert (sequence.eval() if number % 2 else sequence.eval_async()) is sequence
        assert found.numpy() == elements[::-1].argmax()
        assert np.array_equal(all_elements.numpy(), elements)
        assert np.array_equal(backwards, elements[::-1])
        assert int(position) == elements[::-1].argmax()
        assert not sequence.running


def test_what_is_read_first_is_overwritten_after(device, rng):
    first, second = numbers(rng), numbers(rng)
    array = vkdml.asarray(first)
    sequence = device.sequence()
    before = sequence.download(array)
    reversed_before = sequence.record(reverse(device), input=array)
    sequence.upload(array, second)
    reversed_after = sequence.record(reverse(device), input=array)
    after = sequence.download(array)
    sequence.eval()
    assert np.array_equal(before.numpy(), first)
    assert np.array_equal(reversed_before, first[::-1])
    assert np.array_equal(reversed_after, second[::-1])
    assert np.array_equal(after.numpy(), second)


def test_fifty_copies_to_and_fro(device, rng):
    host = numbers(rng)
    ping, pong = vkdml.asarray(host), vkdml.empty(COUNT, np.int32)
    op = reverse(device)
    sequence = device.sequence()
    for number in range(50):
        source, target = (pong, ping) if number % 2 else (ping, pong)
        assert sequence.record(op, input=source, output=target) is target
    sequence.record(op, input=ping, output=pong)
    for _ in range(3):
        sequence.eval()
        assert np.array_equal(ping, host)
        assert np.array_equal(pong, host[::-1])


def test_independent_operations(device, rng):
    hosts = [numbers(rng) for _ in range(20)]
    arrays = [vkdml.asarray(host) for host in hosts]
    op = argmax(device)
    sequence = device.sequence()
    positions = [sequence.record(op, input=array) for array in arrays]
    sequence.eval()
    assert [int(position) for position in positions] == [host.argmax() for host in hosts]


def test_operations_with_workspaces_have_one_each(device, rng):
    count = 1 << 17
    op = argmax(device, count)
    assert op.temporary_size
    hosts = [numbers(rng, count) for _ in range(6)]
    sequence = device.sequence()
    arrays = [vkdml.asarray(host) for host in hosts]
    positions = [sequence.record(op, input=array) for array in arrays]
    for _ in range(3):
        sequence.eval()
        assert [int(position) for position in positions] == [host.argmax() for host in hosts]
        for array, host in zip(arrays, hosts, strict=True):
            host[...] = numbers(rng, count)
            array[...] = host


DTYPES = ["bool", "int8", "float16", "float32", "float64", "complex128", "datetime64[s]", "V16", "S2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_transfers_of_views(device, rng, dtype):
    dtype = np.dtype(dtype)
    contents = np.frombuffer(rng.bytes(5 * 6 * 7 * dtype.itemsize), np.uint8)
    host = contents.view(dtype).reshape(5, 6, 7)
    whole = vkdml.asarray(np.zeros((5, 6, 7), dtype))
    sequence = device.sequence()
    target = np.zeros((5, 3, 7), dtype).transpose(2, 1, 0)
    sequence.upload(whole[:, ::2], host[:, 1::2])  # strided on both sides
    sequence.upload(whole[1:3, 5], host[0, :2])
    down = sequence.download(whole.T[:, 1::2])
    filled = sequence.download(whole.T[:, ::-2], out=target)
    scalar = sequence.download(whole[4, 4, 6])
    sequence.eval()
    expected = np.zeros((5, 6, 7), dtype)
    expected[:, ::2] = host[:, 1::2]
    expected[1:3, 5] = host[0, :2]

    def equal(a, b):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

    assert equal(whole.numpy(), expected)
    assert equal(down.numpy(), expected.T[:, 1::2])
    assert equal(np.asarray(down), expected.T[:, 1::2])
    assert filled.numpy() is target
    assert equal(target, expected.T[:, ::-2])
    assert equal(scalar.numpy(), expected[4, 4, 6:].reshape(()))


def test_a_raw_buffer_as_output_is_returned_as_a_view(device, rng):
    host = numbers(rng)
    raw = vkdml.empty(4 * COUNT + 256, np.uint8)[256:]
    sequence = device.sequence()
    view = sequence.record(reverse(device), input=vkdml.asarray(host), output=raw)
    with pytest.raises(vkdml.DeviceError, match="the input array of operation 0"):  # nobody kept it
        sequence.eval()
    sequence.clear()
    source = vkdml.asarray(host)
    view = sequence.record(reverse(device), input=source, output=raw)
    sequence.eval()
    assert np.array_equal(view, host[::-1])
    assert np.array_equal(raw.numpy().view(np.int32), host[::-1])


# ---- running -----------------------------------------------------------------------------------------------


def test_host_access_waits_for_what_runs(device):
    long = Long(device)
    count = long.host.size
    for _ in range(2):  # also when the sequence was waited for before
        long.arrays[0][...] = long.host
        long.sequence.eval_async()
        last = long.arrays[1]
        assert np.array_equal(last.numpy(), long.host[::-1])
        long.sequence.eval_async()
        assert int(last[0]) == count - 1
        long.sequence.eval_async()
        last[...] = 7  # is not overwritten by what was started before
        assert np.all(last.numpy() == 7)
        assert long.sequence.wait()


def test_a_sequence_dropped_while_it_runs_is_waited_for(device):
    long = Long(device)
    host, arrays = long.host, long.arrays
    last = long.sequence.record(reverse(device, host.size), input=arrays[0])
    long.sequence.eval()
    last[...] = 0
    evaluation = weakref.ref(long.sequence._evaluation)
    long.sequence.eval_async()
    del long
    assert np.array_equal(last.numpy(), host[::-1])
    device.sequence()
    gc.collect()
    assert evaluation() is None


def test_arrays_dropped_while_a_sequence_runs(device, rng):
    """What runs keeps its memory, which nobody else is given meanwhile."""
    long = Long(device)
    kept, dropped = long.arrays
    kept[...] = long.host
    long.sequence.eval_async()
    del dropped
    long.arrays.clear()
    others = [vkdml.asarray(np.full(long.host.size, 5, np.int32), device=device) for _ in range(4)]
    assert long.sequence.wait()
    assert all(np.all(other.numpy() == 5) for other in others)
    with pytest.raises(
        vkdml.DeviceError, match=r"^the output array of operation 0 \(SLICE1\) was freed: .*; accepted: keep"
    ):
        long.sequence.eval()
    assert np.array_equal(kept, long.host)


def test_waiting_with_a_time_limit(device):
    long = Long(device)
    assert long.sequence.wait(0) is True  # nothing runs
    long.sequence.eval_async()
    results = [long.sequence.wait(timeout=0.0)]
    while not results[-1]:
        results.append(long.sequence.wait(timeout=0.001))
    assert not long.sequence.running
    assert results[0] is False
    assert results[-1] is True
    assert np.array_equal(long.arrays[0], long.host)


MISUSE_WHILE_RUNNING = {
    "record": lambda long, op: long.sequence.record(op, input=long.arrays[0], output=long.arrays[1]),
    "upload": lambda long, op: long.sequence.upload(long.arrays[0], long.host),
    "download": lambda long, op: long.sequence.download(long.arrays[0]),
    "clear": lambda long, op: long.sequence.clear(),
    "eval": lambda long, op: long.sequence.eval(),
    "eval_async": lambda long, op: long.sequence.eval_async(),
    "timings": lambda long, op: long.sequence.timings(),
}


@pytest.mark.parametrize("action", MISUSE_WHILE_RUNNING)
def test_misuse_while_running(device, action):
    long = Long(device)
    op = reverse(device, long.host.size)
    long.sequence.eval_async()
    assert "running" in repr(long.sequence)
    with pytest.raises(
        vkdml.DeviceError, match=r"cannot .* a sequence that is running: wait\(\) for it first"
    ):
        MISUSE_WHILE_RUNNING[action](long, op)
    assert long.sequence.wait()
    assert len(long.sequence) == long.rounds
    assert np.array_equal(long.arrays[0], long.host)
    MISUSE_WHILE_RUNNING[action](long, op)  # now it is no misuse
    long.sequence.wait()


def test_misuse_of_arrays_and_operators(device):
    other = separate_device()
    array, host = vkdml.empty(COUNT, np.int32), np.zeros(COUNT, np.int32)
    sequence = device.sequence()
    for error, message, action in (
        (
            ValueError,
            "an operator of .* cannot be recorded",
            lambda: sequence.record(reverse(other), input=array),
        ),
        (TypeError, "op is a Slice1OperatorDesc", lambda: sequence.record(reverse(device).desc, input=array)),
        (TypeError, "SLICE1: input is a ndarray", lambda: sequence.record(reverse(device), input=host)),
        (
            ValueError,
            "arrays on two devices",
            lambda: sequence.record(reverse(device), input=vkdml.empty(COUNT, np.int32, device=other)),
        ),
        (
            ValueError,
            "overlaps the input",
            lambda: sequence.record(reverse(device), input=array, output=array),
        ),
        (
            ValueError,
            "arrays on two devices",
            lambda: sequence.upload(vkdml.empty(1, np.int32, device=other), host[:1]),
        ),
        (
            ValueError,
            "arrays on two devices",
            lambda: sequence.download(vkdml.empty(1, np.int32, device=other)),
        ),
        (TypeError, r"upload: array is a ndarray", lambda: sequence.upload(host, host)),
        (TypeError, r"download: array is a ndarray", lambda: sequence.download(host)),
        (TypeError, r"upload: host is a list; accepted: a NumPy array", lambda: sequence.upload(array, [0])),
        (
            TypeError,
            r"upload: host is a NumPy array .* type >i4",
            lambda: sequence.upload(array, host.astype(">i4")),
        ),
        (
            ValueError,
            r"upload: host is a NumPy array of shape \(1,\)",
            lambda: sequence.upload(array, host[:1]),
        ),
        (
            TypeError,
            r"download: out is a NumPy array of .* type int64",
            lambda: sequence.download(array, out=np.zeros(COUNT, np.int64)),
        ),
        (
            ValueError,
            "download: out is read-only",
            lambda: sequence.download(array, out=np.broadcast_to(np.int32(0), (COUNT,))),
        ),
        (
            ValueError,
            "upload: array is a read-only view",
            lambda: sequence.upload(array.broadcast_to((2, COUNT)), np.zeros((2, COUNT), np.int32)),
        ),
        (
            ValueError,
            r"shape \(0,\) and no elements; accepted: at least one",
            lambda: sequence.download(array[:0]),
        ),
    ):
        with pytest.raises(error, match=message):
            action()
    assert len(sequence) == 0
    with pytest.raises(vkdml.DeviceError, match="the sequence is empty"):
        sequence.eval()


def test_results_before_an_evaluation(device):
    array = vkdml.asarray(np.arange(3))
    sequence = device.sequence()
    down = sequence.download(array)
    for read in (down.numpy, sequence.timings):
        with pytest.raises(vkdml.DeviceError, match="has not been evaluated"):
            read()
    sequence.clear()
    other = sequence.download(array)
    sequence.eval()
    assert other.numpy().tolist() == [0, 1, 2]
    with pytest.raises(vkdml.DeviceError, match="has not been evaluated since this download was recorded"):
        down.numpy()


def test_recording_more_after_an_evaluation(device, rng):
    host = numbers(rng)
    array = vkdml.asarray(host)
    sequence = device.sequence()
    once = sequence.record(reverse(device), input=array)
    sequence.eval()
    twice = sequence.record(reverse(device), input=once)
    sequence.eval()
    assert np.array_equal(twice, host)
    sequence.clear()
    assert len(sequence) == 0
    position = sequence.record(argmax(device), input=once)
    sequence.eval()
    assert int(position) == host[::-1].argmax()
    assert [label for label, _ in sequence.timings()] == ["ARGMAX"]


def test_timings(device, rng):
    if not device.info.queue_timestamp_bits:
        pytest.skip("this device has no timestamps")
    host, array = numbers(rng), vkdml.empty(COUNT, np.int32)
    big = Long(device)
    sequence = device.sequence()
    sequence.upload(array, host)
    kept = [
        sequence.record(argmax(device), input=array),
        sequence.record(reverse(device, big.host.size), input=big.arrays[0]),
    ]
    sequence.download(kept[0])
    before = time.perf_counter_ns()
    measured = sequence.eval().timings()
    elapsed = time.perf_counter_ns() - before
    assert [label for label, _ in measured] == ["upload", "ARGMAX", "SLICE1", "download"]
    assert all(nanoseconds >= 0 for _, nanoseconds in measured)
    assert 0 < sum(nanoseconds for _, nanoseconds in measured) < 2 * elapsed
    sequence.download(kept[1])
    with pytest.raises(vkdml.DeviceError, match="not been evaluated"):
        sequence.timings()
    assert len(sequence.eval().timings()) == 5

    unmeasured = device.sequence(timings=False)
    unmeasured.download(array)
    unmeasured.eval()
    with pytest.raises(vkdml.DeviceError, match=r"device\.sequence\(timings=True\)"):
        unmeasured.timings()


def test_as_a_context_manager(device):
    long = Long(device)
    with long.sequence as sequence:
        found = sequence.download(long.arrays[0])
        sequence.eval_async()
    assert not sequence.running
    assert len(sequence) == 0
    assert np.array_equal(found.numpy(), long.host)
    other = Long(device)

    def leave_early():
        with other.sequence as sequence:
            sequence.eval_async()
            raise KeyError

    with pytest.raises(KeyError):
        leave_early()
    sequence = other.sequence
    assert not sequence.running
    assert len(sequence) == 0
    sequence.download(long.arrays[0])  # and it can be used again
    sequence.eval()


# ---- threads and asyncio -----------------------------------------------------------------------------------


def test_eight_threads_with_sequences_of_their_own(device):
    start = threading.Barrier(8)
    op, turn = argmax(device), reverse(device)

    def work(seed):
        rng = np.random.default_rng(seed)
        host, array = np.empty(COUNT, np.int32), vkdml.empty(COUNT, np.int32, device=device)
        sequence = device.sequence()
        sequence.upload(array, host)
        turned = sequence.record(turn, input=array)
        position = sequence.record(op, input=turned)
        found = sequence.download(position)
        start.wait()
        for number in range(30):
            host[...] = numbers(rng)
            sequence.eval_async()
            if number % 3:
                sequence.wait()
            assert found.numpy() == host[::-1].argmax()
            assert int(position) == host[::-1].argmax()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_many_threads_wait_for_one_evaluation(device):
    long = Long(device)
    for _ in range(3):
        long.arrays[0][...] = long.host
        long.sequence.eval_async()

        def look(number):
            if number % 3 == 0:
                return long.sequence.wait()
            if number % 3 == 1:
                return np.array_equal(long.arrays[1].numpy(), long.host[::-1])
            while not long.sequence.wait(0.001):
                pass
            return not long.sequence.running

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(look, range(8)))


def test_await_leaves_the_loop_free(device):
    long = Long(device)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def main():
        nonlocal ticks
        ticking = asyncio.create_task(tick())
        assert await long.sequence is long.sequence  # evaluates
        assert not long.sequence.running
        evaluated = ticks
        long.sequence.eval_async()
        assert await long.sequence is long.sequence  # waits
        ticking.cancel()
        return evaluated, ticks - evaluated

    long.arrays[0][...] = long.host
    begin = time.monotonic()
    both = asyncio.run(main())
    elapsed = time.monotonic() - begin
    assert all(count > 3 for count in both), (both, elapsed)
    assert np.array_equal(long.arrays[1], long.host[::-1])


def test_await_evaluates_once(device):
    array = vkdml.asarray(np.zeros(4, np.int32))
    host = np.zeros(4, np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    turned = sequence.record(reverse(device, 4), input=array)

    async def main():
        for number in range(1, 5):
            host[...] = number
            sequence.eval_async()
            host[...] = -1
            if number % 2:
                assert turned.tolist() == [number] * 4  # looked at, but not waited for
            await sequence
            assert turned.tolist() == [number] * 4
        host[...] = 9
        await sequence
        assert turned.tolist() == [9] * 4
        await asyncio.gather(*(device_free() for _ in range(3)))

    async def device_free():
        return await sequence

    asyncio.run(main())


@pytest.mark.parametrize("seen", ["a download", "a wait", "something recorded", "all cleared"])
def test_await_evaluates_anew_what_was_waited_for_or_changed(device, seen):
    array, host = vkdml.asarray(np.zeros(4, np.int32)), np.ones(4, np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    arrived = sequence.download(array)
    sequence.eval_async()
    if seen == "a download":
        assert arrived.numpy().tolist() == [1] * 4
    elif seen == "a wait":
        assert sequence.wait()
    else:
        assert array.tolist() == [1] * 4
        if seen == "all cleared":
            sequence.clear()
            with pytest.raises(vkdml.DeviceError, match="the sequence is empty"):
                asyncio.run(awaited(sequence))
            sequence.upload(array, host)
        arrived = sequence.download(array[::-1])
    host[...] = 7, 8, 9, 10
    asyncio.run(awaited(sequence))
    expected = host[::-1] if seen in ("something recorded", "all cleared") else host
    assert arrived.numpy().tolist() == expected.tolist()


async def awaited(sequence):
    return await sequence


def test_a_download_that_failed_is_told_to_who_awaits_though_another_was_read(device):
    array, host, out = vkdml.asarray(np.zeros(4, np.int32)), np.ones(4, np.int32), np.zeros(4, np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    arrived, _ = sequence.download(array), sequence.download(array, out)
    sequence.eval_async()
    out.flags.writeable = False
    assert arrived.numpy().tolist() == [1] * 4
    with pytest.raises(ValueError, match="read-only"):
        asyncio.run(awaited(sequence))
    out.flags.writeable = True
    host[...] = 5
    asyncio.run(awaited(sequence))
    assert out.tolist() == [5] * 4


def test_nobody_is_told_of_a_download_that_was_cleared(device):
    array, host, out = vkdml.asarray(np.zeros(4, np.int32)), np.ones(4, np.int32), np.zeros(4, np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    sequence.download(array, out)
    sequence.eval_async()
    out.flags.writeable = False
    while sequence.running:
        time.sleep(0.001)
    sequence.clear()
    arrived = sequence.download(array)
    asyncio.run(awaited(sequence))
    assert arrived.numpy().tolist() == [1] * 4


def test_cancelling_harms_nothing(device):
    long = Long(device)

    async def main():
        task = asyncio.create_task(evaluate())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(evaluate(), 0.005)
        await long.sequence

    async def evaluate():
        await long.sequence

    asyncio.run(main())
    assert not long.sequence.running
    assert np.array_equal(long.sequence.eval() and long.arrays[0].numpy(), long.host)


def test_exceptions_reach_the_one_who_awaits():
    device = separate_device()
    array = vkdml.asarray(np.zeros(4, np.int32), device=device)
    sequence = device.sequence()
    down = sequence.download(array)
    sequence.eval()

    async def main():
        await sequence

    _native.inject_failure(1, -4, "vkQueueSubmit")
    with pytest.raises(vkdml.DeviceLostError):
        asyncio.run(main())
    _native.inject_failure(0)
    with pytest.raises(vkdml.DeviceLostError):
        sequence.eval()
    assert down.numpy().tolist() == [0] * 4  # what had arrived before


# ---- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["vkWaitForFences", "vkGetFenceStatus"])
def test_a_device_lost_while_a_sequence_runs(call):
    device = separate_device()
    long = Long(device)
    down = long.sequence.download(long.arrays[0])
    long.sequence.eval_async()
    _native.inject_failure(1, -4, call)
    with pytest.raises(vkdml.DeviceLostError):
        long.sequence.wait()
    assert _native.injected_call() == call
    _native.inject_failure(0)
    for again in (long.sequence.wait, long.sequence.eval, down.numpy, long.arrays[0].numpy, device.sequence):
        with pytest.raises(vkdml.DeviceLostError):
            again()
    assert not long.sequence.running


@pytest.mark.usefixtures("few_objects")
def test_a_failed_allocation_at_each_call_is_survived(rng):
    device = separate_device()
    count = 1 << 17
    host = numbers(rng, count)
    op, turn = argmax(device, count), reverse(device, count)
    assert op.temporary_size

    def used():
        array = vkdml.empty((2, count), np.int32, device=device)[0]
        sequence = device.sequence()
        sequence.upload(array, host)
        turned = sequence.record(turn, input=array)
        found = sequence.download(position := sequence.record(op, input=turned))
        strided = sequence.download(turned[::5])
        sequence.eval()
        assert found.numpy() == host[::-1].argmax()
        assert int(position) == host[::-1].argmax()
        assert np.array_equal(strided.numpy(), host[::-5])

    used()  # what follows is about memory, not about pipelines
    device.trim()
    _native.inject_failure(0)
    used()
    calls = _native.fallible_calls()
    failed = []
    for number in range(1, calls + 1):
        device.trim()
        _native.inject_failure(number, -2)
        with pytest.raises(MemoryError) as caught:
            used()
        failed.append(_native.injected_call())
        del caught
        gc.collect()
        assert device.memory()["used"] == 0  # nothing leaked
        _native.inject_failure(0)
        used()
    assert len(failed) == calls > 10
    assert {"vkAllocateMemory", "vkCreateFence", "vkBeginCommandBuffer", "vkQueueSubmit"} <= set(failed)


def test_a_failed_evaluation_can_be_repeated(rng):
    device = separate_device()
    host, array = numbers(rng), vkdml.empty(COUNT, np.int32, device=device)
    sequence = device.sequence()
    sequence.upload(array, host)
    turned = sequence.record(reverse(device), input=array)
    calls = 0
    for number in range(1, 100):
        device.executions.clear()
        sequence._native = None
        sequence._is_built = False
        _native.inject_failure(number, -2)
        try:
            sequence.eval()
        except MemoryError:
            calls += 1
        else:
            break
        assert not sequence.running
        _native.inject_failure(0)
        host[...] = numbers(rng)
        sequence.eval()
        assert np.array_equal(turned, host[::-1])
    assert 5 < calls < 99


def test_memory_comes_back(rng):
    device = separate_device()
    for _ in range(3):
        with device.sequence() as sequence:
            array = vkdml.empty(COUNT, np.int32, device=device)
            sequence.upload(array, numbers(rng))
            down = sequence.download(array)
            sequence.eval()
        del array, down, sequence
        gc.collect()
        assert device.memory()["used"] == 0


# ---- interrupts --------------------------------------------------------------------------------------------


class Interrupted:
    """A native sequence in whose submission Ctrl-C comes: before it, or after it."""

    def __init__(self, native, submits):
        self._native, self._submits, self._rests = native, submits, False

    def __getattr__(self, name):
        return getattr(self._native, name)

    def submit(self):
        if self._submits or self._rests:
            self._native.submit()
        if not self._rests:
            self._rests = True
            raise KeyboardInterrupt


@pytest.mark.parametrize("submits", [True, False], ids=["submitted", "not submitted"])
def test_ctrl_c_in_a_submission_leaves_an_evaluation_that_all_wait_for(device, rng, submits):
    host, a, b = numbers(rng), vkdml.empty(COUNT, np.int32), vkdml.empty(COUNT, np.int32)
    sequence = device.sequence()
    sequence.upload(a, host)
    sequence.record(reverse(device), a, b)
    sequence.eval()
    before = b.numpy()
    host[:] = numbers(rng)
    sequence._native = Interrupted(sequence._native, submits)
    with pytest.raises(KeyboardInterrupt):
        sequence.eval_async()
    expected = host[::-1] if submits else before
    assert np.array_equal(b.numpy(), expected)  # waits for what runs
    assert sequence.wait()
    assert not sequence.running
    assert np.array_equal(sequence.eval() and b.numpy(), host[::-1])
    assert len(sequence.timings()) == 2


@pytest.mark.parametrize("use", ["clear", "eval", "record"])
def test_a_signal_handler_that_uses_the_sequence_that_its_thread_starts_gets_an_error(
    device, rng, use, monkeypatch
):
    host, a = numbers(rng), vkdml.empty(COUNT, np.int32)
    sequence = device.sequence()
    sequence.upload(a, host)
    copy_to, said = HostArray.copy_to, []
    uses = {"clear": sequence.clear, "eval": sequence.eval, "record": lambda: sequence.download(a)}

    def handled(self, staged):
        with pytest.raises(
            vkdml.DeviceError, match="this thread is starting, further up its call stack"
        ) as caught:
            uses[use]()
        said.append(str(caught.value))
        copy_to(self, staged)

    monkeypatch.setattr(HostArray, "copy_to", handled)
    # A lock that this thread already has would be waited for as long as the process lives.
    former = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the thread waits for itself"))
    signal.alarm(20)
    try:
        sequence.eval()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    assert len(said) == len(sequence) == 1
    assert np.array_equal(a.numpy(), host)
