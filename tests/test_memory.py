"""Memory of device arrays: what the host waits for, and bytes through staging memory in pieces."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from native_work import long_sequence

import vkdml
from vkdml import _native, dml
from vkdml.common.read_only import fix
from vkdml.runtime import memory
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.memory import MAPPED_READ_BYTES, Memory, memory_in

HOST, LOCAL, MAPPED = _native.MemoryKind.host, _native.MemoryKind.device, _native.MemoryKind.mapped
PIECE = 64


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


# ---- device memory that the host writes --------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 1, 7, 64])
def test_bytes_written_to_mapped_memory_need_no_copy_on_the_device(device, start):
    if not device.native.maps_device_memory:
        pytest.skip("no such memory")
    lies = memory_in(device, device.native.buffer(200, MAPPED), is_visible=False)
    user = User()
    lies.used_by(user)
    content = np.random.default_rng(start).integers(0, 256, 100, np.uint8)
    _native.inject_failure(1, -1, "vkQueueSubmit")
    lies.write(start, content)
    _native.inject_failure(0)
    assert user.settled == 1
    assert lies.visible() is None  # reading it takes too long
    assert np.array_equal(lies.elements(start, (100,), np.dtype(np.uint8)), content)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, ml_dtypes.bfloat16, np.float64, np.complex128])
@pytest.mark.parametrize("count", [1, 3, 64, 1025])
def test_the_host_reads_a_few_bytes_of_mapped_memory_itself(device, dtype, count):
    if not device.native.maps_device_memory:
        pytest.skip("no such memory")
    lies = memory_in(device, device.native.buffer(17000, MAPPED), is_visible=False)
    content = np.random.default_rng(count).integers(0, 99, count).astype(dtype)
    source = vkdml.asarray(content, device=device)
    sequence = device.native.sequence()
    sequence.copy(source.memory.buffer, lies.buffer, content.nbytes, 0, 520)
    sequence.eval()
    assert not lies.is_busy
    _native.inject_failure(1 << 40, -1, "vkQueueSubmit")
    read = lies.elements(520, (count, 1), content.dtype)
    submitted = _native.fallible_calls()
    _native.inject_failure(0)
    assert np.array_equal(read, content[:, None])
    assert read.flags.writeable
    assert bool(submitted) == (content.nbytes > MAPPED_READ_BYTES)
    lies.used_by(running := User())
    assert lies.is_busy
    lies.elements(520, (1,), content.dtype)
    assert running.settled == 1


def test_software_drivers_map_the_devices_memory(device):
    assert device.native.maps_device_memory or device.info.type != "software"


@pytest.mark.parametrize("nbytes", [256, 257])
@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("unified", [True, False])
def test_the_tuning_says_how_much_is_written_there(device, nbytes, is_mapped, unified):
    tuning = replace(device.limits.tuning, mapped_bytes=256)
    native = SimpleNamespace(
        maps_device_memory=is_mapped,
        imports_host_memory=False,
        memory=device.native.memory,
        buffer=lambda nbytes, kind: kind,
    )
    cache = ExecutionCache(native, unified, tuning)
    expected = HOST if unified else MAPPED if is_mapped and nbytes <= 256 else LOCAL
    assert cache.buffer(nbytes, writable=True) == expected
    assert cache.buffer(nbytes, visible=True, writable=True) == HOST
    assert cache.buffer(nbytes) == (HOST if unified else LOCAL)


# ---- what the host waits for -------------------------------------------------------------------------------


class User:
    """Something that runs, as memory sees it."""

    def __init__(self) -> None:
        self.settled = 0

    def settle(self) -> None:
        self.settled += 1


def test_all_users_are_waited_for_each_once(device):
    lies = Memory(device, 64, near_host=True)
    users = [User() for _ in range(4)]
    for user in (*users, users[0], users[2]):
        lies.used_by(user)
    lies.visible()
    assert [user.settled for user in users] == [1, 1, 1, 1]
    del users[1], user
    lies.used_by(users[0])
    target = np.empty(64, np.uint8)
    lies.read(0, target)
    lies.write(0, target)
    assert [user.settled for user in users] == [3, 3, 3]


@pytest.mark.parametrize("access", ["read", "write", "element", "argmax"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_sequences_that_use_an_array_are_both_waited_for(device, access, order):
    """Whichever of them was recorded last, and whichever is under way."""
    count, rounds = 1 << 18, 20
    host = np.arange(count, dtype=np.int32)
    array, other = vkdml.asarray(host, device=device), vkdml.empty(count, np.int32, device=device)
    sequences = [device.sequence() for _ in range(2)]
    for _ in range(rounds):  # so long that the host can look while it runs
        sequences[0].upload(array[::-1], host)
        sequences[0].upload(other, host)
    unused = sequences[1].download(array[:3])
    for number in order:
        sequences[number].eval()
    array[...] = 0
    assert unused.numpy().shape == (3,)
    sequences[0].eval_async()
    if access == "read":
        assert np.array_equal(array, host[::-1])
    elif access == "write":
        array[...] = np.full(count, 7, np.int32)
        assert (array.numpy() == 7).all()
    elif access == "element":
        assert int(array[0]) == count - 1
    else:
        assert int(array.argmax()) == 0
    assert sequences[0].wait()


@pytest.mark.parametrize("reader", ["a copy", "a kernel", "an operator"])
def test_what_a_sequence_only_reads_is_not_overwritten_before(device, reader):
    count, rounds = 1 << 18, 20
    host = np.arange(count, dtype=np.int32)
    array, other = vkdml.asarray(host, device=device), vkdml.empty(count, np.int32, device=device)
    sequence = device.sequence()
    for _ in range(rounds):  # so long that the host can write while it runs
        sequence.upload(other[::-1], host)
    if reader == "an operator":
        x = dml.BufferTensorDesc(dml.DataType.INT32, sizes=(count,))
        copied = sequence.record(
            device.compile(dml.Slice1OperatorDesc(x, x, (0,), (count,), (1,))), input=array
        )
    else:
        copied = sequence.download(array[::-1] if reader == "a kernel" else array)
    sequence.eval()
    sequence.eval_async()
    array[...] = np.full(count, 7, np.int32)  # by the host, where it sees the memory
    assert sequence.wait()
    wanted = host[::-1] if reader == "a kernel" else host
    assert np.array_equal(copied, wanted)
    assert (array.numpy() == 7).all()


def test_a_sequence_keeps_the_outputs_that_it_made(device):
    """Nobody else does where one operation's output is the next one's input."""
    host = np.arange(1000, dtype=np.int32)
    x = dml.BufferTensorDesc(dml.DataType.INT32, sizes=(1000,))
    reverse = device.compile(dml.Slice1OperatorDesc(x, x, (0,), (1000,), (-1,)))
    source = vkdml.asarray(host, device=device)
    sequence = device.sequence()
    last = sequence.record(reverse, input=sequence.record(reverse, input=source))
    last = sequence.record(reverse, input=last)
    gc.collect()
    sequence.eval()
    assert np.array_equal(last, host[::-1])
    source[...] = host * 3
    sequence.eval()
    assert np.array_equal(last, 3 * host[::-1])


# ---- through staging memory --------------------------------------------------------------------------------


@pytest.fixture
def discrete(device, monkeypatch):
    """The device, with memory that the host neither sees nor writes, and staging memory in small pieces."""
    monkeypatch.setattr(memory, "STAGING_BYTES", PIECE)
    # Longer transfers than this go in pieces of the one size, others in pieces of the other.
    monkeypatch.setattr(memory, "SHARED_COPY_BYTES", 3 * PIECE)
    monkeypatch.setattr(memory, "SHORT_STAGING_BYTES", PIECE // 2)
    return SimpleNamespace(
        info=SimpleNamespace(unified_memory=False),
        executions=ExecutionCache(device.native, False, replace(device.limits.tuning, mapped_bytes=-1)),
        limits=device.limits,
        require_usable=device.require_usable,
    )


SIZES = (1, 3, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1, 5 * PIECE - 3, 6 * PIECE)


def test_memory_that_the_host_does_not_see(discrete):
    lies = Memory(discrete, 100)
    assert lies.visible() is None
    with pytest.raises(vkdml.DeviceError, match="device memory, which the host cannot see"):
        lies.buffer.view()
    assert Memory(discrete, 100, near_host=True).visible() is not None


@pytest.mark.parametrize("start", [0, 1, 4, PIECE - 1, PIECE, 2 * PIECE + 5])
@pytest.mark.parametrize("nbytes", SIZES)
def test_bytes_go_where_they_belong_and_come_from_there(discrete, start, nbytes):
    """In one piece, in several, and in the last one that is not full."""
    whole = 10 * PIECE
    rng = np.random.default_rng(nbytes)
    contents = rng.integers(0, 256, whole, np.uint8)
    lies = Memory(discrete, whole)
    lies.write(0, contents)
    everything = np.empty(whole, np.uint8)
    lies.read(0, everything)
    assert np.array_equal(everything, contents)

    around = np.full(nbytes + 2 * PIECE, 0xA5, np.uint8)
    lies.read(start, around[PIECE:][:nbytes])
    assert np.array_equal(around[PIECE:][:nbytes], contents[start : start + nbytes])
    assert (around[:PIECE] == 0xA5).all()
    assert (around[PIECE + nbytes :] == 0xA5).all()

    part = rng.integers(0, 256, nbytes, np.uint8)
    contents[start : start + nbytes] = part
    lies.write(start, part)
    lies.read(0, everything)
    assert np.array_equal(everything, contents)


def test_settling_waits_for_a_small_upload(discrete, device):
    """Other libraries that share the memory do not come after it on the queue."""
    lies = Memory(discrete, 100)
    uploads = discrete.executions.small_transfers
    busy = long_sequence(device, 0.3)
    busy.submit()
    lies.write(0, np.arange(PIECE, dtype=np.uint8))
    lies.settle()
    assert all(piece.sequence.wait(0.0, 0.0) for piece in uploads._idle.values())
    busy.wait()


def test_what_was_written_can_be_changed_at_once(discrete):
    """Staging memory holds a copy; and pieces in turn are not overwritten before they have travelled."""
    lies = Memory(discrete, 100 * PIECE)
    for number in range(20):
        source = np.full(100 * PIECE, number, np.uint8)
        source[::PIECE] = np.arange(100)
        wanted = source.copy()
        lies.write(0, source)
        source[...] = 255
        target = np.empty_like(source)
        lies.read(0, target)
        assert np.array_equal(target, wanted)


def test_a_failed_transfer_leaves_the_next_one_right(discrete):
    lies = Memory(discrete, 4 * PIECE)
    contents = np.arange(4 * PIECE).astype(np.uint8)
    lies.write(0, contents)
    target = np.empty_like(contents)
    for transfer in (lambda: lies.write(0, contents[::-1].copy()), lambda: lies.read(0, target)):
        _native.inject_failure(1, -1, "vkEndCommandBuffer")
        with pytest.raises(MemoryError):
            transfer()
        _native.inject_failure(0)
        lies.write(0, contents)
        lies.read(0, target)
        assert np.array_equal(target, contents)


def test_threads_that_note_users_at_the_same_time_lose_none(device):
    lies = Memory(device, 64)
    first, second = User(), User()
    other = threading.Thread(target=lies.used_by, args=(second,))

    def reading():
        """Stands for a user that is there: between reading and writing who uses it, another thread comes."""
        if not other.ident:
            other.start()
            other.join(0.3)
        return first

    fix(lies, "_users", (reading,))
    lies.used_by(first)
    other.join()
    assert {user() for user in lies._users} == {first, second}
    fix(lies, "_users", ())
