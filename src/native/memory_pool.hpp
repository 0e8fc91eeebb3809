// Device memory as kp::Tensor, checked before and after allocation and kept for reuse.
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "device_info.hpp"
#include "kompute/Tensor.hpp"

namespace vkdml {

class DispatchGuard;

enum class MemoryKind {
    device, // the fastest memory for shaders; not visible to the host
    host,   // mapped, host-coherent, cached where possible; shaders and copies can use it too
    // As fast for shaders as `device`, and mapped: the host writes it over the bus as it writes its own, but
    // reads it slowly: read_mapped(). Only where DeviceInfo::maps_device_memory.
    mapped,
};

// Memory of the host's, and what keeps it: that is given up when no device uses the memory any more.
struct HostMemory {
    const void* address;
    uint64_t bytes;
    std::shared_ptr<void> owner;
};

// A kp::Tensor of 32-bit words whose capacity in bytes outlives Kompute's 32-bit element count.
class Tensor : public kp::Tensor {
public:
    // Maps memory that it has contents for.
    Tensor(std::shared_ptr<vk::PhysicalDevice> physical, std::shared_ptr<vk::Device> device,
           const void* contents, uint64_t capacity, MemoryKind kind);
    uint64_t id() const { return id_; } // no other tensor of the process has had it or will have it
    uint64_t capacity() const { return capacity_; }
    MemoryKind kind() const { return kind_; }
    void* mapped = nullptr; // where the host sees it, though Kompute has not mapped it
    vk::Buffer handle() { return constructDescriptorBufferInfo().buffer; }

    // What can be exported: null and 0 bytes but for tensors made so.
    vk::DeviceMemory exportable_memory;
    uint64_t exportable_bytes = 0; // of the allocation

private:
    uint64_t id_, capacity_;
    MemoryKind kind_;
};

struct MemoryUse {
    uint64_t used = 0;   // bytes in tensors that somebody holds
    uint64_t pooled = 0; // bytes in tensors kept for reuse
    uint64_t limit = 0;  // bytes the pool keeps at most
    uint64_t budget = 0; // bytes of the device's memory that this process may use, its own included
};

// Thread-safe. Tensors may outlive it: they are then freed instead of kept.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
public:
    MemoryPool(const DeviceInfo& info, std::shared_ptr<vk::PhysicalDevice> physical,
               std::shared_ptr<vk::Device> device);

    // A tensor of at least `bytes` (its contents are arbitrary); goes back to the pool with its last owner.
    // Throws OutOfMemoryError with the size and the limit.
    std::shared_ptr<Tensor> acquire(uint64_t bytes, MemoryKind kind);
    // Like acquire(), but only of what is kept; else null.
    std::shared_ptr<Tensor> acquire_kept(uint64_t bytes, MemoryKind kind);
    // Like acquire(), but of memory that can be exported, and freed with its last owner.
    std::shared_ptr<Tensor> acquire_exportable(uint64_t bytes, MemoryKind kind);
    // A tensor that is memory of the host's, whole units of DeviceInfo::host_memory_alignment; null where the
    // driver refuses this memory.
    std::shared_ptr<Tensor> import_host(HostMemory memory);
    uint64_t trim(); // frees what is kept; returns its bytes
    MemoryUse use() const;
    uint64_t capacity_for(uint64_t bytes) const;            // of the size class; not checked against limits
    uint64_t buffer_limit() const { return buffer_limit_; } // bytes

private:
    [[noreturn]] void refuse(uint64_t bytes, MemoryKind kind, const char* limit, uint64_t value) const;
    VkBufferUsageFlags texels_usage() const; // of buffers whose input kernels read as texels
    void check_limits(uint64_t bytes, MemoryKind kind) const;
    void check_room(uint64_t bytes, uint64_t capacity, MemoryKind kind) const;
    std::unique_ptr<Tensor> take_kept(uint64_t capacity, MemoryKind kind);
    std::shared_ptr<Tensor> owned(std::unique_ptr<Tensor> tensor);
    std::unique_ptr<Tensor> allocate(uint64_t bytes, uint64_t capacity, MemoryKind kind, bool exportable);
    std::unique_ptr<Tensor> allocate_or_trim(uint64_t bytes, uint64_t capacity, MemoryKind kind,
                                             bool exportable = false);
    // Has the driver make a tensor as the guard tells it to.
    std::unique_ptr<Tensor> make(uint64_t bytes, uint64_t capacity, MemoryKind kind, DispatchGuard& guard);
    void require_allocation_left(uint64_t bytes) const;
    // For one that is freed with its last owner, and then the rest of what it needed. `counted` of its bytes
    // are in use until then.
    std::shared_ptr<Tensor> owned_until_dropped(std::unique_ptr<Tensor> tensor, uint64_t counted,
                                                std::shared_ptr<void> needed);
    void release(std::unique_ptr<Tensor> tensor);

    const DeviceInfo info_;
    const std::shared_ptr<vk::PhysicalDevice> physical_;
    const std::shared_ptr<vk::Device> device_;
    uint64_t buffer_limit_;
    mutable std::mutex mutex_;
    std::list<std::unique_ptr<Tensor>> kept_; // least recently used first
    MemoryUse use_;
    uint64_t allocations_ = 0;
};

} // namespace vkdml
