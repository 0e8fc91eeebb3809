// Tiles of elements of 1 and 2 bytes: a block is as wide as a word.
const uint BLOCK = PER_WORD;
#define CELL uint
#include "slice1_cells.glsl"

// Loads a word of input elements; those after the first `count` are arbitrary.
uint load_column(uint first, uint count) {
    uint word = input_words[first / PER_WORD];
    if (!INPUT_UNALIGNED) return word;
    uint last = (first + min(count, PER_WORD) - 1u) / PER_WORD;
    return funnel(word, input_words[last], first % PER_WORD * BITS);
}

void load_block(uint first, uint block, uint across, uint rows_left, uint columns_left) {
    uint words[BLOCK];
    [[unroll]] for (uint i = 0u; i < BLOCK; i++)
        words[i] = load_column(first + min(i, columns_left - 1u) * column_input_stride, rows_left);
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

// Stores a word of a row; `target` is the output offset of the row's first element in this tile.
void store_cell(uint target, uint block, uint row_in_block, uint across, bool first_tile, uint columns_left) {
    uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    uint word = target / PER_WORD + across;
    uint bits = cells[cell(block, row_in_block, across)];
    uint skipped = 0u; // elements of the row in this tile before this word
    if (place == 0u) {
        if (OUTPUT_UNALIGNED && across == ACROSS - 1u) return;
        skipped = across * PER_WORD;
    } else if (across == ACROSS - 1u) {
        // The word in which the row starts. In other tiles, the tile before writes it.
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
