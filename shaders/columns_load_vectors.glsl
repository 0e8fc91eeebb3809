// Loads aligned vectors of 16 bytes.
#include "columns_vector.glsl"

#define Loaded uvec4
Loaded load(uint offset) { return input_vectors[offset / uint(VECTOR_BYTES / ELEMENT_BYTES)]; }
Vector unpacked(Loaded loaded) { return loaded; }

// Sets the columns of a group that the caller writes: [first, end) in its run.
void clip_columns(inout uint first, uint end, out uint first_column, out uint end_column) {
    first_column = 0u;
    end_column = end - first;
}
