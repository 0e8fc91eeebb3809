// The dispatches of a plan, made ready to run on whatever buffers they are given.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sequence.hpp"

namespace vkdml {

// Keeps its workspace and what it has recorded, but none of the buffers that it ran on: the same ones again
// are not recorded again. One thread at a time.
class Replay {
public:
    // A buffer, and the byte in it from which on kernels see it.
    using Region = std::pair<const Buffer*, uint64_t>;
    // What a dispatch is given for one of its bindings: a place among the regions, or the workspace.
    struct Place {
        static constexpr int workspace = -1;
        int region;
        bool written;
    };
    struct Step {
        std::shared_ptr<Kernel> kernel;
        std::vector<uint8_t> push;
        uint32_t workgroups;
        std::vector<Place> places;
    };
    // Memory for a result, as a run on new buffers takes it.
    struct Result {
        uint64_t bytes;
        MemoryKind kind;
    };

    // Regions come in one order, inputs before results; `workspace` may be null. `watched_words`: of the last
    // result; 0: it is not watched.
    Replay(std::shared_ptr<Device> device, std::shared_ptr<Buffer> workspace, std::vector<Step> steps,
           std::vector<Result> results, uint32_t watched_words, double spin_us);

    // Starts an evaluation. Other regions than last time are recorded anew, or only bound where the device
    // can update after binding: recording takes 3.8 us on an H100.
    // `watched`: the results have new memory, which nobody misses if the device fails.
    void submit(const std::vector<Region>& regions, bool watched = false);
    const std::vector<Result>& results() const { return results_; }
    double spin_us() const { return spin_us_; } // how long a wait polls before it blocks
    Sequence& sequence() { return sequence_; }

private:
    void record(const std::vector<Region>& regions);
    // Whether the same regions are one buffer as in what is recorded.
    bool depend_alike(const std::vector<Region>& regions) const;
    std::vector<std::vector<Binding>> bindings(const std::vector<Region>& regions) const;

    std::shared_ptr<Buffer> workspace_;
    std::vector<Step> steps_;
    std::vector<Result> results_;
    uint32_t watched_words_;
    double spin_us_;
    Sequence sequence_;
    std::vector<std::pair<uint64_t, uint64_t>> recorded_; // number and offset of each region
    std::vector<const Buffer*> held_;                     // for the length of a call
};

} // namespace vkdml
