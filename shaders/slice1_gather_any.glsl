// Gathers a vector of narrow elements, `input_stride` apart.
uvec4 gather(uint first, uint next, uint left, uint input_stride) {
    uvec4 vector = uvec4(0u), number = uvec4(0u, 1u, 2u, 3u) * PER_WORD;
    next -= left * input_stride;
    for (uint shift = 0u; shift < 32u; shift += BITS, number++) {
        uvec4 at = mix(uvec4(next), uvec4(first), lessThan(number, uvec4(left))) + number * input_stride;
        vector |= (load_words(at / PER_WORD) >> (at % PER_WORD * BITS) & MASK) << shift;
    }
    return vector;
}
