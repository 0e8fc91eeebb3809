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

shared uint layout_cells[BOX_LAYOUT_WORDS]; // the workspace may be far away
shared uint cells[CELLS];
shared uint input_rows[TABLE];       // offsets of a box's contiguous spans
shared uint input_row_places[TABLE]; // of their first elements among those of the cells, in a box that starts with a word
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

#if BOX_TURNS != 8
#error "EACH_TURN() has eight turns"
#endif
// What an invocation keeps for each of its turns is in variables of its own: some drivers keep arrays in memory.
#define EACH_TURN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

// A vector of a span of the input on its way to the cells, whose elements keep their places in words.
struct Loaded {
    uvec4 vector;
    uint cell; // of the vector's first word
    uint word; // of the span: the vector's first
    uint last; // of the span
};

Loaded load_vector(uint number, uint base) {
    Loaded loaded;
    uint row = quotient(number, row_vectors_inverse);
    uint start = base + input_rows[row], place = input_row_places[row] + base % PER_WORD;
    uint vector = number - row * row_vectors + start / PER_VECTOR;
    loaded.word = vector * 4u - start / PER_WORD;
    loaded.cell = place / PER_WORD + loaded.word;
    loaded.last = (place % PER_WORD + row_length - 1u) / PER_WORD;
    loaded.vector = input_vectors[min(vector, last_vector)];
    return loaded;
}

// Words before the span's first have numbers beyond the last.
void keep(Loaded loaded) {
    uint word = loaded.word, last = loaded.last;
    if (word <= last) cells[loaded.cell] = loaded.vector.x;
    if (word + 1u <= last) cells[loaded.cell + 1u] = loaded.vector.y;
    if (word + 2u <= last) cells[loaded.cell + 2u] = loaded.vector.z;
    if (word + 3u <= last) cells[loaded.cell + 3u] = loaded.vector.w;
}

void load_rows(uint base) {
    uint last = rows * row_vectors - 1u;
    for (uint number = gl_LocalInvocationID.x; number <= last; number += 2u * WORKGROUP) {
        // Two loads in flight. What is loaded twice is kept twice, which changes nothing.
        Loaded first = load_vector(number, base);
        Loaded second = load_vector(min(number + WORKGROUP, last), base);
        keep(first);
        keep(second);
    }
}

// Where a box starts, and whether rows of the output start and end in it.
struct Origin {
    uint input_base;
    uint output_base;
    bool at_start;
    bool at_end;
};

#include "elements.glsl"

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
        layout_cells[word] = layout_word(word);
    barrier();
    for (uint row = gl_LocalInvocationID.x; row < rows; row += WORKGROUP) {
        uvec2 offsets = offsets_in_box(row, rows_word, row_dims);
        input_rows[row] = offsets.x;
        input_row_places[row] = offsets.y;
    }
    for (uint row = gl_LocalInvocationID.x; row < output_row_count; row += WORKGROUP)
        output_rows[row] = offsets_in_box(row, output_word, output_row_dims).x;
    barrier();
    find_places(output_word, output_word + output_row_dims * BOX_DIM_WORDS);

    for (uint box = gl_WorkGroupID.x; box < boxes; box += gl_NumWorkGroups.x) {
        Origin origin = origin_of(box);
        load_rows(origin.input_base);
        barrier();
        store_rows(origin);
    }
}
