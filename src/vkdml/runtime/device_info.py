"""What devices there are, and which of them a selector means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vkdml import _native
from vkdml.common.integers import index
from vkdml.common.read_only import ReadOnly, fix, refuses_as_read_only
from vkdml.common.read_only_dict import read_only
from vkdml.errors import DeviceError, NoDeviceError
from vkdml.plan.device_classes import subgroups_are_threads, tuning_for
from vkdml.plan.loop_steps import most_loop_steps
from vkdml.plan.plans import DeviceLimits

_PREFERENCE = ("discrete", "integrated", "virtual", "other", "software")
# What kernels need to exchange registers.
_SUBGROUP_FEATURES = ("subgroup_shuffle", "subgroup_arithmetic", "subgroup_size_control")
_UUID = re.compile(r"[0-9a-f]{32}")
_UNREADABLE = "cannot read the manifest of a driver"  # as the native module says it


@refuses_as_read_only
@dataclass(frozen=True, slots=True)
class DeviceInfo(ReadOnly):
    """What a device is and can do, as its driver tells it. Sizes are in bytes. Immutable and hashable."""

    index: int
    name: str
    type: str
    """``discrete``, ``integrated``, ``virtual``, ``software`` or ``other``."""
    uuid: str
    """32 hexadecimal digits."""
    vendor_id: int
    device_id: int
    api_version: str
    driver_name: str
    driver_info: str
    limits: Mapping[str, Any]
    features: Mapping[str, bool]
    subgroup: Mapping[str, Any]
    # What is in use changes all the time; a device that is described twice is the same device.
    heaps: Sequence[Mapping[str, Any]] = field(compare=False)
    """``size``, ``device_local``, ``budget`` and ``usage`` of each, as they were when this was asked for."""
    queue_timestamp_bits: int
    unified_memory: bool
    """Shaders read host-visible memory as fast as any other, so nothing is copied."""

    def __post_init__(self) -> None:
        for name in ("limits", "features", "subgroup", "heaps"):
            fix(self, name, read_only(getattr(self, name)))

    def __repr__(self) -> str:
        gib = sum(heap["size"] for heap in self.heaps if heap["device_local"]) / (1 << 30)
        return f"<vkdml.DeviceInfo {self.index}: {self.name} ({self.type}), {driver_of(self)}, {gib:.3g} GiB>"

    @property
    def largest_heap_bytes(self) -> int:
        """The size of the largest heap.

        Raises:
            DeviceError: the device reports no memory.
        """
        if not self.heaps:
            raise DeviceError(
                f"{self.name} reports no memory: its driver compiles kernels for hardware that is not here; "
                "choose another device"
            )
        return max(int(heap["size"]) for heap in self.heaps)

    @property
    def plan_limits(self) -> DeviceLimits:
        """What the planner needs to know, with the tuning settings of the device's class."""
        return DeviceLimits(
            tuning=tuning_for(self.type, self.driver_name, self.driver_info),
            max_storage_buffer_range=min(
                self.limits["max_storage_buffer_range"], self.limits["max_allocation_size"]
            ),
            max_workgroup_count=self.limits["max_compute_workgroup_count"][0],
            max_workgroup_invocations=min(
                self.limits["max_compute_workgroup_invocations"], self.limits["max_compute_workgroup_size"][0]
            ),
            max_shared_memory=self.limits["max_compute_shared_memory_size"],
            subgroup_size=self.subgroup["size"]
            if all(self.features[name] for name in _SUBGROUP_FEATURES)
            else 0,
            max_loop_steps=most_loop_steps(self.driver_name),
            max_subgroups=self.subgroup["max_per_workgroup"],
            subgroups_are_threads=subgroups_are_threads(self.driver_name),
        )


def devices() -> list[DeviceInfo]:
    """List the Vulkan devices of this machine, in the loader's order.

    >>> [info.type for info in vkdml.devices()]  # doctest: +SKIP
    ['software']

    Raises:
        NoDeviceError: there is no Vulkan loader or no driver; the message says what to install.
    """
    try:
        described = _native.devices()
    except NoDeviceError as error:
        raise _naming_damaged_manifests(error) from None
    return [DeviceInfo(**description) for description in described]


def _naming_damaged_manifests(error: NoDeviceError) -> NoDeviceError:
    """Return the error; where the loader cannot read a manifest, one that names those that are damaged."""
    if _UNREADABLE not in str(error):
        return error
    damaged = [path for path in loader()["icd_files"] if not _is_json(path)]
    if not damaged:
        return error
    return NoDeviceError(
        "the Vulkan loader found no usable driver: the manifest of a driver is damaged "
        f"({', '.join(damaged)}): reinstall that driver, or remove the file; 'vkdml doctor' tells more"
    )


def _is_json(path: str) -> bool:
    try:
        json.loads(Path(path).read_bytes())
    except OSError:
        return True  # nobody knows
    except (ValueError, RecursionError):
        return False
    return True


def loader() -> dict[str, Any]:
    """Return what is known of the Vulkan loader without using any driver; never raises.

    ``path`` is None where there is none, and ``error`` says why; ``api_version``, ``layers`` and
    ``icd_files`` are what it says of itself, of its layers, and the manifests that it will look at.
    ``named_drivers`` is the ``variable`` that names all of these, and its ``fault`` and ``remedy`` if none of
    their drivers can be used; None where no variable does.
    """
    return _native.loader()


def driver_of(info: DeviceInfo) -> str:
    """Return a driver's name and version in the words that are printed and that select its devices."""
    return f"{info.driver_name} {info.driver_info}".strip()


def _describe(infos: list[DeviceInfo]) -> str:
    return "; ".join(f"{info.index}: {info.name} ({info.type}, {driver_of(info)})" for info in infos)


def hardware(info: DeviceInfo) -> tuple[str, str, str]:
    """Return what a device is known by, though its number may change; devices that are alike share it."""
    return info.uuid, info.name, info.driver_name


def normal_selector(selector: Any) -> DeviceInfo | int | str | None:
    """Return a device's number, name or UUID as an int or a str; a DeviceInfo as it is.

    Raises:
        TypeError: it is none of these.
    """
    if selector is None or type(selector) is int or isinstance(selector, str | DeviceInfo):
        return selector
    if not isinstance(selector, bool):
        with suppress(TypeError):
            return index(selector)
    raise TypeError(
        "a device is a vkdml.Device or vkdml.DeviceInfo, an index (int), a UUID or part of a name (str), or "
        f"None, not {selector!r:.80}"
    )


def select(selector: object, infos: list[DeviceInfo]) -> DeviceInfo:
    """Choose one of ``infos`` (not empty): by index, by UUID, by name, or with None the best.

    A str of digits is an index. A name is compared without regard to case: a device's whole name goes before
    a part of several names. A DeviceInfo means its device, whose index may have changed. The best has memory,
    is discrete before integrated before software, then of the lowest index.

    Raises:
        NoDeviceError: nothing matches, or several do; the message lists them.
        TypeError: the selector is of another type.
    """
    wanted = normal_selector(selector)
    if wanted is None:
        # A driver that only compiles reports no heaps, whatever hardware it stands for.
        return min(infos, key=lambda info: (not info.heaps, _PREFERENCE.index(info.type), info.index))
    matching = _matching(wanted, infos)
    said = _describe([wanted]) if isinstance(wanted, DeviceInfo) else repr(wanted)
    if not matching:
        raise NoDeviceError(f"no device matches {said}; the devices are: {_describe(infos)}")
    if len(matching) > 1:
        raise NoDeviceError(
            f"{said} matches {len(matching)} devices: {_describe(matching)}; "
            "choose one by its index, UUID or whole name"
        )
    return matching[0]


def _matching(selector: DeviceInfo | int | str, infos: list[DeviceInfo]) -> list[DeviceInfo]:
    if isinstance(selector, DeviceInfo):
        alike = [info for info in infos if hardware(info) == hardware(selector)]
        return [info for info in alike if info.index == selector.index] or alike
    wanted = selector.strip().lower() if isinstance(selector, str) else selector
    if isinstance(wanted, str):
        plain = wanted.replace("-", "")
        if _UUID.fullmatch(plain):
            return [info for info in infos if info.uuid == plain]
        if wanted.isdecimal():
            wanted = int(wanted)
    if isinstance(wanted, int):
        return [info for info in infos if info.index == wanted]
    if not wanted:
        return []
    whole = [info for info in infos if info.name.lower() == wanted]
    named = [info for info in infos if wanted in info.name.lower() or wanted in info.driver_name.lower()]
    return whole or named or [info for info in infos if wanted in driver_of(info).lower()]
