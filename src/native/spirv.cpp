// Reading and writing the instructions of SPIR-V modules.
#include "spirv.hpp"

namespace vkdml::spirv {

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

} // namespace vkdml::spirv
