// Writing the module again: known values as constants, and only blocks that are reached.
#include "specialized_module.hpp"

#include <map>
#include <set>
#include <utility>

#include "known_values.hpp"

namespace vkdml::spirv {
namespace {

class Specializing {
public:
    Specializing(const std::vector<uint32_t>& module, const std::vector<uint32_t>& constants)
        : code_(instructions_of(module)), bound_(module[bound_word]), known_(code_, bound_, constants) {
        for (const Function& each : known_.functions()) {
            if (known_.runs(each))
                write_function(each);
            else
                drop(each.begin, each.end);
        }
        made_.assign(module.begin(), module.begin() + header_words);
        for (size_t i = 0; i < known_.globals(); i++) write_global(code_[i]);
        for (const auto& [typed, id] : new_constants_) write_constant(typed.first, id, typed.second);
        made_[bound_word] = bound_;
        made_.insert(made_.end(), body_.begin(), body_.end());
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    void write_function(const Function& function);
    void find_stubs(const Function& function);
    void write_block(const Block& block);
    void write_instruction(size_t number, uint32_t block);
    void write_global(const Instruction& each);
    void write_constant(uint32_t type, uint32_t id, uint32_t word);
    uint32_t constant_of(uint32_t type, uint32_t word);
    void drop(size_t begin, size_t end);
    bool is_decided(const Instruction& last) const {
        return last.operation() == branch_conditional && known_.of(last[1]).state == Value::known;
    }

    const std::vector<Instruction> code_;
    uint32_t bound_;
    const KnownValues known_;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> new_constants_; // ids, by type and word
    std::map<uint32_t, uint32_t> stubs_; // labels of empty blocks, and where they branch: 0 nowhere
    std::set<uint32_t> dropped_;         // ids that functions no longer define
    std::vector<uint32_t> body_, made_;
};

void Specializing::drop(size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        if (const uint32_t id = result_id(code_[i])) dropped_.insert(id);
}

void Specializing::write_function(const Function& function) {
    find_stubs(function);
    size_t next = function.begin;
    for (const Block& block : function.blocks) {
        for (; next < block.begin; next++) write(body_, code_[next]); // OpFunction and its parameters
        next = block.end;
        write_block(block);
    }
    for (; next < function.end; next++) write(body_, code_[next]);
}

// Loops and selections name blocks where they end or go on: those must be there, even if nothing leads to
// them.
void Specializing::find_stubs(const Function& function) {
    stubs_.clear();
    for (const Block& block : function.blocks) {
        if (!known_.runs(block) || block.end - block.begin < 3) continue;
        const Instruction &merge = code_[block.end - 2], &last = code_[block.end - 1];
        if (merge.operation() == loop_merge) {
            stubs_.insert({merge[1], 0});
            stubs_[merge[2]] = block.label;
            if (code_[block.begin + 1].operation() == phi && !known_.leads(merge[2], block.label))
                throw std::invalid_argument("a loop of the SPIR-V module never comes round and has a phi");
        } else if (merge.operation() == selection_merge && !is_decided(last)) {
            stubs_.insert({merge[1], 0});
        }
    }
}

void Specializing::write_block(const Block& block) {
    if (known_.runs(block)) {
        for (size_t i = block.begin; i < block.end; i++) write_instruction(i, block.label);
        return;
    }
    const auto stub = stubs_.find(block.label);
    drop(block.begin + (stub != stubs_.end()), block.end);
    if (stub == stubs_.end()) return;
    write(body_, code_[block.begin]);
    if (stub->second)
        write(body_, branch, {stub->second});
    else
        write(body_, unreachable, {});
}

void Specializing::write_instruction(size_t number, uint32_t block) {
    const Instruction& each = code_[number];
    switch (each.operation()) {
    case selection_merge:
        if (!is_decided(code_.at(number + 1))) write(body_, each);
        return;
    case branch_conditional:
        if (is_decided(each))
            write(body_, branch, {known_.of(each[1]).word ? each[2] : each[3]});
        else
            write(body_, each);
        return;
    case phi: {
        std::vector<uint32_t> operands{each[1], each[2]};
        for (uint32_t word = 3; word + 1 < each.count; word += 2)
            if (known_.leads(each[word + 1], block))
                operands.insert(operands.end(), {each[word], each[word + 1]});
        write(body_, phi, operands);
        return;
    }
    }
    const uint32_t id = result_id(each);
    if (id && each.operation() != label && each.operation() != function_call && known_.is_followed(each[1]) &&
        known_.of(id).state == Value::known)
        write(body_, copy_object, {each[1], id, constant_of(each[1], known_.of(id).word)});
    else
        write(body_, each);
}

void Specializing::write_global(const Instruction& each) {
    switch (each.operation()) {
    case decorate:
        if (each[2] == spec_id) return;
        [[fallthrough]];
    case name:
        if (!dropped_.count(each[1])) write(made_, each);
        return;
    case spec_constant_true:
    case spec_constant_false:
    case spec_constant:
        write_constant(each[1], each[2], known_.of(each[2]).word);
        return;
    case spec_constant_composite:
        write(made_, each);
        made_[made_.size() - each.count] = each.count << 16 | constant_composite;
        return;
    case spec_constant_op:
        if (known_.of(each[2]).state == Value::known) {
            write_constant(each[1], each[2], known_.of(each[2]).word);
            return;
        }
        break;
    }
    write(made_, each);
}

void Specializing::write_constant(uint32_t type, uint32_t id, uint32_t word) {
    if (known_.is_bool(type))
        write(made_, word ? constant_true : constant_false, {type, id});
    else
        write(made_, constant, {type, id, word});
}

uint32_t Specializing::constant_of(uint32_t type, uint32_t word) {
    const auto [found, is_new] = new_constants_.insert({{type, word}, bound_});
    if (is_new) bound_++;
    return found->second;
}

} // namespace

std::vector<uint32_t> specialized(const std::vector<uint32_t>& module,
                                  const std::vector<uint32_t>& constants) {
    try {
        return Specializing(module, constants).take();
    } catch (const std::out_of_range&) {
        throw std::invalid_argument("the SPIR-V module names an id that it does not have");
    }
}

} // namespace vkdml::spirv
