// What operations make of constants.
#pragma once

#include <cstdint>
#include <vector>

namespace vkdml::spirv {

// A word or a bool that may be known before the kernel runs.
struct Value {
    enum State { unset, known, varying } state = unset; // nothing sets it; one value; any
    uint32_t word = 0;                                  // bools are 0 and 1

    static Value of(uint32_t word) { return {known, word}; }
    static Value any() { return {varying, 0}; }
    bool is(uint32_t other) const { return state == known && word == other; }
    bool operator==(const Value& other) const { return state == other.state && word == other.word; }
};

// What is both.
Value joined(Value a, Value b);

// The result of an operation on words or bools; any where the operation is none of those that are folded, or
// its result is not defined.
Value folded(uint32_t operation, const std::vector<Value>& operands);

// The same of an operation of GLSL.std.450.
Value folded_extended(uint32_t operation, const std::vector<Value>& operands);

} // namespace vkdml::spirv
