"""Small transfers through staging memory that is kept: what arrives, what is recorded again, what is held."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.runtime import small_transfers
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.small_transfers import MOST_IDLE, REUSED_FROM, SMALL_BYTES, SmallTransfers

DEVICE = _native.MemoryKind.device
BYTES = np.dtype(np.uint8)


@pytest.fixture
def transfers() -> SmallTransfers:
    device = separate_device()
    return ExecutionCache(device.native, False, device.limits.tuning).small_transfers


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


def buffer_of(transfers: SmallTransfers, nbytes: int) -> _native.Buffer:
    return transfers._cache.device.buffer(nbytes, DEVICE)


def used(transfers: SmallTransfers) -> int:
    return transfers._cache.device.memory()["used"]


@pytest.mark.parametrize("nbytes", [1, 3, 4, 255, 4096, SMALL_BYTES])
def test_bytes_go_where_they_belong_and_come_from_there(transfers, nbytes):
    buffer = buffer_of(transfers, nbytes + 7)
    rng = np.random.default_rng(nbytes)
    transfers.upload(np.zeros(nbytes + 7, np.uint8)[:SMALL_BYTES], buffer, 0)
    for start in (0, 5):
        content = rng.integers(0, 256, nbytes, np.uint8)
        transfers.upload(content, buffer, start)
        assert np.array_equal(transfers.download(buffer, start, (nbytes,), BYTES), content)


def test_a_download_is_an_array_of_its_own(transfers):
    buffer = buffer_of(transfers, 24)
    transfers.upload(np.arange(6, dtype=np.int32).view(np.uint8), buffer, 0)
    first = transfers.download(buffer, 0, (2, 3), np.dtype(np.int32))
    transfers.upload(np.full(24, 255, np.uint8), buffer, 0)
    assert transfers.download(buffer, 0, (2, 3), np.dtype(np.int32)).tolist() == [[-1] * 3] * 2
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert transfers.download(buffer, 4, (), np.dtype(np.int16))[()] == -1


def test_more_transfers_than_pieces(transfers):
    buffers = [buffer_of(transfers, 64) for _ in range(3 * REUSED_FROM)]
    for number, buffer in enumerate(buffers):
        transfers.upload(np.full(64, number, np.uint8), buffer, 0)
    for number, buffer in enumerate(buffers):
        assert (transfers.download(buffer, 0, (64,), BYTES) == number).all()
    assert len(transfers._idle) <= MOST_IDLE


def test_a_transfer_that_differs_in_anything_is_another(transfers):
    buffers = [buffer_of(transfers, 48) for _ in range(2)]
    held = [np.random.default_rng(number).integers(0, 256, 48, np.uint8) for number in range(2)]
    for buffer, content in zip(buffers, held, strict=True):
        transfers.upload(content, buffer, 0)
    kinds = [
        *[("int32", (2, 3)), ("float32", (2, 3)), ("<U1", (2, 3)), ("int32", (3, 2)), ("int32", (6,))],
        *[("int16", (6,)), ("int64", (3,)), ("int32", ())],
    ]
    for _ in range(2):
        for number, start in ((0, 0), (1, 0), (0, 8), (1, 16)):
            for nbytes in (8, 4):
                content = np.arange(number + start, number + start + nbytes, dtype=np.uint8)
                transfers.upload(content, buffers[number], start)
                held[number][start : start + nbytes] = content
            for name, shape in kinds:
                dtype = np.dtype(name)
                got = transfers.download(buffers[number], start, shape, dtype)
                assert (got.dtype, got.shape) == (dtype, shape)
                assert got.tobytes() == held[number][start : start + got.nbytes].tobytes()
    assert transfers.download(buffers[0], 0, (48,), BYTES).tolist() == held[0].tolist()


def test_the_same_transfer_is_not_recorded_again(transfers):
    buffer = buffer_of(transfers, 64)
    transfers.download(buffer, 0, (64,), BYTES)
    _native.inject_failure(0)
    for _ in range(5):
        transfers.download(buffer, 0, (64,), BYTES)
    assert _native.fallible_calls() == 5  # one submission each


def test_many_threads(transfers):
    def there_and_back(number: int) -> bool:
        buffer = buffer_of(transfers, 1000)
        content = np.full(1000, number, np.uint8)
        transfers.upload(content, buffer, 0)
        return np.array_equal(transfers.download(buffer, 0, (1000,), BYTES), content)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(there_and_back, range(200)))


def test_memory_is_held_until_its_upload_is_done_and_no_longer(transfers):
    buffer = buffer_of(transfers, 4096)
    transfers.upload(np.zeros(4096, np.uint8), buffer, 0)
    transfers.settle()
    before = used(transfers)
    del buffer
    gc.collect()
    assert used(transfers) == before - 4096
    transfers.clear()
    assert used(transfers) == 0


def test_many_uploads_let_go_of_the_first_ones_memory(transfers):
    buffers = [buffer_of(transfers, 4096) for _ in range(small_transfers.PROBABLY_DONE)]
    for buffer in buffers:
        transfers.upload(np.zeros(64, np.uint8), buffer, 0)
    transfers.download(buffers[1], 0, (64,), BYTES)  # after which all of them have ended
    before = used(transfers)
    del buffers[0]
    assert used(transfers) == before
    transfers.upload(np.zeros(64, np.uint8), buffers[1], 0)
    assert used(transfers) == before - 4096


def test_a_failed_transfer_drops_its_piece(transfers):
    buffer = buffer_of(transfers, 64)
    transfers.upload(np.zeros(64, np.uint8), buffer, 0)
    _native.inject_failure(1, -2, "vkQueueSubmit")
    with pytest.raises(MemoryError):
        transfers.download(buffer, 0, (64,), BYTES)
    _native.inject_failure(0)
    assert (transfers.download(buffer, 0, (64,), BYTES) == 0).all()


def test_staging_memory_is_given_up_when_memory_is_short(transfers):
    cache = transfers._cache
    transfers.download(buffer_of(transfers, 64), 0, (64,), BYTES)
    cache.device.trim()
    _native.inject_failure(1, -2, "vkAllocateMemory")
    assert cache.buffer(3 << 20).nbytes == 3 << 20
    assert not transfers._idle


def test_an_upload_to_a_large_buffer_is_waited_for(transfers, monkeypatch):
    """It may be gone soon, and others may need its memory."""
    monkeypatch.setattr(small_transfers, "SMALL_BYTES", 1024)
    buffer = buffer_of(transfers, 1 << 20)
    transfers.upload(np.zeros(64, np.uint8), buffer, 0)
    before = used(transfers)
    del buffer
    gc.collect()
    assert used(transfers) == before - (1 << 20)


def test_arrays_on_a_device_of_its_own_memory(monkeypatch, device):
    """What is uploaded is there for kernels, views and other arrays."""
    host = np.random.default_rng(0).integers(0, 1000, (30, 40))
    arrays = [vkdml.asarray(np.roll(host, n), device=device) for n in range(12)]
    for n, array in enumerate(arrays):
        assert int(array.argmax()) == np.roll(host, n).argmax()
        assert np.array_equal(array[::-1, 3:].numpy(), np.roll(host, n)[::-1, 3:])


def test_an_upload_that_waits_has_arrived_when_it_returns(transfers, monkeypatch):
    """Whatever other threads do meanwhile: CUDA's work does not come after Vulkan's."""
    buffer, waited = buffer_of(transfers, 64), []

    class Observed:
        def __init__(self, native):
            self._native = native

        def __getattr__(self, name):
            return getattr(self._native, name)

        def wait(self, *limits):
            waited.append(limits)
            return self._native.wait(*limits)

    take = transfers._cache.take_sequence
    monkeypatch.setattr(transfers._cache, "take_sequence", lambda: Observed(take()))
    transfers.upload(np.full(64, 7, np.uint8), buffer, 0)
    assert waited == []
    transfers.upload(np.full(32, 8, np.uint8), buffer, 32, waits=True)
    assert [limits[0] for limits in waited] == [None]
    assert transfers.download(buffer, 0, (64,), BYTES).tolist() == [7] * 32 + [8] * 32
