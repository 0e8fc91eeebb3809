"""Memory that the native module exports: the same bytes in another mapping, its life, and its faults."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import processes
import pytest
from native_work import HOST
from separate import separate_device

import vkdml
from vkdml import _native

UNKNOWN_ERROR = -13
KINDS = list(_native.MemoryKind)


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


@contextmanager
def mapped(buffer: _native.Buffer) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of an exported buffer, as another mapping of its file sees them.

    Drivers on the processor export files; lavapipe puts a page of its own before the memory.
    """
    fd = buffer.export_fd()
    size = os.fstat(fd).st_size
    mapping = mmap.mmap(fd, size)
    os.close(fd)
    before = mmap.PAGESIZE if size >= buffer.exported_nbytes + mmap.PAGESIZE else 0
    view = np.frombuffer(mapping, np.uint8)[before : before + buffer.capacity]
    yield view
    del view
    mapping.close()


def test_two_mappings_have_the_same_bytes(device):
    buffer = device.native.exportable_buffer(100_000, HOST)
    assert buffer.exported_nbytes >= buffer.capacity >= 100_000
    ours = buffer.view()
    ours[:] = np.random.default_rng(1).integers(0, 256, ours.size, np.uint8)
    with mapped(buffer) as theirs:
        assert np.array_equal(theirs[: ours.size], ours)
        theirs[:1000] = 7
        assert (ours[:1000] == 7).all()
        del theirs


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_and_copies_use_it_like_any_other(device, kind):
    source, target = device.native.buffer(4096, HOST), device.native.exportable_buffer(4096, kind)
    source.view()[:] = data = np.random.default_rng(2).integers(0, 256, 4096, np.uint8)
    sequence = device.native.sequence()
    sequence.copy(source, target, 4096)
    sequence.eval()
    with mapped(target) as theirs:
        assert np.array_equal(theirs[:4096], data)
        theirs[:] = 9
        del theirs
    back = device.native.sequence()
    back.copy(target, source, 4096)
    back.eval()
    assert (source.view() == 9).all()


def test_each_export_is_a_descriptor_of_its_own(device):
    buffer = device.native.exportable_buffer(256, HOST)
    one, other = buffer.export_fd(), buffer.export_fd()
    assert one != other
    os.close(one)
    os.close(other)


def test_the_memory_lasts_as_long_as_a_descriptor(device):
    buffer = device.native.exportable_buffer(256, HOST)
    buffer.view()[:] = 5
    with mapped(buffer) as theirs:
        del buffer
        device.trim()
        assert (theirs[:256] == 5).all()
        del theirs


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_counted_and_freed_at_once(device, kind):
    before = device.memory()
    buffer = device.native.exportable_buffer(100_000, kind)
    assert device.memory()["used"] == before["used"] + buffer.capacity
    assert device.native.capacity_for(100_000) == buffer.capacity
    del buffer
    assert device.memory() == before


def test_it_is_not_what_ordinary_buffers_are_made_of(device):
    number = device.native.exportable_buffer(5000, HOST).id
    assert device.native.buffer(5000, HOST).id != number


def test_ordinary_buffers_cannot_be_exported(device):
    buffer = device.native.buffer(256, HOST)
    assert buffer.exported_nbytes == 0
    with pytest.raises(vkdml.DeviceError, match="was not allocated to be shared"):
        buffer.export_fd()


@pytest.mark.parametrize("function", ["vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory"])
def test_an_allocation_that_fails_leaves_nothing(device, function):
    before = device.memory()
    for result, error in ((UNKNOWN_ERROR, vkdml.DeviceError), (-2, MemoryError)):
        _native.inject_failure(1, result, function)
        try:
            with pytest.raises(error, match="cannot allocate 1000 bytes"):
                device.native.exportable_buffer(1000, HOST)
        finally:
            _native.inject_failure(0)
    assert device.memory() == before


def test_an_export_that_fails_is_an_error(device):
    buffer = device.native.exportable_buffer(256, HOST)
    _native.inject_failure(1, UNKNOWN_ERROR, "vkGetMemoryFdKHR")
    try:
        with pytest.raises(vkdml.DeviceError, match="getMemoryFdKHR"):
            buffer.export_fd()
    finally:
        _native.inject_failure(0)
    os.close(buffer.export_fd())


def test_what_is_kept_for_reuse_is_given_up_for_it(device):
    device.native.buffer(1 << 20, HOST)
    assert device.memory()["pooled"]
    _native.inject_failure(1, -2, "vkAllocateMemory")
    try:
        assert device.native.exportable_buffer(1 << 20, HOST).capacity == 1 << 20
    finally:
        _native.inject_failure(0)
    assert device.memory()["pooled"] == 0


def test_more_than_a_buffer_is_refused_with_the_limit(device):
    limit = device.limits.max_storage_buffer_range
    with pytest.raises(MemoryError, match=rf"cannot allocate {limit + 64} bytes .* limit .* is \d+ bytes"):
        device.native.exportable_buffer(limit + 64, HOST)


def test_a_capsule_has_a_stride_for_each_dimension():
    with pytest.raises(ValueError, match="one stride for each of its 2 dimensions, not 1"):
        _native.dlpack_capsule(0, [2, 3], [1], 0, 8, (1, 0), 0, object(), True)


def test_what_ends_with_imported_memory_may_use_the_device():
    """Whoever frees memory of the host's may run Python code, and waits for Python's lock."""
    printed = processes.printed("""
        import weakref
        import native_work
        native = vkdml.Device().native
        if native.imports_host_memory:
            array, ended = np.zeros(1 << 20, np.uint8), []
            weakref.finalize(array, lambda: ended.append(native.memory()))
            buffer, begin = native.imported(array)
            target = native.buffer(1 << 20, native_work.HOST)
            before, sequence = native_work.long_sequence(vkdml.Device(), 0.3), native.sequence(0, False)
            sequence.copy(buffer, target, 1 << 20, begin)
            before.submit()
            sequence.submit()
            del sequence, buffer, array
            assert not ended
            while not ended:
                native.memory()
                time.sleep(0.01)
            del ended
    """)
    assert printed == ""
