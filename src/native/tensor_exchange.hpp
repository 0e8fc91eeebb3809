// Lending memory to other libraries as DLPack tensors.
#pragma once

#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace vkdml {

// An object with __dlpack__() for the elements at an address of a DLPack device, of a DLPack type. The owner
// lives until the last tensor made from it is gone, whichever thread drops that.
nanobind::object lent_tensor(uint64_t address, const std::vector<size_t>& shape,
                             const std::vector<int64_t>& strides, uint8_t code, uint8_t bits,
                             std::pair<int, int> device, nanobind::object owner, bool read_only);

} // namespace vkdml
