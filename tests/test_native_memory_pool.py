"""The memory pool: what is reused, counted and given back, and requests beyond the device's limits."""

from __future__ import annotations

import numpy as np
import pytest
from native_work import HOST
from separate import separate_device

import vkdml
from vkdml import _native


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


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


def test_more_than_the_largest_buffer_is_refused_with_the_limit(device):
    limit = device.limits.max_storage_buffer_range
    with pytest.raises(MemoryError, match=rf"cannot allocate {limit + 64} bytes .* limit .* is \d+ bytes"):
        device.native.buffer(limit + 64, HOST)
    assert vkdml.argmax(np.arange(10.0), device=device) == 9
