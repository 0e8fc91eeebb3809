// Modules that read a buffer as texels.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// What a module reads as texels: for each storage texel buffer, from the first binding that is free on, how
// many 32-bit words a texel of it has (1, 2 or 4).
struct TexelLoads {
    std::vector<uint32_t> module;
    std::vector<uint32_t> texel_words;
};

// Returns a module that loads elements of the buffer at binding 0 as texels, where these are words or vectors
// of two or four words, and `widths`, a sum of 1, 2 and 4, says so. lavapipe loads a texel for all
// invocations of a subgroup without a branch, in a third to a half of the time that it takes for a storage
// buffer.
//
// `bindings` are taken; texel buffers come after these. All loads stay as they are where the module writes to
// the buffer, or does anything else with it than to load elements and their words, and where it has
// SPIR-V 1.4 or newer. Throws std::invalid_argument where the module is not whole.
TexelLoads with_texel_loads(const std::vector<uint32_t>& spirv, uint32_t bindings, uint32_t widths);

} // namespace vkdml::spirv
