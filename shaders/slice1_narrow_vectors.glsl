// Vectors of elements of 1 and 2 bytes, gathered from one row of the input or from two.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
#include "slice1_row_words.glsl"

uvec4 load_words(uvec4 at) { return uvec4(load_word(at.x), load_word(at.y), load_word(at.z), load_word(at.w)); }

#include "gather.glsl"

// Returns the bits of the first `count` elements of a vector; the count may be anything from -PER_VECTOR on.
uvec4 bits_before(int count) {
    uvec4 in_words = uvec4(clamp(ivec4(count) - ivec4(0, 1, 2, 3) * int(PER_WORD), ivec4(0), ivec4(PER_WORD)));
    uvec4 half_bits = in_words * (BITS / 2u);
    return (uvec4(1u) << half_bits << half_bits) - 1u;
}

#if STEP
uvec4 gather(uint first, uint next, uint left, uint input_stride) {
    uvec4 vector = gather_row(first);
    if (WRITTEN == WRITTEN_INSIDE_ROWS || left >= PER_VECTOR) return vector;
    uvec4 own = bits_before(int(left));
    return (vector & own) | (gather_row(next - left * input_stride) & ~own);
}
#endif

void store_part(uint vector, uvec4 elements, uint begin, uint end) {
    uvec4 written = bits_before(int(end)) & ~bits_before(int(begin));
    for (uint i = 0u; i < 4u; i++, elements = elements.yzwx, written = written.yzwx)
        store_bits(vector * 4u + i, elements.x, written.x);
}
