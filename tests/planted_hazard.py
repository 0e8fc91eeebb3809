"""Submits two unordered writes to one buffer, which synchronization validation must report if it is on."""

import ctypes

from vulkan_calls import call, create, create_instance, first_physical_device, structure, vulkan

# The numbers that open each structure are its VkStructureType and its pNext.
physical_device = first_physical_device(create_instance())

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
