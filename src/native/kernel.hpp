// A compute pipeline: one SPIR-V module with its specialization constants, bound to no buffer.
#pragma once

#include <memory>
#include <vector>

#include "device.hpp"

namespace vkdml {

class Kernel {
public:
    // `bindings` storage buffers in set 0, counted from 0; `push_bytes` of push constants; specialization
    // constant i is `constants[i]`. With a `subgroup_size` that is not 0 all subgroups are full and have it.
    // The storage buffer at binding 0 is bound as texels, too, after all others: once for each number of
    // words that texels have.
    Kernel(const Device& device, const std::vector<uint32_t>& spirv, uint32_t bindings, uint32_t push_bytes,
           const std::vector<uint32_t>& constants, uint32_t subgroup_size,
           std::vector<uint32_t> texel_words = {});
    ~Kernel();
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    uint32_t bindings() const { return bindings_; }
    uint32_t push_bytes() const { return push_bytes_; }
    const std::vector<uint32_t>& texel_words() const { return texel_words_; }
    const std::shared_ptr<vk::Device>& device() const { return device_; }
    vk::DescriptorSetLayout set_layout() const { return set_layout_; }
    vk::PipelineLayout layout() const { return layout_; }
    vk::Pipeline pipeline() const { return pipeline_; }

private:
    void destroy();

    std::shared_ptr<vk::Device> device_;
    uint32_t bindings_, push_bytes_;
    std::vector<uint32_t> texel_words_;
    vk::DescriptorSetLayout set_layout_;
    vk::PipelineLayout layout_;
    vk::Pipeline pipeline_;
};

} // namespace vkdml
