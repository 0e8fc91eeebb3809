// Refuses SPIR-V that is damaged, or that asks for what a kernel of ours is not given: drivers crash on
// either.
//
// What it looks at are lengths, ids and the interface. It is no validator: spirv-val sees every kernel when
// it is built.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml {

// What the pipeline's layout and the device have room for.
struct SpirvInterface {
    uint32_t bindings;
    uint32_t push_bytes;
    std::vector<uint32_t> constants; // by their specialization ids
    uint32_t max_invocations;
};

// Throws std::invalid_argument that names the fault and what would be accepted.
void check_spirv(const std::vector<uint32_t>& words, const SpirvInterface& interface);

} // namespace vkdml
