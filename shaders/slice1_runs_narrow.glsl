// Runs of elements of 1 and 2 bytes; a word holds several.
#include "slice1_narrow_vectors.glsl"

#if !WHOLE_VECTORS
#if PARTED && ELEMENT_BYTES == 1
// Returns the elements of a whole vector from `number` on, which is at `place`, a word at a time. Rows have as many elements or
// more, so that a word has those of two rows at most.
uvec4 collect_words(Place place, uint number, uint offset, uint input_stride) {
    uvec4 vector = uvec4(0u);
    for (uint i = 0u; i < 4u; i++) {
        Place next = place;
        next.left = 1u;
        advance(next, number + place.left, offset, input_stride);
        uint found = word_of_row(place.source, ROW_WORDS == 2u), rest = word_of_row(next.source, ROW_WORDS == 2u);
        bool ends = place.left <= PER_WORD;
        uint more = PER_WORD - min(place.left, PER_WORD); // elements of the next row
        uint own = 0xffffffffu >> (more * BITS);
        vector = uvec4(vector.yzw, (found & own) | (more == 0u ? 0u : rest << (place.left * BITS)));
        next.source += more * input_stride;
        next.left -= more;
        place.source += PER_WORD * input_stride;
        place.left -= PER_WORD;
        if (ends) place = next;
        number += PER_WORD;
    }
    return vector;
}
#endif

// Returns elements of one run from `number` on, which is at `place`; `begin` arbitrary ones come before.
uvec4 collect(Place place, uint number, uint begin, uint offset, uint input_stride) {
#if PARTED && ELEMENT_BYTES == 1
    if (ROW_WORDS != 0u) return collect_words(place, number, offset, input_stride);
#endif
    uvec4 vector = uvec4(0u);
    uint bits = 0u;
    for (uint i = 0u; i < PER_VECTOR; i++) {
        uint found = load_word(place.source / PER_WORD) >> (place.source % PER_WORD * BITS);
        bits = bits >> BITS | found << (32u - BITS);
        if (i % PER_WORD == PER_WORD - 1u) vector = uvec4(vector.yzw, bits);
        if (i >= begin) advance(place, ++number, offset, input_stride);
    }
    return vector;
}
#endif
