// Allocation through kp::Tensor with every result checked, and reuse by size class.
#include "memory_pool.hpp"

#include <algorithm>
#include <atomic>
#include <sys/mman.h>

#include "available_ram.hpp"
#include "checked_dispatch.hpp"
#include "errors.hpp"

namespace vkdml {
namespace {

// kp::Tensor counts elements in 32 bits; these are 4-byte words.
constexpr uint64_t kompute_limit = 0xFFFFFFFCull;
constexpr uint64_t smallest_capacity = 256;
constexpr uint64_t driver_padding = 64 << 10;
constexpr VkBufferUsageFlags copied = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
std::atomic<uint64_t> tensors_made{0};
// Left to the system when memory that is RAM is taken.
constexpr uint64_t ram_reserve = 64ull << 20;

const char* kind_name(MemoryKind kind) { return kind == MemoryKind::host ? "host-visible" : "device"; }

// What a type of memory must be to serve.
vk::MemoryPropertyFlags properties_of(MemoryKind kind) {
    using Flag = vk::MemoryPropertyFlagBits;
    switch (kind) {
    case MemoryKind::device:
        return Flag::eDeviceLocal;
    case MemoryKind::host:
        return Flag::eHostVisible | Flag::eHostCoherent;
    default:
        return Flag::eDeviceLocal | Flag::eHostVisible | Flag::eHostCoherent;
    }
}

// What rounds up to no number at all is refused all the same.
uint64_t whole_words(uint64_t bytes) {
    return bytes > ~3ull ? ~3ull : (std::max<uint64_t>(bytes, 4) + 3) & ~3ull;
}

// kp::Tensor copies `capacity` bytes from the data it is given; untouched pages of an anonymous mapping are
// all one zero page, so this costs no memory.
class ZeroPages {
public:
    explicit ZeroPages(uint64_t bytes) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data_ == MAP_FAILED)
            throw OutOfMemoryError("cannot reserve " + std::to_string(bytes) + " bytes of address space");
    }
    ~ZeroPages() { munmap(data_, bytes_); }
    ZeroPages(const ZeroPages&) = delete;
    ZeroPages& operator=(const ZeroPages&) = delete;
    const void* data() const { return data_; }

private:
    void* data_;
    uint64_t bytes_;
};

} // namespace

Tensor::Tensor(std::shared_ptr<vk::PhysicalDevice> physical, std::shared_ptr<vk::Device> device,
               const void* contents, uint64_t capacity, MemoryKind kind)
    : kp::Tensor(std::move(physical), std::move(device), const_cast<void*>(contents), uint32_t(capacity / 4),
                 4, TensorDataTypes::eUnsignedInt, contents ? TensorTypes::eHost : TensorTypes::eStorage),
      id_(++tensors_made), capacity_(capacity), kind_(kind) {}

MemoryPool::MemoryPool(const DeviceInfo& info, std::shared_ptr<vk::PhysicalDevice> physical,
                       std::shared_ptr<vk::Device> device)
    : info_(info), physical_(std::move(physical)), device_(std::move(device)) {
    buffer_limit_ = std::min<uint64_t>({kompute_limit, info.properties.limits.maxStorageBufferRange & ~3u,
                                        info.max_allocation_size & ~3ull});
    uint64_t largest_heap = 0;
    for (const HeapInfo& heap : info.heaps()) largest_heap = std::max(largest_heap, heap.size);
    use_.limit = largest_heap / 4;
}

VkBufferUsageFlags MemoryPool::texels_usage() const {
    return info_.texel_widths ? VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT : 0;
}

uint64_t MemoryPool::capacity_for(uint64_t bytes) const {
    if (bytes > buffer_limit_) return bytes;
    uint64_t capacity = smallest_capacity;
    while (capacity < bytes) capacity *= 2;
    // Above 1 MiB eight classes an octave, so that at most an eighth is wasted.
    if (capacity > (1u << 20)) {
        uint64_t step = capacity / 16;
        capacity = (bytes + step - 1) / step * step;
    }
    // A driver may pad what it is asked for: a class at its very limit could not be allocated.
    return std::max(bytes, std::min(capacity, buffer_limit_ - driver_padding));
}

void MemoryPool::refuse(uint64_t bytes, MemoryKind kind, const char* limit, uint64_t value) const {
    throw OutOfMemoryError("cannot allocate " + std::to_string(bytes) + " bytes of " + kind_name(kind) +
                           " memory on " + info_.properties.deviceName.data() + ": " + limit + " is " +
                           std::to_string(value) + " bytes");
}

void MemoryPool::check_limits(uint64_t bytes, MemoryKind kind) const {
    if (bytes > info_.properties.limits.maxStorageBufferRange)
        refuse(bytes, kind, "the device's limit for one buffer",
               info_.properties.limits.maxStorageBufferRange);
    if (bytes > info_.max_allocation_size)
        refuse(bytes, kind, "the device's limit for one allocation", info_.max_allocation_size);
    if (bytes > kompute_limit) refuse(bytes, kind, "the limit of a Kompute tensor", kompute_limit);
}

void MemoryPool::check_room(uint64_t bytes, uint64_t capacity, MemoryKind kind) const {
    const auto wanted = properties_of(kind);
    const auto heaps = info_.heaps();
    for (uint32_t i = 0; i < info_.memory.memoryTypeCount; i++) {
        const auto& type = info_.memory.memoryTypes[i];
        if ((type.propertyFlags & wanted) != wanted) continue;
        const HeapInfo& heap = heaps[type.heapIndex];
        uint64_t room = heap.size;
        if (heap.budget) room = *heap.budget > *heap.usage ? *heap.budget - *heap.usage : 0;
        if (capacity > room) refuse(bytes, kind, "the room left in its memory heap", room);
        if (!heap.device_local || info_.is_software()) {
            uint64_t ram = available_ram();
            if (capacity + ram_reserve > ram) refuse(bytes, kind, "the available RAM", ram);
        }
        return;
    }
    const std::string name = info_.properties.deviceName.data();
    if (!info_.memory.memoryTypeCount)
        throw DeviceError(name + " reports no memory: its driver compiles kernels for hardware that is not "
                                 "here and runs none; choose another device");
    // Every conforming driver has both kinds.
    throw DeviceError(name + " has no " + kind_name(kind) + " memory among its " +
                      std::to_string(info_.memory.memoryTypeCount) +
                      " types that shaders can use: choose another device");
}

std::shared_ptr<Tensor> MemoryPool::acquire(uint64_t bytes, MemoryKind kind) {
    bytes = whole_words(bytes);
    check_limits(bytes, kind);
    uint64_t capacity = capacity_for(bytes);
    auto tensor = take_kept(capacity, kind);
    if (!tensor) tensor = allocate_or_trim(bytes, capacity, kind);
    return owned(std::move(tensor));
}

std::shared_ptr<Tensor> MemoryPool::acquire_kept(uint64_t bytes, MemoryKind kind) {
    bytes = whole_words(bytes);
    check_limits(bytes, kind);
    auto tensor = take_kept(capacity_for(bytes), kind);
    return tensor ? owned(std::move(tensor)) : nullptr;
}

std::unique_ptr<Tensor> MemoryPool::take_kept(uint64_t capacity, MemoryKind kind) {
    std::lock_guard lock(mutex_);
    for (auto entry = kept_.rbegin(); entry != kept_.rend(); ++entry) {
        if ((*entry)->kind() != kind || (*entry)->capacity() != capacity) continue;
        auto tensor = std::move(*entry);
        kept_.erase(std::next(entry).base());
        use_.pooled -= capacity;
        return tensor;
    }
    return nullptr;
}

std::shared_ptr<Tensor> MemoryPool::owned(std::unique_ptr<Tensor> tensor) {
    {
        std::lock_guard lock(mutex_);
        use_.used += tensor->capacity();
    }
    return {tensor.release(), [pool = weak_from_this()](Tensor* returned) {
                std::unique_ptr<Tensor> owner(returned);
                if (auto alive = pool.lock()) alive->release(std::move(owner));
            }};
}

std::shared_ptr<Tensor> MemoryPool::acquire_exportable(uint64_t bytes, MemoryKind kind) {
    bytes = whole_words(bytes);
    check_limits(bytes, kind);
    if (!info_.external_memory.exportable)
        throw DeviceError(std::string(info_.properties.deviceName.data()) +
                          " cannot export memory (VK_KHR_external_memory_fd), so it shares none with other "
                          "libraries: update its driver or choose another device");
    auto tensor = allocate_or_trim(bytes, capacity_for(bytes), kind, true);
    const uint64_t capacity = tensor->capacity();
    return owned_until_dropped(std::move(tensor), capacity, nullptr);
}

std::shared_ptr<Tensor> MemoryPool::import_host(HostMemory memory) {
    check_limits(memory.bytes, MemoryKind::host);
    require_allocation_left(memory.bytes);
    void* const address = const_cast<void*>(memory.address); // kernels write nothing but results
    const auto type = host_memory_type(*device_, address);
    if (!type) return nullptr;
    DispatchGuard guard;
    guard.imported_type = *type;
    guard.imported_address = address;
    guard.imported_bytes = memory.bytes;
    guard.extra_buffer_usage = copied | texels_usage();
    std::unique_ptr<Tensor> tensor;
    try {
        tensor = make(memory.bytes, memory.bytes, MemoryKind::host, guard);
    } catch (const DeviceError&) {
        if (guard.result != VK_ERROR_INVALID_EXTERNAL_HANDLE) throw;
        return nullptr;
    }
    tensor->mapped = address;
    return owned_until_dropped(std::move(tensor), 0, std::move(memory.owner)); // it is the host's
}

std::shared_ptr<Tensor> MemoryPool::owned_until_dropped(std::unique_ptr<Tensor> tensor, uint64_t counted,
                                                        std::shared_ptr<void> needed) {
    {
        std::lock_guard lock(mutex_);
        use_.used += counted;
    }
    return {tensor.release(),
            [pool = weak_from_this(), counted, needed = std::move(needed)](Tensor* returned) mutable {
                delete returned;
                needed.reset(); // weak pointers to the tensor keep this function
                auto alive = pool.lock();
                if (!alive) return;
                std::lock_guard lock(alive->mutex_);
                alive->use_.used -= counted;
                alive->allocations_--;
            }};
}

void MemoryPool::require_allocation_left(uint64_t bytes) const {
    std::lock_guard lock(mutex_);
    uint64_t most = info_.properties.limits.maxMemoryAllocationCount;
    if (allocations_ + 1 > most)
        throw OutOfMemoryError("cannot allocate " + std::to_string(bytes) + " bytes: the device's limit of " +
                               std::to_string(most) + " allocations is reached");
}

std::unique_ptr<Tensor> MemoryPool::allocate_or_trim(uint64_t bytes, uint64_t capacity, MemoryKind kind,
                                                     bool exportable) {
    try {
        return allocate(bytes, capacity, kind, exportable);
    } catch (const OutOfMemoryError&) {
        // Memory kept for reuse must never be the reason of a failure.
        if (!trim()) throw;
        return allocate(bytes, capacity, kind, exportable);
    }
}

std::unique_ptr<Tensor> MemoryPool::allocate(uint64_t bytes, uint64_t capacity, MemoryKind kind,
                                             bool exportable) {
    check_room(bytes, capacity, kind);
    require_allocation_left(bytes);
    DispatchGuard guard;
    guard.memory = kind == MemoryKind::mapped ? DispatchGuard::Memory::mapped_on_device
                                              : DispatchGuard::Memory::cached_on_host;
    guard.extra_buffer_usage = texels_usage();
    if (kind != MemoryKind::host) guard.extra_buffer_usage |= copied;
    if (exportable) {
        guard.exported_as = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        guard.dedicated_memory = info_.external_memory.dedicated;
    }
    auto tensor = make(bytes, capacity, kind, guard);
    if (exportable) {
        tensor->exportable_memory = guard.memories.back();
        tensor->exportable_bytes = guard.last_allocation;
    }
    return tensor;
}

std::unique_ptr<Tensor> MemoryPool::make(uint64_t bytes, uint64_t capacity, MemoryKind kind,
                                         DispatchGuard& guard) {
    std::unique_ptr<Tensor> tensor;
    try {
        if (kind == MemoryKind::host && !guard.imported_address) {
            ZeroPages zeros(capacity);
            tensor = std::make_unique<Tensor>(physical_, device_, zeros.data(), capacity, kind);
        } else {
            tensor = std::make_unique<Tensor>(physical_, device_, nullptr, capacity, kind);
        }
    } catch (...) {
        // ~Tensor does not run for a half-made object: free what the driver made.
        guard.release_calls();
        for (VkBuffer buffer : guard.buffers) device_->destroyBuffer(buffer);
        for (VkDeviceMemory memory : guard.memories) device_->freeMemory(memory);
        if (!guard.failed()) throw;
    }
    if (kind == MemoryKind::mapped && !guard.failed()) {
        // Here and not in kp::Tensor, which fills what it maps: over the bus.
        try {
            tensor->mapped = device_->mapMemory(guard.memories.back(), 0, VK_WHOLE_SIZE);
        } catch (const std::exception&) {
            if (!guard.failed()) throw;
        }
    }
    if (guard.failed()) {
        guard.release_calls();
        tensor.reset();
        std::string what = "cannot allocate " + std::to_string(bytes) + " bytes of " + kind_name(kind) +
                           " memory: " + guard.failed_call + " returned " +
                           vk::to_string(vk::Result(guard.result));
        if (!is_out_of_memory(guard.result)) throw DeviceError(what);
        throw OutOfMemoryError(what + " (the device's limit for one buffer is " +
                               std::to_string(buffer_limit_) + " bytes)");
    }
    std::lock_guard lock(mutex_);
    allocations_++;
    return tensor;
}

void MemoryPool::release(std::unique_ptr<Tensor> tensor) {
    std::list<std::unique_ptr<Tensor>> surplus; // freed after the lock is given back
    std::lock_guard lock(mutex_);
    use_.used -= tensor->capacity();
    use_.pooled += tensor->capacity();
    kept_.push_back(std::move(tensor));
    while (use_.pooled > use_.limit && !kept_.empty()) {
        use_.pooled -= kept_.front()->capacity();
        surplus.splice(surplus.end(), kept_, kept_.begin());
        allocations_--;
    }
}

uint64_t MemoryPool::trim() {
    std::list<std::unique_ptr<Tensor>> freed;
    std::lock_guard lock(mutex_);
    uint64_t bytes = use_.pooled;
    allocations_ -= kept_.size();
    use_.pooled = 0;
    freed.swap(kept_);
    return bytes;
}

MemoryUse MemoryPool::use() const {
    MemoryUse use;
    {
        std::lock_guard lock(mutex_);
        use = use_;
    }
    for (const HeapInfo& heap : info_.heaps())
        if (heap.device_local) use.budget = std::max(use.budget, heap.budget.value_or(heap.size));
    return use;
}

} // namespace vkdml
