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
    // Room for `timestamps` operations' times, on a queue that has them.
    // Descriptor sets can be changed after they were bound where the kernels' layouts say so.
    Recording(std::shared_ptr<vk::Device> device, uint32_t queue_family, uint32_t timestamps,
              bool update_after_bind);
    ~Recording(); // must not be pending
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    vk::DescriptorSet allocate_set(vk::DescriptorSetLayout layout);
    void reset(); // forgets the commands, keeps the objects
    bool poll();  // true when the device is done; the recording is then no longer pending
    // Like poll(). What the driver cannot tell, or not now, counts as unfinished.
    bool is_finished() noexcept;
    bool wait(uint64_t nanoseconds);
    void wait_forever() noexcept;

    std::shared_ptr<vk::Device> device;
    vk::CommandPool command_pool;
    vk::CommandBuffer commands;
    vk::Fence fence; // one for the recording's whole life: creating fences costs hundreds of microseconds
    vk::QueryPool queries;
    std::vector<std::shared_ptr<kp::OpBase>> operations;
    std::vector<std::shared_ptr<Tensor>> owned;     // for as long as they are recorded
    std::vector<std::shared_ptr<Tensor>> in_flight; // while pending
    bool pending = false;

private:
    void finish();
    void destroy();

    const bool update_after_bind_;
    std::vector<vk::DescriptorPool> descriptor_pools_;
    size_t sets_allocated_ = 0;
};

} // namespace vkdml
