// DLPack producers, with nanobind's handling of capsules, versions and the interpreter's end.
#include "tensor_exchange.hpp"

namespace nb = nanobind;

namespace vkdml {
namespace {

template <class Array, class Pointer>
nb::object lent(Pointer address, const std::vector<size_t>& shape, const std::vector<int64_t>& strides,
                nb::dlpack::dtype type, std::pair<int, int> device, const nb::object& owner) {
    return nb::cast(
        Array(address, shape.size(), shape.data(), owner, strides.data(), type, device.first, device.second));
}

} // namespace

nb::object lent_tensor(uint64_t address, const std::vector<size_t>& shape,
                       const std::vector<int64_t>& strides, uint8_t code, uint8_t bits,
                       std::pair<int, int> device, nb::object owner, bool read_only) {
    if (strides.size() != shape.size())
        throw std::invalid_argument("a tensor has a stride for each of its dimensions: " +
                                    std::to_string(shape.size()) + ", not " + std::to_string(strides.size()));
    const nb::dlpack::dtype type{code, bits, 1};
    if (read_only)
        return lent<nb::ndarray<nb::array_api, nb::ro>>(reinterpret_cast<const void*>(address), shape,
                                                        strides, type, device, owner);
    return lent<nb::ndarray<nb::array_api>>(reinterpret_cast<void*>(address), shape, strides, type, device,
                                            owner);
}

} // namespace vkdml
