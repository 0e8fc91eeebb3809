// Copies with the input contiguous along one dimension and the output along another. Tiles pass through shared
// memory, so that reads and writes are contiguous words.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"

// Rows are contiguous in the output, columns in the input.
uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

#include "elements.glsl"

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
            // Beyond the matrix its last block is loaded again: without branches all loads are in flight at once.
            uint row_in_tile = min(block, (rows_left - 1u) / BLOCK) * BLOCK;
            uint column_in_tile = min(across, (columns_left - 1u) / BLOCK) * BLOCK;
            uint first = bases.x + row_in_tile + column_in_tile * column_input_stride;
            load_block(first, block, across, rows_left - row_in_tile, columns_left - column_in_tile);
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
