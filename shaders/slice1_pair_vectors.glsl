// Vectors of elements of 8 bytes, gathered from one row of the input or from two.
const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

uvec2 load_pair(uint pair) { return input_pairs[min(pair, last_vector * 2u + 1u)]; }

uvec4 gather(uint first, uint next, uint left, uint input_stride) {
    return uvec4(load_pair(first), load_pair(left > 1u ? first + input_stride : next));
}

#if !WHOLE_VECTORS
// Returns elements of one run from `number` on, which is at `place`; `begin` arbitrary ones come before.
uvec4 collect(Place place, uint number, uint begin, uint offset, uint input_stride) {
    uvec2 low = load_pair(place.source);
    if (begin == 0u) advance(place, number + 1u, offset, input_stride);
    return uvec4(low, load_pair(place.source));
}
#endif

void store_part(uint vector, uvec4 elements, uint begin, uint end) {
    if (begin == 0u) output_pairs[vector * PER_VECTOR] = elements.xy;
    if (end == PER_VECTOR) output_pairs[vector * PER_VECTOR + 1u] = elements.zw;
}
