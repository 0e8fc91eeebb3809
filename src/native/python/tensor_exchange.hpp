// Lending memory to other libraries: DLPack's capsules.
#pragma once

#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

namespace vkdml {

struct LentTensor {
    uint64_t address;                    // of the first element, as the device sees it
    std::vector<int64_t> shape, strides; // in elements
    uint8_t code, bits;                  // of an element, in DLPack's terms
    std::pair<int, int> device;          // DLPack's type and number
    uint64_t flags;                      // 1: read only, 2: copied; capsules without a version cannot tell
};

// A capsule that keeps `owner` alive until its consumer, in whichever thread, deletes the tensor, or until it
// goes unused.
nanobind::object dlpack_capsule(LentTensor tensor, nanobind::object owner, bool versioned);

} // namespace vkdml
