// The cells of a tile in shared memory. Whoever includes this has defined BLOCK and CELL.
shared CELL cells[DOWN * BLOCK * ACROSS];

// Neighbours along a row, and along a column of blocks, lie in different banks.
uint cell(uint block, uint row_in_block, uint across) {
    return (row_in_block * DOWN + block) * ACROSS + (across ^ (block & (ACROSS - 1u)));
}
