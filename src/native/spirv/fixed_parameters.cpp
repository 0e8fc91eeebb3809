// Rewriting modules: what SPIR-V says of push constants becomes specialization constants.
#include "fixed_parameters.hpp"

#include <map>
#include <set>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

// A member of the push constants.
struct Member {
    uint32_t type;
    uint32_t first_word = 0;
    std::vector<uint32_t> constants = {}; // the ids of its words
    uint32_t array = 0;                   // the variable that holds them, of an array
};

class Rewriting {
public:
    Rewriting(const std::vector<uint32_t>& spirv, uint32_t first_slot)
        : old_(instructions_of(spirv)), first_slot_(first_slot) {
        made_.assign(spirv.begin(), spirv.begin() + header_words);
        find();
        for (const Instruction& each : old_) rewrite(each);
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    uint32_t new_id() { return made_[bound_word]++; }

    void find();
    void rewrite(const Instruction& old);
    void decorate_constants();
    void define_constants();

    std::vector<Instruction> old_;
    uint32_t first_slot_;
    std::vector<uint32_t> made_;
    uint32_t variable_ = 0, struct_type_ = 0, word_type_ = 0, word_pointer_ = 0;
    std::vector<Member> members_;
    std::set<uint32_t> laid_out_;          // types that only push constants have
    std::map<uint32_t, uint32_t> numbers_; // constants of one word
    std::map<uint32_t, uint32_t> single_;  // the constants that pointers led to
};

void Rewriting::find() {
    std::map<uint32_t, uint32_t> lengths, pointees; // ids of arrays' lengths; types behind pointers
    std::map<uint32_t, std::vector<uint32_t>> structs;
    std::map<uint32_t, std::map<uint32_t, uint32_t>> offsets;
    for (const Instruction& each : old_) {
        const uint32_t operation = each.operation();
        if (operation == member_decorate && each[3] == offset)
            offsets[each[1]][each[2]] = each[4];
        else if (operation == constant && each.count == 4)
            numbers_[each[2]] = each[3];
        else if (operation == type_array)
            lengths[each[1]] = each[3];
        else if (operation == type_struct)
            structs[each[1]].assign(each.words + 2, each.words + each.count);
        else if (operation == type_pointer && each[2] == push_constant)
            pointees[each[1]] = each[3];
        else if (operation == variable && each[3] == push_constant) {
            variable_ = each[2];
            struct_type_ = pointees.at(each[1]);
        }
    }
    if (!variable_) return;
    laid_out_ = {struct_type_};
    for (uint32_t type : structs.at(struct_type_)) {
        Member member{type, offsets.at(struct_type_).at(uint32_t(members_.size())) / 4};
        const auto length = lengths.find(type);
        const bool is_array = length != lengths.end();
        for (uint32_t n = is_array ? numbers_.at(length->second) : 1; n > 0; n--)
            member.constants.push_back(new_id());
        if (is_array) {
            member.array = new_id();
            laid_out_.insert(type);
        } else {
            word_type_ = type;
        }
        members_.push_back(std::move(member));
    }
    if (!word_type_) throw std::invalid_argument("the push constants begin with an array");
    word_pointer_ = new_id();
}

void Rewriting::rewrite(const Instruction& old) {
    const uint32_t operation = old.operation();
    if (operation == decorate && laid_out_.count(old[1])) {
        if (old[2] == block) {
            decorate_constants();
            return;
        }
        if (old[2] == array_stride) return;
    }
    if (operation == member_decorate && old[1] == struct_type_) return;
    if (operation == type_pointer && old[2] == push_constant) return;
    if (variable_ && operation == variable && old[2] == variable_) {
        define_constants();
        return;
    }
    if (variable_ && operation == access_chain && old[3] == variable_) {
        const Member& member = members_.at(numbers_.at(old[4]));
        if (!member.array) {
            single_[old[2]] = member.constants[0];
            return;
        }
        write(made_, access_chain, {word_pointer_, old[2], member.array, old[5]});
        return;
    }
    if (operation == load) {
        const auto found = single_.find(old[3]);
        if (found != single_.end()) {
            write(made_, copy_object, {old[1], old[2], found->second});
            return;
        }
    }
    write(made_, old);
}

void Rewriting::decorate_constants() {
    for (const Member& member : members_)
        for (uint32_t n = 0; n < member.constants.size(); n++)
            write(made_, decorate, {member.constants[n], spec_id, first_slot_ + member.first_word + n});
}

void Rewriting::define_constants() {
    for (const Member& member : members_)
        for (uint32_t id : member.constants) write(made_, spec_constant, {word_type_, id, 0});
    write(made_, type_pointer, {word_pointer_, private_storage, word_type_});
    for (const Member& member : members_) {
        if (!member.array) continue;
        const uint32_t content = new_id(), pointer = new_id();
        std::vector<uint32_t> operands{member.type, content};
        operands.insert(operands.end(), member.constants.begin(), member.constants.end());
        write(made_, spec_constant_composite, operands);
        write(made_, type_pointer, {pointer, private_storage, member.type});
        write(made_, variable, {pointer, member.array, private_storage, content});
    }
}

} // namespace

std::vector<uint32_t> with_fixed_parameters(const std::vector<uint32_t>& spirv, uint32_t first_slot) {
    try {
        return Rewriting(spirv, first_slot).take();
    } catch (const std::out_of_range&) {
        throw std::invalid_argument(
            "the push constants of the SPIR-V module are not words and arrays of words");
    }
}

} // namespace vkdml::spirv
