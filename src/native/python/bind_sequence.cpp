// Kernels, sequences and replays as Python has them.
#include "bindings.hpp"

#include <algorithm>

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "errors.hpp"
#include "gil.hpp"
#include "kernel.hpp"
#include "replay.hpp"
#include "sequence.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vkdml {
namespace {

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

std::vector<Replay::Region> all_given(const std::vector<std::pair<Buffer*, uint64_t>>& regions) {
    std::vector<Replay::Region> all;
    for (const auto& [buffer, offset] : regions) all.emplace_back(&given(buffer), offset);
    return all;
}

void check_signals() {
    WithGil acquire;
    if (PyErr_CheckSignals()) throw nb::python_error();
}

// The sequence, of which the device has told that it is done where the host has its result already.
Sequence& settled(Sequence& sequence) {
    if (!sequence.settle_soon()) {
        WithoutGil release;
        sequence.settle_in_slices(check_signals);
    }
    return sequence;
}

// The GIL is kept while spinning (giving it up costs milliseconds when another thread computes) unless other
// threads submit work too, and given up to block; signals are looked at between slices, so Ctrl-C works.
bool wait(Sequence& sequence, std::optional<double> timeout, double spin_us) {
    const bool contended = several_threads_submit();
    if (timeout) spin_us = std::min(spin_us, std::max(*timeout, 0.0) * 1e6);
    if (sequence.spin(contended ? 0 : spin_us)) return true;
    WithoutGil release;
    if (contended && !sequence.device()->info().is_software() && sequence.spin(spin_us)) return true;
    return sequence.block(timeout.value_or(-1), check_signals);
}

} // namespace

void bind_sequence(nb::module_& m) {
    nb::class_<Kernel>(m, "Kernel", "A compute pipeline, bound to no buffer.")
        .def_prop_ro(
            "texel_words", [](const Kernel& kernel) { return kernel.texel_words(); },
            "How many words the texels have that it loads of its first buffer, once for each number.");

    nb::class_<Sequence>(m, "Sequence", "Operations recorded once and evaluated any number of times.")
        .def(
            "copy",
            [](Sequence& sequence, const Buffer& source, const Buffer& target, uint64_t bytes,
               uint64_t source_offset, uint64_t target_offset) {
                settled(sequence).copy(source, target, bytes, source_offset, target_offset);
            },
            "source"_a, "target"_a, "nbytes"_a, "source_offset"_a = 0, "target_offset"_a = 0)
        .def(
            "dispatch",
            [](Sequence& sequence, std::shared_ptr<Kernel> kernel, const std::vector<Buffer*>& buffers,
               nb::bytes push, kp::Workgroup workgroups, const std::vector<uint64_t>& offsets,
               const std::vector<bool>& read_only) {
                std::vector<Binding> bindings;
                for (size_t i = 0; i < buffers.size(); i++)
                    bindings.push_back({&given(buffers[i]), i < offsets.size() ? offsets[i] : 0,
                                        !(i < read_only.size() && read_only[i])});
                settled(sequence).dispatch(std::move(kernel), bindings, to_bytes(push), workgroups);
            },
            "kernel"_a, "buffers"_a, "push"_a, "workgroups"_a, "offsets"_a = std::vector<uint64_t>{},
            "read_only"_a = std::vector<bool>{},
            "Offsets are bytes, 0 where none is given; a buffer not said to be read only is taken as "
            "written.")
        .def("clear", [](Sequence& sequence) { settled(sequence).clear(); })
        .def(
            "watch",
            [](Sequence& sequence, const Buffer& result, uint32_t words) {
                settled(sequence).watch(result, words);
            },
            "result"_a, "words"_a,
            "Lets wait() return once the host sees these words of a recorded result, all of them written.")
        .def(
            "submit",
            [](Sequence& sequence, const std::vector<Buffer*>& holding) {
                settled(sequence).submit(all_given(holding));
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
                settled(sequence).submit(all_given(holding));
                return wait(sequence, timeout, spin_us);
            },
            "timeout"_a = nb::none(), "spin_us"_a = 1000.0, "holding"_a = std::vector<Buffer*>{},
            "submit() and wait().")
        .def(
            "timings", [](Sequence& sequence) { return settled(sequence).timings(); },
            "Nanoseconds of each recorded operation in the last evaluation.");

    nb::class_<Replay>(m, "Replay", "A plan made ready to run on whatever buffers it is given.")
        .def(
            "run",
            [](Replay& replay, const std::vector<std::pair<Buffer*, uint64_t>>& regions) {
                settled(replay.sequence());
                replay.submit(all_given(regions));
                wait(replay.sequence(), {}, replay.spin_us());
            },
            "regions"_a, "Evaluates on these buffers, each from a byte on, and waits; the results come last.")
        .def(
            "start_on",
            [](Replay& replay, const Buffer& input, uint64_t offset) -> nb::object {
                settled(replay.sequence()); // the last result may have the memory that is kept for the next
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
                settled(replay.sequence());
                replay.submit(all_given(regions));
            },
            "regions"_a, "Starts an evaluation; wait() for it.")
        .def("wait", [](Replay& replay) { wait(replay.sequence(), {}, replay.spin_us()); });
}

} // namespace vkdml
