"""A driver without hardware, which compiles kernels and has no memory: Mesa's RADV can be told to be one."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest


@pytest.fixture
def without_memory():
    found = sorted(Path("/usr/share/vulkan/icd.d").glob("radeon_icd*.json"))
    if not found:
        pytest.skip("Mesa's driver RADV is not installed (Debian: mesa-vulkan-drivers)")
    # The validation layers have a say on devices that work.
    return {
        "RADV_FORCE_FAMILY": "navi21",
        "VK_DRIVER_FILES": str(found[0]),
        "VK_ICD_FILENAMES": str(found[0]),
        "VK_INSTANCE_LAYERS": "",
    }


def test_it_is_listed_and_compiles_and_every_use_of_memory_says_what_is_missing(without_memory):
    lines = processes.printed(
        """
        from vkdml import dml
        print([info.name for info in vkdml.devices()])
        device = vkdml.Device(0)
        x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
        y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
        op = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
        for use in (
            lambda: vkdml.argmax([1, 3, 2], device=device),
            lambda: vkdml.slice1([1, 3, 2], (0,), (3,), (-1,), device=device),
            lambda: vkdml.argmax(np.zeros(1 << 20), device=device),
            lambda: vkdml.asarray([1.0], device=device),
            lambda: vkdml.empty(3, device=device),
        ):
            try:
                use()
            except vkdml.DeviceError as error:
                print(type(error).__name__, error)
        print(device.trim(), device.memory()["used"])
        """,
        **without_memory,
    ).splitlines()
    assert "RADV NAVI21" in lines[0]
    assert len(lines) == 7
    for line in lines[1:-1]:
        assert line.startswith("DeviceError "), line
        assert "has no" in line
        assert "memory that shaders can use: choose another device" in line
    assert lines[-1] == "0 0"
