// Loads aligned vectors of 16 bytes, or of half as many.
#include "columns_vector.glsl"

#define Loaded Vector
#if VECTOR_WORDS == 2
Loaded load(uint offset) { return input_pairs[offset / uint(8 / ELEMENT_BYTES)]; }
#else
Loaded load(uint offset) { return input_vectors[offset / uint(VECTOR_BYTES / ELEMENT_BYTES)]; }
#endif
Loaded load_until(uint offset, uint last) { return load(offset); } // the last element's vector is whole
Vector unpacked(Loaded loaded) { return loaded; }
