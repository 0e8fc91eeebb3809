// Rewriting modules: loops ask to be unrolled.
#include "unrolled_loops.hpp"

#include <map>
#include <set>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

// A longer loop takes as long to start as to run, and SwiftShader long to compile.
constexpr size_t most_instructions = 1000;

// What a stretch of code executes at most, with all functions that it calls.
struct Content {
    size_t instructions = 0;
    bool has_arrays = false; // of its own, not of a buffer or of shared memory

    bool may_be_unrolled() const { return !has_arrays && instructions <= most_instructions; }
    void add(const Content& other) {
        instructions += other.instructions;
        has_arrays = has_arrays || other.has_arrays;
    }
};

class Loops {
public:
    explicit Loops(const std::vector<uint32_t>& spirv) : code_(instructions_of(spirv)), made_(spirv) {
        size_t begin = 0;
        for (size_t i = 0; i < code_.size(); i++) {
            find_array(code_[i]);
            if (code_[i].operation() == spirv::function) begin = i;
            if (code_[i].operation() == label) labels_[code_[i][1]] = i;
            if (code_[i].operation() == function_end) functions_[code_[begin][2]] = {begin, i};
        }
        constexpr uint32_t control_word = 3, none = 0, unroll = 1;
        for (size_t i = 0; i < code_.size(); i++) {
            const Instruction& each = code_[i];
            if (each.operation() != loop_merge || each[control_word] != none) continue;
            const auto end = labels_.find(each[1]);
            if (end != labels_.end() && content_of({i, end->second}).may_be_unrolled())
                made_[each.words + control_word - spirv.data()] = unroll;
        }
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    struct Stretch {
        size_t begin, end;
    };

    void find_array(const Instruction& each);
    Content content_of(Stretch stretch);
    const Content& content_of_function(uint32_t id);

    const std::vector<Instruction> code_;
    std::vector<uint32_t> made_;
    std::set<uint32_t> arrays_, pointers_, variables_; // types; ids
    std::map<uint32_t, size_t> labels_;
    std::map<uint32_t, Stretch> functions_;
    std::map<uint32_t, Content> contents_; // by function
};

void Loops::find_array(const Instruction& each) {
    switch (each.operation()) {
    case type_array:
        arrays_.insert(each[1]);
        return;
    case type_pointer:
        if ((each[2] == function_storage || each[2] == private_storage) && arrays_.count(each[3]))
            pointers_.insert(each[1]);
        return;
    case variable:
    case function_parameter:
        if (pointers_.count(each[1])) variables_.insert(each[2]);
        return;
    }
}

Content Loops::content_of(Stretch stretch) {
    Content content;
    content.instructions = stretch.end - stretch.begin;
    for (size_t i = stretch.begin; i < stretch.end; i++) {
        const Instruction& each = code_[i];
        if (each.operation() == access_chain && variables_.count(each[3])) content.has_arrays = true;
        if (each.operation() == function_call) content.add(content_of_function(each[3]));
    }
    return content;
}

// No function calls itself: SPIR-V forbids it.
const Content& Loops::content_of_function(uint32_t id) {
    const auto [found, is_new] = contents_.insert({id, {}});
    const auto function = functions_.find(id);
    if (is_new && function != functions_.end()) found->second = content_of(function->second);
    return found->second;
}

} // namespace

std::vector<uint32_t> with_unrolled_loops(const std::vector<uint32_t>& spirv) { return Loops(spirv).take(); }

} // namespace vkdml::spirv
