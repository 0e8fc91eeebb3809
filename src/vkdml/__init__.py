"""DirectML's ARGMIN, ARGMAX and SLICE1 operators on any Vulkan GPU.

>>> import vkdml
>>> vkdml.argmax([[1, 5, 5], [7, 2, 7]], axis=1)
array([1, 0])
"""

from vkdml import dml
from vkdml.device import Device, DeviceInfo, SoftwareDeviceWarning, default_device, devices
from vkdml.errors import DeviceError, DeviceLostError, NoDeviceError
from vkdml.ops import ArgReduceResult, argmax, argmin, slice1
from vkdml.profile import ProfileWarning

__version__ = "0.1.0"

__all__ = [
    "ArgReduceResult",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DeviceLostError",
    "NoDeviceError",
    "ProfileWarning",
    "SoftwareDeviceWarning",
    "argmax",
    "argmin",
    "default_device",
    "devices",
    "dml",
    "slice1",
]
