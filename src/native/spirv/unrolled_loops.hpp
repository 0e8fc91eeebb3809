// Modules whose loops drivers unroll.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// Returns a module that asks for its loops to be unrolled, but where it says itself what becomes of a loop.
// SwiftShader unrolls no others. Its compiler keeps all that a loop changes in memory, and loads words of
// push constants one invocation after the other if their number changes. Loops that run a number of times
// that nobody knows stay loops.
//
// It does not ask for loops that are long, or that use arrays of their own: of these SwiftShader's compiler
// makes code for which it takes all memory. Throws std::invalid_argument where the module is not whole.
std::vector<uint32_t> with_unrolled_loops(const std::vector<uint32_t>& spirv);

} // namespace vkdml::spirv
