"""Reads of mapped memory, which is not cached: every byte that is asked for, by all kinds of loads."""

from __future__ import annotations

import numpy as np
import pytest

import vkdml
from vkdml import _native

LOADS = (0, 32, 64)
NBYTES = 8192 + 128


@pytest.mark.parametrize("widest", LOADS)
@pytest.mark.parametrize("nbytes", [0, 1, 4, 63, 64, 65, 127, 128, 129, 1000, 8192])
@pytest.mark.parametrize("start", [0, 1, 31, 32, 60, 63, 64])
def test_what_is_asked_for_is_read(device, widest, nbytes, start):
    buffer = device.native.buffer(NBYTES, _native.MemoryKind.host)
    content = np.random.default_rng(nbytes + start).integers(0, 256, NBYTES, np.uint8)
    buffer.view()[:] = content
    read = buffer.read_mapped(start, nbytes, widest)
    assert read == content[start : start + nbytes].tobytes()


@pytest.mark.parametrize("widest", LOADS)
def test_what_was_written_since_the_last_read_is_read(device, widest):
    buffer = device.native.buffer(256, _native.MemoryKind.host)
    for value in (1, 2, 3):
        buffer.view()[:] = value
        assert buffer.read_mapped(0, 200, widest) == bytes([value]) * 200


def test_reads_beyond_the_buffer_and_of_other_memory_are_refused(device):
    buffer = device.native.buffer(200, _native.MemoryKind.host)
    for start, nbytes in ((0, 201), (200, 1), (201, 0), (1, (1 << 64) - 1)):
        with pytest.raises(ValueError, match="not in a buffer of 200"):
            buffer.read_mapped(start, nbytes)
    assert buffer.read_mapped(200, 0) == b""
    with pytest.raises(vkdml.DeviceError, match="cannot see"):
        device.native.buffer(200, _native.MemoryKind.device).read_mapped(0, 1)
