// Our operations for Kompute: each records one command and knows which tensors that reads and writes.
#pragma once

#include <memory>
#include <vector>

#include "kernel.hpp"
#include "kompute/operations/OpBase.hpp"

namespace vkdml {

// Kompute has operations prepare for each evaluation and finish it; ours need neither, and nobody calls
// these.
class Operation : public kp::OpBase {
public:
    struct Use {
        std::shared_ptr<Tensor> tensor;
        bool written;
    };
    using Uses = std::vector<Use>;

    void preEval(const vk::CommandBuffer&) override {}
    void postEval(const vk::CommandBuffer&) override {}
};

// Orders everything before it against everything after it on the queue. The hazards between any two
// operations are unknown here, and on every driver at hand one full barrier costs no more than a fitted one.
class BarrierOperation : public Operation {
public:
    enum class Before { commands, host };
    explicit BarrierOperation(Before before) : before_(before) {}
    void record(const vk::CommandBuffer& commands) override;

private:
    Before before_;
};

class CopyOperation : public Operation {
public:
    CopyOperation(vk::Buffer source, vk::Buffer target, vk::BufferCopy range)
        : source_(source), target_(target), range_(range) {}
    void record(const vk::CommandBuffer& commands) override;

private:
    vk::Buffer source_, target_;
    vk::BufferCopy range_;
};

// Runs a kernel on buffers through a descriptor set of its own, so that other buffers need no new pipeline.
class DispatchOperation : public Operation {
public:
    DispatchOperation(std::shared_ptr<Kernel> kernel, const std::vector<vk::DescriptorBufferInfo>& buffers,
                      vk::DescriptorSet set, std::vector<uint8_t> push, kp::Workgroup workgroups);
    ~DispatchOperation() override;
    DispatchOperation(const DispatchOperation&) = delete;
    DispatchOperation& operator=(const DispatchOperation&) = delete;
    void record(const vk::CommandBuffer& commands) override;
    // Other buffers from now on; what was recorded stays valid only if the device can update after binding.
    void rebind(const std::vector<vk::DescriptorBufferInfo>& buffers);

private:
    std::vector<vk::BufferView> views_of(const vk::DescriptorBufferInfo& buffer) const;
    void destroy(const std::vector<vk::BufferView>& views) const;

    std::shared_ptr<Kernel> kernel_;
    std::vector<vk::BufferView> views_; // of texels
    vk::DescriptorSet set_;
    std::vector<uint8_t> push_;
    kp::Workgroup workgroups_;
};

} // namespace vkdml
