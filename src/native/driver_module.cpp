// Which rewritings a driver's modules get, and in which order.
#include "driver_module.hpp"

#include <utility>

#include "spirv/fixed_parameters.hpp"
#include "spirv/paired_words.hpp"
#include "spirv/specialized_module.hpp"
#include "spirv/texel_loads.hpp"
#include "spirv/unrolled_loops.hpp"
#include "spirv/vector_arithmetic.hpp"

namespace vkdml {

DriverModule driver_module(const DeviceInfo& info, std::vector<uint32_t> spirv,
                           std::vector<uint32_t> constants, const std::vector<uint32_t>& fixed,
                           uint32_t bindings) {
    if (!fixed.empty()) {
        spirv = spirv::with_fixed_parameters(spirv, uint32_t(constants.size()));
        constants.insert(constants.end(), fixed.begin(), fixed.end());
    }
    // Drivers on processors compile what the constants exclude. GPUs' compilers take 3/4 of the time without
    // it, but a few kernels then take up to 1.23 of theirs (H200).
    if (info.is_software()) spirv = spirv::specialized(spirv, std::exchange(constants, {}));
    std::vector<uint32_t> texel_words;
    if (info.texel_widths) {
        auto loads = spirv::with_texel_loads(spirv, bindings, info.texel_widths);
        spirv = std::move(loads.module), texel_words = std::move(loads.texel_words);
    }
    if (info.unrolls_on_request()) spirv = spirv::with_unrolled_loops(spirv);
    if (info.shifts_singly()) spirv = spirv::with_vector_arithmetic(spirv);
    if (info.pairs_words()) spirv = spirv::with_paired_words(spirv);
    return {std::move(spirv), std::move(constants), std::move(texel_words)};
}

} // namespace vkdml
