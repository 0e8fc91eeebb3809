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
#include "slice1_turns.glsl"
// Compile-time: PARTED, whether several steps write the vectors. All dimensions are then the run's, as they are where
// RUN_DIMS says how many there are.
#if PARTED
#define OUTER_DIMS 0u
#else
#define WRITTEN uint(WRITTEN_ALL)
#define OUTER_DIMS (RUN_DIMS != 0u ? 0u : outer_dims)
#endif
#define DIMS (RUN_DIMS != 0u && RUN_DIMS != RUN_OF_LONG_PLANES ? RUN_DIMS : dims)

#include "slice1_divide.glsl"

// Splits `number`, a position in this and the outer dimensions: returns the coordinate in the dimension at `word` of
// the layout, and keeps the position in the outer ones.
uint take_coordinate(inout uint number, uint word) {
    uint coordinate;
    number = divide(number, layout_word(word), layout_word(word + 1u), coordinate);
    return coordinate;
}

// Where an element of a run lies in the input, and how many follow it at equal distances.
struct Place {
    uint source;
    uint left; // along the innermost dimension, the element included
#if !WHOLE_VECTORS
    uint row; // the input offset of the first of these; then the same of rows, planes and volumes
    uint rows_left;
#if PARTED
    uint plane, planes_left, volume;
#endif
#endif
};

#if !WHOLE_VECTORS && PARTED
uint size_of_dim(uint from_last);
#endif

// Returns the place of element `number` of the run that starts at `offset`.
Place place_in_run(uint number, uint offset) {
    Place place;
#if !WHOLE_VECTORS && PARTED
    uint run_offset = offset, planes = 0u;
#endif
    uint dim = DIMS - 1u, word = dim * RUN_DIM_WORDS;
    uint coordinate = take_coordinate(number, word);
    place.left = layout_word(word) - coordinate;
    place.source = coordinate * layout_word(word + 2u);
#if !WHOLE_VECTORS
    place.rows_left = 1u;
#if PARTED
    place.planes_left = 1u;
#endif
    uint before_row = 0u, before_plane = 0u;
#endif
    while (dim > OUTER_DIMS) {
        dim--;
        word -= RUN_DIM_WORDS;
        coordinate = take_coordinate(number, word);
        uint distance = coordinate * layout_word(word + 2u);
        offset += distance;
#if !WHOLE_VECTORS
        if (dim == DIMS - 2u) {
            place.rows_left = layout_word(word) - coordinate;
            before_row = distance;
#if PARTED
            planes = number;
#endif
        }
#if PARTED
        if (dim == DIMS - 3u) {
            place.planes_left = layout_word(word) - coordinate;
            before_plane = distance;
        }
#endif
#endif
    }
    place.source += offset;
#if !WHOLE_VECTORS
    place.row = offset;
#if PARTED
    if (RUN_DIMS == RUN_OF_LONG_PLANES) {
        // Of the next plane: its offset, and the number of its first element.
        uint rest = planes + 1u;
        place.planes_left = rest * size_of_dim(0u) * size_of_dim(1u);
        place.plane = run_offset;
        for (uint next_dim = DIMS - 2u; next_dim-- > OUTER_DIMS;)
            place.plane += take_coordinate(rest, next_dim * RUN_DIM_WORDS) * layout_word(next_dim * RUN_DIM_WORDS + 2u);
        return place;
    }
    place.plane = place.row - before_row;
    place.volume = place.plane - before_plane;
#endif
#endif
    return place;
}

#if !WHOLE_VECTORS
uint step_of_dim(uint from_last) { return layout_word((DIMS - 1u - from_last) * RUN_DIM_WORDS + 2u); }
uint size_of_dim(uint from_last) { return layout_word((DIMS - 1u - from_last) * RUN_DIM_WORDS); }

// Moves on to element `number` of the run, the next. With few dimensions nothing is divided and nothing branches.
void advance(inout Place place, uint number, uint offset, uint input_stride) {
    place.source += input_stride;
    bool row_ends = --place.left == 0u;
#if PARTED
    if (RUN_DIMS == 1u) return;
    if (RUN_DIMS == RUN_OF_LONG_PLANES) {
        // A vector ends in the next plane, or before.
        place.row += row_ends ? step_of_dim(1u) : 0u;
        place.row = number == place.planes_left ? place.plane : place.row;
        place.source = row_ends ? place.row : place.source;
        place.left = row_ends ? size_of_dim(0u) : place.left;
        return;
    }
    if (RUN_DIMS != 0u) {
        place.row += row_ends ? step_of_dim(1u) : 0u;
        if (RUN_DIMS > 2u) {
            place.rows_left -= uint(row_ends);
            bool plane_ends = place.rows_left == 0u;
            place.plane += plane_ends ? step_of_dim(2u) : 0u;
            if (RUN_DIMS > 3u) {
                place.planes_left -= uint(plane_ends);
                bool volume_ends = place.planes_left == 0u;
                place.volume += volume_ends ? step_of_dim(3u) : 0u;
                place.plane = volume_ends ? place.volume : place.plane;
                place.planes_left = volume_ends ? size_of_dim(2u) : place.planes_left;
            }
            place.row = plane_ends ? place.plane : place.row;
            place.rows_left = plane_ends ? size_of_dim(1u) : place.rows_left;
        }
        place.source = row_ends ? place.row : place.source;
        place.left = row_ends ? size_of_dim(0u) : place.left;
        return;
    }
#endif
    if (!row_ends) return;
    if (--place.rows_left > 0u) {
        place.row += step_of_dim(1u);
        place.source = place.row;
        place.left = size_of_dim(0u);
    } else {
        place = place_in_run(number, offset);
    }
}
#endif

#include "elements.glsl"
#if ELEMENT_BYTES < VECTOR_BYTES
#include "slice1_runs_parts.glsl"
#endif

// Returns the vector that is taken as number `item`, where blocks of about a row are taken last first. Rows that lie in
// another direction than their elements are then read in the direction in which these lie, as a processor foresees it.
uint vector_of_blocks(uint item) {
    uint blocks = vectors / vectors_per_run, place, block = divide(item, vectors_per_run, vectors_per_run_inverse, place);
    return block < blocks ? (blocks - 1u - block) * vectors_per_run + place : item;
}

void main() {
    uint input_stride = layout_word((DIMS - 1u) * RUN_DIM_WORDS + 2u);
    uint begin = share_of_workgroup() * vectors_per_workgroup;
    uint end = min(begin + vectors_per_workgroup, vectors);
    for (uint vector_of_all = begin + gl_LocalInvocationID.x; vector_of_all < end; vector_of_all += WORKGROUP) {
        uint vector = ROWS_LAST_FIRST ? vector_of_blocks(vector_of_all) : vector_of_all;
        uvec2 bases = uvec2(input_base, output_base);
        if (OUTER_DIMS > 0u) {
            uint number = divide(vector_of_all, vectors_per_run, vectors_per_run_inverse, vector);
            for (uint dim = OUTER_DIMS; dim-- > 0u;) {
                uint word = dim * RUN_DIM_WORDS;
                bases += take_coordinate(number, word) * uvec2(layout_word(word + 2u), layout_word(word + 3u));
            }
        }
        copy_vector(vector, bases, input_stride);
    }
}
