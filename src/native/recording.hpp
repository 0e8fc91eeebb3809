// The Vulkan objects of one recorded sequence, and what it keeps alive while the device runs it.
#pragma once

#include <memory>
#include <vector>

#include "kompute/operations/OpBase.hpp"
#include "memory_pool.hpp"

namespace vkdml {

// Knows nothing of Device, so that a device may own the recordings it has yet to finish.
class Recording {
public:
    struct Options {
        uint32_t timestamps;    // room for so many operations' times, on a queue that has them
        bool update_after_bind; // descriptor sets can be changed after they were bound
        bool ends_with_event;   // that is how the host learns that it is done
        bool reads_texels;      // its kernels may
    };
    Recording(std::shared_ptr<vk::Device> device, uint32_t queue_family, Options options);
    ~Recording(); // must not be pending
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    vk::DescriptorSet allocate_set(vk::DescriptorSetLayout layout);
    // Forgets the commands, keeps the objects. `seen`: the newest submission that the host has seen done.
    void reset(uint64_t seen);
    void begin();
    void end();
    // Of the submission: none where the commands end with the event.
    vk::Fence fence_to_submit() const { return event_ ? vk::Fence() : fence; }
    void submitted(uint64_t number); // as this one of the queue's submissions, which count from 1
    uint64_t number() const { return number_; }
    bool poll(); // true when the device is done; the recording is then no longer pending
    // Like poll(), but keeps what was in flight. What the driver cannot tell, or not now, counts as
    // unfinished.
    bool is_finished() noexcept;
    bool wait(uint64_t nanoseconds); // like poll(), but sleeps meanwhile, for so long at most
    // Whether the driver has left the commands of one that is finished, which may then be freed: it still
    // reads those that told it to set the event. It takes submissions in their order, so it has left all
    // before one that is done.
    bool is_left(uint64_t seen) const { return now_.is_left(seen) && other_.is_left(seen); }
    vk::CommandBuffer commands() const { return now_.buffer; }
    // What it keeps alive, for the caller to free.
    struct Held {
        std::vector<std::shared_ptr<kp::OpBase>> operations;
        std::vector<std::shared_ptr<Tensor>> owned, in_flight;
    };
    Held take_held();

    std::shared_ptr<vk::Device> device;
    // One for the recording's whole life: creating fences costs hundreds of microseconds.
    vk::Fence fence;
    bool fence_submitted = false; // while pending
    vk::QueryPool queries;
    std::vector<std::shared_ptr<kp::OpBase>> operations;
    std::vector<std::shared_ptr<Tensor>> owned;     // for as long as they are recorded
    std::vector<std::shared_ptr<Tensor>> in_flight; // while pending
    bool pending = false;

private:
    struct Commands {
        vk::CommandPool pool;
        vk::CommandBuffer buffer;
        uint64_t told_by = 0; // the last submission, if an event and no fence tells of it
        bool is_left(uint64_t seen) const { return told_by == 0 || told_by < seen; }
    };
    Commands make_commands() const;
    bool is_done();
    void finish();
    void destroy();

    const uint32_t queue_family_;
    const bool update_after_bind_, reads_texels_;
    Commands now_, other_; // the other is there once the driver might not have left the first
    uint64_t number_ = 0;
    vk::Event event_; // null where the fence is used alone
    std::vector<vk::DescriptorPool> descriptor_pools_;
    size_t sets_allocated_ = 0;
};

} // namespace vkdml
