"""DirectML's ARGMIN, ARGMAX and SLICE1 operators on any Vulkan GPU.

>>> import vkdml
>>> vkdml.argmax([[1, 5, 5], [7, 2, 7]], axis=1)
array([1, 0])
"""

from vkdml import array_api, dml
from vkdml.array import Array, asarray, empty, from_dlpack, zeros
from vkdml.compiled import CompiledOperator
from vkdml.device import Device, DeviceInfo, SoftwareDeviceWarning, default_device, devices
from vkdml.errors import DeviceError, DeviceLostError, NoDeviceError
from vkdml.host_ops import ArgReduceResult
from vkdml.ops import argmax, argmin, slice1
from vkdml.profile import ProfileWarning
from vkdml.sequence import Sequence
from vkdml.sharded import ShardedArray

__version__ = "0.1.0"

__all__ = [
    "ArgReduceResult",
    "Array",
    "CompiledOperator",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DeviceLostError",
    "NoDeviceError",
    "ProfileWarning",
    "Sequence",
    "ShardedArray",
    "SoftwareDeviceWarning",
    "argmax",
    "argmin",
    "array_api",
    "asarray",
    "default_device",
    "devices",
    "dml",
    "empty",
    "from_dlpack",
    "slice1",
    "zeros",
]
