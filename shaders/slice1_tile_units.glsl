// What tiles store of the output at once. The including file defines PER_VECTOR and CELLS_OF_VECTOR, elements and cells.

// Tiles store units of the output: vectors, or whole sectors. A GPU takes longer to write a sector in two parts than to
// load a few columns twice.
const uint VECTORS_OF_UNIT = WHOLE_SECTORS ? uint(VECTORS_PER_SECTOR) : 1u;
const uint PER_UNIT = VECTORS_OF_UNIT * PER_VECTOR, CELLS_OF_UNIT = VECTORS_OF_UNIT * CELLS_OF_VECTOR;
const bool IS_SHIFTED = OUTPUT_UNALIGNED || WHOLE_SECTORS;
