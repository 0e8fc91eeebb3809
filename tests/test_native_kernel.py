"""Kernels: what their interface may be."""

from __future__ import annotations

import pytest
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


def test_a_kernel_knows_its_interface(device):
    for name, kernel in list(kernels.table().items())[::40]:
        made = device.native.kernel(kernels.spirv(name), len(kernel.bindings), PUSH_BYTES)
        assert (made.bindings, made.push_bytes) == (len(kernel.bindings), PUSH_BYTES)
