// Vectors of elements of 4 bytes, gathered from one row of the input or from two; with !WHOLE_VECTORS, from any number.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

uint load_word(uint word) { return input_words[min(word, last_vector * 4u + 3u)]; }

uvec4 gather(uint first, uint next, uint left, uint input_stride) {
    uvec4 number = uvec4(0u, 1u, 2u, 3u);
    uvec4 at = mix(next + (number - left) * input_stride, first + number * input_stride, lessThan(number, uvec4(left)));
    return uvec4(load_word(at.x), load_word(at.y), load_word(at.z), load_word(at.w));
}

#if !WHOLE_VECTORS
// Returns elements of one run from `number` on, which is at `place`; `begin` arbitrary ones come before.
uvec4 collect(Place place, uint number, uint begin, uint offset, uint input_stride) {
    uvec4 vector = uvec4(0u);
    for (uint i = 0u; i < PER_VECTOR; i++) {
        vector = uvec4(vector.yzw, load_word(place.source));
        if (i >= begin) advance(place, ++number, offset, input_stride);
    }
    return vector;
}
#endif

void store_part(uint vector, uvec4 elements, uint begin, uint end) {
    for (uint i = 0u; i < PER_VECTOR; i++, elements = elements.yzwx)
        if (i >= begin && i < end) output_words[vector * PER_VECTOR + i] = elements.x;
}
