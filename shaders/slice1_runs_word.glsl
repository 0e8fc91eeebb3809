// Runs of elements of 4 bytes.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

// Gathers a vector of elements, `input_stride` apart, from `first` on.
uvec4 gather(uint first, uint input_stride) {
    return uvec4(input_words[first], input_words[first + input_stride], input_words[first + 2u * input_stride],
                 input_words[first + 3u * input_stride]);
}

// Copies elements of one run, from `number` on, to a vector, from `place` on.
void copy_elements(uint number, uint count, uint offset, uint vector, uint place, uint input_stride) {
    uint source = 0u, left = 0u;
    for (uint i = 0u; i < count; i++) {
        if (left == 0u) source = offset_in_run(number + i, offset, left);
        output_words[vector * PER_VECTOR + place + i] = input_words[source];
        source += input_stride;
        left--;
    }
}

#include "slice1_runs_parts.glsl"
