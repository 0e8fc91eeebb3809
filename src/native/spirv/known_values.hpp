// What of a SPIR-V module is known before it runs: values that are always the same, and code that never runs.
#pragma once

#include <map>
#include <vector>

#include "constant_folding.hpp"
#include "spirv.hpp"

namespace vkdml::spirv {

// Words and bools that are the same in every invocation and every run, found from the specialization
// constants on: through arithmetic, branches, calls, and variables that hold one word.
//
// All that is not proved to vary is taken for known at first; each pass over the code takes back what it
// refutes, until a pass changes nothing.
class KnownValues {
public:
    // Constant i of `constants` is what the specialization constant of SpecId i is. The instructions must
    // live as long as this does.
    KnownValues(const std::vector<Instruction>& code, uint32_t bound, const std::vector<uint32_t>& constants);

    const std::vector<Function>& functions() const { return functions_; }
    size_t globals() const { return globals_; } // instructions before the first function
    Value of(uint32_t id) const { return values_.at(id); }
    bool is_bool(uint32_t type) const { return types_.at(type) == boolean; }
    // Whether ids of this type are followed.
    bool is_followed(uint32_t type) const { return is_bool(type) || types_.at(type) == word; }
    bool runs(const Function& function) const { return run_.at(function.id); }
    bool runs(const Block& block) const { return run_.at(block.label); }
    // Whether the block `from` may go on with the block `to`.
    bool leads(uint32_t from, uint32_t to) const;

private:
    enum Type : uint8_t { another, boolean, word, pointer_to_one }; // of what is followed

    void index_functions();
    void find_pointers();
    void define_global(const Instruction& each, const std::vector<uint32_t>& constants);
    void pass();
    void evaluate(const Function& function);
    void evaluate(const Function& function, const Block& block);
    void follow(const Block& block);
    Value result_of(const Instruction& each, uint32_t block);
    void call(const Instruction& each);
    const std::vector<Value>& values_of(const Instruction& each, uint32_t from);
    void join(Value& into, Value other);
    void run(uint32_t id);
    bool settle();

    const std::vector<Instruction>& code_;
    size_t globals_ = 0;
    std::vector<Function> functions_;
    std::map<uint32_t, const Function*> by_id_;
    std::map<uint32_t, uint32_t> slots_; // SpecIds
    // By id.
    std::vector<Type> types_;
    std::vector<Value> values_, contents_, returned_; // of ids; of what they point to; of functions
    std::vector<bool> run_;                           // functions and labels
    std::vector<size_t> ends_;                        // labels: the instructions that end their blocks
    std::vector<Value> operands_;
    bool changed_ = false;
};

// The result's id, or 0 where the instruction, which is one of a function, has none.
uint32_t result_id(const Instruction& each);

} // namespace vkdml::spirv
