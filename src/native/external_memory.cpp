// VK_KHR_external_memory_fd: whether buffers can be exported, and exporting them.
#include "external_memory.hpp"

#include "errors.hpp"

namespace vkdml {

ExternalMemory external_memory_of(vk::PhysicalDevice device, bool extension) {
    ExternalMemory external;
    if (!extension) return external;
    using Usage = vk::BufferUsageFlagBits;
    const auto properties =
        device.getExternalBufferProperties({{},
                                            Usage::eStorageBuffer | Usage::eTransferSrc | Usage::eTransferDst,
                                            vk::ExternalMemoryHandleTypeFlagBits::eOpaqueFd});
    const auto features = properties.externalMemoryProperties.externalMemoryFeatures;
    external.exportable = bool(features & vk::ExternalMemoryFeatureFlagBits::eExportable);
    external.dedicated = bool(features & vk::ExternalMemoryFeatureFlagBits::eDedicatedOnly);
    return external;
}

int export_fd(const vk::Device& device, vk::DeviceMemory memory) {
    if (!memory)
        throw DeviceError(
            "this buffer was not allocated to be shared: only shareable buffers can be exported");
    return device.getMemoryFdKHR({memory, vk::ExternalMemoryHandleTypeFlagBits::eOpaqueFd});
}

} // namespace vkdml
