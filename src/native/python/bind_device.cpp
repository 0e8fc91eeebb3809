// Devices as Python has them.
#include "bindings.hpp"

#include <cstring>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "driver_module.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "instance.hpp"
#include "kernel.hpp"
#include "replay.hpp"
#include "sequence.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vkdml {
namespace {

uint64_t byte_count(const nb::object& number, const Device& device) {
    auto whole = nb::steal(PyNumber_Index(number.ptr()));
    if (!whole.is_valid()) throw nb::python_error();
    const uint64_t bytes = PyLong_AsUnsignedLongLong(whole.ptr());
    if (!PyErr_Occurred()) return bytes;
    PyErr_Clear();
    const std::string digits = nb::str(whole).c_str();
    if (digits[0] == '-') throw std::invalid_argument("a buffer has 0 bytes or more, not " + digits);
    throw OutOfMemoryError("cannot allocate " + digits + " bytes on " +
                           device.info().properties.deviceName.data() +
                           ": the device's limit for one buffer is " +
                           std::to_string(device.memory()->buffer_limit()) + " bytes");
}

std::optional<Buffer::Imported> imported(std::shared_ptr<Device> device, nb::object array) {
    const auto bytes = nb::cast<ConstHostView>(array);
    if (!bytes.size() || bytes.stride(0) != 1)
        throw std::invalid_argument("imported are compact bytes, one at least");
    std::shared_ptr<void> owner(array.release().ptr(),
                                [](void* kept) { drop_reference(static_cast<PyObject*>(kept)); });
    return Buffer::imported(std::move(device), {bytes.data(), bytes.size(), std::move(owner)});
}

// An integer of the host's memory, without an array about it.
nb::object integer_in(const Device& device, const Buffer& buffer, uint64_t offset, uint32_t bytes,
                      bool is_signed) {
    device.require_usable();
    if (offset > buffer.bytes() || bytes > buffer.bytes() - offset)
        throw std::invalid_argument(std::to_string(bytes) + " bytes from " + std::to_string(offset) +
                                    " on are not inside a buffer of " + std::to_string(buffer.bytes()));
    const char* place = static_cast<const char*>(buffer.mapped()) + offset;
    auto read = [place](auto number) {
        memcpy(&number, place, sizeof number);
        return number;
    };
    switch (bytes) {
    case 1:
        return is_signed ? nb::int_(read(int8_t())) : nb::int_(read(uint8_t()));
    case 2:
        return is_signed ? nb::int_(read(int16_t())) : nb::int_(read(uint16_t()));
    case 4:
        return is_signed ? nb::int_(read(int32_t())) : nb::int_(read(uint32_t()));
    case 8:
        return is_signed ? nb::int_(read(int64_t())) : nb::int_(read(uint64_t()));
    default:
        throw std::invalid_argument("an integer has 1, 2, 4 or 8 bytes, not " + std::to_string(bytes));
    }
}

} // namespace

void bind_device(nb::module_& m) {
    nb::class_<Device>(m, "Device", "A logical device with one compute queue.")
        .def(nb::new_([](uint32_t index) { return std::make_shared<Device>(index); }), "index"_a)
        .def(
            "buffer",
            [](const std::shared_ptr<Device>& device, const nb::object& nbytes, MemoryKind kind) {
                return buffer_of(device, byte_count(nbytes, *device), kind);
            },
            "nbytes"_a, "kind"_a, nb::sig("def buffer(self, nbytes: int, kind: MemoryKind) -> Buffer"))
        .def(
            "exportable_buffer",
            [](std::shared_ptr<Device> device, const nb::object& nbytes, MemoryKind kind) {
                const uint64_t bytes = byte_count(nbytes, *device);
                WithoutGil release;
                device->collect_finished();
                return Buffer::exportable(std::move(device), bytes, kind);
            },
            "nbytes"_a, "kind"_a,
            nb::sig("def exportable_buffer(self, nbytes: int, kind: MemoryKind) -> Buffer"))
        .def("imported", imported, "bytes"_a,
             nb::sig("def imported(self, bytes: NDArray[numpy.uint8]) -> tuple[Buffer, int] | None"),
             "A buffer that is memory of the host's, and the byte in it where these bytes begin; they are "
             "kept as long as a device may use them. None where they can only be copied.")
        .def(
            "kernel",
            [](std::shared_ptr<Device> device, nb::bytes spirv, uint32_t bindings, uint32_t push_bytes,
               std::vector<uint32_t> constants, uint32_t subgroup_size, const nb::bytes& fixed) {
                if (spirv.size() == 0 || spirv.size() % 4)
                    throw std::invalid_argument("SPIR-V comes in words of 4 bytes, not " +
                                                std::to_string(spirv.size()) + " bytes");
                if (fixed.size() % 4 || (fixed.size() && push_bytes))
                    throw std::invalid_argument(
                        "fixed parameters are whole words, and a kernel that has them has no push constants");
                std::vector<uint32_t> words = to_words(spirv), fixed_words = to_words(fixed);
                WithoutGil release;
                DriverModule made = driver_module(device->info(), std::move(words), std::move(constants),
                                                  fixed_words, bindings);
                return std::make_shared<Kernel>(*device, made.spirv, bindings, push_bytes, made.constants,
                                                subgroup_size, std::move(made.texel_words));
            },
            "spirv"_a, "bindings"_a, "push_bytes"_a, "constants"_a = std::vector<uint32_t>{},
            "subgroup_size"_a = 0, "fixed"_a = nb::bytes("", 0),
            "Builds a pipeline. `fixed` are push constants that are compiled in: the kernel then has none.")
        .def(
            "sequence",
            [](std::shared_ptr<Device> device, uint32_t timestamps, bool owns_buffers) {
                return std::make_shared<Sequence>(std::move(device), timestamps, owns_buffers);
            },
            "timestamps"_a = 0, "owns_buffers"_a = true)
        .def(
            "capacity_for",
            [](const Device& device, uint64_t nbytes) { return device.memory()->capacity_for(nbytes); },
            "nbytes"_a, "Bytes that a buffer of so many really has: requests of one size class share it.")
        .def(
            "replay",
            [](std::shared_ptr<Device> device, std::shared_ptr<Buffer> workspace, const nb::list& steps,
               const nb::list& results, uint32_t watched_words, double spin_us) {
                std::vector<Replay::Step> all;
                for (nb::handle step : steps) {
                    Replay::Step one{nb::cast<std::shared_ptr<Kernel>>(step[0]),
                                     to_bytes(nb::cast<nb::bytes>(step[1])),
                                     nb::cast<uint32_t>(step[2]),
                                     {}};
                    for (nb::handle place : nb::cast<nb::list>(step[3]))
                        one.places.push_back({nb::cast<int>(place[0]), nb::cast<bool>(place[1])});
                    all.push_back(std::move(one));
                }
                std::vector<Replay::Result> made;
                for (nb::handle result : results)
                    made.push_back({nb::cast<uint64_t>(result[0]), nb::cast<MemoryKind>(result[1])});
                return std::make_shared<Replay>(std::move(device), std::move(workspace), std::move(all),
                                                std::move(made), watched_words, spin_us);
            },
            "workspace"_a.none(), "steps"_a, "results"_a, "watched_words"_a, "spin_us"_a,
            nb::sig("def replay(self, workspace: Buffer | None, "
                    "steps: list[tuple[Kernel, bytes, int, list[tuple[int, bool]]]], "
                    "results: list[tuple[int, MemoryKind]], watched_words: int, spin_us: float) -> Replay"),
            "A step is a kernel, its push constants, its workgroups, and for each binding the region that it "
            "takes (-1: the workspace) and whether it is written. A result is bytes and a kind of memory; "
            "start_on() watches so many words of the last one, see Sequence.watch().")
        .def("integer", integer_in, "buffer"_a, "offset"_a, "nbytes"_a, "signed"_a,
             nb::sig("def integer(self, buffer: Buffer, offset: int, nbytes: int, signed: bool) -> int"),
             "The integer at a byte of a buffer that the host sees.")
        .def("require_usable", &Device::require_usable,
             "Raises what every use of this device would raise: it was lost, or the process forked.")
        .def_prop_ro(
            "maps_device_memory", [](const Device& device) { return device.info().maps_device_memory; },
            "Whether there is memory of the kind `mapped`.")
        .def_prop_ro(
            "imports_host_memory",
            [](const Device& device) { return device.info().host_memory_alignment > 0; },
            "Whether the device reads and writes memory of the host's where it lies.")
        .def_prop_ro(
            "offset_alignment",
            [](const Device& device) {
                return uint64_t(device.info().properties.limits.minStorageBufferOffsetAlignment);
            },
            "Kernels can be given a buffer from any multiple of so many bytes on.")
        .def_prop_ro(
            "ends_with_events", [](const Device& device) { return device.info().ends_with_events; },
            "Whether an event, and at first no fence, tells the host that a sequence without times is done.")
        .def_prop_ro("lost", &Device::lost, "Whether the driver has given the device up.")
        .def(
            "memory",
            [](Device& device) {
                refuse_forked_child();
                device.finish_answered();
                MemoryUse use = device.memory()->use();
                nb::dict dict;
                dict["used"] = use.used;
                dict["pooled"] = use.pooled;
                dict["limit"] = use.limit;
                dict["budget"] = use.budget;
                return dict;
            },
            nb::sig("def memory(self) -> dict[str, int]"))
        .def("trim", [](Device& device) {
            refuse_forked_child();
            device.finish_answered();
            return device.memory()->trim();
        });
}

} // namespace vkdml
