"""The device that the tests run on, and how hypothesis draws."""

from __future__ import annotations

import os
import warnings

import asked_driver
import forced_memory
import hypothesis
import pytest

import vkdml

os.environ["VKDML_PROFILE"] = "off"  # plans must not depend on what this machine's user has stored

hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=1000
)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True, max_examples=10000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


if forced_memory.wanted():
    forced_memory.force()


def pytest_sessionstart() -> None:
    """Results of another driver than the one that was asked for would be taken for that one's."""
    fault = asked_driver.fault(os.environ.get("DRIVER", ""))
    if fault is not None:
        raise pytest.UsageError(fault)


def pytest_report_header() -> list[str]:
    """What the tests run on."""
    try:
        found = vkdml.devices()
    except vkdml.DeviceError as error:
        return [f"vulkan: no device: {error}"]
    chosen = os.environ.get("VKDML_DEVICE")
    lines = [f"vulkan {d.index}: {d.name} ({d.type}), {d.driver_name} {d.driver_info}" for d in found]
    memory = ["memory: taken for a discrete device's"] if forced_memory.wanted() else []
    return lines + memory + ([f"VKDML_DEVICE={chosen}"] if chosen else [])


@pytest.fixture(scope="session")
def device() -> vkdml.Device:
    """The default device. Without one, tests fail: a missing driver is a fault, not a reason to skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
        try:
            return vkdml.default_device()
        except vkdml.DeviceError as error:
            pytest.fail(f"these tests need a Vulkan device and there is none: {error}", pytrace=False)
