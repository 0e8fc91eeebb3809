// Tiles of elements of 4 bytes.
#define CELL uint
#define input_cells input_words
#define output_cells output_words
