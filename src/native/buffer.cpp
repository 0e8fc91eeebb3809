// Buffers taken from the device's memory pool.
#include "buffer.hpp"

#include <atomic>

#include "errors.hpp"

namespace vkdml {
namespace {
std::atomic<uint64_t> buffers_made{0};
} // namespace

Buffer::Buffer(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind)
    : device_(std::move(device)), id_(++buffers_made), bytes_(bytes) {
    device_->require_usable();
    tensor_ = device_->memory()->acquire(bytes, kind);
}

void* Buffer::mapped() const {
    if (kind() != MemoryKind::host)
        throw DeviceError(
            "this buffer is device memory, which the host cannot see: copy it to a host buffer");
    return tensor_->rawData();
}

} // namespace vkdml
