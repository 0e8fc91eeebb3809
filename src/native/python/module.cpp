// The Python module: its exceptions, its functions, and the classes that bind_*.cpp add.
#include <cstring>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "available_ram.hpp"
#include "bindings.hpp"
#include "checked_dispatch.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "host_copy.hpp"
#include "mapped_read.hpp"
#include "process_end.hpp"
#include "spirv/fixed_parameters.hpp"
#include "spirv/paired_words.hpp"
#include "spirv/specialized_module.hpp"
#include "spirv/texel_loads.hpp"
#include "spirv/unrolled_loops.hpp"
#include "spirv/vector_arithmetic.hpp"
#include "tensor_exchange.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace vkdml;

namespace {

PyObject *device_error, *no_device_error, *device_lost_error;

void set_error(PyObject* type, const char* message) {
    if (nb::object text = as_str(message); text.is_valid()) PyErr_SetObject(type, text.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const OutOfMemoryError& error) {
        set_error(PyExc_MemoryError, error.what());
    } catch (const NoDeviceError& error) {
        set_error(no_device_error, error.what());
    } catch (const DeviceLostError& error) {
        set_error(device_lost_error, error.what());
    } catch (const DeviceError& error) {
        set_error(device_error, error.what());
    } catch (const vk::SystemError& error) {
        auto result = VkResult(error.code().value());
        PyObject* type = is_out_of_memory(result)         ? PyExc_MemoryError
                         : result == VK_ERROR_DEVICE_LOST ? device_lost_error
                                                          : device_error;
        set_error(type, error.what());
    } catch (const nb::builtin_exception&) { // nanobind's own, which it knows how to translate
        throw;
    } catch (const std::runtime_error& error) { // Kompute's, and the system's: threads, files
        set_error(device_error, error.what());
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

    m.def("loader", described_loader, nb::sig("def loader() -> dict[str, typing.Any]"),
          "What is known of the Vulkan loader; never raises.");
    m.def("devices", described_devices, nb::sig("def devices() -> list[dict[str, typing.Any]]"),
          "A description of every Vulkan device.");
    m.def("available_host_memory", available_ram, "root"_a = "",
          "Bytes of RAM that this process can still have, within the limits of its control groups.");
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
        "with_fixed_parameters",
        [](nb::bytes spirv, uint32_t first_slot) {
            return from_words(spirv::with_fixed_parameters(to_words(spirv), first_slot));
        },
        "spirv"_a, "first_slot"_a,
        "The module with specialization constants, from a slot on, in place of its push constants.");
    m.def(
        "specialized",
        [](nb::bytes spirv, const std::vector<uint32_t>& constants) {
            return from_words(spirv::specialized(to_words(spirv), constants));
        },
        "spirv"_a, "constants"_a,
        "The module with these values of its specialization constants, without the code that they exclude.");
    m.def(
        "with_paired_words",
        [](nb::bytes spirv) { return from_words(spirv::with_paired_words(to_words(spirv))); }, "spirv"_a,
        "The module with integers of 64 bits in place of its buffers' vectors of words.");
    m.def(
        "with_texel_loads",
        [](nb::bytes spirv, uint32_t bindings, uint32_t widths) {
            auto loads = spirv::with_texel_loads(to_words(spirv), bindings, widths);
            return std::pair(from_words(loads.module), loads.texel_words);
        },
        "spirv"_a, "bindings"_a, "widths"_a,
        "The module with loads of texels in place of those of its buffer 0, and the words that a texel of "
        "each buffer of texels has. These come after so many bindings.");
    m.def(
        "with_unrolled_loops",
        [](nb::bytes spirv) { return from_words(spirv::with_unrolled_loops(to_words(spirv))); }, "spirv"_a,
        "The module with a request to unroll its loops, but for long ones and those with own arrays.");
    m.def(
        "with_vector_arithmetic",
        [](nb::bytes spirv) { return from_words(spirv::with_vector_arithmetic(to_words(spirv))); }, "spirv"_a,
        "The module with multiplications and masks in place of shifts and of divisions by powers of two.");
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
        "elements; flags are 1 for read only and 2 for copied.");
    m.def("fallible_calls", fallible_calls, "Calls counted since inject_failure().");
    m.def("injected_call", injected_call, "The Vulkan function that failed by injection, or ''.");

    bind_buffer(m);
    bind_sequence(m);
    bind_device(m);
}
