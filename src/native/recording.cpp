// Life and death of a recording's Vulkan objects.
#include "recording.hpp"

namespace vkdml {
namespace {
constexpr uint32_t sets_per_pool = 16;
constexpr uint32_t buffers_per_set = 6;
} // namespace

Recording::Recording(std::shared_ptr<vk::Device> owner, uint32_t queue_family, uint32_t timestamps,
                     bool update_after_bind)
    : device(std::move(owner)), update_after_bind_(update_after_bind) {
    try {
        command_pool = device->createCommandPool({{}, queue_family});
        commands = device->allocateCommandBuffers({command_pool, vk::CommandBufferLevel::ePrimary, 1})[0];
        fence = device->createFence({});
        if (timestamps) queries = device->createQueryPool({{}, vk::QueryType::eTimestamp, 2 * timestamps});
    } catch (...) {
        destroy();
        throw;
    }
}

Recording::~Recording() { destroy(); }

void Recording::destroy() {
    operations.clear();
    for (auto pool : descriptor_pools_) device->destroyDescriptorPool(pool);
    device->destroyQueryPool(queries);
    device->destroyFence(fence);
    device->destroyCommandPool(command_pool);
}

vk::DescriptorSet Recording::allocate_set(vk::DescriptorSetLayout layout) {
    size_t pool = sets_allocated_ / sets_per_pool;
    if (pool == descriptor_pools_.size()) {
        vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, sets_per_pool * buffers_per_set);
        vk::DescriptorPoolCreateFlags flags;
        if (update_after_bind_) flags = vk::DescriptorPoolCreateFlagBits::eUpdateAfterBindEXT;
        descriptor_pools_.push_back(device->createDescriptorPool({flags, sets_per_pool, 1, &size}));
    }
    auto set = device->allocateDescriptorSets({descriptor_pools_[pool], 1, &layout})[0];
    sets_allocated_++;
    return set;
}

void Recording::reset() {
    device->resetCommandPool(command_pool);
    for (auto pool : descriptor_pools_) device->resetDescriptorPool(pool);
    sets_allocated_ = 0;
    operations.clear();
    owned.clear();
}

bool Recording::poll() {
    if (!pending) return true;
    if (device->getFenceStatus(fence) != vk::Result::eSuccess) return false;
    finish();
    return true;
}

bool Recording::is_finished() noexcept {
    try {
        return poll();
    } catch (const vk::DeviceLostError&) { // a lost device runs nothing
        pending = false;
        return true;
    } catch (...) {
        return false;
    }
}

bool Recording::wait(uint64_t nanoseconds) {
    if (!pending) return true;
    if (device->waitForFences(fence, true, nanoseconds) != vk::Result::eSuccess) return false;
    finish();
    return true;
}

void Recording::wait_forever() noexcept {
    if (!pending) return;
    VkFence raw = fence;
    (void)VULKAN_HPP_DEFAULT_DISPATCHER.vkWaitForFences(*device, 1, &raw, VK_TRUE, UINT64_MAX);
    pending = false;
}

void Recording::finish() {
    device->resetFences(fence);
    pending = false;
    in_flight.clear();
}

} // namespace vkdml
