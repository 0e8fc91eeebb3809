// Tiles of elements of 8 bytes.
#define CELL uvec2
#define input_cells input_pairs
#define output_cells output_pairs
