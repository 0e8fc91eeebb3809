// Tiles of elements of 16 bytes.
#define CELL uvec4
#define input_cells input_vectors
#define output_cells output_vectors
