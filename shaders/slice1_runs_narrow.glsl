// Runs of elements of 1 and 2 bytes; a word holds several.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
#include "gather.glsl"

// Copies elements of one run, from `number` on, to a vector, from `place` on.
void copy_elements(uint number, uint count, uint offset, uint vector, uint place, uint input_stride) {
    uint source = 0u, left = 0u, bits = 0u, written = 0u;
    for (uint i = 0u; i < count; i++) {
        if (left == 0u) source = offset_in_run(number + i, offset, left);
        uint at = vector * PER_VECTOR + place + i;
        uint shift = at % PER_WORD * BITS;
        bits |= (input_words[source / PER_WORD] >> (source % PER_WORD * BITS) & MASK) << shift;
        written |= MASK << shift;
        if (shift == 32u - BITS || i + 1u == count) {
            store_bits(at / PER_WORD, bits, written);
            bits = written = 0u;
        }
        source += input_stride;
        left--;
    }
}

#include "slice1_runs_parts.glsl"
