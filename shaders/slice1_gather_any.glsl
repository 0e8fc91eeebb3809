// Gathers a vector of narrow elements, `input_stride` apart, from `first` on.

uvec4 load_each(uvec4 at) {
    return uvec4(input_words[at.x], input_words[at.y], input_words[at.z], input_words[at.w]);
}

uvec4 gather(uint first, uint input_stride) {
    uvec4 vector = uvec4(0u);
    uvec4 at = first + uvec4(0u, PER_WORD, 2u * PER_WORD, 3u * PER_WORD) * input_stride;
    for (uint shift = 0u; shift < 32u; shift += BITS, at += input_stride)
        vector |= (load_each(at / PER_WORD) >> (at % PER_WORD * BITS) & MASK) << shift;
    return vector;
}
