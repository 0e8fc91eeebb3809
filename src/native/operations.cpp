// Recording barriers, copies and dispatches.
#include "operations.hpp"

#include <algorithm>
#include <utility>

namespace vkdml {

void BarrierOperation::record(const vk::CommandBuffer& commands) {
    using Stage = vk::PipelineStageFlagBits;
    using Access = vk::AccessFlagBits;
    const auto stages = Stage::eComputeShader | Stage::eTransfer;
    const auto writes = Access::eShaderWrite | Access::eTransferWrite;
    if (before_ == Before::host) {
        commands.pipelineBarrier(stages, Stage::eHost, {}, vk::MemoryBarrier(writes, Access::eHostRead),
                                 nullptr, nullptr);
    } else {
        const auto reads = Access::eShaderRead | Access::eTransferRead;
        commands.pipelineBarrier(stages, stages, {}, vk::MemoryBarrier(writes, reads | writes), nullptr,
                                 nullptr);
    }
}

void CopyOperation::record(const vk::CommandBuffer& commands) {
    commands.copyBuffer(source_, target_, range_);
}

DispatchOperation::DispatchOperation(std::shared_ptr<Kernel> kernel,
                                     const std::vector<vk::DescriptorBufferInfo>& buffers,
                                     vk::DescriptorSet set, std::vector<uint8_t> push,
                                     kp::Workgroup workgroups)
    : kernel_(std::move(kernel)), set_(set), push_(std::move(push)), workgroups_(workgroups) {
    rebind(buffers);
}

DispatchOperation::~DispatchOperation() { destroy(views_); }

void DispatchOperation::destroy(const std::vector<vk::BufferView>& views) const {
    for (vk::BufferView view : views) kernel_->device()->destroyBufferView(view);
}

std::vector<vk::BufferView> DispatchOperation::views_of(const vk::DescriptorBufferInfo& buffer) const {
    std::vector<vk::BufferView> views;
    try {
        for (uint32_t words : kernel_->texel_words()) {
            const auto format = words == 1   ? vk::Format::eR32Uint
                                : words == 2 ? vk::Format::eR32G32Uint
                                             : vk::Format::eR32G32B32A32Uint;
            // What is less than a texel at the end of a buffer has none; the view is then of any other.
            const vk::DeviceSize texel = 4 * words, whole = buffer.range / texel * texel;
            views.push_back(kernel_->device()->createBufferView(
                {{}, buffer.buffer, format, whole ? buffer.offset : 0, std::max(whole, texel)}));
        }
    } catch (...) {
        destroy(views);
        throw;
    }
    return views;
}

void DispatchOperation::rebind(const std::vector<vk::DescriptorBufferInfo>& buffers) {
    const auto views = views_of(buffers[0]);
    std::vector<vk::WriteDescriptorSet> writes;
    for (uint32_t i = 0; i < buffers.size(); i++)
        writes.emplace_back(set_, i, 0, 1, vk::DescriptorType::eStorageBuffer, nullptr, &buffers[i]);
    for (uint32_t i = 0; i < views.size(); i++)
        writes.emplace_back(set_, uint32_t(buffers.size()) + i, 0, 1, vk::DescriptorType::eStorageTexelBuffer,
                            nullptr, nullptr, &views[i]);
    kernel_->device()->updateDescriptorSets(writes, nullptr);
    destroy(std::exchange(views_, views));
}

void DispatchOperation::record(const vk::CommandBuffer& commands) {
    commands.bindPipeline(vk::PipelineBindPoint::eCompute, kernel_->pipeline());
    commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, kernel_->layout(), 0, set_, nullptr);
    if (!push_.empty())
        commands.pushConstants(kernel_->layout(), vk::ShaderStageFlagBits::eCompute, 0,
                               uint32_t(push_.size()), push_.data());
    commands.dispatch(workgroups_[0], workgroups_[1], workgroups_[2]);
}

} // namespace vkdml
