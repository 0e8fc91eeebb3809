// Copies elements of ELEMENT_WORDS whole words, one an invocation.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "slice1.glsl"

void main() {
    uint step = gl_NumWorkGroups.x * WORKGROUP;
    for (uint item = gl_GlobalInvocationID.x; item < items; item += step) {
        uvec2 offsets = offsets_of(item, dims, uvec2(input_base, output_base)) * ELEMENT_WORDS;
        for (uint word = 0u; word < ELEMENT_WORDS; word++)
            output_words[offsets.y + word] = input_words[offsets.x + word];
        if (items - item <= step) break; // item + step may not fit 32 bits
    }
}
