// Recording barriers, copies and dispatches.
#include "operations.hpp"

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
    commands.copyBuffer(source_->handle(), target_->handle(), range_);
}

DispatchOperation::DispatchOperation(std::shared_ptr<Kernel> kernel,
                                     std::vector<std::shared_ptr<Tensor>> tensors, vk::DescriptorSet set,
                                     std::vector<uint8_t> push, kp::Workgroup workgroups)
    : kernel_(std::move(kernel)), tensors_(std::move(tensors)), set_(set), push_(std::move(push)),
      workgroups_(workgroups) {
    std::vector<vk::DescriptorBufferInfo> infos;
    std::vector<vk::WriteDescriptorSet> writes;
    infos.reserve(tensors_.size());
    for (uint32_t i = 0; i < tensors_.size(); i++) {
        infos.emplace_back(tensors_[i]->handle(), 0, tensors_[i]->capacity());
        writes.emplace_back(set_, i, 0, 1, vk::DescriptorType::eStorageBuffer, nullptr, &infos[i]);
    }
    kernel_->device()->updateDescriptorSets(writes, nullptr);
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
