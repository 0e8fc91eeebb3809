// Runs of elements of 1 and 2 bytes; a word holds several.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
#include "gather.glsl"

// Copies elements of one run, from `number` on, to a vector, from `first` on.
void copy_elements(uint number, uint count, uint offset, uint vector, uint first, uint input_stride) {
    uint bits = 0u, written = 0u;
    Place place = place_in_run(number, offset);
    for (uint i = 0u; i < count; i++) {
        uint at = vector * PER_VECTOR + first + i;
        uint shift = at % PER_WORD * BITS;
        bits |= (input_words[place.source / PER_WORD] >> (place.source % PER_WORD * BITS) & MASK) << shift;
        written |= MASK << shift;
        if (shift == 32u - BITS || i + 1u == count) {
            store_bits(at / PER_WORD, bits, written);
            bits = written = 0u;
        }
        advance(place, number + i + 1u, offset, input_stride);
    }
}

#include "slice1_runs_parts.glsl"
