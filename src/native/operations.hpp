// Our operations for Kompute: each records one command and owns what that command uses.
#pragma once

#include <memory>
#include <vector>

#include "kernel.hpp"
#include "kompute/operations/OpBase.hpp"

namespace vkdml {

// Kompute calls these round every evaluation; ours need neither.
class Operation : public kp::OpBase {
public:
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
    CopyOperation(std::shared_ptr<Tensor> source, std::shared_ptr<Tensor> target, vk::BufferCopy range)
        : source_(std::move(source)), target_(std::move(target)), range_(range) {}
    void record(const vk::CommandBuffer& commands) override;

private:
    std::shared_ptr<Tensor> source_, target_;
    vk::BufferCopy range_;
};

// Runs a kernel on buffers through a descriptor set of its own, so that other buffers need no new pipeline.
class DispatchOperation : public Operation {
public:
    DispatchOperation(std::shared_ptr<Kernel> kernel, std::vector<std::shared_ptr<Tensor>> tensors,
                      vk::DescriptorSet set, std::vector<uint8_t> push, kp::Workgroup workgroups);
    void record(const vk::CommandBuffer& commands) override;

private:
    std::shared_ptr<Kernel> kernel_;
    std::vector<std::shared_ptr<Tensor>> tensors_;
    vk::DescriptorSet set_;
    std::vector<uint8_t> push_;
    kp::Workgroup workgroups_;
};

} // namespace vkdml
