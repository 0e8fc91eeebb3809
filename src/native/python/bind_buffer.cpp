// Buffers as Python has them.
#include "bindings.hpp"

#include <algorithm>

#include "gil.hpp"
#include "mapped_read.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vkdml {
namespace {

HostView host_view(const Buffer& buffer) {
    void* data = buffer.mapped();
    // The view owns the memory, not the buffer: it stays valid whatever is destroyed before it.
    using Owner = std::pair<std::shared_ptr<Tensor>, std::shared_ptr<Device>>;
    nb::capsule owner(new Owner(buffer.tensor(), buffer.device()),
                      [](void* pointer) noexcept { delete static_cast<Owner*>(pointer); });
    return HostView(data, {size_t(buffer.bytes())}, owner);
}

nb::object read_mapped_buffer(const Buffer& buffer, uint64_t start, uint64_t bytes, int widest) {
    if (start > buffer.bytes() || bytes > buffer.bytes() - start)
        throw std::invalid_argument("bytes " + std::to_string(start) + " to " +
                                    std::to_string(start + bytes) + " are not in a buffer of " +
                                    std::to_string(buffer.bytes()));
    nb::object read = nb::steal(PyByteArray_FromStringAndSize(nullptr, Py_ssize_t(bytes)));
    if (!read.is_valid()) throw nb::python_error();
    read_mapped(PyByteArray_AsString(read.ptr()), static_cast<const char*>(buffer.mapped()) + start, bytes,
                std::min(widest_mapped_load(), MappedLoad(widest)));
    return read;
}

} // namespace

std::shared_ptr<Buffer> buffer_of(const std::shared_ptr<Device>& device, uint64_t bytes, MemoryKind kind) {
    device->collect_finished();
    if (auto kept = Buffer::kept(device, bytes, kind)) return kept;
    WithoutGil release;
    return std::make_shared<Buffer>(device, bytes, kind);
}

void bind_buffer(nb::module_& m) {
    nb::enum_<MemoryKind>(m, "MemoryKind")
        .value("device", MemoryKind::device, "The fastest for shaders; invisible to the host.")
        .value("mapped", MemoryKind::mapped, "The same, but the host can write it, and read a little.")
        .value("host", MemoryKind::host, "Mapped and coherent; shaders can use it too.");

    nb::class_<Buffer>(m, "Buffer", "A piece of a device's memory.")
        .def_prop_ro("id", &Buffer::id,
                     "Of the memory: a later buffer has it only if it has the same memory.")
        .def_prop_ro("nbytes", &Buffer::bytes)
        .def_prop_ro("capacity", &Buffer::capacity)
        .def_prop_ro("kind", &Buffer::kind)
        .def("view", host_view, "The mapped memory as bytes; keeps the memory alive.")
        .def("read_mapped", read_mapped_buffer, "start"_a, "nbytes"_a, "widest"_a = int(MappedLoad::line),
             nb::sig("def read_mapped(self, start: int, nbytes: int, widest: int = 64) -> bytearray"),
             "A copy of bytes of the mapped memory, which the processor does not cache, by loads of up to "
             "`widest` bytes: 64, 32, or 0 for usual ones.")
        .def("export_fd", &Buffer::export_fd,
             "A new file descriptor of memory made exportable; the caller closes it, or an importer takes it "
             "over.")
        .def_prop_ro(
            "exported_nbytes", [](const Buffer& buffer) { return buffer.tensor()->exportable_bytes; },
            "Bytes of the allocation that is exported, which importers must be told; 0 where none can be.")
        .def_prop_ro(
            "is_dedicated",
            [](const Buffer& buffer) { return buffer.device()->info().external_memory.dedicated; },
            "Whether importers must be told that the allocation serves this buffer only.");
}

} // namespace vkdml
