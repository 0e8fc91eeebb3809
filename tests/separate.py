"""Devices that a test may lose, close or give other numbers: opened beside the one that all share."""

from __future__ import annotations

import pytest

import vkdml
from vkdml.runtime import device


def separate_device() -> vkdml.Device:
    """Open the default hardware once more, as only tests do: no selection finds this Device."""
    return device.open_device(vkdml.Device().info)


def forget_open_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let selections open devices anew until the test ends; the other tests keep theirs."""
    for name in ("_open", "_chosen"):
        monkeypatch.setattr(device._open_devices, name, {})
