// The words of SPIR-V modules, as the SPIR-V specification numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

namespace vkdml::spirv {

constexpr size_t header_words = 5, bound_word = 3;
constexpr uint32_t most_ids = 0x3fffff;
constexpr uint32_t first_type = 19, last_type = 39, first_atomic = 227, last_atomic = 242; // operations

enum Operation : uint32_t {
    undefined = 1,
    name = 5,
    extended = 12, // OpExtInst
    entry_point = 15,
    capability = 17,
    type_bool = 20,
    type_int = 21,
    type_float = 22,
    type_vector = 23,
    type_image = 25,
    type_array = 28,
    type_runtime_array = 29,
    type_struct = 30,
    type_pointer = 32,
    constant_true = 41,
    constant_false = 42,
    constant = 43,
    constant_composite = 44,
    constant_null = 46,
    spec_constant_true = 48,
    spec_constant_false = 49,
    spec_constant = 50,
    spec_constant_composite = 51,
    spec_constant_op = 52,
    function = 54,
    function_parameter = 55,
    function_end = 56,
    function_call = 57,
    variable = 59,
    load = 61,
    store = 62,
    copy_memory = 63,
    access_chain = 65,
    in_bounds_access_chain = 66,
    decorate = 71,
    member_decorate = 72,
    vector_extract_dynamic = 77,
    vector_shuffle = 79,
    composite_construct = 80,
    composite_extract = 81,
    copy_object = 83,
    image_read = 98,
    convert_float_to_signed = 110,
    convert_signed_to_float = 111,
    bitcast = 124,
    signed_negate = 126,
    integer_add = 128,
    integer_subtract = 130,
    integer_multiply = 132,
    float_multiply = 133,
    unsigned_divide = 134,
    signed_divide = 135,
    unsigned_modulo = 137,
    logical_equal = 164,
    logical_not_equal = 165,
    logical_or = 166,
    logical_and = 167,
    logical_not = 168,
    select = 169,
    integer_equal = 170,
    integer_not_equal = 171,
    unsigned_greater = 172,
    signed_greater = 173,
    unsigned_greater_equal = 174,
    signed_greater_equal = 175,
    unsigned_less = 176,
    signed_less = 177,
    unsigned_less_equal = 178,
    signed_less_equal = 179,
    shift_right_logical = 194,
    shift_right_arithmetic = 195,
    shift_left = 196,
    bitwise_or = 197,
    bitwise_xor = 198,
    bitwise_and = 199,
    bitwise_not = 200,
    control_barrier = 224,
    memory_barrier = 225,
    atomic_store = 228,
    phi = 245,
    loop_merge = 246,
    selection_merge = 247,
    label = 248,
    branch = 249,
    branch_conditional = 250,
    switch_ = 251,
    kill = 252,
    return_ = 253,
    return_value = 254,
    unreachable = 255,
};

// Of GLSL.std.450, which OpExtInst names.
enum Extended : uint32_t {
    unsigned_least = 38,
    signed_least = 39,
    unsigned_most = 41,
    signed_most = 42,
};

enum StorageClass : uint32_t {
    uniform_constant = 0,
    private_storage = 6,
    function_storage = 7,
    push_constant = 9,
    storage_buffer = 12
};
enum Capability : uint32_t { int64 = 11, image_buffer = 47, storage_image_extended_formats = 49 };
enum Decoration : uint32_t {
    spec_id = 1,
    block = 2,
    array_stride = 6,
    non_writable = 24,
    binding_decoration = 33,
    descriptor_set_decoration = 34,
    offset = 35
};
enum Dimension : uint32_t { buffer_dimension = 5 };
enum ImageFormat : uint32_t { rgba32ui = 30, r32ui = 33, rg32ui = 35 };

struct Instruction {
    const uint32_t* words; // the first one has the operation and how many words there are
    uint32_t count;

    uint32_t operation() const { return words[0] & 0xffff; }
    uint32_t operator[](uint32_t word) const {
        if (word >= count) throw std::invalid_argument("an instruction of the SPIR-V module is cut off");
        return words[word];
    }
};

// The instructions of a module: they point into its words. Throws std::invalid_argument where the module is
// not whole.
std::vector<Instruction> instructions_of(const std::vector<uint32_t>& module);

// A function's instructions from a label to a branch or the like.
struct Block {
    uint32_t label;
    size_t begin, end; // instructions of the module; the first one is the label, the last one ends the block
};

struct Function {
    uint32_t id;
    size_t begin, end;                // from OpFunction to behind OpFunctionEnd
    std::vector<uint32_t> parameters; // their ids
    std::vector<Block> blocks;
};

// The functions of a module. Throws std::invalid_argument where one is not whole.
std::vector<Function> functions_of(const std::vector<Instruction>& instructions);

// Whether an instruction may do more with a pointer to memory than to load there, to store, or to point to a
// part of it.
bool passes_pointers_on(const Instruction& each);

// Whether an instruction ends a block and names what comes next; whether it ends a block.
bool goes_on(const Instruction& each);
bool ends_block(const Instruction& each);

// A variable in a storage buffer: if it is nothing but an array of words, or of vectors of two or four.
struct BufferVariable {
    uint32_t binding;
    uint32_t words;          // of an element; 0: it is anything else
    uint32_t element, array; // types
};

// The module's type of a word and of a vector of four, 0 where it has none, and the variables by id.
struct BufferVariables {
    uint32_t word = 0, four = 0;
    std::map<uint32_t, BufferVariable> all;
};

BufferVariables buffer_variables(const std::vector<Instruction>& instructions);

// Appends an instruction.
void write(std::vector<uint32_t>& module, Operation operation, const std::vector<uint32_t>& operands);
void write(std::vector<uint32_t>& module, const Instruction& each);

} // namespace vkdml::spirv
