// A sequence of Kompute operations: recorded once, evaluated any number of times.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "kernel.hpp"
#include "operations.hpp"
#include "recording.hpp"

namespace vkdml {

// A piece of a buffer, from an offset to the buffer's end, as a kernel is given it.
struct Binding {
    const Buffer* buffer;
    uint64_t offset = 0; // bytes
    bool written = true;
};

// One thread at a time: a second one gets DeviceError instead of a race. Barriers stand only between
// operations of which one writes what the other uses.
class Sequence {
public:
    // Owns the buffers that it records, or else holds them only while the device runs it: those given to
    // submit(), or if none are given those recorded; then submit() throws DeviceError if one is gone.
    Sequence(std::shared_ptr<Device> device, uint32_t timestamps, bool owns_buffers);
    ~Sequence(); // never waits: what still runs is handed to the device

    void copy(const Buffer& source, const Buffer& target, uint64_t bytes, uint64_t source_offset,
              uint64_t target_offset);
    void dispatch(std::shared_ptr<Kernel> kernel, const std::vector<Binding>& bindings,
                  std::vector<uint8_t> push, kp::Workgroup workgroups);
    void clear();
    // Gives the dispatches that were recorded, of which there is nothing else, other buffers. Where these
    // depend on each other, the former ones must have done so alike: barriers stay where they are. Only on a
    // device that can update after binding.
    void rebind(const std::vector<std::vector<Binding>>& bindings);

    // Lets the next submissions be done, for who waits, once the host sees all of a result's first words
    // written: 2.5 us before the device tells that it is done (H200). They are recorded, and written once
    // each, after all that is read for them. Only where the sequence ends with an event. 0: none.
    void watch(const Buffer& result, uint32_t words);
    // The host may have the watched result from a device that has not told of the end. Before anything but a
    // wait, that is waited for: a while by polling, which may fail, or without a limit as block() does.
    bool settle_soon();
    void settle_in_slices(const std::function<void()>& between_slices);
    // For the device: whether it is done with such a sequence that nobody uses now. Its buffers are held no
    // longer than the caller keeps them.
    bool finish_answered(std::vector<std::shared_ptr<Tensor>>& held);

    void submit(const std::vector<const Buffer*>& holding = {});
    // Both return false while the device still runs the sequence, which stays whole: wait again.
    bool spin(double microseconds);
    // Blocks in slices and calls `between_slices`, which may throw to leave the wait; negative: no time
    // limit.
    bool block(double seconds, const std::function<void()>& between_slices);
    // Nanoseconds that each recorded operation took in the last evaluation.
    std::vector<double> timings();
    const std::shared_ptr<Device>& device() const { return device_; }

private:
    class Claim;
    std::vector<vk::DescriptorBufferInfo> checked(const std::vector<Binding>& bindings) const;
    void append(std::shared_ptr<Operation> operation, const Operation::Uses& uses);
    bool depends_on_earlier(const Operation::Uses& uses) const;
    void hold_buffers(const std::vector<const Buffer*>& holding);
    void end_recording();
    void require_idle(const char* action);
    void require_recordable();
    bool settle(const std::function<bool()>& is_done);
    bool poll_for(double microseconds);
    bool wait_in_slices(double seconds, const std::function<void()>& between_slices);
    bool is_answered() const;

    std::shared_ptr<Device> device_;
    std::unique_ptr<Recording> recording_;
    const bool owns_buffers_;
    struct NotedBuffer {
        uint64_t id;
        std::weak_ptr<Tensor> tensor;
    };
    std::vector<NotedBuffer> noted_;                            // where the recording does not own them
    std::vector<std::pair<const Tensor*, bool>> since_barrier_; // what was used, and whether it was written
    uint32_t timestamp_room_, timestamps_ = 0;
    volatile uint32_t* watched_ = nullptr; // the host's view of the words that are watched
    uint32_t watched_words_ = 0;
    std::atomic<bool> answered_{false}; // who waited went on, and the device may still run it
    enum class State { empty, recording, ready } state_ = State::empty;
    enum class User { nobody, owner, device };
    bool try_to_claim(User user);
    std::atomic<User> user_{User::nobody};
};

} // namespace vkdml
