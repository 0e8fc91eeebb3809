// Copies elements from given places to a compact output: each invocation writes words, or elements of several words.
//
// Compile-time: ELEMENT_BYTES.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"

layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputWords { uint input_words[]; };
layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputPairs { uvec2 input_pairs[]; };
layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputVectors { uvec4 input_vectors[]; };
layout(std430, binding = BINDING_PLACES) readonly restrict buffer Places { uint places[]; };
layout(std430, binding = BINDING_GATHERED) restrict buffer GatheredWords { uint gathered_words[]; };
layout(std430, binding = BINDING_GATHERED) restrict buffer GatheredPairs { uvec2 gathered_pairs[]; };
layout(std430, binding = BINDING_GATHERED) restrict buffer GatheredVectors { uvec4 gathered_vectors[]; };
layout(std430, binding = BINDING_WORKSPACE) readonly restrict buffer Workspace { uint workspace[]; };

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

uint source_of(uint element) {
    uvec2 offsets = offsets_of(element, dims, uvec2(input_base, 0u));
    return offsets.x + places[offsets.y];
}

void write_item(uint item) {
#if ELEMENT_BYTES < 4
    const uint per_word = 4u / ELEMENT_BYTES, bits = 8u * ELEMENT_BYTES, mask = (1u << bits) - 1u;
    uint word = 0u, first = item * per_word;
    for (uint i = 0u; i < per_word; i++) {
        uint source = source_of(min(first + i, elements - 1u));
        word |= (input_words[source / per_word] >> (source % per_word * bits) & mask) << (i * bits);
    }
    gathered_words[item] = word;
#elif ELEMENT_BYTES == 4
    gathered_words[item] = input_words[source_of(item)];
#elif ELEMENT_BYTES == 8
    gathered_pairs[item] = input_pairs[source_of(item)];
#else
    gathered_vectors[item] = input_vectors[source_of(item)];
#endif
}

void main() {
    uint begin = gl_WorkGroupID.x * items_per_workgroup;
    uint end = min(begin + items_per_workgroup, items);
    for (uint item = begin + gl_LocalInvocationID.x; item < end; item += WORKGROUP) write_item(item);
}
