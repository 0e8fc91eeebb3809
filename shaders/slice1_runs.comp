// Copies into runs, elements side by side in the output: each invocation owns aligned 16-byte vectors of it.
// Vectors that are not one stretch of the innermost dimension are copied element by element.
//
// Compile-time: WHOLE_VECTORS, whether any vector is one stretch; STEP, the innermost input stride of narrow elements, or
// 0 for any. No specialization constants: not all drivers drop what those exclude.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

// Where element `number` of a run that starts at `offset` lies in the input; from there on, `left` elements lie
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
