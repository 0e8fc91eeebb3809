// A logical device with its one compute queue, its memory pool and the recordings it has yet to finish.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device_info.hpp"
#include "memory_pool.hpp"

namespace vkdml {

class Recording;
class Sequence;

// Whether several threads have lately submitted work, to any device: a thread that waits should then leave
// the others what it does not need.
bool several_threads_submit();

class Device : public std::enable_shared_from_this<Device> {
public:
    explicit Device(uint32_t index);
    ~Device();

    const DeviceInfo& info() const { return info_; }
    // The VkDevice is destroyed with the last of its owners: buffers, kernels and sequences share it.
    const std::shared_ptr<vk::Device>& handle() const { return handle_; }
    const std::shared_ptr<MemoryPool>& memory() const { return memory_; }

    // Throws after fork() and after the device was lost.
    void require_usable() const;
    // The fence, which may be null, is signalled when these commands, if any, and all before them are done.
    // Returns the submission's number; they count from 1.
    uint64_t submit(vk::CommandBuffer commands, vk::Fence fence);
    // The newest submission that the host has seen done.
    uint64_t seen() const { return seen_; }
    void note_seen(uint64_t submission);
    void mark_lost() { lost_ = true; }
    bool lost() const { return lost_; }

    // Takes over a recording whose owner died while the device still ran it, or the driver still read it.
    void finish_later(std::unique_ptr<Recording> recording);
    // Frees the memory that those of them held that have finished, and those that the driver has left.
    void collect_finished();
    // Sequences that are done for their users while the device still runs them: see Sequence::watch().
    void note_answered(Sequence* sequence);
    void forget_answered(Sequence* sequence);
    // Waits for these, which takes microseconds, and collects: all memory is given back that nobody needs.
    void finish_answered();

private:
    bool collect_answered();

    DeviceInfo info_;
    std::shared_ptr<vk::PhysicalDevice> physical_;
    std::shared_ptr<vk::Device> handle_;
    std::shared_ptr<MemoryPool> memory_;
    vk::Queue queue_;
    std::mutex queue_mutex_, unfinished_mutex_;
    uint64_t submissions_ = 0;
    std::atomic<uint64_t> seen_{0};
    std::vector<std::unique_ptr<Recording>> unfinished_;
    std::mutex answered_mutex_;
    std::vector<Sequence*> answered_;
    std::atomic<bool> lost_{false};
};

} // namespace vkdml
