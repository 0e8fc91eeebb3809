// Reading and writing the instructions of SPIR-V modules.
#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

template <typename T> T& last_of(std::vector<T>& all) {
    if (all.empty()) throw std::invalid_argument("the SPIR-V module has an instruction outside of its place");
    return all.back();
}

} // namespace

bool passes_pointers_on(const Instruction& each) {
    switch (each.operation()) {
    case function_call:
    case copy_memory:
    case in_bounds_access_chain:
    case copy_object:
    case select:
    case phi:
        return true;
    default:
        return each.operation() >= first_atomic && each.operation() <= last_atomic;
    }
}

bool goes_on(const Instruction& each) {
    const uint32_t operation = each.operation();
    return operation == branch || operation == branch_conditional || operation == switch_;
}

bool ends_block(const Instruction& each) {
    const uint32_t operation = each.operation();
    const bool leaves = operation == return_ || operation == return_value;
    return goes_on(each) || leaves || operation == kill || operation == unreachable;
}

std::vector<Function> functions_of(const std::vector<Instruction>& instructions) {
    std::vector<Function> all;
    for (size_t i = 0; i < instructions.size(); i++) {
        const Instruction& each = instructions[i];
        switch (each.operation()) {
        case function:
            all.push_back({each[2], i, i, {}, {}});
            break;
        case function_parameter:
            last_of(all).parameters.push_back(each[2]);
            break;
        case label:
            last_of(all).blocks.push_back({each[1], i, i});
            break;
        case function_end:
            last_of(all).end = i + 1;
            break;
        default:
            if (ends_block(each)) last_of(last_of(all).blocks).end = i + 1;
        }
    }
    for (const Function& each : all) {
        bool ends = each.end > each.begin;
        for (const Block& block : each.blocks) ends = ends && block.end > block.begin;
        if (!ends) throw std::invalid_argument("the SPIR-V module ends within a function");
    }
    return all;
}

std::vector<Instruction> instructions_of(const std::vector<uint32_t>& module) {
    if (module.size() < header_words) throw std::invalid_argument("the SPIR-V module has no header");
    if (module[bound_word] > most_ids) throw std::invalid_argument("the SPIR-V module has too many ids");
    std::vector<Instruction> all;
    for (size_t at = header_words; at < module.size();) {
        const uint32_t count = module[at] >> 16;
        if (count == 0 || at + count > module.size())
            throw std::invalid_argument("the SPIR-V module ends within an instruction");
        all.push_back({&module[at], count});
        at += count;
    }
    return all;
}

void write(std::vector<uint32_t>& module, Operation operation, const std::vector<uint32_t>& operands) {
    module.push_back(uint32_t(operands.size() + 1) << 16 | operation);
    module.insert(module.end(), operands.begin(), operands.end());
}

void write(std::vector<uint32_t>& module, const Instruction& each) {
    module.insert(module.end(), each.words, each.words + each.count);
}

BufferVariables buffer_variables(const std::vector<Instruction>& instructions) {
    BufferVariables found;
    std::map<uint32_t, uint32_t> bindings, words;
    std::map<uint32_t, BufferVariable> types; // of arrays, structures and pointers
    const auto known = [&types](uint32_t type) {
        const auto at = types.find(type);
        return at == types.end() ? BufferVariable{} : at->second;
    };
    for (const Instruction& each : instructions) {
        const uint32_t operation = each.operation();
        if (operation == decorate && each[2] == binding_decoration) {
            bindings[each[1]] = each[3];
        } else if (operation == type_int && each[2] == 32 && !each[3]) {
            words[found.word = each[1]] = 1;
        } else if (operation == type_vector && each[2] == found.word && each[3] != 3) {
            words[each[1]] = each[3];
            if (each[3] == 4) found.four = each[1];
        } else if (operation == type_runtime_array && words.count(each[2])) {
            types[each[1]] = {0, words[each[2]], each[2], each[1]};
        } else if (operation == type_struct && each.count == 3 && known(each[2]).array == each[2]) {
            types[each[1]] = known(each[2]);
        } else if (operation == type_pointer && each[2] == storage_buffer) {
            types[each[1]] = known(each[3]);
        } else if (operation == variable && each[3] == storage_buffer) {
            found.all[each[2]] = known(each[1]);
            found.all[each[2]].binding = bindings.count(each[2]) ? bindings[each[2]] : ~0u;
        }
    }
    return found;
}

} // namespace vkdml::spirv
