"""Devices: finding them, choosing one, and keeping what a device needs between calls."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, final

from vkdml import _native
from vkdml.common.integers import index
from vkdml.common.read_only import ReadOnly, fix
from vkdml.common.read_only_dict import read_only
from vkdml.errors import DeviceError, NoDeviceError
from vkdml.plan.loop_steps import most_loop_steps
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.tuning import tuning_for
from vkdml.runtime import profile
from vkdml.runtime.execution import ExecutionCache

if TYPE_CHECKING:
    from vkdml.compiled.operator import CompiledOperator
    from vkdml.compiled.sequence import Sequence as RecordedSequence
    from vkdml.dml import OperatorDesc, TypedOperatorDesc
    from vkdml.dml.enums import FeatureLevelLike

ENVIRONMENT_SELECTOR = "VKDML_DEVICE"
_PREFERENCE = ("discrete", "integrated", "virtual", "other", "software")
_UUID = re.compile(r"[0-9a-f]{32}")


class SoftwareDeviceWarning(UserWarning):
    """The default device is a software driver: results are right, speed is a processor's."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
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
            max_loop_steps=most_loop_steps(self.driver_name),
            max_subgroups=self.subgroup["max_per_workgroup"],
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


def normal_selector(selector: Any) -> int | str | None:
    """Return a device's number, name or UUID as an int or a str.

    Raises:
        TypeError: it is none of these.
    """
    if selector is None or type(selector) is int or isinstance(selector, str):
        return selector
    if not isinstance(selector, bool):
        with suppress(TypeError):
            return index(selector)
    raise TypeError(
        "a device is a vkdml.Device, an index (int), a UUID or part of a name (str), or None, "
        f"not {selector!r:.80}"
    )


def select(selector: object, infos: list[DeviceInfo]) -> DeviceInfo:
    """Choose one of ``infos`` (not empty): by index, by UUID, by name, or with None the best.

    A str of digits is an index. A name is compared without regard to case: a device's whole name goes before
    a part of several names. The best has memory, is discrete before integrated before software, then of the
    lowest index.

    Raises:
        NoDeviceError: nothing matches, or several do; the message lists them.
        TypeError: the selector is of another type.
    """
    wanted = normal_selector(selector)
    if wanted is None:
        # A driver that only compiles reports no heaps, whatever hardware it stands for.
        return min(infos, key=lambda info: (not info.heaps, _PREFERENCE.index(info.type), info.index))
    matching = _matching(wanted, infos)
    if not matching:
        raise NoDeviceError(f"no device matches {wanted!r}; the devices are: {_describe(infos)}")
    if len(matching) > 1:
        raise NoDeviceError(
            f"{wanted!r} matches {len(matching)} devices: {_describe(matching)}; "
            "choose one by its number, UUID or whole name"
        )
    return matching[0]


def _matching(selector: int | str, infos: list[DeviceInfo]) -> list[DeviceInfo]:
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
    named = [info for info in infos if info.name.lower() == wanted]
    return named or [
        info for info in infos if wanted in info.name.lower() or wanted in info.driver_name.lower()
    ]


class _Closed:
    """What a closed device has in place of its native device and its executions: every use raises."""

    lost = True
    """So the next selection opens the device anew."""

    def __init__(self, info: DeviceInfo) -> None:
        self._message = (
            f"device {info.index}, {info.name}, was closed, and what lay on it is gone: "
            f"select it again, as vkdml.Device({info.index}), which opens it anew"
        )

    def __getattr__(self, _: str) -> NoReturn:
        raise DeviceError(self._message)


@final
class Device(ReadOnly):
    """A Vulkan device, open for computing. In a process there is one for each piece of hardware.

    >>> vkdml.Device(0) is vkdml.Device("0")
    True
    >>> vkdml.Device("nvidia").info.type  # doctest: +SKIP
    'discrete'

    Args:
        selector: an index of :func:`devices`, a UUID, or part of a device's or driver's name in any case (a
            device's whole name goes before a part of several); None takes the default device, as
            :func:`default_device` does. A Device is returned as it is.

    However it is selected, it is the same object, and its first selection opens it. The driver may give it up
    (:class:`DeviceLostError`), or :meth:`close` may end it; it stays so then, and the next selection by
    number, name or UUID opens the hardware anew, as another Device. Attributes are read-only.

    In a ``with`` block, it is closed at the end, for all who use it.

    Raises:
        NoDeviceError: no such device, or several; the message lists them.
        TypeError: the selector is of another type.
        DeviceError: the driver refused to open it, or this process was forked after Vulkan was in use.
    """

    __slots__ = ("__weakref__", "executions", "info", "limits", "native")

    info: DeviceInfo
    """What this device is and can do."""
    native: _native.Device
    """For the runtime: the native device. This and what follows is no part of the interface."""
    executions: ExecutionCache
    """For the runtime: what is kept between calls."""
    limits: DeviceLimits
    """For the planner: what it needs to know, with this device's tuning numbers."""

    def __new__(cls, selector: DeviceLike = None) -> Device:
        return selector if isinstance(selector, Device) else _selected(selector)

    def __init_subclass__(cls, **_: object) -> NoReturn:
        raise TypeError("vkdml.Device cannot be subclassed: each device is one object, shared by all")

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, _: object) -> Device:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} is open in this process and cannot be pickled: "
            "send its info.uuid, and select it there by vkdml.Device(uuid)"
        )

    @property
    def name(self) -> str:
        """The device's name, as its driver gives it."""
        return self.info.name

    def memory(self) -> dict[str, int]:
        """Return bytes of memory: ``used`` now, ``pooled`` for reuse, the pool's ``limit``, and ``budget``.

        The budget is what this process may have of the device's memory all together, as its driver tells it;
        a driver that does not tell gives the size of that memory.
        """
        return self.native.memory()

    def require_usable(self) -> None:
        """Raise DeviceLostError if the driver gave the device up, DeviceError if closed or forked."""
        self.native.require_usable()

    def trim(self) -> int:
        """Give back all memory that is kept for later calls; returns the bytes freed."""
        self.executions.clear()
        return self.native.trim()

    def close(self) -> None:
        """Close the device for all who use it; a closed one stays so, and closing it again does nothing.

        >>> with vkdml.Device(0) as device:  # doctest: +SKIP
        ...     vkdml.argmax([1, 3, 2], device=device)
        1

        What was kept for later calls is freed at once, the memory of an Array when the last view of it goes.
        Every use of the device, of Arrays on it and of operators compiled for it raises DeviceError from now
        on; a sequence that is running ends, and can be waited for. The next selection of the device, by
        number, name or UUID or as the default, opens it anew, as another Device.
        """
        native, executions, closed = self.native, self.executions, _Closed(self.info)
        fix(self, "native", closed)
        fix(self, "executions", closed)
        with suppress(DeviceError):  # closed before, or in a forked process
            executions.clear()
            native.trim()

    def __enter__(self) -> Device:
        self.require_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def compile(
        self, desc: OperatorDesc | TypedOperatorDesc, *, feature_level: FeatureLevelLike = "4_1"
    ) -> CompiledOperator:
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
        from vkdml.compiled.operator import CompiledOperator

        return CompiledOperator(self, desc, feature_level=feature_level)

    def sequence(self, *, timings: bool = True) -> RecordedSequence:
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
        from vkdml.compiled.sequence import Sequence

        return Sequence(self, timings=timings)

    def __repr__(self) -> str:
        native: _native.Device | _Closed = self.native
        state = ", closed" if isinstance(native, _Closed) else ", lost" if native.lost else ""
        return f"<vkdml.Device {self.info.index}: {self.info.name} ({self.info.type}){state}>"


def open_device(info: DeviceInfo) -> Device:
    """Open a device, whether or not it is open already: for :class:`Device`, which sees that it is not.

    Raises:
        DeviceError: as :class:`Device`.
    """
    limits = info.plan_limits
    tuning, fault = profile.tuned(info, limits.tuning)
    device = object.__new__(Device)
    native = _native.Device(info.index)
    fix(device, "info", info)
    fix(device, "native", native)
    fix(device, "executions", ExecutionCache(native, info.unified_memory, tuning))
    fix(device, "limits", replace(limits, tuning=tuning))
    if fault is not None and fault not in _said_of_profiles:
        _said_of_profiles.add(fault)
        warnings.warn(fault, profile.ProfileWarning, stacklevel=_level_of_caller())
    return device


# The open devices by identity, and those that selectors chose, so that calls need not list the devices.
_open: dict[Hashable, Device] = {}
_chosen: dict[Hashable, Device] = {}
_set_as_default: Device | None = None
# A warning's hook or a signal's handler may compute while a device is being opened.
_lock = threading.RLock()
_warned_of_software = False
_said_of_profiles: set[str] = set()


def _identity(info: DeviceInfo, infos: list[DeviceInfo]) -> Hashable:
    """Return what a device is known by while the process lasts, though others may come and go."""

    def alike(other: DeviceInfo) -> bool:
        return (other.uuid, other.name, other.driver_name) == (info.uuid, info.name, info.driver_name)

    # A driver may give equal cards one UUID, and one card may have two drivers.
    before = sum(alike(other) for other in infos if other.index < info.index)
    return info.uuid, info.name, info.driver_name, before


def _device_for(selector: int | str | None, key: Hashable) -> Device:
    """Return the open device that a selector means; ``key`` is what the choice is remembered by."""
    device = _chosen.get(key)
    if device is None or device.native.lost:
        infos = devices()
        info = select(selector, infos)
        identity = _identity(info, infos)
        with _lock:
            device = _open.get(identity)
            if device is None or device.native.lost:
                _open.pop(identity, None)
                device = _open.setdefault(identity, open_device(info))
            _chosen[key] = device
    device.native.require_usable()
    return device


def _selected(selector: object) -> Device:
    wanted = normal_selector(selector)
    return _default() if wanted is None else _device_for(wanted, wanted)


def _named_in_environment() -> str | None:
    return os.environ.get(ENVIRONMENT_SELECTOR, "").strip() or None


def _default() -> Device:
    global _set_as_default
    device = _set_as_default
    if device is not None:
        if not device.native.lost:
            device.native.require_usable()
            return device
        anew = _device_for(device.info.index, device.info.index)
        with _lock:
            if _set_as_default is device:
                _set_as_default = anew
        return anew
    named = _named_in_environment()
    if named is None:
        return _device_for(None, None)
    try:
        return _device_for(named, named)
    except NoDeviceError as error:
        raise NoDeviceError(f"{ENVIRONMENT_SELECTOR}: {error}") from None


def default_device() -> Device:
    """Return the device that calls without ``device=`` use; opened at first use.

    It is the one that :func:`set_default_device` set, else the one that ``VKDML_DEVICE`` names (index, UUID
    or part of a name), else the best there is: discrete before integrated before software. A software device
    not asked for is said once, by a :class:`SoftwareDeviceWarning`. If its driver gave it up
    (:class:`DeviceLostError`) or it was closed, the next call opens it anew; what lay on it is lost.

    Raises:
        NoDeviceError: there is none, or ``VKDML_DEVICE`` names none or several.
    """
    global _warned_of_software
    device = _default()
    if (
        not _warned_of_software
        and device.info.type == "software"
        and _set_as_default is None
        and _named_in_environment() is None
    ):
        _warned_of_software = True
        warnings.warn(
            f"no GPU was found: {device.name} computes on the processor "
            f"(set {ENVIRONMENT_SELECTOR} to choose a device knowingly)",
            SoftwareDeviceWarning,
            stacklevel=_level_of_caller(),
        )
    return device


def set_default_device(selector: DeviceLike) -> None:
    """Set the device that calls without ``device=`` use, in all threads of this process.

    >>> vkdml.set_default_device(0)
    >>> vkdml.default_device() is vkdml.Device(0)
    True
    >>> vkdml.set_default_device(None)

    Args:
        selector: as for :class:`Device`, which is opened; it goes before ``VKDML_DEVICE``. None returns to
            the rule of :func:`default_device`.

    Raises:
        NoDeviceError, TypeError, DeviceError: as :class:`Device`; the default is as it was then.
    """
    global _set_as_default
    device = None if selector is None else resolve(selector)
    with _lock:
        _set_as_default = device


def _level_of_caller() -> int:
    """Return the stack level, as warn() counts it in our caller, of the code that called this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "vkdml":
        frame = frame.f_back
        level += 1
    return level


DeviceLike = Device | SupportsIndex | str | None
DevicesLike = DeviceLike | list[Device | SupportsIndex | str] | tuple[Device | SupportsIndex | str, ...]


def resolve(device: DeviceLike) -> Device:
    """Return the device that a public function's ``device=`` means, which can be used.

    Raises:
        NoDeviceError, TypeError, DeviceError: as :class:`Device`.
        DeviceLostError: it is a Device that was lost.
    """
    if isinstance(device, Device):
        device.require_usable()
        return device
    return default_device() if device is None else _selected(device)


def resolve_all(device: DevicesLike) -> list[Device]:
    """Return the devices that ``device=`` means where it may be a list of those that share the work."""
    if not isinstance(device, list | tuple):
        return [resolve(device)]
    if not device:
        raise ValueError("device= is an empty list; accepted is at least one device")
    found = [resolve(one) for one in device]
    twice = next((one for place, one in enumerate(found) if one in found[:place]), None)
    if twice is not None:
        raise ValueError(f"device={device!r} has {twice!r} twice; accepted are distinct devices")
    return found
