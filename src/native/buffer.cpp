// Buffers taken from the device's memory pool.
#include "buffer.hpp"

#include "errors.hpp"

namespace vkdml {

Buffer::Buffer(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind)
    : device_(std::move(device)), bytes_(bytes) {
    device_->require_usable();
    tensor_ = device_->memory()->acquire(bytes, kind);
}

Buffer::Buffer(std::shared_ptr<Device> device, uint64_t bytes, std::shared_ptr<Tensor> tensor)
    : device_(std::move(device)), bytes_(bytes), tensor_(std::move(tensor)) {}

std::shared_ptr<Buffer> Buffer::exportable(std::shared_ptr<Device> device, uint64_t bytes, MemoryKind kind) {
    device->require_usable();
    auto tensor = device->memory()->acquire_exportable(bytes, kind);
    return std::shared_ptr<Buffer>(new Buffer(std::move(device), bytes, std::move(tensor)));
}

std::optional<Buffer::Imported> Buffer::imported(std::shared_ptr<Device> device, HostMemory memory) {
    device->require_usable();
    const uint64_t page = device->info().host_memory_alignment;
    if (!page) return {};
    const auto begin = reinterpret_cast<uintptr_t>(memory.address);
    const uint64_t before = begin % page;
    const uint64_t bytes = (before + memory.bytes + page - 1) / page * page;
    if (bytes > device->memory()->buffer_limit()) return {};
    memory.address = reinterpret_cast<const void*>(begin - before);
    memory.bytes = bytes;
    auto tensor = device->memory()->import_host(std::move(memory));
    if (!tensor) return {};
    return Imported{new Buffer(std::move(device), bytes, std::move(tensor)), before};
}

int Buffer::export_fd() const {
    device_->require_usable();
    return vkdml::export_fd(*device_->handle(), tensor_->exportable_memory);
}

std::shared_ptr<Buffer> Buffer::kept(const std::shared_ptr<Device>& device, uint64_t bytes, MemoryKind kind) {
    device->require_usable();
    auto tensor = device->memory()->acquire_kept(bytes, kind);
    return tensor ? std::shared_ptr<Buffer>(new Buffer(device, bytes, std::move(tensor))) : nullptr;
}

void* Buffer::mapped() const {
    if (kind() == MemoryKind::device)
        throw DeviceError(
            "this buffer is device memory, which the host cannot see: copy it to a host buffer");
    return tensor_->mapped ? tensor_->mapped : tensor_->rawData();
}

} // namespace vkdml
