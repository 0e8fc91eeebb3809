// The process's one Vulkan instance: opens the loader at run time and enumerates physical devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kompute/Core.hpp"

namespace vkdml {

// The environment variable that names all manifests that the loader looks at; what is wrong with it if none
// of their drivers can be used, and what to do then.
struct NamedDrivers {
    std::string variable, fault, remedy;
};

// What is known of the loader without using any driver; never throws.
struct LoaderReport {
    std::string path;        // empty: not found
    std::string error;       // why, when not found or unusable
    std::string api_version; // "1.3.239"
    std::vector<std::string> layers;
    std::vector<std::string> icd_files;        // manifests that the loader will look at
    std::optional<NamedDrivers> named_drivers; // none: the loader looks in its folders
};
LoaderReport report_loader();

// Created at first use and kept until the process ends: the dispatcher's functions belong to it, and static
// destruction order gives no safe moment to destroy it. Throws NoDeviceError with a remedy.
vk::Instance instance();
std::vector<vk::PhysicalDevice> physical_devices();

// Throws DeviceError in a process that was forked after Vulkan was in use.
void refuse_forked_child();

std::string version_string(uint32_t version);

} // namespace vkdml
