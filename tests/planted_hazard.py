"""Submits two unordered writes to one buffer, which synchronization validation must report if it is on."""

import ctypes
import struct

vulkan = ctypes.CDLL("libvulkan.so.1")
memory_of_structures = []


def structure(layout: str, *fields: int | float) -> ctypes.c_void_p:
    """A pointer to a C structure that stays alive; `layout` is struct's, in native alignment."""
    memory_of_structures.append(ctypes.create_string_buffer(struct.pack(f"@{layout}0P", *fields)))
    return ctypes.c_void_p(ctypes.addressof(memory_of_structures[-1]))


def call(name: str, *arguments: object) -> None:
    result = vulkan[name](*arguments)
    if result != 0:
        raise RuntimeError(f"{name} returned VkResult {result}")


def create(name: str, *arguments: object) -> ctypes.c_uint64:
    """The handle that a call writes through its last argument."""
    handle = ctypes.c_uint64()
    call(name, *arguments, ctypes.byref(handle))
    return handle


# The numbers that open each structure are its VkStructureType and its pNext.
vulkan_1_1 = 1 << 22 | 1 << 12
application = structure("iPPIPII", 0, 0, 0, 0, 0, 0, vulkan_1_1)
instance = create("vkCreateInstance", structure("iPIPIPIP", 1, 0, 0, application.value, 0, 0, 0, 0), None)

one = ctypes.c_uint32(1)
physical_device = ctypes.c_uint64()
vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(one), ctypes.byref(physical_device))

priority = structure("f", 1.0)
queues = structure("iPIIIP", 2, 0, 0, 0, 1, priority.value)
device_info = structure("iPIIPIPIPP", 3, 0, 0, 1, queues.value, 0, 0, 0, 0, 0)
device = create("vkCreateDevice", physical_device, device_info, None)

size = 256
transfer_destination = 2
buffer_info = structure("iPIQIIIP", 12, 0, 0, size, transfer_destination, 0, 0, 0)
buffer = create("vkCreateBuffer", device, buffer_info, None)
memory = create("vkAllocateMemory", device, structure("iPQI", 5, 0, 4096, 0), None)
call("vkBindBufferMemory", device, buffer, memory, ctypes.c_uint64(0))

queue = ctypes.c_uint64()
vulkan.vkGetDeviceQueue(device, 0, 0, ctypes.byref(queue))
command_pool = create("vkCreateCommandPool", device, structure("iPII", 39, 0, 0, 0), None)
for value in (1, 2):
    command_buffer_info = structure("iPQiI", 40, 0, command_pool.value, 0, 1)
    command_buffer = create("vkAllocateCommandBuffers", device, command_buffer_info)
    call("vkBeginCommandBuffer", command_buffer, structure("iPIP", 42, 0, 0, 0))
    vulkan.vkCmdFillBuffer(command_buffer, buffer, ctypes.c_uint64(0), ctypes.c_uint64(size), value)
    call("vkEndCommandBuffer", command_buffer)
    submitted = structure("P", command_buffer.value)
    call("vkQueueSubmit", queue, 1, structure("iPIPPIPIP", 4, 0, 0, 0, 0, 1, submitted.value, 0, 0), None)
call("vkQueueWaitIdle", queue)
