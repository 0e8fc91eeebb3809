// Modules whose push constants became specialization constants.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// Returns a module that has specialization constants where it had push constants: one for each word, from
// `first_slot` on.
//
// The push constants are one block of words and of arrays of words, of which the module loads single words
// only. Throws std::invalid_argument where they are not, or where the module is not whole.
std::vector<uint32_t> with_fixed_parameters(const std::vector<uint32_t>& spirv, uint32_t first_slot);

} // namespace vkdml::spirv
