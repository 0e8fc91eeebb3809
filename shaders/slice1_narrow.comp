// Copies elements of 1 or 2 bytes: each invocation writes one word of the output, whole where all of it belongs
// to the run, else only the bits of its elements, with atomics, since others may write their neighbours.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "slice1.glsl"

const uint PER_WORD = 4u / ELEMENT_BYTES;
const uint BITS = 8u * ELEMENT_BYTES;
const uint MASK = (1u << BITS) - 1u;

void main() {
    uint step = gl_NumWorkGroups.x * WORKGROUP;
    for (uint item = gl_GlobalInvocationID.x; item < items; item += step) {
        uvec2 offsets = offsets_of(item / words_per_run, dims, uvec2(input_base, output_base));
        uint first_in_word = offsets.y % PER_WORD;
        uint word = item % words_per_run;
        uint bits = 0u, written = 0u;
        for (uint place = 0u; place < PER_WORD; place++) {
            uint element = word * PER_WORD + place - first_in_word; // wraps to a great number before the run
            if (element >= run) continue;
            uint source = offsets.x + element * run_input_stride;
            uint value = (input_words[source / PER_WORD] >> (source % PER_WORD * BITS)) & MASK;
            bits |= value << (place * BITS);
            written |= MASK << (place * BITS);
        }
        uint target = offsets.y / PER_WORD + word;
        if (written == 0xffffffffu) {
            output_words[target] = bits;
        } else if (written != 0u) {
            atomicAnd(output_words[target], ~written);
            atomicOr(output_words[target], bits);
        }
        if (items - item <= step) break; // item + step may not fit 32 bits
    }
}
