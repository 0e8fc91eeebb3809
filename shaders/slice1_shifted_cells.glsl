// Vectors and words of the output that start with any element of a cell, which is a word of elements of up to 4 bytes.
//
// The including file defines the cells in shared memory, `cells`, and their number, CELLS.

// As funnel(): a multiplication that adds is one instruction.
uint spliced(uint low, uint high, uint shift) { return high * (2u << (31u - shift)) + (low >> shift); }
uvec4 spliced(uvec4 low, uvec4 high, uint shift) { return high * (2u << (31u - shift)) + (low >> shift); }

// Returns the vector of the output that starts with element `within` of a cell.
uvec4 vector_from(uint at, uint within) {
    uvec4 words = uvec4(cells[at], cells[at + 1u], cells[at + 2u], cells[at + 3u]);
    if (OUTPUT_UNALIGNED) words = spliced(words, uvec4(words.yzw, cells[at + 4u]), within * BITS);
    return words;
}

// Stores elements [begin, end) of the word of the output that starts with element `within` of a cell.
void store_cell(uint target, uint at, uint within, uint begin, uint end) {
    uint bits = funnel(cells[min(at, CELLS - 1u)], cells[min(at + 1u, CELLS - 1u)], within * BITS);
    store_bits(target / PER_WORD, bits, (2u << (end * BITS - 1u)) - (1u << (begin * BITS)));
}
