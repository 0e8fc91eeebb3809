// Operations on 32-bit integers and bools, as the SPIR-V specification defines them.
#include "constant_folding.hpp"

#include <algorithm>
#include <optional>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

// What one operand says whatever the other is.
std::optional<Value> decided_by(Operation operation, Value a, Value b) {
    if (operation == logical_and && (a.is(0) || b.is(0))) return Value::of(0);
    if (operation == logical_or && (a.is(1) || b.is(1))) return Value::of(1);
    if (operation == integer_multiply && (a.is(0) || b.is(0))) return Value::of(0);
    return std::nullopt;
}

std::optional<uint32_t> of_one(Operation operation, uint32_t a) {
    switch (operation) {
    case copy_object:
    case bitcast:
        return a;
    case logical_not:
        return a ? 0 : 1;
    case bitwise_not:
        return ~a;
    default:
        return std::nullopt;
    }
}

std::optional<uint32_t> of_two(Operation operation, uint32_t a, uint32_t b) {
    const int32_t signed_a = int32_t(a), signed_b = int32_t(b);
    switch (operation) {
    case integer_add:
        return a + b;
    case integer_subtract:
        return a - b;
    case integer_multiply:
        return a * b;
    case unsigned_divide:
        return b ? std::optional(a / b) : std::nullopt;
    case unsigned_modulo:
        return b ? std::optional(a % b) : std::nullopt;
    case signed_divide:
        return b && b != ~0u ? std::optional(uint32_t(signed_a / signed_b)) : std::nullopt;
    case shift_left:
        return b < 32 ? std::optional(a << b) : std::nullopt;
    case shift_right_logical:
        return b < 32 ? std::optional(a >> b) : std::nullopt;
    case shift_right_arithmetic:
        return b < 32 ? std::optional(uint32_t(signed_a >> b)) : std::nullopt;
    case logical_or:
    case bitwise_or:
        return a | b;
    case logical_and:
    case bitwise_and:
        return a & b;
    case bitwise_xor:
        return a ^ b;
    case logical_equal:
    case integer_equal:
        return a == b;
    case logical_not_equal:
    case integer_not_equal:
        return a != b;
    case unsigned_greater:
        return a > b;
    case signed_greater:
        return signed_a > signed_b;
    case unsigned_greater_equal:
        return a >= b;
    case signed_greater_equal:
        return signed_a >= signed_b;
    case unsigned_less:
        return a < b;
    case signed_less:
        return signed_a < signed_b;
    case unsigned_less_equal:
        return a <= b;
    case signed_less_equal:
        return signed_a <= signed_b;
    default:
        return std::nullopt;
    }
}

Value value_of(std::optional<uint32_t> word) { return word ? Value::of(*word) : Value::any(); }

// That of the result, of operands that are all needed.
Value::State state_of(const std::vector<Value>& operands) {
    Value::State state = Value::known;
    for (const Value& each : operands) {
        if (each.state == Value::unset) return Value::unset;
        if (each.state == Value::varying) state = Value::varying;
    }
    return state;
}

} // namespace

Value joined(Value a, Value b) {
    if (a.state == Value::unset) return b;
    if (b.state == Value::unset || a == b) return a;
    return Value::any();
}

Value folded(uint32_t number, const std::vector<Value>& operands) {
    const Operation operation = Operation(number);
    if (operation == select && operands.size() == 3) {
        if (operands[0].state == Value::known) return operands[0].word ? operands[1] : operands[2];
        if (operands[0].state == Value::unset) return {};
        return joined(operands[1], operands[2]);
    }
    if (operands.size() == 2)
        if (const auto decided = decided_by(operation, operands[0], operands[1])) return *decided;
    const Value::State state = state_of(operands);
    if (state != Value::known) return {state, 0};
    if (operands.size() == 1) return value_of(of_one(operation, operands[0].word));
    if (operands.size() == 2) return value_of(of_two(operation, operands[0].word, operands[1].word));
    return Value::any();
}

Value folded_extended(uint32_t operation, const std::vector<Value>& operands) {
    const Value::State state = state_of(operands);
    if (state != Value::known) return {state, 0};
    if (operands.size() != 2) return Value::any();
    const uint32_t a = operands[0].word, b = operands[1].word;
    switch (operation) {
    case unsigned_least:
        return Value::of(std::min(a, b));
    case unsigned_most:
        return Value::of(std::max(a, b));
    case signed_least:
        return Value::of(uint32_t(std::min(int32_t(a), int32_t(b))));
    case signed_most:
        return Value::of(uint32_t(std::max(int32_t(a), int32_t(b))));
    default:
        return Value::any();
    }
}

} // namespace vkdml::spirv
