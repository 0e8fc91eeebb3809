"""Devices that a test may lose, close or give other numbers: opened beside the one that all share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

import vkdml
from vkdml import _native
from vkdml.common.read_only import fix
from vkdml.runtime import device

MAKING_KERNELS = (
    "vkCreateDescriptorSetLayout",
    "vkCreatePipelineLayout",
    "vkCreateShaderModule",
    "vkCreateComputePipelines",
)


def separate_device() -> vkdml.Device:
    """Open the default hardware once more, as only tests do: no selection finds this Device."""
    return device.open_device(vkdml.Device().info)


def with_tiles(device: vkdml.Device, tile_bytes: int) -> vkdml.Device:
    """The device, from now on with tiles of so many bytes."""
    tuning = dataclasses.replace(device.limits.tuning, stream_tile_bytes=tile_bytes)
    fix(device, "limits", dataclasses.replace(device.limits, tuning=tuning))
    return device


def devices_that_fail(calls: int, codes: tuple[int, ...]) -> Iterator[vkdml.Device]:
    """Yield a device for each of the calls that an action on a new one makes, and that call will fail.

    While kernels are made, each is a device of its own. All others are one device, which has kept its kernels
    and nothing else: compilers of software drivers take longer than all the rest.
    """
    for call in MAKING_KERNELS:
        new = separate_device()
        _native.inject_failure(1, codes[0], call)
        yield new
    for number in range(1, calls - len(MAKING_KERNELS) + 1):
        new.trim()
        _native.inject_failure(number, codes[number % len(codes)])
        yield new


def forget_open_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let selections open devices anew until the test ends; the other tests keep theirs."""
    for name in ("_open", "_chosen"):
        monkeypatch.setattr(device._open_devices, name, {})
