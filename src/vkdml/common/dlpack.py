"""DLPack's numbers, as its header dlpack.h defines them, and where they lie in a capsule."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

# Types of devices. The host reads its own memory, and memory pinned for CUDA and ROCm; CUDA reads its own,
# and memory that it moves to and fro.
CPU, CUDA, CUDA_HOST, VULKAN, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 7, 11, 13
HOST_DEVICES = (CPU, CUDA_HOST, ROCM_HOST)
CUDA_DEVICES = (CUDA, CUDA_MANAGED)

UNSIGNED = 1
CODES = {"i": 0, "u": UNSIGNED, "f": 2, "c": 5, "b": 6}
"""DLPack's codes of element types, by NumPy's kinds."""
KINDS = {code: kind for kind, code in CODES.items()}

SMALL_FLOATS = {4: ("bfloat16", 16), 10: ("float8_e4m3fn", 8), 12: ("float8_e5m2", 8)}
"""ml_dtypes' types and their bits, by their codes."""
SMALL_FLOAT_CODES = {name: code for code, (name, _) in SMALL_FLOATS.items()}

READ_ONLY, COPIED = 1, 2
"""A capsule's flags."""
VERSION_WITH_FLAGS = (1, 0)

TENSOR = struct.Struct("@QiiiBBHQQQ")
"""A DLTensor: address, device, dimensions, type (code, bits, lanes), sizes, strides, byte offset."""
CODE, BITS = struct.calcsize("@Qiii"), struct.calcsize("@QiiiB")
"""Byte offsets in it."""

# Byte offsets of the DLTensor in a capsule of each name, and of the flags before it where there are any.
_CAPSULES = {b"dltensor": (0, None), b"dltensor_versioned": (32, 24)}

_get_name, _get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def tensor_in(capsule: Any) -> tuple[int, int]:
    """Return the address of the DLTensor in a fresh capsule, and the capsule's flags.

    Raises:
        TypeError: it is no capsule of DLPack's.
    """
    name = _get_name(capsule)
    if name not in _CAPSULES:
        raise TypeError(f"this capsule is named {name!r}; accepted are {', '.join(map(repr, _CAPSULES))}")
    start: int = _get_pointer(capsule, name)
    tensor, flags = _CAPSULES[name]
    return start + tensor, 0 if flags is None else ctypes.c_uint64.from_address(start + flags).value


def small_float_name(code: int, bits: int) -> str | None:
    """Return the name of ml_dtypes' type of such elements, or None if it has none.

    >>> small_float_name(4, 16), small_float_name(4, 8)
    ('bfloat16', None)
    """
    name, own_bits = SMALL_FLOATS.get(code, (None, bits))
    return name if bits == own_bits else None
