// VK_KHR_external_memory_fd and VK_EXT_external_memory_host: what of them a device can do, and doing it.
#include "external_memory.hpp"

#include "errors.hpp"

namespace vkdml {
namespace {
using Handle = vk::ExternalMemoryHandleTypeFlagBits;
using Usage = vk::BufferUsageFlagBits;
const vk::BufferUsageFlags used_for = Usage::eStorageBuffer | Usage::eTransferSrc | Usage::eTransferDst;
} // namespace

ExternalMemory external_memory_of(vk::PhysicalDevice device, bool extension) {
    ExternalMemory external;
    if (!extension) return external;
    const auto properties = device.getExternalBufferProperties({{}, used_for, Handle::eOpaqueFd});
    const auto features = properties.externalMemoryProperties.externalMemoryFeatures;
    external.exportable = bool(features & vk::ExternalMemoryFeatureFlagBits::eExportable);
    external.dedicated = bool(features & vk::ExternalMemoryFeatureFlagBits::eDedicatedOnly);
    return external;
}

int export_fd(const vk::Device& device, vk::DeviceMemory memory) {
    if (!memory)
        throw DeviceError(
            "this buffer was not allocated to be shared: only shareable buffers can be exported");
    return device.getMemoryFdKHR({memory, Handle::eOpaqueFd});
}

uint64_t host_memory_alignment_of(vk::PhysicalDevice device) {
    const auto features = device.getExternalBufferProperties({{}, used_for, Handle::eHostAllocationEXT})
                              .externalMemoryProperties.externalMemoryFeatures;
    if (!(features & vk::ExternalMemoryFeatureFlagBits::eImportable) ||
        features & vk::ExternalMemoryFeatureFlagBits::eDedicatedOnly)
        return 0;
    vk::PhysicalDeviceExternalMemoryHostPropertiesEXT host;
    vk::PhysicalDeviceProperties2 chain;
    chain.pNext = &host;
    device.getProperties2(&chain);
    return host.minImportedHostPointerAlignment;
}

std::optional<uint32_t> host_memory_type(const vk::Device& device, void* address) {
    uint32_t types = 0;
    try {
        types = device.getMemoryHostPointerPropertiesEXT(Handle::eHostAllocationEXT, address).memoryTypeBits;
    } catch (const vk::InvalidExternalHandleError&) {
        return {}; // memory that the driver cannot import
    }
    for (uint32_t type = 0; type < 32; type++)
        if (types >> type & 1) return type;
    return {};
}

} // namespace vkdml
