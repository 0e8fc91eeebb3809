// The cells of a tile in shared memory. The including file defines BLOCK and CELL.
shared CELL cells[DOWN * BLOCK * ACROSS];

// Neighbours along a row, and along a column of blocks, are in different banks.
uint cell(uint block, uint row_in_block, uint across) {
    return (row_in_block * DOWN + block) * ACROSS + (across ^ (block & (ACROSS - 1u)));
}
