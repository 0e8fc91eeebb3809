// Life and death of a recording's Vulkan objects.
#include "recording.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace vkdml {
namespace {
constexpr uint32_t sets_per_pool = 16;
constexpr uint32_t buffers_per_set = 6, texels_per_set = 3;
constexpr std::chrono::microseconds shortest_pause(20), longest_pause(1000);
constexpr int pauses_of_a_wait = 32;
} // namespace

Recording::Recording(std::shared_ptr<vk::Device> owner, uint32_t queue_family, Options options)
    : device(std::move(owner)), queue_family_(queue_family), update_after_bind_(options.update_after_bind),
      reads_texels_(options.reads_texels) {
    try {
        now_ = make_commands();
        fence = device->createFence({});
        if (options.ends_with_event) event_ = device->createEvent({});
        if (options.timestamps)
            queries = device->createQueryPool({{}, vk::QueryType::eTimestamp, 2 * options.timestamps});
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
    device->destroyEvent(event_);
    device->destroyFence(fence);
    device->destroyCommandPool(now_.pool);
    device->destroyCommandPool(other_.pool);
}

Recording::Commands Recording::make_commands() const {
    Commands made;
    made.pool = device->createCommandPool({{}, queue_family_});
    try {
        made.buffer = device->allocateCommandBuffers({made.pool, vk::CommandBufferLevel::ePrimary, 1})[0];
    } catch (...) {
        device->destroyCommandPool(made.pool);
        throw;
    }
    return made;
}

vk::DescriptorSet Recording::allocate_set(vk::DescriptorSetLayout layout) {
    size_t pool = sets_allocated_ / sets_per_pool;
    if (pool == descriptor_pools_.size()) {
        std::vector<vk::DescriptorPoolSize> sizes{
            {vk::DescriptorType::eStorageBuffer, sets_per_pool * buffers_per_set}};
        if (reads_texels_)
            sizes.emplace_back(vk::DescriptorType::eStorageTexelBuffer, sets_per_pool * texels_per_set);
        vk::DescriptorPoolCreateFlags flags;
        if (update_after_bind_) flags = vk::DescriptorPoolCreateFlagBits::eUpdateAfterBindEXT;
        descriptor_pools_.push_back(device->createDescriptorPool({flags, sets_per_pool, sizes}));
    }
    auto set = device->allocateDescriptorSets({descriptor_pools_[pool], 1, &layout})[0];
    sets_allocated_++;
    return set;
}

void Recording::reset(uint64_t seen) {
    // The other ones were submitted before these, which are done.
    Commands& left = now_.is_left(seen) ? now_ : other_;
    if (!left.pool) left = make_commands();
    device->resetCommandPool(left.pool);
    left.told_by = 0;
    if (&left != &now_) std::swap(now_, other_);
    for (auto pool : descriptor_pools_) device->resetDescriptorPool(pool);
    sets_allocated_ = 0;
    operations.clear();
    owned.clear();
}

void Recording::begin() { now_.buffer.begin(vk::CommandBufferBeginInfo()); }

void Recording::end() {
    // All that a sequence records runs in these two stages.
    if (event_)
        now_.buffer.setEvent(event_, vk::PipelineStageFlagBits::eComputeShader |
                                         vk::PipelineStageFlagBits::eTransfer);
    now_.buffer.end();
}

void Recording::submitted(uint64_t number) {
    number_ = number;
    now_.told_by = event_ ? number : 0;
    pending = true;
    fence_submitted = !event_;
}

Recording::Held Recording::take_held() {
    return {std::exchange(operations, {}), std::exchange(owned, {}), std::exchange(in_flight, {})};
}

bool Recording::poll() {
    if (!is_done()) return false;
    in_flight.clear();
    return true;
}

bool Recording::is_done() {
    if (!pending) return true;
    // A submitted fence is signalled after the event, and cannot be reset before.
    const bool done = event_ && !fence_submitted ? device->getEventStatus(event_) == vk::Result::eEventSet
                                                 : device->getFenceStatus(fence) == vk::Result::eSuccess;
    if (done) finish();
    return done;
}

bool Recording::is_finished() noexcept {
    try {
        return is_done();
    } catch (const vk::DeviceLostError&) { // the driver says so of this recording: it runs no more
        pending = false;
        now_.told_by = other_.told_by = 0;
        return true;
    } catch (...) {
        return false;
    }
}

bool Recording::wait(uint64_t nanoseconds) {
    if (poll()) return true;
    if (fence_submitted) {
        if (device->waitForFences(fence, true, nanoseconds) != vk::Result::eSuccess) return false;
        finish();
        in_flight.clear();
        return true;
    }
    // Nothing wakes who waits for an event: it is asked for after pauses that are short beside the wait.
    using namespace std::chrono;
    const auto start = steady_clock::now(), end = start + std::chrono::nanoseconds(nanoseconds);
    for (auto now = start; now < end; now = steady_clock::now()) {
        const auto pause = std::clamp<steady_clock::duration>((now - start) / pauses_of_a_wait,
                                                              shortest_pause, longest_pause);
        std::this_thread::sleep_for(std::min(pause, end - now));
        if (poll()) return true;
    }
    return false;
}

void Recording::finish() {
    // The fence last: who asks again after a failure finds it signalled, as long as it was not reset.
    if (event_) device->resetEvent(event_);
    if (fence_submitted) {
        device->resetFences(fence);
        now_.told_by = 0;
    }
    pending = fence_submitted = false;
}

} // namespace vkdml
