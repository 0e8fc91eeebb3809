// Tiles of elements that are whole words: a block is one element.
//
// The including file defines CELL, input_cells and output_cells.
const uint BLOCK = 1u;
#include "slice1_cells.glsl"

void load_block(uint first, uint block, uint across, uint rows_left, uint columns_left) {
    cells[cell(block, 0u, across)] = input_cells[first];
}

void store_cell(uint target, uint block, uint row_in_block, uint across, bool first_tile, uint columns_left) {
    if (across < columns_left) output_cells[target + across] = cells[cell(block, row_in_block, across)];
}
const uint OWNED = ACROSS;
