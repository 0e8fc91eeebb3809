// Reading a physical device's properties, features, memory and queues.
#include "device_info.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vkdml {
namespace {

// They take commands for running until a fence says otherwise.
bool validation_layers_wanted() {
    for (const char* variable : {"VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE"}) {
        const char* layers = std::getenv(variable);
        if (layers && (std::strstr(layers, "validation") || std::strchr(layers, '*'))) return true;
    }
    return false;
}

// From this version of Mesa on lavapipe loads words from storage buffers without branches, too.
constexpr int mesa_with_gathers = 25;

// See DeviceInfo::texel_widths: all of any storage buffer has to have a view, and Vulkan asks for no pairs.
uint32_t faster_texels(vk::PhysicalDevice device, const vk::PhysicalDeviceLimits& limits,
                       const std::string& driver_info, const vk::PhysicalDeviceFeatures& features) {
    if (limits.maxTexelBufferElements < limits.maxStorageBufferRange / 4 ||
        limits.minTexelBufferOffsetAlignment > limits.minStorageBufferOffsetAlignment)
        return 0;
    int mesa = 0;
    if (sscanf(driver_info.c_str(), "Mesa %d", &mesa) == 1 && mesa >= mesa_with_gathers) return 4;
    const auto pairs = device.getFormatProperties(vk::Format::eR32G32Uint).bufferFeatures;
    const bool has_pairs =
        features.shaderStorageImageExtendedFormats && pairs & vk::FormatFeatureFlagBits::eStorageTexelBuffer;
    return 1 + (has_pairs ? 2 : 0) + 4;
}

} // namespace

DeviceInfo::Extensions::Extensions(vk::PhysicalDevice device) {
    for (const auto& extension : device.enumerateDeviceExtensionProperties()) {
        const char* name = extension.extensionName;
        memory_budget |= !strcmp(name, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        driver_properties |= !strcmp(name, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
        subgroup_size_control |= !strcmp(name, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        descriptor_indexing |= !strcmp(name, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME);
        storage_8bit |= !strcmp(name, VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
        memory_fd |= !strcmp(name, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
        memory_host |= !strcmp(name, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
        portability |= !strcmp(name, "VK_KHR_portability_subset");
    }
}

DeviceInfo::DeviceInfo(vk::PhysicalDevice device) : physical(device) {
    const Extensions extensions(device);
    memory_budget = extensions.memory_budget;
    memory = device.getMemoryProperties();
    properties = device.getProperties();
    choose_queue_family();
    find_mapped_memory();
    if (properties.apiVersion < VK_API_VERSION_1_1) return;
    external_memory = external_memory_of(device, extensions.memory_fd);
    if (extensions.memory_host && is_software()) host_memory_alignment = host_memory_alignment_of(device);
    const auto sizes = read_properties(extensions);
    // Where Vulkan is a layer over something else, there may be no events. SwiftShader takes a lock to tell
    // of one, for which its workers wait.
    ends_with_events = !extensions.portability && !is_swiftshader && !validation_layers_wanted();
    read_features(extensions, sizes);
}

void DeviceInfo::choose_queue_family() {
    const auto families = physical.getQueueFamilyProperties();
    // A queue that draws too takes longer for each submission: 19.6 us instead of 15.9 for a small kernel on
    // an H100. Timestamps are worth more.
    int best = -1;
    for (uint32_t i = 0; i < families.size(); i++) {
        const auto flags = families[i].queueFlags;
        if (!(flags & vk::QueueFlagBits::eCompute)) continue;
        const int worth =
            (families[i].timestampValidBits ? 2 : 0) + (flags & vk::QueueFlagBits::eGraphics ? 0 : 1);
        if (worth <= best) continue;
        best = worth;
        compute_queue_family = i;
        timestamp_bits = families[i].timestampValidBits;
    }
}

void DeviceInfo::find_mapped_memory() {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
        if (memory.memoryHeaps[i].flags & vk::MemoryHeapFlagBits::eDeviceLocal)
            largest = std::max<uint64_t>(largest, memory.memoryHeaps[i].size);
    const auto mapped = vk::MemoryPropertyFlagBits::eDeviceLocal | vk::MemoryPropertyFlagBits::eHostVisible |
                        vk::MemoryPropertyFlagBits::eHostCoherent;
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
        const auto& type = memory.memoryTypes[i];
        maps_device_memory |=
            (type.propertyFlags & mapped) == mapped && memory.memoryHeaps[type.heapIndex].size == largest;
    }
}

vk::PhysicalDeviceSubgroupSizeControlPropertiesEXT DeviceInfo::read_properties(const Extensions& extensions) {
    vk::PhysicalDeviceMaintenance3Properties maintenance;
    vk::PhysicalDeviceIDProperties identity;
    vk::PhysicalDeviceDriverProperties driver;
    vk::PhysicalDeviceSubgroupSizeControlPropertiesEXT sizes;
    vk::PhysicalDeviceProperties2 chain;
    chain.pNext = &subgroup;
    subgroup.pNext = &maintenance;
    maintenance.pNext = &identity;
    if (extensions.driver_properties) identity.pNext = &driver;
    if (extensions.subgroup_size_control) {
        sizes.pNext = identity.pNext;
        identity.pNext = &sizes;
    }
    physical.getProperties2(&chain);
    subgroup.pNext = sizes.pNext = nullptr;
    max_allocation_size = maintenance.maxMemoryAllocationSize;
    memcpy(uuid_bytes.data(), identity.deviceUUID.data(), uuid_bytes.size());
    driver_name = driver.driverName.data();
    is_swiftshader = driver.driverID == vk::DriverId::eGoogleSwiftshader;
    driver_info = driver.driverInfo.data();
    return sizes;
}

void DeviceInfo::read_features(const Extensions& extensions,
                               const vk::PhysicalDeviceSubgroupSizeControlPropertiesEXT& sizes) {
    vk::PhysicalDevice16BitStorageFeatures access_16bit;
    vk::PhysicalDevice8BitStorageFeatures access_8bit;
    vk::PhysicalDeviceFeatures2 chain;
    chain.pNext = &access_16bit;
    if (extensions.storage_8bit) access_16bit.pNext = &access_8bit;
    vk::PhysicalDeviceSubgroupSizeControlFeaturesEXT control;
    if (extensions.subgroup_size_control) {
        control.pNext = access_16bit.pNext;
        access_16bit.pNext = &control;
    }
    vk::PhysicalDeviceDescriptorIndexingFeaturesEXT descriptors;
    if (extensions.descriptor_indexing) {
        descriptors.pNext = access_16bit.pNext;
        access_16bit.pNext = &descriptors;
    }
    physical.getFeatures2(&chain);
    update_after_bind = descriptors.descriptorBindingStorageBufferUpdateAfterBind;
    features = chain.features;
    if (is_software() && descriptors.descriptorBindingStorageTexelBufferUpdateAfterBind >= update_after_bind)
        texel_widths = faster_texels(physical, properties.limits, driver_info, features);
    storage_buffer_16bit_access = access_16bit.storageBuffer16BitAccess;
    storage_buffer_8bit_access = access_8bit.storageBuffer8BitAccess;
    const auto compute = vk::ShaderStageFlagBits::eCompute;
    if (subgroup.supportedStages & compute) {
        using Feature = vk::SubgroupFeatureFlagBits;
        subgroup_shuffle = bool(subgroup.supportedOperations & Feature::eShuffle);
        subgroup_arithmetic = bool(subgroup.supportedOperations & Feature::eArithmetic);
    }
    subgroup_size_control = control.subgroupSizeControl && control.computeFullSubgroups &&
                            (sizes.requiredSubgroupSizeStages & compute) &&
                            subgroup.subgroupSize >= sizes.minSubgroupSize &&
                            subgroup.subgroupSize <= sizes.maxSubgroupSize;
    if (subgroup_size_control) max_workgroup_subgroups = sizes.maxComputeWorkgroupSubgroups;
}

std::vector<HeapInfo> DeviceInfo::heaps() const {
    vk::PhysicalDeviceMemoryBudgetPropertiesEXT budget;
    vk::PhysicalDeviceMemoryProperties2 chain;
    if (memory_budget) {
        chain.pNext = &budget;
        physical.getMemoryProperties2(&chain);
    }
    std::vector<HeapInfo> heaps(memory.memoryHeapCount);
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++) {
        heaps[i].size = memory.memoryHeaps[i].size;
        heaps[i].device_local = bool(memory.memoryHeaps[i].flags & vk::MemoryHeapFlagBits::eDeviceLocal);
        if (!memory_budget) continue;
        heaps[i].budget = budget.heapBudget[i];
        heaps[i].usage = budget.heapUsage[i];
    }
    return heaps;
}

// SwiftShader is built with either of two compilers, and its devices' names say which; LLVM shifts vectors.
bool DeviceInfo::shifts_singly() const {
    return is_swiftshader && std::string(properties.deviceName.data()).find("(Subzero)") != std::string::npos;
}

bool DeviceInfo::unified_memory() const {
    if (is_software()) return true;
    return properties.deviceType == vk::PhysicalDeviceType::eIntegratedGpu;
}

std::string DeviceInfo::type_name() const {
    switch (properties.deviceType) {
    case vk::PhysicalDeviceType::eDiscreteGpu:
        return "discrete";
    case vk::PhysicalDeviceType::eIntegratedGpu:
        return "integrated";
    case vk::PhysicalDeviceType::eVirtualGpu:
        return "virtual";
    case vk::PhysicalDeviceType::eCpu:
        return "software";
    default:
        return "other";
    }
}

std::string DeviceInfo::uuid() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (uint8_t byte : uuid_bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

} // namespace vkdml
