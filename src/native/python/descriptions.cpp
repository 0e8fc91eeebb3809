// Devices and the loader, described in Python's dictionaries.
#include "bindings.hpp"

#include <cctype>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "device_info.hpp"
#include "instance.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vkdml {
namespace {

template <class Array> nb::tuple triple(const Array& values) {
    return nb::make_tuple(values[0], values[1], values[2]);
}

std::vector<std::string> flag_names(const std::string& text) { // vk::to_string gives "{ A | B }"
    std::vector<std::string> names;
    std::string word;
    for (char c : text) {
        if (isalnum(static_cast<unsigned char>(c)))
            word += c;
        else if (!word.empty())
            names.push_back(std::exchange(word, ""));
    }
    return names;
}

nb::dict describe(const DeviceInfo& info, uint32_t index) {
    const auto& limits = info.properties.limits;
    nb::dict limit;
    limit["max_storage_buffer_range"] = limits.maxStorageBufferRange;
    limit["max_allocation_size"] = info.max_allocation_size;
    limit["max_allocation_count"] = limits.maxMemoryAllocationCount;
    limit["max_push_constants_size"] = limits.maxPushConstantsSize;
    limit["max_compute_workgroup_count"] = triple(limits.maxComputeWorkGroupCount);
    limit["max_compute_workgroup_size"] = triple(limits.maxComputeWorkGroupSize);
    limit["max_compute_workgroup_invocations"] = limits.maxComputeWorkGroupInvocations;
    limit["max_compute_shared_memory_size"] = limits.maxComputeSharedMemorySize;
    limit["min_storage_buffer_offset_alignment"] = uint64_t(limits.minStorageBufferOffsetAlignment);
    limit["max_per_stage_descriptor_storage_buffers"] = limits.maxPerStageDescriptorStorageBuffers;
    limit["timestamp_period_ns"] = limits.timestampPeriod;

    nb::dict feature;
    feature["shader_int64"] = bool(info.features.shaderInt64);
    feature["shader_int16"] = bool(info.features.shaderInt16);
    feature["storage_buffer_16bit_access"] = info.storage_buffer_16bit_access;
    feature["storage_buffer_8bit_access"] = info.storage_buffer_8bit_access;
    feature["memory_budget"] = info.memory_budget;
    feature["exportable_memory"] = info.external_memory.exportable;
    feature["subgroup_shuffle"] = info.subgroup_shuffle;
    feature["subgroup_arithmetic"] = info.subgroup_arithmetic;
    feature["subgroup_size_control"] = info.subgroup_size_control;

    nb::dict subgroup;
    subgroup["size"] = info.subgroup.subgroupSize;
    subgroup["max_per_workgroup"] = info.max_workgroup_subgroups;
    subgroup["operations"] = flag_names(vk::to_string(info.subgroup.supportedOperations));
    subgroup["stages"] = flag_names(vk::to_string(info.subgroup.supportedStages));

    nb::list heaps;
    for (const HeapInfo& heap : info.heaps()) {
        nb::dict entry;
        entry["size"] = heap.size;
        entry["device_local"] = heap.device_local;
        entry["budget"] = heap.budget;
        entry["usage"] = heap.usage;
        heaps.append(entry);
    }

    nb::dict description;
    description["index"] = index;
    description["name"] = info.properties.deviceName.data();
    description["type"] = info.type_name();
    description["uuid"] = info.uuid();
    description["vendor_id"] = info.properties.vendorID;
    description["device_id"] = info.properties.deviceID;
    description["api_version"] = version_string(info.properties.apiVersion);
    description["driver_name"] = info.driver_name;
    description["driver_info"] = info.driver_info;
    description["limits"] = limit;
    description["features"] = feature;
    description["subgroup"] = subgroup;
    description["heaps"] = heaps;
    description["queue_timestamp_bits"] = info.timestamp_bits;
    description["unified_memory"] = info.unified_memory();
    return description;
}

} // namespace

nb::list described_devices() {
    nb::list list;
    uint32_t index = 0;
    for (vk::PhysicalDevice physical : physical_devices())
        list.append(describe(DeviceInfo(physical), index++));
    return list;
}

nb::dict described_loader() {
    LoaderReport report = report_loader();
    auto or_none = [](const std::string& text) -> nb::object {
        return text.empty() ? nb::none() : as_str(text);
    };
    nb::dict dict;
    dict["path"] = or_none(report.path);
    dict["error"] = or_none(report.error);
    dict["api_version"] = or_none(report.api_version);
    dict["layers"] = report.layers;
    nb::list icd_files;
    for (auto& file : report.icd_files) icd_files.append(as_str(file));
    dict["icd_files"] = icd_files;
    dict["named_drivers"] = nb::none();
    if (auto& named = report.named_drivers) {
        nb::dict entry;
        entry["variable"] = named->variable;
        entry["fault"] = as_str(named->fault);
        entry["remedy"] = as_str(named->remedy);
        dict["named_drivers"] = entry;
    }
    return dict;
}

} // namespace vkdml
