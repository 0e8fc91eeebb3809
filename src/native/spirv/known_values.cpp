// Sparse conditional propagation of constants, across functions.
#include "known_values.hpp"

#include <utility>

namespace vkdml::spirv {

namespace {

// Whether all operands of an operation are ids, and its result depends on nothing else.
bool is_operator(uint32_t operation) { return operation >= bitcast && operation <= bitwise_not; }

} // namespace

uint32_t result_id(const Instruction& each) {
    switch (each.operation()) {
    case label:
        return each[1];
    case store:
    case copy_memory:
    case control_barrier:
    case memory_barrier:
    case atomic_store:
    case loop_merge:
    case selection_merge:
    case function_end:
        return 0;
    default:
        return ends_block(each) ? 0 : each[2];
    }
}

KnownValues::KnownValues(const std::vector<Instruction>& code, uint32_t bound,
                         const std::vector<uint32_t>& constants)
    : code_(code), functions_(functions_of(code)), types_(bound), values_(bound), contents_(bound),
      returned_(bound), run_(bound), ends_(bound) {
    index_functions();
    for (size_t i = 0; i < globals_; i++) define_global(code_[i], constants);
    find_pointers();
    do {
        do pass();
        while (changed_);
    } while (settle());
}

void KnownValues::index_functions() {
    globals_ = functions_.empty() ? code_.size() : functions_.front().begin;
    for (const Function& each : functions_) {
        by_id_[each.id] = &each;
        for (const Block& block : each.blocks) ends_.at(block.label) = block.end - 1;
    }
}

void KnownValues::define_global(const Instruction& each, const std::vector<uint32_t>& constants) {
    const auto chosen = [&](uint32_t id, uint32_t otherwise) {
        const auto slot = slots_.find(id);
        return slot != slots_.end() && slot->second < constants.size() ? constants[slot->second] : otherwise;
    };
    switch (each.operation()) {
    case entry_point:
        run_.at(each[2]) = true;
        return;
    case decorate:
        if (each[2] == spec_id) slots_[each[1]] = each[3];
        return;
    case type_bool:
        types_.at(each[1]) = boolean;
        return;
    case type_int:
        if (each[2] == 32) types_.at(each[1]) = word;
        return;
    case type_pointer:
        if ((each[2] == private_storage || each[2] == function_storage) && is_followed(each[3]))
            types_.at(each[1]) = pointer_to_one;
        return;
    case constant_true:
        values_.at(each[2]) = Value::of(1);
        return;
    case constant_false:
        values_.at(each[2]) = Value::of(0);
        return;
    case constant:
        values_.at(each[2]) = is_followed(each[1]) ? Value::of(each[3]) : Value::any();
        return;
    case spec_constant_true:
        values_.at(each[2]) = Value::of(chosen(each[2], 1) != 0);
        return;
    case spec_constant_false:
        values_.at(each[2]) = Value::of(chosen(each[2], 0) != 0);
        return;
    case spec_constant:
        if (!is_followed(each[1]))
            throw std::invalid_argument("a specialization constant of the SPIR-V module is no word");
        values_.at(each[2]) = Value::of(chosen(each[2], each[3]));
        return;
    case spec_constant_op:
        values_.at(each[2]) =
            is_followed(each[1]) && is_operator(each[3]) ? folded(each[3], values_of(each, 4)) : Value::any();
        return;
    case constant_null:
        values_.at(each[2]) = is_followed(each[1]) ? Value::of(0) : Value::any();
        return;
    case constant_composite:
    case spec_constant_composite:
    case variable:
        values_.at(each[2]) = Value::any();
        return;
    }
}

// Follows the contents of variables and parameters that point to one word and are only loaded, stored and
// passed on.
void KnownValues::find_pointers() {
    std::vector<bool> followed(values_.size());
    for (Value& each : contents_) each = Value::any();
    for (const Instruction& each : code_) {
        const uint32_t operation = each.operation();
        if (operation != variable && operation != function_parameter) continue;
        followed.at(each[2]) = types_.at(each[1]) == pointer_to_one;
        if (followed[each[2]]) contents_[each[2]] = {};
    }
    for (size_t i = 0; i < code_.size(); i++) {
        const Instruction& each = code_[i];
        const uint32_t operation = each.operation();
        if (operation == variable && each.count > 4) contents_.at(each[2]) = values_.at(each[4]);
        if (i < globals_ || operation == load || operation == function_call || operation == variable)
            continue;
        // Numbers that are no ids may look like one, which costs no more than not to follow it.
        const uint32_t first = operation == store ? 2 : result_id(each) ? 3 : 1;
        for (uint32_t word = first; word < each.count; word++)
            if (each[word] < followed.size() && followed[each[word]]) contents_[each[word]] = Value::any();
    }
}

void KnownValues::join(Value& into, Value other) {
    const Value both = joined(into, other);
    if (both == into) return;
    into = both;
    changed_ = true;
}

void KnownValues::run(uint32_t id) {
    if (run_.at(id)) return;
    run_[id] = true;
    changed_ = true;
}

void KnownValues::pass() {
    changed_ = false;
    for (const Function& each : functions_)
        if (runs(each)) evaluate(each);
}

void KnownValues::evaluate(const Function& function) {
    if (function.blocks.empty()) return;
    run(function.blocks.front().label);
    for (const Block& block : function.blocks)
        if (runs(block)) evaluate(function, block);
}

void KnownValues::evaluate(const Function& function, const Block& block) {
    for (size_t i = block.begin + 1; i < block.end; i++) {
        const Instruction& each = code_[i];
        if (each.operation() == store)
            join(contents_.at(each[1]), values_.at(each[2]));
        else if (each.operation() == return_value)
            join(returned_.at(function.id), values_.at(each[1]));
        else if (each.operation() == function_call)
            call(each);
        else if (const uint32_t id = result_id(each))
            join(values_.at(id), result_of(each, block.label));
    }
    follow(block);
}

// Goes on where a block does.
void KnownValues::follow(const Block& block) {
    const Instruction& last = code_[block.end - 1];
    if (!goes_on(last)) return;
    for (uint32_t word = 1; word < last.count; word++)
        if (leads(block.label, last[word])) run(last[word]);
}

bool KnownValues::leads(uint32_t from, uint32_t to) const {
    const Instruction& last = code_[ends_.at(from)];
    if (!run_.at(from)) return false;
    if (last.operation() == branch) return last[1] == to;
    if (last.operation() == branch_conditional) {
        const Value condition = values_.at(last[1]);
        if (condition.state == Value::unset) return false;
        return (last[2] == to && !condition.is(0)) || (last[3] == to && !condition.is(1));
    }
    if (last.operation() != switch_) return false;
    bool found = last[2] == to;
    for (uint32_t word = 4; word < last.count; word += 2) found = found || last[word] == to;
    return found;
}

// Conditions that nothing sets: the module does not define where it goes, so both ways stay. Says whether
// there was one.
bool KnownValues::settle() {
    bool found = false;
    for (const Function& each : functions_)
        for (const Block& block : each.blocks) {
            const Instruction& last = code_[block.end - 1];
            if (!runs(block) || last.operation() != branch_conditional) continue;
            Value& condition = values_.at(last[1]);
            if (condition.state != Value::unset) continue;
            condition = Value::any();
            found = true;
        }
    return found;
}

// Until the next call.
const std::vector<Value>& KnownValues::values_of(const Instruction& each, uint32_t from) {
    operands_.clear();
    for (uint32_t word = from; word < each.count; word++) operands_.push_back(values_.at(each[word]));
    return operands_;
}

Value KnownValues::result_of(const Instruction& each, uint32_t block) {
    if (!is_followed(each[1])) return Value::any();
    switch (each.operation()) {
    case undefined:
        return {};
    case load:
        return contents_.at(each[3]);
    case phi: {
        Value all;
        for (uint32_t word = 3; word + 1 < each.count; word += 2)
            if (leads(each[word + 1], block)) all = joined(all, values_.at(each[word]));
        return all;
    }
    case extended:
        return folded_extended(each[4], values_of(each, 5));
    }
    return each.operation() == copy_object || is_operator(each.operation())
               ? folded(each.operation(), values_of(each, 3))
               : Value::any();
}

void KnownValues::call(const Instruction& each) {
    const Function& callee = *by_id_.at(each[3]);
    const bool changed_before = std::exchange(changed_, false);
    run(callee.id);
    for (size_t i = 0; i < callee.parameters.size(); i++) {
        const uint32_t argument = each[uint32_t(4 + i)], parameter = callee.parameters[i];
        join(values_.at(parameter), values_.at(argument));
        // What the caller stored the callee loads, and the other way round.
        join(contents_.at(parameter), contents_.at(argument));
        join(contents_.at(argument), contents_.at(parameter));
    }
    if (changed_) evaluate(callee); // now, or passes would be many
    changed_ = changed_ || changed_before;
    join(values_.at(each[2]), is_followed(each[1]) ? returned_.at(callee.id) : Value::any());
}

} // namespace vkdml::spirv
