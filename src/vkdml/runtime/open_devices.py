"""The devices that this process has open, one for each piece of hardware, and the default among them."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from vkdml.errors import NoDeviceError
from vkdml.runtime.device_info import DeviceInfo, devices, hardware, normal_selector, select

if TYPE_CHECKING:
    from vkdml.runtime.device import Device

ENVIRONMENT_SELECTOR = "VKDML_DEVICE"
# Selectors to remember: more come only from a program that makes them up.
MOST_SELECTORS = 256


class SoftwareDeviceWarning(UserWarning):
    """The default device is a software driver: results are right, speed is a processor's."""

    __module__ = "vkdml"  # where users import it from


class OpenDevices:
    """One device for each piece of hardware, by whatever selector it is asked for. Thread-safe.

    A lost or closed device stays so; the next selection of its hardware opens another.
    """

    def __init__(self, open_device: Callable[[DeviceInfo], Device]) -> None:
        self._open_device = open_device
        # The open devices by identity, and those that selectors chose, so that calls need not list the
        # devices. Both are read without the lock, and written with it.
        self._open: dict[Hashable, Device] = {}
        self._chosen: dict[Hashable, Device] = {}
        self._set_as_default: Device | None = None
        self._warned_of_software = False
        # A warning's hook or a signal's handler may compute while a device is being opened.
        self._lock = threading.RLock()

    def selected(self, selector: object) -> Device:
        """Return the open device that a selector means; None means the default."""
        wanted = normal_selector(selector)
        return self._default() if wanted is None else self._device_for(wanted, wanted)

    def default(self) -> Device:
        """Return the default device; warn once if it is a software device that nobody asked for."""
        device = self._default()
        if not self._warned_of_software and device.info.type == "software" and not self.default_is_chosen():
            self._warned_of_software = True
            warnings.warn(
                f"no GPU was found: {device.name} computes on the processor "
                f"(set {ENVIRONMENT_SELECTOR} to choose a device knowingly)",
                SoftwareDeviceWarning,
                stacklevel=level_of_caller(),
            )
        return device

    def default_if_open(self) -> Device | None:
        """Return what :meth:`default` does where that opens nothing and says nothing, else None."""
        chosen, named = self._set_as_default, _named_in_environment()
        device = chosen or self._chosen.get(named)
        if device is None or device.native.lost:
            return None
        asked_for = chosen is not None or named is not None or self._warned_of_software
        return device if asked_for or device.info.type != "software" else None

    def selected_if_open(self, selector: int | str) -> Device | None:
        """Return what :meth:`selected` does where that opens nothing, else None."""
        device = self._chosen.get(normal_selector(selector))
        return None if device is None or device.native.lost else device

    def default_is_chosen(self) -> bool:
        """Tell whether the default is a user's choice."""
        return self._set_as_default is not None or _named_in_environment() is not None

    def set_default(self, device: Device | None) -> None:
        """Make a device the default, before the environment; None returns to the rule."""
        with self._lock:
            self._set_as_default = device

    def _device_for(
        self, selector: DeviceInfo | int | str | None, key: Hashable, given_by: str = ""
    ) -> Device:
        """Return the open device that a selector means; ``key`` is what the choice is remembered by.

        ``given_by`` goes before the error of a selector that means no device; other faults are not its own.
        """
        device = self._chosen.get(key)
        if device is None or device.native.lost:
            infos = devices()
            try:
                info = select(selector, infos)
            except NoDeviceError as error:
                raise NoDeviceError(f"{given_by}{error}") from None
            identity = _identity(info, infos)
            with self._lock:
                device = self._open.get(identity)
                if device is None or device.native.lost:
                    self._open.pop(identity, None)
                    device = self._open.setdefault(identity, self._open_device(info))
                if len(self._chosen) >= MOST_SELECTORS:
                    self._chosen.clear()
                self._chosen[key] = device
        device.native.require_usable()
        return device

    def _default(self) -> Device:
        device = self._set_as_default
        if device is not None:
            if not device.native.lost:
                device.native.require_usable()
                return device
            # By its hardware: after a card was lost, another one may have its index.
            anew = self._device_for(device.info, device.info)
            with self._lock:
                if self._set_as_default is device:
                    self._set_as_default = anew
            return anew
        named = _named_in_environment()
        return self._device_for(named, named, "" if named is None else f"{ENVIRONMENT_SELECTOR}: ")


def _identity(info: DeviceInfo, infos: list[DeviceInfo]) -> Hashable:
    """Return what a device is known by while the process lasts, though others may come and go."""
    # A driver may give equal cards one UUID, and one card may have two drivers.
    before = sum(hardware(other) == hardware(info) for other in infos if other.index < info.index)
    return *hardware(info), before


def _named_in_environment() -> str | None:
    return os.environ.get(ENVIRONMENT_SELECTOR, "").strip() or None


def level_of_caller() -> int:
    """Return the stack level, as warn() counts it in our caller, of the code that called this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "vkdml":
        frame = frame.f_back
        level += 1
    return level
