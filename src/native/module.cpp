// Python bindings only: types in, types out, exceptions mapped, the GIL given up where a call blocks.
#include <algorithm>
#include <cstring>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "buffer.hpp"
#include "checked_dispatch.hpp"
#include "device.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "host_copy.hpp"
#include "instance.hpp"
#include "kernel.hpp"
#include "mapped_read.hpp"
#include "process_end.hpp"
#include "replay.hpp"
#include "sequence.hpp"
#include "tensor_exchange.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace vkdml;

namespace {

PyObject *device_error, *no_device_error, *device_lost_error;

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const OutOfMemoryError& error) {
        PyErr_SetString(PyExc_MemoryError, error.what());
    } catch (const NoDeviceError& error) {
        PyErr_SetString(no_device_error, error.what());
    } catch (const DeviceLostError& error) {
        PyErr_SetString(device_lost_error, error.what());
    } catch (const DeviceError& error) {
        PyErr_SetString(device_error, error.what());
    } catch (const vk::SystemError& error) {
        auto result = VkResult(error.code().value());
        PyObject* type = is_out_of_memory(result)         ? PyExc_MemoryError
                         : result == VK_ERROR_DEVICE_LOST ? device_lost_error
                                                          : device_error;
        PyErr_SetString(type, error.what());
    } catch (const nb::builtin_exception&) { // nanobind's own, which it knows how to translate
        throw;
    } catch (const std::runtime_error& error) { // Kompute's, and the system's: threads, files
        PyErr_SetString(device_error, error.what());
    }
}

// What a module that was imported already holds, and its exceptions for vkdml.errors: types of C++ can be
// registered once in a process, while Python may import vkdml again after it was deleted from sys.modules.
void import_again(nb::module_& m, const nb::module_& first, nb::module_& errors) {
    for (auto [name, value] : nb::borrow<nb::dict>(first.attr("__dict__"))) {
        auto text = nb::cast<std::string>(name);
        if (text.compare(0, 2, "__")) m.attr(text.c_str()) = value;
    }
    errors.attr("DeviceError") = nb::handle(device_error);
    errors.attr("NoDeviceError") = nb::handle(no_device_error);
    errors.attr("DeviceLostError") = nb::handle(device_lost_error);
}

// Elements of a list may be None, where arguments may not.
const Buffer& given(const Buffer* buffer) {
    if (!buffer) throw nb::type_error("a buffer is a Buffer, not None");
    return *buffer;
}

std::vector<const Buffer*> all_given(const std::vector<Buffer*>& buffers) {
    std::vector<const Buffer*> all;
    for (const Buffer* buffer : buffers) all.push_back(&given(buffer));
    return all;
}

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

template <class Array> nb::tuple triple(const Array& values) {
    return nb::make_tuple(values[0], values[1], values[2]);
}

std::vector<std::string> flag_names(const std::string& text) { // vk::to_string gives "{ A | B }"
    std::vector<std::string> names;
    std::string word;
    for (char c : text) {
        if (isalnum(static_cast<unsigned char>(c)))
            word += c;
        else if (!word.empty())
            names.push_back(std::exchange(word, ""));
    }
    return names;
}

nb::dict describe(const DeviceInfo& info, uint32_t index) {
    const auto& limits = info.properties.limits;
    nb::dict limit;
    limit["max_storage_buffer_range"] = limits.maxStorageBufferRange;
    limit["max_allocation_size"] = info.max_allocation_size;
    limit["max_allocation_count"] = limits.maxMemoryAllocationCount;
    limit["max_push_constants_size"] = limits.maxPushConstantsSize;
    limit["max_compute_workgroup_count"] = triple(limits.maxComputeWorkGroupCount);
    limit["max_compute_workgroup_size"] = triple(limits.maxComputeWorkGroupSize);
    limit["max_compute_workgroup_invocations"] = limits.maxComputeWorkGroupInvocations;
    limit["max_compute_shared_memory_size"] = limits.maxComputeSharedMemorySize;
    limit["min_storage_buffer_offset_alignment"] = uint64_t(limits.minStorageBufferOffsetAlignment);
    limit["max_per_stage_descriptor_storage_buffers"] = limits.maxPerStageDescriptorStorageBuffers;
    limit["timestamp_period_ns"] = limits.timestampPeriod;

    nb::dict feature;
    feature["shader_int64"] = bool(info.features.shaderInt64);
    feature["shader_int16"] = bool(info.features.shaderInt16);
    feature["storage_buffer_16bit_access"] = info.storage_buffer_16bit_access;
    feature["storage_buffer_8bit_access"] = info.storage_buffer_8bit_access;
    feature["memory_budget"] = info.memory_budget;
    feature["exportable_memory"] = info.external_memory.exportable;
    feature["subgroup_shuffle"] = info.subgroup_shuffle;
    feature["subgroup_arithmetic"] = info.subgroup_arithmetic;
    feature["subgroup_size_control"] = info.subgroup_size_control;

    nb::dict subgroup;
    subgroup["size"] = info.subgroup.subgroupSize;
    subgroup["max_per_workgroup"] = info.max_workgroup_subgroups;
    subgroup["operations"] = flag_names(vk::to_string(info.subgroup.supportedOperations));
    subgroup["stages"] = flag_names(vk::to_string(info.subgroup.supportedStages));

    nb::list heaps;
    for (const HeapInfo& heap : info.heaps()) {
        nb::dict entry;
        entry["size"] = heap.size;
        entry["device_local"] = heap.device_local;
        entry["budget"] = heap.budget;
        entry["usage"] = heap.usage;
        heaps.append(entry);
    }

    nb::dict description;
    description["index"] = index;
    description["name"] = info.properties.deviceName.data();
    description["type"] = info.type_name();
    description["uuid"] = info.uuid();
    description["vendor_id"] = info.properties.vendorID;
    description["device_id"] = info.properties.deviceID;
    description["api_version"] = version_string(info.properties.apiVersion);
    description["driver_name"] = info.driver_name;
    description["driver_info"] = info.driver_info;
    description["limits"] = limit;
    description["features"] = feature;
    description["subgroup"] = subgroup;
    description["heaps"] = heaps;
    description["queue_timestamp_bits"] = info.timestamp_bits;
    description["unified_memory"] = info.unified_memory();
    return description;
}

nb::list list_devices() {
    nb::list list;
    uint32_t index = 0;
    for (vk::PhysicalDevice physical : physical_devices())
        list.append(describe(DeviceInfo(physical), index++));
    return list;
}

nb::dict loader_dict() {
    LoaderReport report = report_loader();
    auto or_none = [](const std::string& text) -> nb::object {
        return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
    };
    nb::dict dict;
    dict["path"] = or_none(report.path);
    dict["error"] = or_none(report.error);
    dict["api_version"] = or_none(report.api_version);
    dict["layers"] = report.layers;
    dict["icd_files"] = report.icd_files;
    return dict;
}

std::vector<uint8_t> to_bytes(const nb::bytes& bytes) {
    auto data = static_cast<const uint8_t*>(bytes.data());
    return {data, data + bytes.size()};
}

using HostView = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using ConstHostView = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>;

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

// Memory that is kept for reuse is had at once; only an allocation is worth giving up the GIL.
std::shared_ptr<Buffer> buffer_of(const std::shared_ptr<Device>& device, uint64_t bytes, MemoryKind kind) {
    device->collect_finished();
    if (auto kept = Buffer::kept(device, bytes, kind)) return kept;
    WithoutGil release;
    return std::make_shared<Buffer>(device, bytes, kind);
}

std::vector<Replay::Region> all_given(const std::vector<std::pair<Buffer*, uint64_t>>& regions) {
    std::vector<Replay::Region> all;
    for (const auto& [buffer, offset] : regions) all.emplace_back(&given(buffer), offset);
    return all;
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

// The GIL is kept while spinning (giving it up costs milliseconds when another thread computes) unless other
// threads submit work too, and given up to block; signals are looked at between slices, so Ctrl-C works.
bool wait(Sequence& sequence, std::optional<double> timeout, double spin_us) {
    const bool shared = several_threads_submit();
    if (timeout) spin_us = std::min(spin_us, std::max(*timeout, 0.0) * 1e6);
    if (sequence.spin(shared ? 0 : spin_us)) return true;
    WithoutGil release;
    if (shared && !sequence.device()->info().is_software() && sequence.spin(spin_us)) return true;
    return sequence.block(timeout.value_or(-1), [] {
        WithGil acquire;
        if (PyErr_CheckSignals()) throw nb::python_error();
    });
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Vulkan and Kompute, as vkdml uses them. Private: use the vkdml package.";
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        throw nb::import_error("vkdml can be imported by a process's main interpreter only");
    nb::module_ errors = nb::module_::import_("vkdml.errors");
    static nb::handle first;
    if (first.is_valid()) return import_again(m, nb::borrow<nb::module_>(first), errors);
    first = m.inc_ref();
    wait_at_the_end_of_python();
    nb::set_leak_warnings(false); // users may keep a device in a global until the process ends
    // Never released: exceptions may be raised as long as the interpreter lives.
    device_error = errors.attr("DeviceError").inc_ref().ptr();
    no_device_error = errors.attr("NoDeviceError").inc_ref().ptr();
    device_lost_error = errors.attr("DeviceLostError").inc_ref().ptr();
    nb::register_exception_translator(translate);

    m.def("loader", loader_dict, nb::sig("def loader() -> dict[str, typing.Any]"),
          "What is known of the Vulkan loader; never raises.");
    m.def("devices", list_devices, nb::sig("def devices() -> list[dict[str, typing.Any]]"),
          "A description of every Vulkan device.");
    m.def("available_host_memory", available_ram, "Bytes of RAM that programs can still have.");
    m.def(
        "copy_in_host_memory",
        [](HostView target, ConstHostView source) {
            if (target.size() != source.size() || target.stride(0) != 1 || source.stride(0) != 1)
                throw std::invalid_argument("copied are compact bytes of one length, not " +
                                            std::to_string(source.size()) + " to " +
                                            std::to_string(target.size()));
            WithoutGil release;
            copy_in_host_memory(target.data(), source.data(), target.size());
        },
        "target"_a, "source"_a, "Copies bytes, many of them with several threads.");
    m.def(
        "most_mapped_read", [] { return most_mapped_read(widest_mapped_load()); },
        "The most bytes that Buffer.read_mapped() takes less time for than the device does.");
    m.def(
        "inject_failure",
        [](uint64_t countdown, int result, const std::string& call) {
            inject_failure(countdown, VkResult(result), call);
        },
        "countdown"_a, "result"_a = int(VK_ERROR_OUT_OF_DEVICE_MEMORY), "call"_a = "",
        "Test hook: make the given fallible Vulkan call from now on fail (1: the next, 0: none), or with the "
        "name of a Vulkan function the given one of its calls.");
    m.def(
        "dlpack_capsule",
        [](uint64_t address, std::vector<int64_t> shape, std::vector<int64_t> strides, uint8_t code,
           uint8_t bits, std::pair<int, int> device, uint64_t flags, nb::object owner, bool versioned) {
            return dlpack_capsule({address, std::move(shape), std::move(strides), code, bits, device, flags},
                                  std::move(owner), versioned);
        },
        "address"_a, "shape"_a, "strides"_a, "code"_a, "bits"_a, "device"_a, "flags"_a, "owner"_a,
        "versioned"_a,
        "A DLPack capsule of the elements at an address, which keeps its owner alive. Strides count "
        "elements; "
        "flags are 1 for read only and 2 for copied.");
    m.def("fallible_calls", fallible_calls, "Calls counted since inject_failure().");
    m.def("injected_call", injected_call, "The Vulkan function that failed by injection, or ''.");

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

    nb::class_<Kernel>(m, "Kernel", "A compute pipeline, bound to no buffer.");

    nb::class_<Sequence>(m, "Sequence", "Operations recorded once and evaluated any number of times.")
        .def("copy", &Sequence::copy, "source"_a, "target"_a, "nbytes"_a, "source_offset"_a = 0,
             "target_offset"_a = 0)
        .def(
            "dispatch",
            [](Sequence& sequence, std::shared_ptr<Kernel> kernel, const std::vector<Buffer*>& buffers,
               nb::bytes push, kp::Workgroup workgroups, const std::vector<uint64_t>& offsets,
               const std::vector<bool>& read_only) {
                std::vector<Binding> bindings;
                for (size_t i = 0; i < buffers.size(); i++)
                    bindings.push_back({&given(buffers[i]), i < offsets.size() ? offsets[i] : 0,
                                        !(i < read_only.size() && read_only[i])});
                sequence.dispatch(std::move(kernel), bindings, to_bytes(push), workgroups);
            },
            "kernel"_a, "buffers"_a, "push"_a, "workgroups"_a, "offsets"_a = std::vector<uint64_t>{},
            "read_only"_a = std::vector<bool>{},
            "Offsets are bytes, 0 where none is given; a buffer not said to be read only is taken as "
            "written.")
        .def("clear", &Sequence::clear)
        .def("watch", &Sequence::watch, "result"_a, "words"_a,
             "Lets wait() return once the host sees these words of a recorded result, all of them written.")
        .def(
            "submit",
            [](Sequence& sequence, const std::vector<Buffer*>& holding) {
                sequence.submit(all_given(holding));
            },
            "holding"_a = std::vector<Buffer*>{},
            "Starts an evaluation. A sequence that does not own its buffers keeps those given until it ends; "
            "they must have the memory of those recorded.")
        .def("wait", wait, "timeout"_a = nb::none(), "spin_us"_a = 1000.0,
             "True when done; False when the time (seconds) ran out, which harms nothing: wait again.")
        .def(
            "eval",
            [](Sequence& sequence, std::optional<double> timeout, double spin_us,
               const std::vector<Buffer*>& holding) {
                sequence.submit(all_given(holding));
                return wait(sequence, timeout, spin_us);
            },
            "timeout"_a = nb::none(), "spin_us"_a = 1000.0, "holding"_a = std::vector<Buffer*>{},
            "submit() and wait().")
        .def("timings", &Sequence::timings, "Nanoseconds of each recorded operation in the last evaluation.");

    nb::class_<Replay>(m, "Replay", "A plan made ready to run on whatever buffers it is given.")
        .def(
            "run",
            [](Replay& replay, const std::vector<std::pair<Buffer*, uint64_t>>& regions) {
                replay.submit(all_given(regions));
                wait(replay.sequence(), {}, replay.spin_us());
            },
            "regions"_a, "Evaluates on these buffers, each from a byte on, and waits; the results come last.")
        .def(
            "start_on",
            [](Replay& replay, const Buffer& input, uint64_t offset) -> nb::object {
                replay.sequence().settle(); // the last result may have the memory that is kept for the next
                std::vector<std::shared_ptr<Buffer>> results;
                std::vector<Replay::Region> regions{{&input, offset}};
                try {
                    for (const auto& [bytes, kind] : replay.results()) {
                        results.push_back(buffer_of(replay.sequence().device(), bytes, kind));
                        regions.emplace_back(results.back().get(), 0);
                    }
                } catch (const OutOfMemoryError&) {
                    return nb::none();
                }
                replay.submit(regions, true);
                nb::list made;
                for (auto& result : results) made.append(nb::cast(std::move(result)));
                return made;
            },
            "input"_a, "offset"_a,
            nb::sig("def start_on(self, input: Buffer, offset: int) -> list[Buffer] | None"),
            "Starts an evaluation with one input and results in new memory; None, and nothing was done, "
            "where that memory is not to be had.")
        .def(
            "submit",
            [](Replay& replay, const std::vector<std::pair<Buffer*, uint64_t>>& regions) {
                replay.submit(all_given(regions));
            },
            "regions"_a, "Starts an evaluation; wait() for it.")
        .def("wait", [](Replay& replay) { wait(replay.sequence(), {}, replay.spin_us()); });

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
               const std::vector<uint32_t>& constants, uint32_t subgroup_size) {
                if (spirv.size() == 0 || spirv.size() % 4)
                    throw std::invalid_argument("SPIR-V comes in words of 4 bytes, not " +
                                                std::to_string(spirv.size()) + " bytes");
                std::vector<uint32_t> words(spirv.size() / 4);
                memcpy(words.data(), spirv.data(), spirv.size());
                WithoutGil release;
                return std::make_shared<Kernel>(*device, words, bindings, push_bytes, constants,
                                                subgroup_size);
            },
            "spirv"_a, "bindings"_a, "push_bytes"_a, "constants"_a = std::vector<uint32_t>{},
            "subgroup_size"_a = 0)
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
            "takes (-1: the workspace) and whether it is written. A result is bytes and a kind of memory. "
            "So "
            "many words of the last one start_on() watches, see Sequence.watch().")
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
                device.finish_answered();
                device.collect_finished();
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
            device.finish_answered();
            device.collect_finished();
            return device.memory()->trim();
        });
}
