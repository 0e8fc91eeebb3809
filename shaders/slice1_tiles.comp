// Copies of elements that are whole words, with the input contiguous along one dimension and the output along another.
// Tiles pass through shared memory, so that reads and writes are contiguous.
//
// Compile-time: ELEMENT_BYTES.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"

// Rows are contiguous in the output, columns in the input.
uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"
#include "elements.glsl"

#include "slice1_divide.glsl"
#include "slice1_tile_order.glsl"

shared CELL cells[DOWN * ACROSS];

// Neighbours along a row, and along a column, are in different banks.
uint cell(uint row, uint column) { return row * ACROSS + (column ^ (row & (ACROSS - 1u))); }

void main() {
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint tiles_in_matrix = tiles_down * tiles_across;
        uint matrix = tile / tiles_in_matrix;
        uint number = tile - matrix * tiles_in_matrix;
        uvec2 place = place_of_tile(number);
        uint row = place.x * DOWN;
        uint column = place.y * ACROSS;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base, output_base));
        bases += uvec2(row + column * column_input_stride, column + row * row_output_stride);
        uint rows_left = rows - row;
        uint columns_left = columns - column;

        [[unroll]] for (uint turn = 0u; turn < DOWN * ACROSS / WORKGROUP; turn++) {
            uint i = turn * WORKGROUP + gl_LocalInvocationID.x;
            uint block = i % DOWN;
            uint across = i / DOWN;
            // Beyond the matrix its last element is loaded again: without branches all loads are in flight at once.
            cells[cell(block, across)] =
                input_cells[bases.x + min(block, rows_left - 1u) + min(across, columns_left - 1u) * column_input_stride];
        }
        barrier();
        [[unroll]] for (uint turn = 0u; turn < DOWN * ACROSS / WORKGROUP; turn++) {
            uint i = turn * WORKGROUP + gl_LocalInvocationID.x;
            uint across = i % ACROSS;
            uint block = i / ACROSS;
            if (block < rows_left && across < columns_left)
                output_cells[bases.y + block * row_output_stride + across] = cells[cell(block, across)];
        }
        barrier();
    }
}
