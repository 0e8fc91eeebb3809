"""Devices: finding them, choosing one, and keeping what a device needs between calls."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vkdml import _native, profile
from vkdml.errors import NoDeviceError
from vkdml.execute import ExecutionCache
from vkdml.plan import DeviceLimits
from vkdml.tuning import tuning_for

if TYPE_CHECKING:
    from vkdml.compiled import CompiledOperator
    from vkdml.dml import FeatureLevel, OperatorDesc
    from vkdml.sequence import Sequence

ENVIRONMENT_SELECTOR = "VKDML_DEVICE"
_PREFERENCE = ("discrete", "integrated", "virtual", "other", "software")
_UUID = re.compile(r"[0-9a-f]{32}")


class SoftwareDeviceWarning(UserWarning):
    """The default device is a software driver: results are right, speed is a processor's."""


@dataclass(frozen=True)
class DeviceInfo:
    """What a device is and can do, as its driver tells it. Sizes are in bytes."""

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
    limits: dict[str, Any]
    features: dict[str, bool]
    subgroup: dict[str, Any]
    heaps: list[dict[str, Any]]
    queue_timestamp_bits: int
    unified_memory: bool
    """Shaders read host-visible memory as fast as any other, so nothing is copied."""

    @property
    def plan_limits(self) -> DeviceLimits:
        """What the planner needs to know, with the tuning numbers of the device's class."""
        return DeviceLimits(
            tuning=tuning_for(self.type, self.driver_name),
            max_storage_buffer_range=min(
                self.limits["max_storage_buffer_range"], self.limits["max_allocation_size"]
            ),
            max_workgroup_count=self.limits["max_compute_workgroup_count"][0],
            max_workgroup_invocations=min(
                self.limits["max_compute_workgroup_invocations"], self.limits["max_compute_workgroup_size"][0]
            ),
            max_shared_memory=self.limits["max_compute_shared_memory_size"],
            subgroup_size=self.subgroup["size"]
            if self.features["subgroup_shuffle"] and self.features["subgroup_size_control"]
            else 0,
        )


def devices() -> list[DeviceInfo]:
    """List the Vulkan devices of this machine, in the loader's order.

    >>> [info.type for info in vkdml.devices()]  # doctest: +SKIP
    ['software']

    Raises:
        NoDeviceError: there is no Vulkan loader or no driver; the message says what to install.
    """
    return [DeviceInfo(**description) for description in _native.devices()]


def _describe(infos: list[DeviceInfo]) -> str:
    return "; ".join(f"{info.index}: {info.name} ({info.type}, {info.driver_name})" for info in infos)


def select(selector: int | str | None, infos: list[DeviceInfo]) -> DeviceInfo:
    """Choose one of ``infos`` (not empty): by index, UUID, part of a name, or with None the best.

    Of several that match, discrete comes before integrated before software, then the lower index.

    Raises:
        NoDeviceError: nothing matches; the message lists what there is.
        TypeError: the selector is of another type.
    """
    if isinstance(selector, bool) or not isinstance(selector, int | str | None):
        raise TypeError(
            f"a device is chosen by index (int), by name or UUID (str), or with None, not by {selector!r}"
        )
    if isinstance(selector, str) and selector.strip().isdecimal() and len(selector.strip()) < 10:
        selector = int(selector)
    if selector is None:
        matching = infos
    elif isinstance(selector, int):
        matching = [info for info in infos if info.index == selector]
    else:
        wanted = selector.strip().lower()
        plain = wanted.replace("-", "")
        if _UUID.fullmatch(plain):
            matching = [info for info in infos if info.uuid == plain]
        else:
            matching = [
                info
                for info in infos
                if wanted and (wanted in info.name.lower() or wanted in info.driver_name.lower())
            ]
    if not matching:
        raise NoDeviceError(f"no device matches {selector!r}; there is {_describe(infos)}")
    return min(matching, key=lambda info: (_PREFERENCE.index(info.type), info.index))


class Device:
    """A Vulkan device, opened for computing.

    >>> vkdml.Device("nvidia").info.type  # doctest: +SKIP
    'discrete'

    Args:
        selector: an index of :func:`devices`, a UUID, or part of a device's or driver's name in any case;
            None takes ``VKDML_DEVICE`` if that is set, else the best device.

    Raises:
        NoDeviceError: no such device.
        DeviceError: the driver refused to open it, or this process was forked after Vulkan was in use.
    """

    def __init__(self, selector: int | str | None = None) -> None:
        if selector is None:
            selector = os.environ.get(ENVIRONMENT_SELECTOR) or None
            if selector is not None:
                try:
                    self._open(selector)
                except NoDeviceError as error:
                    raise NoDeviceError(f"{ENVIRONMENT_SELECTOR}: {error}") from None
                return
        self._open(selector)

    def _open(self, selector: int | str | None) -> None:
        self._info = select(selector, devices())
        self.native = _native.Device(self._info.index)
        limits = self._info.plan_limits
        tuning, fault = profile.tuned(self._info, limits.tuning)
        self.limits = replace(limits, tuning=tuning)
        if fault is not None and fault not in _said_of_profiles:
            _said_of_profiles.add(fault)
            warnings.warn(fault, profile.ProfileWarning, stacklevel=_level_of_caller())
        self.plans: dict[Hashable, object] = {}
        self.executions = ExecutionCache(self.native, self._info.unified_memory, self.limits.tuning)

    @property
    def info(self) -> DeviceInfo:
        """What this device is and can do."""
        return self._info

    @property
    def name(self) -> str:
        """The device's name, as its driver gives it."""
        return self._info.name

    def memory(self) -> dict[str, int]:
        """Return bytes of memory: ``used`` now, ``pooled`` for reuse, the pool's ``limit``, and ``budget``.

        The budget is what this process may have of the device's memory all together, as its driver tells it;
        a driver that does not tell gives the size of that memory.
        """
        return self.native.memory()

    def require_usable(self) -> None:
        """Raise DeviceLostError if the driver gave the device up, DeviceError in a forked process."""
        self.native.require_usable()

    def trim(self) -> int:
        """Give back all memory that is kept for later calls; returns the bytes freed."""
        self.executions.clear()
        return self.native.trim()

    def compile(self, desc: OperatorDesc, *, feature_level: FeatureLevel | str = "4_1") -> CompiledOperator:
        """Validate and plan a DirectML operator and build its kernels, to be dispatched any number of times.

        >>> x = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.UINT8, sizes=(4,))
        >>> y = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.UINT32, sizes=(1,))
        >>> op = vkdml.default_device().compile(vkdml.dml.ArgMinOperatorDesc(x, y, axes=(0,)))
        >>> op.dispatch(input=vkdml.asarray([3, 1, 2, 1], dtype="uint8")).item()
        1

        Args:
            desc: one of :mod:`vkdml.dml`'s operators.
            feature_level: as in :func:`vkdml.dml.validate`.

        Raises:
            ValueError, TypeError: as :func:`vkdml.dml.validate`.
            MemoryError: a tensor is more than a buffer of the device can hold, or there is no memory left.
            DeviceError: the device failed.

        Source of the rule: DirectML's ``IDMLDevice::CompileOperator``.
        """
        from vkdml.compiled import CompiledOperator

        return CompiledOperator(self, desc, feature_level=feature_level)

    def sequence(self, *, timings: bool = True) -> Sequence:
        """Return an empty sequence, to record compiled operators, uploads and downloads.

        >>> a, host = vkdml.empty(3, "float64"), np.arange(3.0)
        >>> with a.device.sequence() as sequence:
        ...     sequence.upload(a, host)
        ...     sequence.eval().running
        False

        Args:
            timings: measure each operation on the device; see :meth:`vkdml.Sequence.timings`.

        Raises:
            DeviceError: the device was lost, or this process was forked after Vulkan was in use.
        """
        from vkdml.sequence import Sequence

        return Sequence(self, timings=timings)

    def __repr__(self) -> str:
        return f"<vkdml.Device {self._info.index}: {self._info.name} ({self._info.type})>"


_shared: dict[int | str | tuple[str | None], Device] = {}
_shared_lock = threading.Lock()
_warned_of_software = False
_said_of_profiles: set[str] = set()


def default_device() -> Device:
    """Return the device that calls without ``device=`` use; opened at first use.

    It is the one that ``VKDML_DEVICE`` names (index, UUID or part of a name), else the best there is:
    discrete before integrated before software. A software device not asked for is said once, by a
    :class:`SoftwareDeviceWarning`. If its driver gave it up (:class:`DeviceLostError`), the next call opens
    it anew; what lay on the lost one is lost.

    Raises:
        NoDeviceError: there is none, or none that ``VKDML_DEVICE`` names.
    """
    global _warned_of_software
    named = os.environ.get(ENVIRONMENT_SELECTOR) or None
    device = _shared_device(None, (named,))
    if not _warned_of_software and named is None and device.info.type == "software":
        _warned_of_software = True
        warnings.warn(
            f"no GPU was found: {device.name} computes on the processor "
            f"(set {ENVIRONMENT_SELECTOR} to choose a device knowingly)",
            SoftwareDeviceWarning,
            stacklevel=_level_of_caller(),
        )
    return device


def _level_of_caller() -> int:
    """Return the stack level, as warn() counts it in our caller, of the code that called this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "vkdml":
        frame = frame.f_back
        level += 1
    return level


def _shared_device(selector: int | str | None, key: int | str | tuple[str | None]) -> Device:
    device = _shared.get(key)
    if device is None or device.native.lost:
        with _shared_lock:
            device = _shared.get(key)
            if device is None or device.native.lost:
                device = _shared[key] = Device(selector)
    return device


DeviceLike = Device | int | str | None
DevicesLike = DeviceLike | list[Device | int | str] | tuple[Device | int | str, ...]


def resolve(device: DeviceLike) -> Device:
    """Return the device that a public function's ``device=`` means; selectors share one device each."""
    if isinstance(device, Device):
        return device
    if device is None:
        return default_device()
    if isinstance(device, bool) or not isinstance(device, int | str):
        raise TypeError(
            f"device is a vkdml.Device, an index (int), a name or UUID (str) or None, not {device!r}"
        )
    return _shared_device(device, device)


def resolve_all(device: DevicesLike) -> list[Device]:
    """Return the devices that ``device=`` means where it may be a list of those that share the work."""
    if not isinstance(device, list | tuple):
        return [resolve(device)]
    found = [resolve(one) for one in device]
    if not found or len(set(map(id, found))) != len(found):
        raise ValueError(f"device={device!r} is empty or names a device twice; accepted are distinct devices")
    return found
