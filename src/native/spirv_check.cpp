// Walking a SPIR-V module's instructions.
#include "spirv_check.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace vkdml {
namespace {

// Names and numbers are those of the SPIR-V specification, version 1.3.
constexpr uint32_t magic = 0x07230203u;
constexpr size_t header_words = 5;
constexpr uint32_t newest_version = 0x00010300u; // what Vulkan 1.1 takes
constexpr uint32_t most_ids = 0x3FFFFFu;         // the universal limit

enum Op : uint32_t {
    OpString = 7,
    OpExtInstImport = 11,
    OpExtInst = 12,
    OpEntryPoint = 15,
    OpExecutionMode = 16,
    OpCapability = 17,
    OpTypeVoid = 19,
    OpTypeStruct = 30,
    OpTypePointer = 32,
    OpTypeForwardPointer = 39,
    OpConstant = 43,
    OpConstantComposite = 44,
    OpSpecConstant = 50,
    OpSpecConstantComposite = 51,
    OpFunction = 54,
    OpFunctionEnd = 56,
    OpFunctionCall = 57,
    OpVariable = 59,
    OpLoad = 61,
    OpStore = 62,
    OpAccessChain = 65,
    OpInBoundsAccessChain = 66,
    OpDecorate = 71,
    OpMemberDecorate = 72,
    OpDecorationGroup = 73,
    OpCompositeConstruct = 80,
    OpBitcast = 124,
    OpBitCount = 205,
    OpPhi = 245,
    OpLoopMerge = 246,
    OpSelectionMerge = 247,
    OpLabel = 248,
    OpBranch = 249,
    OpBranchConditional = 250,
    OpSwitch = 251,
    OpReturnValue = 254,
    OpNewestCore = 366,
};
enum ExecutionModel : uint32_t { GLCompute = 5 };
enum ExecutionMode : uint32_t { LocalSize = 17 };
enum Capability : uint32_t { Matrix = 0, Shader = 1, GroupNonUniform = 61, GroupNonUniformQuad = 68 };
enum Decoration : uint32_t {
    SpecId = 1,
    BufferBlock = 3,
    BuiltIn = 11,
    Binding = 33,
    DescriptorSet = 34,
    Offset = 35
};
enum BuiltInValue : uint32_t { WorkgroupSize = 25 };
enum StorageClass : uint32_t {
    UniformConstant = 0,
    Uniform = 2,
    Output = 3,
    PushConstant = 9,
    StorageBuffer = 12
};

[[noreturn]] void refuse(const std::string& fault) {
    throw std::invalid_argument("this SPIR-V cannot be a kernel: " + fault);
}

std::string number(uint64_t value) { return std::to_string(value); }

// Which of an instruction's words are ids, as far as it matters: `first` to before `last`, which counts from
// the opcode's word as 0.
struct Operands {
    bool type = false, result = false;
    uint32_t first = 0, last = 0;
};

bool has_no_result(uint32_t op) {
    static const std::vector<uint32_t> none = // ascending
        {0,   2,   3,   4,   5,   6,   8,   10,  14,  15,  16,  17,  39,  56,  62,  63,  64,
         71,  72,  74,  75,  99,  218, 219, 220, 221, 224, 225, 228, 246, 247, 249, 250, 251,
         252, 253, 254, 255, 256, 257, 297, 298, 299, 300, 301, 302, 317, 330, 331, 332};
    return std::binary_search(none.begin(), none.end(), op);
}

Operands operands_of(uint32_t op, uint32_t count) {
    Operands found;
    if (op > OpNewestCore) return found; // of an extension that is refused with its capability
    found.result = !has_no_result(op);
    found.type = found.result && op != OpString && op != OpExtInstImport && op != OpDecorationGroup &&
                 op != OpLabel && !(op >= OpTypeVoid && op <= OpTypeForwardPointer);
    auto ids = [&](uint32_t first, uint32_t last) {
        found.first = first;
        found.last = std::min(last, count);
    };
    if (op >= OpBitcast && op <= OpBitCount) ids(3, count);
    switch (op) {
    case OpConstantComposite:
    case OpSpecConstantComposite:
    case OpFunctionCall:
    case OpAccessChain:
    case OpInBoundsAccessChain:
    case OpCompositeConstruct:
    case OpPhi:
        ids(3, count);
        break;
    case OpTypeStruct:
        ids(2, count);
        break;
    case OpTypePointer:
        ids(3, 4);
        break;
    case OpLoad:
    case OpExtInst:
        ids(3, 4);
        break;
    case OpStore:
    case OpLoopMerge:
        ids(1, 3);
        break;
    case OpSelectionMerge:
    case OpBranch:
    case OpReturnValue:
    case OpDecorate:
        ids(1, 2);
        break;
    case OpBranchConditional:
        ids(1, 4);
        break;
    case OpSwitch:
        ids(1, 3);
        break;
    case OpFunction:
        ids(4, 5);
        break;
    default:
        break;
    }
    return found;
}

// Words that an instruction must have because they are read below.
uint32_t least_words(uint32_t op) {
    switch (op) {
    case OpCapability:
        return 2;
    case OpDecorate:
        return 3;
    case OpExecutionMode:
        return 3;
    case OpEntryPoint:
    case OpTypePointer:
    case OpMemberDecorate:
    case OpVariable:
    case OpFunctionCall:
        return 4;
    case OpFunction:
        return 5;
    default:
        return 1;
    }
}

class Module {
public:
    Module(const std::vector<uint32_t>& words, const SpirvInterface& interface)
        : words_(words), interface_(interface) {}

    void check() {
        check_header();
        defined_.assign(words_[3], false);
        uint32_t last_op = 0;
        for (size_t at = header_words; at < words_.size();) {
            uint32_t op = words_[at] & 0xFFFF, count = words_[at] >> 16;
            if (count < least_words(op) || count > words_.size() - at)
                refuse("the instruction at word " + number(at) + " has " + number(count) + " words of the " +
                       number(words_.size() - at) + " that are left; the code seems cut off or damaged");
            visit(at, op, count);
            at += count;
            last_op = op;
        }
        if (last_op != OpFunctionEnd)
            refuse("its last instruction is " + number(last_op) +
                   ", not OpFunctionEnd (56); the code seems cut off");
        for (uint32_t id : used_)
            if (!defined_[id]) refuse("id " + number(id) + " is used and nowhere defined");
        check_entry_point();
        check_workgroup_size();
        check_variables();
    }

private:
    void check_header() const {
        if (words_.empty() || words_[0] != magic)
            throw std::invalid_argument("this is not SPIR-V: " + number(words_.size() * 4) +
                                        " bytes that do not start with 0x07230203");
        if (words_.size() <= header_words)
            refuse(number(words_.size() * 4) + " bytes are no more than a header");
        if (words_[1] > newest_version || words_[1] < 0x00010000u || words_[1] & 0xFF0000FFu)
            refuse("its version is " + number(words_[1] >> 16) + "." + number(words_[1] >> 8 & 0xFF) +
                   "; accepted are 1.0 to 1.3, which Vulkan 1.1 takes");
        if (!words_[3] || words_[3] > most_ids)
            refuse("its ids are below " + number(words_[3]) + "; accepted is a bound of 1 to " +
                   number(most_ids));
        if (words_[4]) refuse("its schema is " + number(words_[4]) + "; accepted is 0");
    }

    uint32_t id(size_t at) const {
        if (!words_[at] || words_[at] >= words_[3])
            refuse("word " + number(at) + " is id " + number(words_[at]) + "; accepted are 1 to " +
                   number(words_[3] - 1) + ", below the bound in its header");
        return words_[at];
    }

    void visit(size_t at, uint32_t op, uint32_t count) {
        Operands operands = operands_of(op, count);
        if (count < 1u + operands.type + operands.result)
            refuse("the instruction at word " + number(at) + " is too short for its result");
        if (operands.type) used_.push_back(id(at + 1));
        if (operands.result) {
            uint32_t result = id(at + 1 + operands.type);
            if (defined_[result]) refuse("id " + number(result) + " is defined twice");
            defined_[result] = true;
        }
        for (uint32_t i = operands.first; i < operands.last; i++) used_.push_back(id(at + i));
        const uint32_t* word = &words_[at];
        switch (op) {
        case OpCapability:
            if (word[1] != Matrix && word[1] != Shader &&
                (word[1] < GroupNonUniform || word[1] > GroupNonUniformQuad))
                refuse(
                    "it needs capability " + number(word[1]) +
                    ", which is enabled on no device; accepted are Shader (1) and the subgroups' (61 to 68)");
            break;
        case OpEntryPoint:
            visit_entry_point(word, count);
            break;
        case OpExecutionMode:
            if (word[2] == LocalSize && count >= 6) local_size_ = {word[3], word[4], word[5]};
            break;
        case OpTypeStruct:
            structs_[word[1]];
            break;
        case OpTypePointer:
            pointees_[word[1]] = word[3];
            break;
        case OpDecorate:
            if (word[2] == BufferBlock) buffer_blocks_[word[1]] = true;
            if (word[2] == SpecId && count >= 4) spec_ids_[word[1]] = word[3];
            if (word[2] == BuiltIn && count >= 4 && word[3] == WorkgroupSize) workgroup_size_ = word[1];
            if (word[2] == Binding && count >= 4) bindings_[word[1]] = word[3];
            if (word[2] == DescriptorSet && count >= 4 && word[3])
                refuse("it uses descriptor set " + number(word[3]) + "; accepted is set 0");
            break;
        case OpMemberDecorate:
            if (word[3] == Offset && count >= 5) {
                uint32_t& farthest = structs_[word[1]];
                farthest = std::max(farthest, word[4]);
            }
            break;
        case OpConstant:
        case OpSpecConstant:
            if (count == 4) constants_[word[2]] = word[3];
            break;
        case OpConstantComposite:
        case OpSpecConstantComposite:
            if (count == 6) triples_[word[2]] = {word[3], word[4], word[5]};
            break;
        case OpVariable:
            variables_.push_back({word[1], word[2], word[3]});
            break;
        case OpFunction:
            functions_[word[2]] = true;
            break;
        case OpFunctionCall:
            called_.push_back(word[3]);
            break;
        default:
            break;
        }
    }

    void visit_entry_point(const uint32_t* word, uint32_t count) {
        std::string name;
        for (uint32_t i = 3; i < count; i++) // four characters a word, the lowest byte first
            for (int shift = 0; shift < 32; shift += 8) {
                char c = char(word[i] >> shift & 0xFF);
                if (!c) {
                    if (word[1] == GLCompute && name == "main") main_ = word[2];
                    entry_points_ +=
                        (entry_points_.empty() ? "" : ", ") + name + " (model " + number(word[1]) + ")";
                    return;
                }
                name += c;
            }
        refuse("the name of an entry point does not end");
    }

    void check_workgroup_size() const {
        auto size = local_size_;
        auto stated = triples_.find(workgroup_size_); // goes before the execution mode
        for (int i = 0; stated != triples_.end() && i < 3; i++) {
            auto constant = constants_.find(stated->second[i]);
            if (constant == constants_.end()) refuse("its workgroup size is no constant");
            auto spec = spec_ids_.find(constant->first);
            bool given = spec != spec_ids_.end() && spec->second < interface_.constants.size();
            size[i] = given ? interface_.constants[spec->second] : constant->second;
        }
        uint64_t invocations = 1;
        for (uint32_t extent : size) invocations = std::min(invocations * extent, uint64_t(1) << 31);
        if (!invocations || invocations > interface_.max_invocations)
            refuse("its workgroups are of " + number(size[0]) + " x " + number(size[1]) + " x " +
                   number(size[2]) + " invocations; accepted are 1 to " + number(interface_.max_invocations) +
                   " on this device");
    }

    void check_entry_point() const {
        if (!main_)
            refuse("it has no entry point 'main' of a compute shader (model 5); it has " +
                   (entry_points_.empty() ? "none" : entry_points_));
        if (!functions_.count(main_))
            refuse("its entry point is not a function in it; the code seems cut off");
        for (uint32_t function : called_)
            if (!functions_.count(function))
                refuse("it calls function " + number(function) +
                       ", which is not in it; the code seems cut off");
    }

    void check_variables() const {
        for (const Variable& variable : variables_) {
            auto pointee = pointees_.find(variable.type);
            if (pointee == pointees_.end())
                refuse("variable " + number(variable.id) + " has a type that is no pointer");
            auto structure = structs_.find(pointee->second);
            switch (variable.storage) {
            case UniformConstant:
            case Output:
                refuse(
                    "variable " + number(variable.id) + " is of storage class " + number(variable.storage) +
                    " (an image, a sampler or an output); accepted are storage buffers and push constants");
            case PushConstant:
                if (structure != structs_.end() && uint64_t(structure->second) + 4 > interface_.push_bytes)
                    refuse("it reads push constants from byte " + number(structure->second) +
                           " on; given are " + number(interface_.push_bytes) + " bytes");
                break;
            case Uniform:
                if (!buffer_blocks_.count(pointee->second))
                    refuse("variable " + number(variable.id) +
                           " is a uniform buffer; accepted are storage buffers and push constants");
                [[fallthrough]];
            case StorageBuffer: {
                if (structure == structs_.end())
                    refuse("variable " + number(variable.id) + " is no single storage buffer");
                auto binding = bindings_.find(variable.id);
                if (binding == bindings_.end())
                    refuse("storage buffer " + number(variable.id) + " has no binding");
                if (binding->second >= interface_.bindings)
                    refuse("it uses binding " + number(binding->second) + "; given are " +
                           number(interface_.bindings) + ", counted from 0");
                break;
            }
            default:
                break;
            }
        }
    }

    struct Variable {
        uint32_t type, id, storage;
    };
    const std::vector<uint32_t>& words_;
    const SpirvInterface& interface_;

    std::vector<bool> defined_;
    std::vector<uint32_t> used_, called_;
    std::vector<Variable> variables_;
    std::unordered_map<uint32_t, uint32_t> pointees_, bindings_;
    std::unordered_map<uint32_t, uint32_t> structs_; // with the offset of the farthest member
    std::unordered_map<uint32_t, bool> functions_, buffer_blocks_;
    std::unordered_map<uint32_t, uint32_t> constants_, spec_ids_;
    std::unordered_map<uint32_t, std::array<uint32_t, 3>> triples_;
    std::array<uint32_t, 3> local_size_{1, 1, 1};
    uint32_t main_ = 0, workgroup_size_ = 0;
    std::string entry_points_;
};

} // namespace

void check_spirv(const std::vector<uint32_t>& words, const SpirvInterface& interface) {
    Module(words, interface).check();
}

} // namespace vkdml
