"""The tests run on the driver, and with the kind of memory, that the environment asks for, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import asked_driver
import forced_memory
import pytest

import vkdml
from vkdml.runtime.memory import Memory

ROOT = Path(__file__).parent.parent


def pytest_with(**environment: str) -> subprocess.CompletedProcess[str]:
    """Collect this file's tests in another process."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-v", "-p", "no:cacheprovider", __file__]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


def test_the_driver_asked_for_is_the_one_that_runs(device: vkdml.Device) -> None:
    asked = os.environ.get("DRIVER", "")
    assert asked_driver.fault(asked) is None
    if asked in asked_driver.NAMES:
        assert asked_driver.is_called(device.info, asked)


@pytest.mark.parametrize("asked", asked_driver.NAMES)
def test_another_driver_than_the_one_asked_for_is_a_failure(asked: str, device: vkdml.Device) -> None:
    done = pytest_with(DRIVER=asked)
    if asked_driver.is_called(device.info, asked):
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert f"DRIVER={asked} was asked for" in done.stderr
        assert device.info.driver_name in done.stderr


def test_no_device_of_the_driver_asked_for_is_a_failure(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.json")
    done = pytest_with(DRIVER="lavapipe", VK_DRIVER_FILES=nowhere, VK_ICD_FILENAMES=nowhere)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "DRIVER=lavapipe was asked for, and there is no device" in done.stderr


def test_the_memory_asked_for_is_what_arrays_lie_in(device: vkdml.Device) -> None:
    """Forced or not: what the host is said not to see it cannot look into."""
    memory = Memory(device, 4096)
    if forced_memory.wanted():
        assert not device.info.unified_memory
    if device.info.unified_memory:
        assert memory.visible() is not None
    else:
        assert memory.visible() is None
        with pytest.raises(vkdml.DeviceError, match="device memory, which the host cannot see"):
            memory.buffer.view()


def test_another_kind_of_memory_is_refused() -> None:
    done = pytest_with(**{forced_memory.VARIABLE: "discreet"})
    assert done.returncode != 0
    assert "VKDML_TEST_MEMORY=discreet is neither 'discrete' nor empty" in done.stdout + done.stderr
    assert (
        "memory: taken for a discrete device's" in pytest_with(**{forced_memory.VARIABLE: "discrete"}).stdout
    )
