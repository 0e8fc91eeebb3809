// Modules whose specialization constants have their values.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// Returns the module with constants in place of its specialization constants (`constants[i]` for that of
// SpecId i) and without the code that they exclude: SwiftShader and lavapipe compile it otherwise.
//
// Throws std::invalid_argument where the module is not whole, or has a loop that never comes round and
// begins with a phi.
std::vector<uint32_t> specialized(const std::vector<uint32_t>& module,
                                  const std::vector<uint32_t>& constants);

} // namespace vkdml::spirv
