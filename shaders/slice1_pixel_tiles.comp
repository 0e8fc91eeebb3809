// Transposes matrices of pixels: elements that lie side by side in the input and in the output, in the same order or in the
// opposite one. Rows of the output are made of columns, each of a pixel of another line of the input.
//
// A workgroup copies a tile through shared memory. An invocation loads a piece of each of as many lines as a word has elements,
// and makes words of rows from there, in registers. Then vectors of rows are stored.
//
// Compile-time: ELEMENT_BYTES, at most 4.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"
#include "layout.glsl"

const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES), PER_CELL = PER_WORD, CELLS_OF_VECTOR = 4u;

#include "slice1_tile_units.glsl"

// An invocation makes so many elements of a row at once, and CHANNELS words.
const uint ELEMENTS_AT_ONCE = PER_WORD * CHANNELS;
// What it takes of a line spans so many elements, and so many words hold them, wherever they start in the first.
const uint SPAN = (ROWS_AT_ONCE - 1u) * PIXEL_ELEMENTS + (CHANNELS - 1u) * CHANNEL_STEP + 1u;
const uint READ = (SPAN + PER_WORD - 1u) / PER_WORD + uint(INPUT_UNALIGNED);

// Of shared memory, from row to row and from block to block: invocations that load pieces of the same lines write to different
// banks.
const uint ROW_PITCH = ACROSS + 1u, BLOCK_PITCH = ROWS_AT_ONCE * ROW_PITCH | 1u;
const uint CELLS = DOWN / ROWS_AT_ONCE * BLOCK_PITCH;
shared uint cells[CELLS];

uint cell(uint row, uint across) { return row / ROWS_AT_ONCE * BLOCK_PITCH + row % ROWS_AT_ONCE * ROW_PITCH + across; }

#include "slice1_divide.glsl"
#include "slice1_tile_order.glsl"
#include "slice1_shifted_cells.glsl"

// Vectors do not go on with the next row.
const bool CONTINUED = false;
bool is_outermost(uint row, bool after) { return true; }

#include "slice1_tile_stores.glsl"

uint lines[PER_WORD * READ];

// Returns word `number` of those that are made of a row.
uint made_word(uint row, uint number) {
    uint bits = 0u;
    [[unroll]] for (uint i = 0u; i < PER_WORD; i++) {
        uint element = number * PER_WORD + i, line = element / CHANNELS, channel = element % CHANNELS;
        uint place = row * PIXEL_ELEMENTS + (BACKWARD ? CHANNELS - 1u - channel : channel) * CHANNEL_STEP;
        uint loaded = lines[line * READ + place / PER_WORD], from = place % PER_WORD * BITS, to = i * BITS;
        bits |= (from > to ? loaded >> (from - to) : loaded << (to - from)) & MASK << to;
    }
    return bits;
}

// Loads what an invocation takes at once, and keeps it from cell `at` on. `first` is where the first row lies in the first line;
// lines beyond the last are arbitrary.
void load_block(uint first, uint first_line, uint at) {
    uint shifts[PER_WORD], last_word = last_vector * 4u + 3u;
    [[unroll]] for (uint line = 0u; line < PER_WORD; line++) {
        uint start = first + (first_line + line) * line_input_stride, word = start / PER_WORD;
        shifts[line] = start % PER_WORD * BITS;
        [[unroll]] for (uint i = 0u; i < READ; i++) lines[line * READ + i] = input_words[min(word + i, last_word)];
    }
    if (INPUT_UNALIGNED) {
        [[unroll]] for (uint line = 0u; line < PER_WORD; line++) {
            [[unroll]] for (uint i = line * READ; i < (line + 1u) * READ - 1u; i++)
                lines[i] = spliced(lines[i], lines[i + 1u], shifts[line]);
        }
    }
    [[unroll]] for (uint row = 0u; row < ROWS_AT_ONCE; row++) {
        [[unroll]] for (uint i = 0u; i < CHANNELS; i++) cells[at + row * ROW_PITCH + i] = made_word(row, i);
    }
}

void main() {
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint number, matrix = divide(tile, tiles_down * tiles_across, tiles_in_matrix_inverse, number);
        uvec2 place = place_of_tile(number);
        uint row = place.x * DOWN, column = place.y * tile_vectors * PER_VECTOR;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base + row * PIXEL_ELEMENTS, output_base));
        uint rows_left = rows - row, columns_left = columns - column;

        // The last unit of a row may end beyond the tile.
        uint loaded = tile_vectors * PER_VECTOR + (IS_SHIFTED ? PER_UNIT - 1u : 0u);
        loaded = (min(loaded, columns_left) + ELEMENTS_AT_ONCE - 1u) / ELEMENTS_AT_ONCE;
        const uint parts_down = DOWN / ROWS_AT_ONCE;
        for (uint i = gl_LocalInvocationID.x; i < parts_down * loaded; i += WORKGROUP) {
            uint across = i / parts_down, part = i % parts_down;
            // Beyond the matrix its last rows are loaded again.
            uint first_row = min(part, (rows_left - 1u) / ROWS_AT_ONCE) * ROWS_AT_ONCE;
            load_block(
                bases.x + first_row * PIXEL_ELEMENTS, column / CHANNELS + across * PER_WORD,
                part * BLOCK_PITCH + across * CHANNELS
            );
        }
        barrier();
        uint rows_in_tile = min(rows_left, DOWN);
        for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * tile_vectors; i += WORKGROUP) {
            uint vector, down = divide(i, tile_vectors, tile_vectors_inverse, vector);
            store_vector(down, row + down, bases.y + (row + down) * row_output_stride, column, vector);
        }
        bool before = IS_SHIFTED && column == 0u, after = columns_left < tile_vectors * PER_VECTOR + PER_UNIT;
        if (PER_UNIT > 1u && (before || after)) {
            uint ends = before && after ? 2u * CELLS_OF_UNIT : CELLS_OF_UNIT;
            for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * ends; i += WORKGROUP) {
                uint down = i / ends, end = i - down * ends;
                bool is_after = !before || end >= CELLS_OF_UNIT;
                store_end(down, bases.y + (row + down) * row_output_stride, column, is_after, end % CELLS_OF_UNIT);
            }
        }
        if (!IN_ROUNDS) break;
        barrier();
    }
}
