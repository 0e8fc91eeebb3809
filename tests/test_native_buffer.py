"""Buffers: their sizes, and views of their memory that outlive them."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest
from native_work import HOST
from separate import separate_device

import vkdml


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


def test_a_view_keeps_its_memory_alive():
    device = separate_device()
    view = device.native.buffer(4096, HOST).view()
    view[:] = 7
    gc.collect()
    device.native.buffer(4096, HOST).view()[:] = 9  # which would have the same memory if that were free
    assert (view == 7).all()
    gone = ref(device)
    del device
    gc.collect()
    assert gone() is None
    assert (view == 7).all()


def test_other_sizes_are_refused_by_name(device):
    with pytest.raises(ValueError, match="a buffer has 0 bytes or more, not -1"):
        device.native.buffer(-1, HOST)
    for size in (1.5, "3"):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            device.native.buffer(size, HOST)
    assert device.native.buffer(0, HOST).nbytes == 0
    assert device.native.buffer(np.int64(5), HOST).nbytes == 5
