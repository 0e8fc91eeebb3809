// Loads aligned vectors of 16 bytes.
#include "columns_vector.glsl"

#define Loaded uvec4
Loaded load(uint offset) { return input_vectors[offset / uint(VECTOR_BYTES / ELEMENT_BYTES)]; }
Vector unpacked(Loaded loaded) { return loaded; }
