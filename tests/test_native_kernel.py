"""Kernels: what their interface may be."""

from __future__ import annotations

import pytest
from native_work import HOST
from separate import separate_device

import vkdml
from vkdml.plan import kernels
from vkdml.plan.plans import PUSH_BYTES


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


def test_an_interface_beyond_the_limits_is_refused_with_them(device):
    name, kernel = next(iter(kernels.table().items()))
    code = kernels.spirv(name)
    with pytest.raises(ValueError, match=r"a kernel binds 1 to .* not 0"):
        device.native.kernel(code, 0, PUSH_BYTES)
    with pytest.raises(ValueError, match="push constants are whole words of at most"):
        device.native.kernel(code, len(kernel.bindings), 1 << 20)
    with pytest.raises(ValueError, match="push constants are whole words of at most"):
        device.native.kernel(code, len(kernel.bindings), PUSH_BYTES - 1)


@pytest.mark.parametrize("code", [b"", bytes(63)])
def test_code_that_is_not_in_words_is_refused_with_its_size(device, code):
    with pytest.raises(ValueError, match=rf"SPIR-V comes in words of 4 bytes, not {len(code)} bytes"):
        device.native.kernel(code, 1, 0)


def test_a_dispatch_takes_as_many_buffers_and_bytes_as_its_kernel(device):
    first_of_family = {kernel.family.name: kernel for kernel in reversed(kernels.table().values())}
    for kernel in first_of_family.values():
        name = kernel.name
        bindings = len(kernel.bindings)
        made = device.native.kernel(kernels.spirv(name), bindings, PUSH_BYTES)
        buffers = [device.native.buffer(1024, HOST)] * bindings
        sequence = device.native.sequence()
        sequence.dispatch(made, buffers, bytes(PUSH_BYTES), (1, 1, 1))
        said = rf"takes {bindings} buffers and {PUSH_BYTES} bytes of push constants, given are"
        with pytest.raises(ValueError, match=rf"{said} {bindings - 1} and {PUSH_BYTES}"):
            sequence.dispatch(made, buffers[1:], bytes(PUSH_BYTES), (1, 1, 1))
        with pytest.raises(ValueError, match=rf"{said} {bindings} and 4"):
            sequence.dispatch(made, buffers, bytes(4), (1, 1, 1))
