// Copies where the input is contiguous along one dimension and the output along another: tiles go through
// shared memory, so that both sides move whole words side by side.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "slice1_tiles.interface.glsl"
#include "slice1.glsl"

// Rows are contiguous in the output; along a column the input is contiguous.
uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

#if ELEMENT_BYTES < 4
const uint BLOCK = PER_WORD;
#define CELL uint
#elif ELEMENT_BYTES == 4
const uint BLOCK = 1u;
#define CELL uint
#define input_cells input_words
#define output_cells output_words
#elif ELEMENT_BYTES == 8
const uint BLOCK = 1u;
#define CELL uvec2
#define input_cells input_pairs
#define output_cells output_pairs
#else
const uint BLOCK = 1u;
#define CELL uvec4
#define input_cells input_vectors
#define output_cells output_vectors
#endif

shared CELL cells[DOWN * BLOCK * ACROSS];

// Neighbours along a row, and along a column of blocks, lie in different banks.
uint cell(uint block, uint row_in_block, uint across) {
    return (row_in_block * DOWN + block) * ACROSS + (across ^ (block & (ACROSS - 1u)));
}

#if ELEMENT_BYTES < 4
// Up to a word of elements of the input; what lies beyond the first `count` is arbitrary.
uint load_column(uint first, uint count) {
    uint word = input_words[first / PER_WORD];
    if (!INPUT_UNALIGNED) return word;
    uint last = (first + min(count, PER_WORD) - 1u) / PER_WORD;
    return funnel(word, input_words[last], first % PER_WORD * BITS);
}

void load_block(uint first, uint block, uint across, uint rows_left, uint columns_left) {
    uint words[BLOCK];
    [[unroll]] for (uint i = 0u; i < BLOCK; i++)
        words[i] = i < columns_left ? load_column(first + i * column_input_stride, rows_left) : 0u;
#if ELEMENT_BYTES == 1
    uint even_low = (words[0] & 0x00ff00ffu) | (words[1] & 0x00ff00ffu) << 8;
    uint even_high = (words[2] & 0x00ff00ffu) | (words[3] & 0x00ff00ffu) << 8;
    uint odd_low = (words[0] >> 8 & 0x00ff00ffu) | (words[1] & 0xff00ff00u);
    uint odd_high = (words[2] >> 8 & 0x00ff00ffu) | (words[3] & 0xff00ff00u);
    cells[cell(block, 0u, across)] = (even_low & 0xffffu) | even_high << 16;
    cells[cell(block, 1u, across)] = (odd_low & 0xffffu) | odd_high << 16;
    cells[cell(block, 2u, across)] = even_low >> 16 | (even_high & 0xffff0000u);
    cells[cell(block, 3u, across)] = odd_low >> 16 | (odd_high & 0xffff0000u);
#else
    cells[cell(block, 0u, across)] = (words[0] & 0xffffu) | words[1] << 16;
    cells[cell(block, 1u, across)] = words[0] >> 16 | (words[1] & 0xffff0000u);
#endif
}

// A word of a row whose first element in this tile is `target`, in the output.
void store_cell(uint target, uint block, uint row_in_block, uint across, bool first_tile, uint columns_left) {
    uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    uint word = target / PER_WORD + across;
    uint bits = cells[cell(block, row_in_block, across)];
    uint skipped = 0u; // elements of this tile's row before this word
    if (place == 0u) {
        if (OUTPUT_UNALIGNED && across == ACROSS - 1u) return;
        skipped = across * PER_WORD;
    } else if (across == ACROSS - 1u) {
        // The word where the row starts; in other tiles its neighbour has written that.
        if (!first_tile) return;
        uint start = cells[cell(block, row_in_block, 0u)] << (place * BITS);
        uint end = min(place + columns_left, PER_WORD);
        store_bits(target / PER_WORD, start, ((2u << (end * BITS - 1u)) - 1u) & ~((1u << (place * BITS)) - 1u));
        return;
    } else {
        skipped = across * PER_WORD + PER_WORD - place;
        bits = funnel(bits, cells[cell(block, row_in_block, across + 1u)], (PER_WORD - place) * BITS);
        word++;
    }
    if (skipped >= columns_left) return;
    store_bits(word, bits, (2u << (min(columns_left - skipped, PER_WORD) * BITS - 1u)) - 1u);
}
const uint OWNED = OUTPUT_UNALIGNED ? ACROSS - 1u : ACROSS;
#else
void load_block(uint first, uint block, uint across, uint rows_left, uint columns_left) {
    cells[cell(block, 0u, across)] = input_cells[first];
}

void store_cell(uint target, uint block, uint row_in_block, uint across, bool first_tile, uint columns_left) {
    if (across < columns_left) output_cells[target + across] = cells[cell(block, row_in_block, across)];
}
const uint OWNED = ACROSS;
#endif

void main() {
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint tiles_in_matrix = tiles_down * tiles_across;
        uint matrix = tile / tiles_in_matrix;
        uint number = tile - matrix * tiles_in_matrix;
        uint quotient = number / (ACROSS_FIRST ? tiles_across : tiles_down);
        uint remainder = number - quotient * (ACROSS_FIRST ? tiles_across : tiles_down);
        uint row = (ACROSS_FIRST ? quotient : remainder) * DOWN * BLOCK;
        uint column = (ACROSS_FIRST ? remainder : quotient) * OWNED * BLOCK;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base, output_base));
        bases += uvec2(row + column * column_input_stride, column + row * row_output_stride);
        uint rows_left = rows - row;
        uint columns_left = columns - column;

        [[unroll]] for (uint turn = 0u; turn < DOWN * ACROSS / WORKGROUP; turn++) {
            uint i = turn * WORKGROUP + gl_LocalInvocationID.x;
            uint block = i % DOWN;
            uint across = i / DOWN;
            uint first = bases.x + block * BLOCK + across * BLOCK * column_input_stride;
            if (block * BLOCK < rows_left && across * BLOCK < columns_left)
                load_block(first, block, across, rows_left - block * BLOCK, columns_left - across * BLOCK);
        }
        barrier();
        [[unroll]] for (uint turn = 0u; turn < DOWN * BLOCK * ACROSS / WORKGROUP; turn++) {
            uint i = turn * WORKGROUP + gl_LocalInvocationID.x;
            uint across = i % ACROSS;
            uint row_in_block = i / ACROSS % BLOCK;
            uint block = i / ACROSS / BLOCK;
            uint down = block * BLOCK + row_in_block;
            if (down < rows_left)
                store_cell(bases.y + down * row_output_stride, block, row_in_block, across, column == 0u, columns_left);
        }
        barrier();
    }
}
