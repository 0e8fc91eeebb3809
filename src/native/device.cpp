// Creating the logical device and submitting to its queue.
#include "device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "checked_dispatch.hpp"
#include "errors.hpp"
#include "instance.hpp"
#include "sequence.hpp"

namespace vkdml {
namespace {

vk::PhysicalDevice physical_device(uint32_t index) {
    auto devices = physical_devices();
    if (index >= devices.size())
        throw NoDeviceError("there is no Vulkan device " + std::to_string(index) + ": " +
                            std::to_string(devices.size()) + " found, counted from 0");
    return devices[index];
}

// A thread that has been the only one for so long is taken to stay it.
constexpr std::chrono::nanoseconds sharing_lasts = std::chrono::milliseconds(20);

// What a device may still do after it wrote a result takes microseconds.
constexpr std::chrono::milliseconds longest_finish(10);

int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::atomic<std::thread::id> last_thread{};
std::atomic<int64_t> shared_until{0}; // nanoseconds of the steady clock

void note_thread() {
    const auto self = std::this_thread::get_id();
    const auto last = last_thread.exchange(self);
    if (last != self && last != std::thread::id()) shared_until = now_ns() + sharing_lasts.count();
}

} // namespace

bool several_threads_submit() { return now_ns() < shared_until; }

Device::Device(uint32_t index) : info_(physical_device(index)) {
    std::string name = info_.properties.deviceName.data();
    if (info_.properties.apiVersion < VK_API_VERSION_1_1)
        throw NoDeviceError(name + " offers Vulkan " + version_string(info_.properties.apiVersion) +
                            ", vkdml needs 1.1 or newer: update its driver or choose another device");
    if (!info_.compute_queue_family)
        throw NoDeviceError(name + " has no queue that can compute: choose another device");
    physical_ = std::make_shared<vk::PhysicalDevice>(info_.physical);
    float priority = 1;
    vk::DeviceQueueCreateInfo queue({}, *info_.compute_queue_family, 1, &priority);
    std::vector<const char*> extensions;
    if (info_.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (info_.subgroup_size_control) extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    if (info_.external_memory.exportable) extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    if (info_.host_memory_alignment) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    if (info_.update_after_bind) extensions.push_back(VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME);
    vk::PhysicalDeviceFeatures features;
    features.shaderInt64 = info_.pairs_words();
    features.shaderStorageImageExtendedFormats = (info_.texel_widths & 2) != 0;
    vk::DeviceCreateInfo create({}, 1, &queue, 0, nullptr, uint32_t(extensions.size()), extensions.data(),
                                &features);
    vk::PhysicalDeviceSubgroupSizeControlFeaturesEXT size_control(true, true);
    if (info_.subgroup_size_control) create.pNext = &size_control;
    vk::PhysicalDeviceDescriptorIndexingFeaturesEXT descriptors;
    descriptors.descriptorBindingStorageBufferUpdateAfterBind = true;
    descriptors.descriptorBindingStorageTexelBufferUpdateAfterBind = info_.texel_widths != 0;
    if (info_.update_after_bind) {
        descriptors.pNext = const_cast<void*>(create.pNext);
        create.pNext = &descriptors;
    }
    vk::Device made = info_.physical.createDevice(create);
    handle_ = std::shared_ptr<vk::Device>(new vk::Device(made), [](vk::Device* device) {
        device->destroy();
        delete device;
    });
    queue_ = made.getQueue(*info_.compute_queue_family, 0);
    memory_ = std::make_shared<MemoryPool>(info_, physical_, handle_);
}

Device::~Device() {
    if (unfinished_.empty()) return;
    (void)VULKAN_HPP_DEFAULT_DISPATCHER.vkQueueWaitIdle(queue_);
    for (auto& recording : unfinished_) recording->pending = false;
}

void Device::require_usable() const {
    refuse_forked_child();
    if (lost_)
        throw DeviceLostError(std::string(info_.properties.deviceName.data()) +
                              " was lost (its driver gave it up), and what lay on it is gone: "
                              "select the device again, which opens it anew");
}

uint64_t Device::submit(vk::CommandBuffer commands, vk::Fence fence) {
    require_usable();
    collect_finished();
    note_thread();
    std::lock_guard lock(queue_mutex_);
    // What the host wrote to memory of the device may still be gathered for the bus.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    try {
        if (commands)
            queue_.submit(vk::SubmitInfo(0, nullptr, nullptr, 1, &commands), fence);
        else
            queue_.submit(nullptr, fence);
    } catch (const vk::DeviceLostError&) {
        mark_lost();
        require_usable();
    }
    return ++submissions_;
}

void Device::note_seen(uint64_t submission) {
    uint64_t before = seen_;
    while (before < submission)
        if (seen_.compare_exchange_weak(before, submission)) break;
}

void Device::finish_later(std::unique_ptr<Recording> recording) {
    std::lock_guard lock(unfinished_mutex_);
    unfinished_.push_back(std::move(recording));
}

void Device::note_answered(Sequence* sequence) {
    std::lock_guard lock(answered_mutex_);
    answered_.push_back(sequence);
}

void Device::forget_answered(Sequence* sequence) {
    std::lock_guard lock(answered_mutex_);
    answered_.erase(std::remove(answered_.begin(), answered_.end(), sequence), answered_.end());
}

bool Device::collect_answered() {
    std::vector<std::shared_ptr<Tensor>> held; // freed after the lock is given back
    std::lock_guard lock(answered_mutex_);
    if (lost_) return true;
    auto first = std::partition(answered_.begin(), answered_.end(),
                                [&](Sequence* sequence) { return !sequence->finish_answered(held); });
    answered_.erase(first, answered_.end());
    return answered_.empty();
}

void Device::finish_answered() {
    const auto end = std::chrono::steady_clock::now() + longest_finish;
    while (!collect_answered() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    collect_finished();
}

void Device::collect_finished() {
    collect_answered();
    // Freed after the lock is given back: freeing memory of the host's may take Python's lock.
    std::vector<std::unique_ptr<Recording>> left;
    std::vector<Recording::Held> held;
    std::lock_guard lock(unfinished_mutex_);
    // Of a device that was lost before, no driver says what it still uses: all is kept to the end.
    if (unfinished_.empty() || lost_) return;
    for (const auto& recording : unfinished_) {
        if (!recording->is_finished()) continue;
        note_seen(recording->number());
        held.push_back(recording->take_held());
    }
    auto first = std::partition(unfinished_.begin(), unfinished_.end(), [this](const auto& recording) {
        return recording->pending || !recording->is_left(seen_);
    });
    left.assign(std::make_move_iterator(first), std::make_move_iterator(unfinished_.end()));
    unfinished_.erase(first, unfinished_.end());
}

} // namespace vkdml
