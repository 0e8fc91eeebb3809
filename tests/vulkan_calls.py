"""Vulkan's C interface by ctypes, for what tests and tools ask of a driver and the library never does."""

from __future__ import annotations

import ctypes
import struct

vulkan = ctypes.CDLL("libvulkan.so.1")
_memory_of_structures: list[ctypes.Array[ctypes.c_char]] = []


def structure(layout: str, *fields: int | float | None) -> ctypes.c_void_p:
    """A pointer to a C structure that stays alive; `layout` is struct's, in native alignment."""
    packed = struct.pack(f"@{layout}0P", *(0 if field is None else field for field in fields))
    _memory_of_structures.append(ctypes.create_string_buffer(packed, len(packed)))
    return ctypes.c_void_p(ctypes.addressof(_memory_of_structures[-1]))


def checked(name: str, result: int) -> None:
    """Raise for a VkResult that tells a failure."""
    if result < 0:
        raise RuntimeError(f"{name} returned VkResult {result}")


def call(name: str, *arguments: object) -> None:
    """Call a function of the loader that returns a VkResult."""
    checked(name, vulkan[name](*arguments))


def create(name: str, *arguments: object) -> ctypes.c_uint64:
    """The handle that a call writes through its last argument."""
    handle = ctypes.c_uint64()
    call(name, *arguments, ctypes.byref(handle))
    return handle


def create_instance(version: int = 1 << 22 | 1 << 12) -> ctypes.c_uint64:
    """An instance of Vulkan 1.1, or another version."""
    application = structure("iPPIPII", 0, 0, 0, 0, 0, 0, version)
    return create("vkCreateInstance", structure("iPIPIPIP", 1, 0, 0, application.value, 0, 0, 0, 0), None)


def first_physical_device(instance: ctypes.c_uint64) -> ctypes.c_uint64:
    """The first that the loader lists."""
    one, physical_device = ctypes.c_uint32(1), ctypes.c_uint64()
    call("vkEnumeratePhysicalDevices", instance, ctypes.byref(one), ctypes.byref(physical_device))
    return physical_device
