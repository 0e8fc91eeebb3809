// Memory shared with others: exported as a file descriptor to interfaces of the same GPU, such as CUDA, and
// imported from the host.
#pragma once

#include <cstdint>
#include <optional>

#include "kompute/Core.hpp"

namespace vkdml {

struct ExternalMemory {
    bool exportable = false; // buffers of every use of ours can be exported as opaque file descriptors
    bool dedicated = false;  // only from an allocation of their own, which the importer must be told
};

// `extension`: the device offers VK_KHR_external_memory_fd.
ExternalMemory external_memory_of(vk::PhysicalDevice device, bool extension);

// Of a device that offers VK_EXT_external_memory_host: the bytes of which an address and a length must be
// multiples to be imported as a buffer; 0 where buffers cannot be imported.
uint64_t host_memory_alignment_of(vk::PhysicalDevice device);

// The first type of memory as which an address of the host can be imported; none for memory of another
// device.
std::optional<uint32_t> host_memory_type(const vk::Device& device, void* address);

// A new descriptor of an allocation that was made exportable; the caller closes it, or an importer takes it
// over.
int export_fd(const vk::Device& device, vk::DeviceMemory memory);

} // namespace vkdml
