// A sequence of Kompute operations: recorded once, evaluated any number of times.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "kernel.hpp"
#include "recording.hpp"

namespace vkdml {

// One thread at a time: a second one gets DeviceError instead of a race.
class Sequence {
public:
    Sequence(std::shared_ptr<Device> device, uint32_t timestamps);
    ~Sequence(); // never waits: what still runs is handed to the device

    void copy(const Buffer& source, const Buffer& target, uint64_t bytes, uint64_t source_offset,
              uint64_t target_offset);
    void dispatch(std::shared_ptr<Kernel> kernel, const std::vector<const Buffer*>& buffers,
                  std::vector<uint8_t> push, kp::Workgroup workgroups);
    void clear();

    void submit();
    // Both return false while the device still runs the sequence, which stays whole: wait again.
    bool spin(double microseconds);
    // Blocks in slices and calls `between_slices`, which may throw to leave the wait; negative: no time
    // limit.
    bool block(double seconds, const std::function<void()>& between_slices);
    // Nanoseconds that each recorded operation took in the last evaluation.
    std::vector<double> timings();

private:
    class Use;
    void append(std::shared_ptr<kp::OpBase> operation);
    void end_recording();
    void require_idle(const char* action) const;

    std::shared_ptr<Device> device_;
    std::unique_ptr<Recording> recording_;
    uint32_t timestamp_room_, timestamps_ = 0;
    enum class State { empty, recording, ready } state_ = State::empty;
    std::atomic<bool> in_use_{false};
};

} // namespace vkdml
