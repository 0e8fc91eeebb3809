// Copies into runs, contiguous elements of the output: each invocation writes aligned vectors of 16 bytes. Vectors
// that extend beyond the innermost dimension are copied element by element.
//
// Compile-time: WHOLE_VECTORS, whether any vector lies along the innermost dimension; STEP, the innermost input
// stride of narrow elements, or 0 for any. Not specialization constants: some drivers keep the code that those
// exclude.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

// Returns the input offset of element `number` of the run that starts at `offset`; from there on, `left` elements lie
// along the innermost dimension.
uint offset_in_run(uint number, uint offset, out uint left) {
    uint dim = dims - 1u, word = dim * COPIED_DIM_WORDS;
    uint coordinate = take_coordinate(number, dim == outer_dims, word);
    left = layout_word(word) - coordinate;
    offset += coordinate * layout_word(word + 1u);
    while (dim > outer_dims) {
        dim--;
        word -= COPIED_DIM_WORDS;
        offset += take_coordinate(number, dim == outer_dims, word) * layout_word(word + 1u);
    }
    return offset;
}

#include "elements.glsl"

void main() {
    uint input_stride = layout_word((dims - 1u) * COPIED_DIM_WORDS + 1u);
    uint begin = gl_WorkGroupID.x * vectors_per_workgroup;
    uint end = min(begin + vectors_per_workgroup, vectors);
    for (uint vector_of_all = begin + gl_LocalInvocationID.x; vector_of_all < end; vector_of_all += WORKGROUP) {
        uint vector = vector_of_all;
        uvec2 bases = uvec2(input_base, output_base);
        if (outer_dims > 0u) {
            uint number = vector_of_all / vectors_per_run;
            vector -= number * vectors_per_run;
            bases = offsets_of(number, outer_dims, bases);
        }
        copy_vector(vector, bases, input_stride);
    }
}
