// Runs of elements of 4 bytes.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

// Gathers a vector of elements, `input_stride` apart, from `first` on.
uvec4 gather(uint first, uint input_stride) {
    return uvec4(input_words[first], input_words[first + input_stride], input_words[first + 2u * input_stride],
                 input_words[first + 3u * input_stride]);
}

// Returns a vector of elements of one run, from `number` on, which is at `place`.
uvec4 collect(Place place, uint number, uint offset, uint input_stride) {
    uvec4 vector = uvec4(0u);
    for (uint i = 0u; i < PER_VECTOR; i++) {
        vector = uvec4(vector.yzw, input_words[place.source]);
        advance(place, number + i + 1u, offset, input_stride);
    }
    return vector;
}

// Copies elements of one run, from `number` on, to a vector, from `first` on.
void copy_elements(uint number, uint count, uint offset, uint vector, uint first, uint input_stride) {
    Place place = place_in_run(number, offset);
    for (uint i = 0u; i < count; i++) {
        output_words[vector * PER_VECTOR + first + i] = input_words[place.source];
        advance(place, number + i + 1u, offset, input_stride);
    }
}

#include "slice1_runs_parts.glsl"
