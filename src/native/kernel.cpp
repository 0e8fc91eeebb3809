// Building compute pipelines.
#include "kernel.hpp"

#include <stdexcept>

namespace vkdml {
namespace {

void check(const Device& device, uint32_t bindings, uint32_t push_bytes) {
    const auto& limits = device.info().properties.limits;
    if (bindings == 0 || bindings > limits.maxPerStageDescriptorStorageBuffers)
        throw std::invalid_argument("a kernel binds 1 to " +
                                    std::to_string(limits.maxPerStageDescriptorStorageBuffers) +
                                    " buffers on this device, not " + std::to_string(bindings));
    if (push_bytes % 4 || push_bytes > limits.maxPushConstantsSize)
        throw std::invalid_argument("push constants are whole words of at most " +
                                    std::to_string(limits.maxPushConstantsSize) +
                                    " bytes on this device, not " + std::to_string(push_bytes));
}

} // namespace

Kernel::Kernel(const Device& device, const std::vector<uint32_t>& spirv, uint32_t bindings,
               uint32_t push_bytes, const std::vector<uint32_t>& constants, uint32_t subgroup_size,
               std::vector<uint32_t> texel_words)
    : device_(device.handle()), bindings_(bindings), push_bytes_(push_bytes),
      texel_words_(std::move(texel_words)) {
    device.require_usable();
    check(device, bindings, push_bytes);
    if (subgroup_size &&
        (subgroup_size != device.info().subgroup.subgroupSize || !device.info().subgroup_size_control))
        throw std::invalid_argument("this device cannot give a kernel subgroups of " +
                                    std::to_string(subgroup_size) + " invocations" +
                                    (device.info().subgroup_size_control
                                         ? ", only of " + std::to_string(device.info().subgroup.subgroupSize)
                                         : std::string()));
    vk::ShaderModule module;
    try {
        std::vector<vk::DescriptorSetLayoutBinding> slots;
        for (uint32_t i = 0; i < bindings; i++)
            slots.emplace_back(i, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute);
        for (uint32_t i = 0; i < texel_words_.size(); i++)
            slots.emplace_back(bindings + i, vk::DescriptorType::eStorageTexelBuffer, 1,
                               vk::ShaderStageFlagBits::eCompute);
        vk::DescriptorSetLayoutCreateInfo set({}, uint32_t(slots.size()), slots.data());
        const std::vector<vk::DescriptorBindingFlagsEXT> changing(
            slots.size(), vk::DescriptorBindingFlagBitsEXT::eUpdateAfterBind);
        const vk::DescriptorSetLayoutBindingFlagsCreateInfoEXT flags(uint32_t(changing.size()),
                                                                     changing.data());
        if (device.info().update_after_bind) {
            set.flags = vk::DescriptorSetLayoutCreateFlagBits::eUpdateAfterBindPoolEXT;
            set.pNext = &flags;
        }
        set_layout_ = device_->createDescriptorSetLayout(set);
        vk::PushConstantRange range(vk::ShaderStageFlagBits::eCompute, 0, push_bytes);
        layout_ = device_->createPipelineLayout({{}, 1, &set_layout_, push_bytes ? 1u : 0u, &range});
        module = device_->createShaderModule({{}, spirv.size() * 4, spirv.data()});
        std::vector<vk::SpecializationMapEntry> entries;
        for (uint32_t i = 0; i < constants.size(); i++) entries.emplace_back(i, i * 4, 4);
        vk::SpecializationInfo specialization(uint32_t(entries.size()), entries.data(), constants.size() * 4,
                                              constants.data());
        vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, module, "main",
                                                &specialization);
        vk::PipelineShaderStageRequiredSubgroupSizeCreateInfoEXT required(subgroup_size);
        if (subgroup_size) {
            stage.pNext = &required;
            stage.flags = vk::PipelineShaderStageCreateFlagBits::eRequireFullSubgroupsEXT;
        }
        pipeline_ =
            device_->createComputePipeline(nullptr, vk::ComputePipelineCreateInfo({}, stage, layout_)).value;
    } catch (...) {
        device_->destroyShaderModule(module);
        destroy();
        throw;
    }
    device_->destroyShaderModule(module);
}

Kernel::~Kernel() { destroy(); }

void Kernel::destroy() {
    device_->destroyPipeline(pipeline_);
    device_->destroyPipelineLayout(layout_);
    device_->destroyDescriptorSetLayout(set_layout_);
}

} // namespace vkdml
