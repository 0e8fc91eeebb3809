"""The exceptions that the native module raises besides Python's own. It imports them from here."""


class DeviceError(RuntimeError):
    """The device, its driver or the runtime failed; the message says what to do."""


class NoDeviceError(DeviceError):
    """There is no Vulkan loader, no driver, or no device as asked for."""


class DeviceLostError(DeviceError):
    """The driver gave the device up; a new ``vkdml.Device()`` works again."""


for _exception in (DeviceError, NoDeviceError, DeviceLostError):
    _exception.__module__ = "vkdml"  # where users import it from

# Last, so that it finds them. Where vkdml was imported before and deleted from sys.modules, it puts the first
# import's classes in their place: those are what it raises.
from vkdml import _native as _native  # noqa: E402
