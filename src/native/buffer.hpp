// A piece of a device's memory with the size that was asked for.
#pragma once

#include <optional>
#include <utility>

#include "device.hpp"

namespace vkdml {

class Buffer {
public:
    Buffer(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind);
    // Of memory that other interfaces of the same GPU can map.
    static std::shared_ptr<Buffer> exportable(std::shared_ptr<Device> device, uint64_t bytes,
                                              MemoryKind kind);
    // The whole pages in which memory of the host's lies, and the byte in them where it begins. None where
    // these are more than a buffer has, or the device does not take this memory.
    using Imported = std::pair<std::shared_ptr<Buffer>, uint64_t>;
    static std::optional<Imported> imported(std::shared_ptr<Device> device, HostMemory memory);
    // One whose memory is kept for reuse, or null: it takes a microsecond, and allocating hundreds.
    static std::shared_ptr<Buffer> kept(const std::shared_ptr<Device>& device, uint64_t bytes,
                                        MemoryKind kind);

    // Of the memory: a later buffer has the same number only if it has the same memory.
    uint64_t id() const { return tensor_->id(); }
    uint64_t bytes() const { return bytes_; }
    // What a shader may touch: at least bytes(), so that whole vectors can be read at the end.
    uint64_t capacity() const { return tensor_->capacity(); }
    MemoryKind kind() const { return tensor_->kind(); }
    const std::shared_ptr<Device>& device() const { return device_; }
    const std::shared_ptr<Tensor>& tensor() const { return tensor_; }
    // The mapped memory; throws DeviceError for what the host does not see.
    void* mapped() const;
    // A new descriptor of the memory, which the caller owns; throws DeviceError unless it is exportable.
    int export_fd() const;

private:
    Buffer(std::shared_ptr<Device> device, uint64_t bytes, std::shared_ptr<Tensor> tensor);

    std::shared_ptr<Device> device_;
    uint64_t bytes_;
    std::shared_ptr<Tensor> tensor_;
};

} // namespace vkdml
