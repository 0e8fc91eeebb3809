// The parts of the Python bindings: types in, types out, the GIL given up where a call blocks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "buffer.hpp"

namespace vkdml {

// Each adds its classes to the module. Classes come before those that take or return them.
void bind_buffer(nanobind::module_& module);
void bind_sequence(nanobind::module_& module); // and kernels, and replays
void bind_device(nanobind::module_& module);

// What the drivers tell of each device, and what is known of the loader.
nanobind::list described_devices();
nanobind::dict described_loader();

using HostView = nanobind::ndarray<nanobind::numpy, uint8_t, nanobind::ndim<1>>;
using ConstHostView = nanobind::ndarray<nanobind::numpy, const uint8_t, nanobind::ndim<1>>;

// Memory that is kept for reuse is had at once; only an allocation is worth giving up the GIL.
std::shared_ptr<Buffer> buffer_of(const std::shared_ptr<Device>& device, uint64_t bytes, MemoryKind kind);

// Of names of files, and of messages that name them: they are bytes, and need not be UTF-8.
inline nanobind::object as_str(const std::string& bytes) {
    PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "surrogateescape");
    return nanobind::steal(text);
}

inline std::vector<uint8_t> to_bytes(const nanobind::bytes& bytes) {
    auto data = static_cast<const uint8_t*>(bytes.data());
    return {data, data + bytes.size()};
}

// A SPIR-V module as C++ has it, and as Python does; what is no whole word at its end is left out.
inline std::vector<uint32_t> to_words(const nanobind::bytes& module) {
    std::vector<uint32_t> words(module.size() / 4);
    if (!words.empty()) memcpy(words.data(), module.data(), words.size() * 4);
    return words;
}

inline nanobind::bytes from_words(const std::vector<uint32_t>& words) {
    return nanobind::bytes(words.data(), words.size() * 4);
}

} // namespace vkdml
