"""The exceptions that the native module raises besides Python's own; it imports them from here."""


class DeviceError(RuntimeError):
    """The device, its driver or the runtime failed; the message states what to do.

    >>> issubclass(vkdml.DeviceError, RuntimeError)
    True
    """


class NoDeviceError(DeviceError):
    """No Vulkan loader, driver or matching device was found, or several devices match.

    >>> vkdml.Device("no such device")
    Traceback (most recent call last):
    vkdml.NoDeviceError: no device matches 'no such device'; the devices are: ...
    """


class DeviceLostError(DeviceError):
    """The driver lost the device; the next selection of the device opens it again.

    >>> issubclass(vkdml.DeviceLostError, vkdml.DeviceError)
    True
    """


for _exception in (DeviceError, NoDeviceError, DeviceLostError):
    _exception.__module__ = "vkdml"  # where users import it from

# The native module reads the classes above. If vkdml was imported before and deleted from sys.modules, it
# replaces them by the classes of the first import, which it raises.
from vkdml import _native as _native  # noqa: E402
