// Copies boxes, parts of the array that are short along all dimensions: the input's contiguous spans are loaded as
// vectors into shared memory, the output's are stored from there as words. All boxes of a copy have the same extents
// (those at an end overlap their neighbours), so an invocation finds out once where its elements lie in a box.
//
// Compile-time: ELEMENT_BYTES, at most 4; wider elements are several words.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"

const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
#if ELEMENT_BYTES == 4
const uint PER_WORD = 1u;
#endif

shared uint layout_cells[BOX_LAYOUT_WORDS]; // the workspace may be far away
shared uint cells[CELLS];
shared uint input_rows[TABLE];  // offsets of a box's contiguous spans
shared uint output_rows[TABLE];

// Divides a number of less than 2^16 by the divisor of less than 2^16 that `inverse` is made of; 0 stands for 1.
uint quotient(uint number, uint inverse) {
    uint high, low;
    umulExtended(number, inverse, high, low);
    return inverse == 0u ? number : high;
}

// Returns two offsets of item `number` of a box along `dims` dimensions, whose layout starts at `word`.
uvec2 offsets_in_box(uint number, uint word, uint dims) {
    uvec2 offsets = uvec2(0u);
    word += dims * BOX_DIM_WORDS;
    for (uint dim = dims; dim-- > 0u;) {
        word -= BOX_DIM_WORDS;
        uint outer = dim == 0u ? 0u : quotient(number, layout_cells[word + 1u]);
        offsets += (number - outer * layout_cells[word]) * uvec2(layout_cells[word + 2u], layout_cells[word + 3u]);
        number = outer;
    }
    return offsets;
}

// What an invocation keeps for each of its turns is in variables of its own: some drivers keep arrays in memory.
#define EACH_TURN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

// Of the vectors that an invocation loads of each box: where they lie from the box's base on, and where they go.
#define EACH_LOAD(DO) DO(0) DO(1) DO(2) DO(3)
#define DECLARE_LOAD(LOAD) uint span_##LOAD, row_and_vector_##LOAD, start_##LOAD, next_##LOAD = 0u; uvec4 vector_##LOAD;
EACH_LOAD(DECLARE_LOAD)

void find_load(uint number, out uint span, out uint row_and_vector) {
    number = min(number, rows * row_vectors - 1u);
    uint row = quotient(number, row_vectors_inverse);
    span = input_rows[row];
    row_and_vector = row << 16 | (number - row * row_vectors);
}

void find_loads() {
#define FIND_LOAD(LOAD) find_load(LOAD * WORKGROUP + gl_LocalInvocationID.x, span_##LOAD, row_and_vector_##LOAD);
    EACH_LOAD(FIND_LOAD)
}

void load(uint start, uint row_and_vector, out uvec4 loaded, out uint next) {
    uint vector = start / PER_VECTOR + (row_and_vector & 0xffffu);
    loaded = input_vectors[min(vector, last_vector)];
#if ELEMENT_BYTES < 4
    next = INPUT_UNALIGNED ? input_words[4u * min(vector + 1u, last_vector)] : 0u;
#endif
}

void load_rows(uint base) {
#define LOAD(LOAD) start_##LOAD = base + span_##LOAD; if (LOAD * WORKGROUP < rows * row_vectors) load(start_##LOAD, row_and_vector_##LOAD, vector_##LOAD, next_##LOAD);
    EACH_LOAD(LOAD)
}

void keep(uint start, uint row_and_vector, uvec4 words, uint next) {
#if ELEMENT_BYTES < 4
    if (INPUT_UNALIGNED) words = funnel(words, uvec4(words.yzw, next), start % PER_WORD * BITS);
#endif
    uint word = (row_and_vector & 0xffffu) * 4u - start / PER_WORD % 4u;
    uint cell = (row_and_vector >> 16) * row_pitch + word;
    if (word < row_words) cells[cell] = words.x;
    if (word + 1u < row_words) cells[cell + 1u] = words.y;
    if (word + 2u < row_words) cells[cell + 2u] = words.z;
    if (word + 3u < row_words) cells[cell + 3u] = words.w;
}

void keep_rows() {
#define KEEP_ROW(LOAD) if (LOAD * WORKGROUP < rows * row_vectors) keep(start_##LOAD, row_and_vector_##LOAD, vector_##LOAD, next_##LOAD);
    EACH_LOAD(KEEP_ROW)
}

#include "elements.glsl"

// Where a box starts, and whether rows of the output start and end in it.
struct Origin {
    uint input_base;
    uint output_base;
    bool at_start;
    bool at_end;
};

Origin origin_of(uint number) {
    uvec2 bases = uvec2(input_base, output_base);
    bool at_start = true, at_end = true;
    for (uint dim = grid_dims; dim-- > 0u;) {
        uint word = dim * GRID_DIM_WORDS;
        uint outer = dim == 0u ? 0u : number / layout_cells[word];
        uint last = layout_cells[word + 2u];
        uint origin = min((number - outer * layout_cells[word]) * layout_cells[word + 1u], last);
        bases += origin * uvec2(layout_cells[word + 3u], layout_cells[word + 4u]);
        if (dim == output_grid_dim) {
            at_start = origin == 0u;
            at_end = origin == last;
        }
        number = outer;
    }
    return Origin(bases.x, bases.y, at_start, at_end);
}

void main() {
    uint rows_word = grid_dims * GRID_DIM_WORDS;
    uint output_word = rows_word + row_dims * BOX_DIM_WORDS;
    uint layout_count = output_word + (output_row_dims + within_dims) * BOX_DIM_WORDS;
    for (uint word = gl_LocalInvocationID.x; word < layout_count; word += WORKGROUP)
        layout_cells[word] = LAYOUT_IN_PUSH ? layout_words[word] : workspace[word];
    barrier();
    for (uint row = gl_LocalInvocationID.x; row < rows; row += WORKGROUP)
        input_rows[row] = offsets_in_box(row, rows_word, row_dims).x;
    for (uint row = gl_LocalInvocationID.x; row < output_row_count; row += WORKGROUP)
        output_rows[row] = offsets_in_box(row, output_word, output_row_dims).x;
    barrier();
    find_loads();
    find_places(output_word, output_word + output_row_dims * BOX_DIM_WORDS);

    uint box = gl_WorkGroupID.x;
    Origin origin = origin_of(min(box, boxes - 1u));
    load_rows(origin.input_base);
    while (box < boxes) {
        keep_rows();
        barrier();
        Origin current = origin;
        box += gl_NumWorkGroups.x;
        if (box < boxes) {
            origin = origin_of(box);
            load_rows(origin.input_base);
        }
        store_rows(current.output_base, current.at_start, current.at_end);
    }
}
