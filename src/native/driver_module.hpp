// SPIR-V modules as the driver of a device is given them.
#pragma once

#include "device_info.hpp"

namespace vkdml {

struct DriverModule {
    std::vector<uint32_t> spirv;
    std::vector<uint32_t> constants; // by SpecId; none where they have become part of the module
    // Of the input's texel buffers, in the order of their bindings: words of a texel (see Kernel).
    std::vector<uint32_t> texel_words;
};

// Returns a module of the kernel table as this device's driver compiles it to the fastest code, with the same
// results. With `fixed`, words of push constants, it has no push constants: these are compiled in.
//
// `bindings` are the module's. Throws std::invalid_argument where the module is not whole.
DriverModule driver_module(const DeviceInfo& info, std::vector<uint32_t> spirv,
                           std::vector<uint32_t> constants, const std::vector<uint32_t>& fixed,
                           uint32_t bindings);

} // namespace vkdml
