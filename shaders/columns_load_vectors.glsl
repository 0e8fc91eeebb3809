// Loads aligned vectors of 16 bytes.
#include "columns_vector.glsl"

#define Loaded uvec4
Loaded load(uint offset) { return input_vectors[offset / uint(VECTOR_BYTES / ELEMENT_BYTES)]; }
Loaded load_until(uint offset, uint last) { return load(offset); } // the last element's vector is whole
Vector unpacked(Loaded loaded) { return loaded; }
