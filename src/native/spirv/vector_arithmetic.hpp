// Modules without the operations that a driver executes for one invocation after the other.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// Returns a module that multiplies and masks where this one shifts, or divides by powers of two. Subzero, the
// compiler of most builds of SwiftShader, has multiplications, masks and conversions of vectors, but shifts
// and divides their words one by one, in 30 instructions and more.
//
// Shifts to the right stay where they move by less than seven bits, or by numbers that are not known: more
// bits are left than a float holds. Throws std::invalid_argument where the module is not whole.
std::vector<uint32_t> with_vector_arithmetic(const std::vector<uint32_t>& spirv);

} // namespace vkdml::spirv
