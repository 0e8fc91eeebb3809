// Rewriting modules: loops ask to be unrolled.
#include "unrolled_loops.hpp"

#include <map>
#include <set>

#include "spirv.hpp"

namespace vkdml::spirv {
namespace {

// SwiftShader takes long to compile more.
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
    explicit Loops(const std::vector<uint32_t>& spirv)
        : code_(instructions_of(spirv)), functions_(functions_of(code_)), made_(spirv) {
        for (const Instruction& each : code_) find_array(each);
        std::map<uint32_t, size_t> labels;
        for (const Function& function : functions_) {
            by_id_[function.id] = &function;
            for (const Block& block : function.blocks) labels[block.label] = block.begin;
        }
        constexpr uint32_t control_word = 3, none = 0, unroll = 1;
        for (size_t i = 0; i < code_.size(); i++) {
            const Instruction& each = code_[i];
            if (each.operation() != loop_merge || each[control_word] != none) continue;
            const auto end = labels.find(each[1]);
            if (end != labels.end() && content_of(i, end->second).may_be_unrolled())
                made_[each.words + control_word - spirv.data()] = unroll;
        }
    }

    std::vector<uint32_t> take() { return std::move(made_); }

private:
    void find_array(const Instruction& each);
    Content content_of(size_t begin, size_t end);
    const Content& content_of_function(uint32_t id);

    const std::vector<Instruction> code_;
    const std::vector<Function> functions_;
    std::vector<uint32_t> made_;
    std::set<uint32_t> arrays_, pointers_, variables_; // types; ids
    std::map<uint32_t, const Function*> by_id_;
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

Content Loops::content_of(size_t begin, size_t end) {
    Content content;
    content.instructions = end - begin;
    for (size_t i = begin; i < end; i++) {
        const Instruction& each = code_[i];
        if (each.operation() == access_chain && variables_.count(each[3])) content.has_arrays = true;
        if (each.operation() == function_call) content.add(content_of_function(each[3]));
    }
    return content;
}

// No function calls itself: SPIR-V forbids it.
const Content& Loops::content_of_function(uint32_t id) {
    const auto [found, is_new] = contents_.insert({id, {}});
    const auto function = by_id_.find(id);
    if (is_new && function != by_id_.end())
        found->second =
            content_of(function->second->begin, function->second->end - 1); // without OpFunctionEnd
    return found->second;
}

} // namespace

std::vector<uint32_t> with_unrolled_loops(const std::vector<uint32_t>& spirv) { return Loops(spirv).take(); }

} // namespace vkdml::spirv
