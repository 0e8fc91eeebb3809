"""DirectML's ARGMIN, ARGMAX and SLICE1 operators on any Vulkan GPU.

>>> import vkdml
>>> vkdml.argmax([[1, 5, 5], [7, 2, 7]], axis=1)
array([1, 0])
"""

import typing as _typing
from types import ModuleType as _ModuleType

from vkdml import array_api, dml
from vkdml.arrays import gathering as _gathering
from vkdml.arrays.array import Array
from vkdml.arrays.creation import asarray, empty, from_dlpack, zeros
from vkdml.arrays.sharded import ShardedArray
from vkdml.common import hooks as _hooks
from vkdml.compiled.operator import CompiledOperator
from vkdml.compiled.sequence import Sequence
from vkdml.compiled.transfers import Download
from vkdml.errors import DeviceError, DeviceLostError, NoDeviceError
from vkdml.integrations import cuda_memory as _cuda_memory
from vkdml.integrations import cuda_operators as _cuda_operators
from vkdml.integrations import cuda_tensors as _cuda_tensors
from vkdml.operators.on_device import call_as_before as _call_as_before
from vkdml.operators.result import ArgReduceResult
from vkdml.ops import argmax, argmin, slice1
from vkdml.runtime.device import Device, default_device, set_default_device
from vkdml.runtime.device_info import DeviceInfo, devices
from vkdml.runtime.open_devices import SoftwareDeviceWarning
from vkdml.runtime.profile import ProfileWarning

__version__ = "0.1.0"

_hooks.argmax, _hooks.argmin = argmax, argmin
_hooks.call_as_before = _call_as_before
_hooks.indexed_by_arrays, _hooks.taken_along_axis = _gathering.indexed_by_arrays, _gathering.taken_along_axis
_hooks.compile_operator = CompiledOperator
_hooks.sequence = Sequence
_hooks.cuda_memory = _cuda_memory.allocated
_hooks.from_cuda = _cuda_tensors.taken
_hooks.on_cuda = _cuda_operators
_hooks.array_namespace = array_api.for_version

__all__ = [
    "ArgReduceResult",
    "Array",
    "CompiledOperator",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DeviceLostError",
    "Download",
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
    "set_default_device",
    "slice1",
    "zeros",
]

_IMPORTED_APART = ("dask", "onnx")

_OTHER_NAMES = {
    "array": "asarray",
    "as_tensor": "asarray",
    "from_numpy": "asarray",
    "ndarray": "Array",
    "slice": "slice1",
    "tensor": "asarray",
}


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


# Type checkers know the flag by this name only, and would accept any attribute of a module with __getattr__.
if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        message = f"module 'vkdml' has no attribute {name!r}"
        if name in _IMPORTED_APART:
            message += f" yet: import vkdml.{name} first"
        elif not name.startswith("_"):
            import difflib

            lower = {public.lower(): public for public in __all__}
            close = difflib.get_close_matches(name.lower(), lower, 1)
            meant = _OTHER_NAMES.get(name) or (lower[close[0]] if close else None)
            message += f"; did you mean {meant!r}?" if meant else ""
        raise AttributeError(message)


def _hide_modules() -> None:
    """Take back the names that importing the inner modules gave this one, which are no part of its interface.

    ``import vkdml.plan`` still works, and so does ``from vkdml import plan``; ``vkdml.plan`` is refused.
    """
    for name, value in tuple(globals().items()):
        if isinstance(value, _ModuleType) and not name.startswith("_") and name not in __all__:
            del globals()[name]


_hide_modules()
