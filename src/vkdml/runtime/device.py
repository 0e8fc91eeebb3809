"""Devices: open for computing, one for each piece of hardware, with what they keep between calls."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, final

from vkdml import _native
from vkdml.common import hooks
from vkdml.common.one_object import OneObject
from vkdml.common.read_only import ReadOnly, fix
from vkdml.errors import DeviceError
from vkdml.plan.plans import DeviceLimits
from vkdml.runtime import profile
from vkdml.runtime.device_info import DeviceInfo
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.open_devices import OpenDevices, level_of_caller

if TYPE_CHECKING:
    from vkdml.compiled.operator import CompiledOperator
    from vkdml.compiled.sequence import Sequence
    from vkdml.dml import OperatorDesc, TypedOperatorDesc
    from vkdml.dml.enums import FeatureLevelLike


class _Closed:
    """What a closed device has in place of its native device and its executions.

    Every use raises, except ``lost``.
    """

    lost = True
    """Makes the next selection open the device anew."""

    def __init__(self, info: DeviceInfo) -> None:
        self._message = (
            f"device {info.index}, {info.name}, was closed, and what lay on it is gone: "
            f"select it again, as vkdml.Device({info.index}), which opens it anew"
        )

    def __getattr__(self, _: str) -> NoReturn:
        raise DeviceError(self._message)


@final
class Device(ReadOnly, OneObject):
    """A Vulkan device, open for computing. In a process there is one for each piece of hardware.

    >>> vkdml.Device(0) is vkdml.Device("0")
    True
    >>> vkdml.Device("nvidia").info.type  # doctest: +SKIP
    'discrete'

    Args:
        selector: an index of :func:`devices`, a UUID, or part of a device's or driver's name in any case (a
            device's whole name goes before a part of several); None takes the default device, as
            :func:`default_device` does. A Device is returned as it is, and a DeviceInfo means its device.

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
    """For the planner: what it needs to know, with this device's tuning settings."""

    def __new__(cls, selector: DeviceLike = None) -> Device:
        return selector if isinstance(selector, Device) else _open_devices.selected(selector)

    def __init_subclass__(cls, **_: object) -> NoReturn:
        raise TypeError("vkdml.Device cannot be subclassed: each device is one object, shared by all")

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

        Used are arrays, and the buffers that calls keep for later calls; :meth:`trim` frees the latter. The
        budget is what this process may have of the device's memory all together, as its driver tells it;
        a driver that does not tell gives the size of that memory.
        """
        self.executions.small_transfers.settle()  # what it writes may be nobody else's any more
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
        index, name or UUID or as the default, opens it anew, as another Device.
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
        return hooks.compile_operator(self, desc, feature_level=feature_level)

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
        return hooks.sequence(self, timings=timings)

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
        warnings.warn(fault, profile.ProfileWarning, stacklevel=level_of_caller())
    return device


_open_devices = OpenDevices(open_device)
_said_of_profiles: set[str] = set()


def default_device() -> Device:
    """Return the device that calls without ``device=`` use; opened at first use.

    It is the one that :func:`set_default_device` set, else the one that ``VKDML_DEVICE`` names (index, UUID
    or part of a name), else the best there is: discrete before integrated before software. A software device
    not asked for is said once, by a :class:`SoftwareDeviceWarning`. If its driver gave it up
    (:class:`DeviceLostError`) or it was closed, the next call opens it anew; what lay on it is lost.

    Raises:
        NoDeviceError: there is none, or ``VKDML_DEVICE`` names none or several.
    """
    return _open_devices.default()


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
    _open_devices.set_default(None if selector is None else resolve(selector))


def default_is_chosen() -> bool:
    """Tell whether the default device is a user's choice, by ``set_default_device`` or ``VKDML_DEVICE``."""
    return _open_devices.default_is_chosen()


_OneDevice = Device | DeviceInfo | SupportsIndex | str
DeviceLike = _OneDevice | None
DevicesLike = DeviceLike | list[_OneDevice] | tuple[_OneDevice, ...]


def resolve(device: DeviceLike) -> Device:
    """Return the device that a public function's ``device=`` means, which can be used.

    Raises:
        NoDeviceError, TypeError, DeviceError: as :class:`Device`.
        DeviceLostError: it is a Device that was lost.
    """
    if isinstance(device, Device):
        device.require_usable()
        return device
    return _open_devices.default() if device is None else _open_devices.selected(device)


def resolve_if_open(device: DevicesLike) -> Device | None:
    """Return the device that ``device=`` means if it is one and open, else None; nothing is opened."""
    if device is None:
        return _open_devices.default_if_open()
    if isinstance(device, Device):
        return device
    return _open_devices.selected_if_open(device) if type(device) in (int, str) else None  # type: ignore[arg-type]


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
