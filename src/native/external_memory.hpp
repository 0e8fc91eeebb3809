// Memory that other interfaces of the same GPU, such as CUDA, can map: exported as a file descriptor.
#pragma once

#include <cstdint>

#include "kompute/Core.hpp"

namespace vkdml {

struct ExternalMemory {
    bool exportable = false; // buffers of every use of ours can be exported as opaque file descriptors
    bool dedicated = false;  // only from an allocation of their own, which the importer must be told
};

// `extension`: the device offers VK_KHR_external_memory_fd.
ExternalMemory external_memory_of(vk::PhysicalDevice device, bool extension);

// A new descriptor of an allocation that was made exportable; the caller closes it, or an importer takes it
// over.
int export_fd(const vk::Device& device, vk::DeviceMemory memory);

} // namespace vkdml
