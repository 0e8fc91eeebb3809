// What the slice1 kernels share: bindings, push constants and the layout.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WORKGROUP = 64;

layout(std430, binding = 0) readonly buffer InputWords { uint input_words[]; };
layout(std430, binding = 1) buffer OutputWords { uint output_words[]; };
layout(std430, binding = 2) readonly buffer Workspace { uint workspace[]; };

#define PUSH_LAYOUT_WORDS 24
layout(push_constant) uniform Push {
    uint layout_in_push; // 0 or 1
    uint items; // words or elements, one invocation each
    uint dims;
    uint input_base; // bases and strides in elements
    uint output_base;
    uint run; // elements side by side in the output along the innermost dimension (narrow elements)
    uint words_per_run;
    uint run_input_stride;
    uint layout_words[PUSH_LAYOUT_WORDS];
};

uint layout_word(uint i) { return layout_in_push != 0u ? layout_words[i] : workspace[i]; }
#include "layout.glsl"
