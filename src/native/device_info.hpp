// What a physical device is and can do, read once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "external_memory.hpp"
#include "kompute/Core.hpp"

namespace vkdml {

struct HeapInfo {
    uint64_t size = 0; // bytes
    bool device_local = false;
    std::optional<uint64_t> budget, usage; // bytes, where the driver tells them
};

struct DeviceInfo {
    explicit DeviceInfo(vk::PhysicalDevice device);

    // Budgets change with every program on the machine, so they are read at each call.
    std::vector<HeapInfo> heaps() const;
    bool is_software() const { return properties.deviceType == vk::PhysicalDeviceType::eCpu; }
    // Whether kernels take less time with vectors of words that are read and written in pairs.
    bool pairs_words() const { return is_software() && features.shaderInt64; }
    // Whether the driver unrolls the loops that ask for it and no others, and takes long for those.
    bool unrolls_on_request() const { return is_swiftshader; }
    // Whether shifts take longer than multiplications, since the driver executes them for one invocation
    // after the other.
    bool shifts_singly() const;
    // Host-visible memory that is as near to the device as any: nothing is gained by copying into other
    // memory.
    bool unified_memory() const;
    std::string type_name() const;
    std::string uuid() const; // 32 hexadecimal digits

    vk::PhysicalDevice physical;
    vk::PhysicalDeviceProperties properties;
    vk::PhysicalDeviceMemoryProperties memory;
    vk::PhysicalDeviceSubgroupProperties subgroup;
    vk::PhysicalDeviceFeatures features;
    uint64_t max_allocation_size = 0; // bytes
    std::array<uint8_t, VK_UUID_SIZE> uuid_bytes{};
    bool storage_buffer_16bit_access = false, storage_buffer_8bit_access = false, memory_budget = false;
    // Pipelines can ask for full subgroups of a given size, and subgroups can exchange registers by
    // shuffling.
    bool subgroup_shuffle = false, subgroup_arithmetic = false, subgroup_size_control = false;
    // Descriptors of a recorded sequence can be changed while it does not run.
    bool update_after_bind = false;
    // Of texels, how many words those may have that kernels load in less time than elements of storage
    // buffers: a sum of 1, 2 and 4.
    uint32_t texel_widths = 0;
    // All of the device's own memory can be mapped, not only a window of it that drivers need, too.
    bool maps_device_memory = false;
    // The host learns from an event that submitted commands are done. A fence makes a GPU interrupt a core
    // of the host, which costs what runs there 35 to 60 us (NVIDIA's driver 580).
    bool ends_with_events = false;
    uint32_t max_workgroup_subgroups = 0; // of a given size
    ExternalMemory external_memory;
    // Of a software device that reads and writes memory of the host's where it lies, at once: bytes of which
    // an address and a length must be multiples for it. 0 of others: a GPU pins pages, 60 ms a GiB (H100).
    uint64_t host_memory_alignment = 0;
    bool is_swiftshader = false;
    std::string driver_name, driver_info;
    std::optional<uint32_t> compute_queue_family;
    uint32_t timestamp_bits = 0;

private:
    // Which the device has, of those that anything is asked of.
    struct Extensions {
        explicit Extensions(vk::PhysicalDevice device);

        bool memory_budget = false, driver_properties = false, subgroup_size_control = false,
             descriptor_indexing = false, storage_8bit = false, memory_fd = false, memory_host = false,
             portability = false;
    };

    void choose_queue_family();
    void find_mapped_memory();
    // Returns what a pipeline may ask of the size of its subgroups.
    vk::PhysicalDeviceSubgroupSizeControlPropertiesEXT read_properties(const Extensions& extensions);
    void read_features(const Extensions& extensions,
                       const vk::PhysicalDeviceSubgroupSizeControlPropertiesEXT& sizes);
};

} // namespace vkdml
