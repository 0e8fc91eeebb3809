// Buffers taken from the device's memory pool.
#include "buffer.hpp"

#include "errors.hpp"

namespace vkdml {

Buffer::Buffer(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind)
    : device_(std::move(device)), bytes_(bytes) {
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
