// Modules that read and write two words of a vector at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// Returns a module that loads and stores vectors of two and of four words in buffers as one and two integers
// of 64 bits. lavapipe executes a branch and a test for each component of each invocation, however wide.
//
// The device must have shaderInt64. A module stays as it is where it has such integers already, and a buffer
// where the module loads and stores no whole vectors of it, or does anything else with them than to load
// their words, too. Throws std::invalid_argument where the module is not whole.
std::vector<uint32_t> with_paired_words(const std::vector<uint32_t>& spirv);

} // namespace vkdml::spirv
