// Runs of elements of 1 and 2 bytes; a word holds several.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
#include "gather.glsl"

// Returns a vector of elements of one run, from `number` on, which is at `place`.
uvec4 collect(Place place, uint number, uint offset, uint input_stride) {
#if STEP
    // The rest of the vector is in the next row, since rows are longer than vectors. What is loaded before and after
    // a row does not count.
    uint left = place.left;
    uvec4 vector = gather(place.source, input_stride);
    if (place.rows_left > 1u)
        place.source = place.row + layout_word((dims - 2u) * RUN_DIM_WORDS + 2u);
    else
        place = place_in_run(number + left, offset);
    uvec4 count = uvec4(clamp(ivec4(left) - ivec4(0, 1, 2, 3) * int(PER_WORD), ivec4(0), ivec4(PER_WORD)));
    uvec4 half_bits = count * (BITS / 2u);
    uvec4 own = (uvec4(1u) << half_bits << half_bits) - 1u;
    return (vector & own) | (gather(place.source - left * input_stride, input_stride) & ~own);
#else
    uvec4 vector = uvec4(0u);
    uint bits = 0u;
    for (uint i = 0u; i < PER_VECTOR; i++) {
        uint found = input_words[place.source / PER_WORD] >> (place.source % PER_WORD * BITS);
        bits = bits >> BITS | found << (32u - BITS);
        if (i % PER_WORD == PER_WORD - 1u) vector = uvec4(vector.yzw, bits);
        advance(place, number + i + 1u, offset, input_stride);
    }
    return vector;
#endif
}

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
