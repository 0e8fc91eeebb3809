// Vectors of one element of 16 bytes, which lies in one row.
const uint PER_VECTOR = 1u;

uvec4 gather(uint first, uint next, uint left, uint input_stride) { return input_vectors[first]; }

// Never called: a vector of one element is whole.
void store_part(uint vector, uvec4 elements, uint begin, uint end) {}
