// Parts of elements of 1 or 2 bytes: a word of elements, with the best of each column as a ranked key.
#define Part NarrowPart
#define PART_COLUMNS NARROW_COLUMNS
#define PART_WORDS PART_COLUMNS // in shared memory
#define RANK_MASK ((1u << NARROW_RANK_BITS) - 1u)
#define RANK_OF_LOW(low) (TAKE_LAST ? low : low | ~RANK_MASK) // of the low bits of a ranked key
#include "columns_shared.glsl"
#include "ranked.glsl"
const Part NOBODY = Part(0u);

void keep(inout Part best, Part other) { best = max(best, other); }

void fold(inout Part best, Bits bits, uint rank) {
    best = max(best, NARROW_RANKED(bits, rank & RANK_MASK));
}

// Folds only columns [first, end).
void fold_some(inout Part best, Bits bits, uint rank, int first, int end) {
    Part keys = NARROW_RANKED(bits, rank & RANK_MASK);
    [[unroll]] for (int column = 0; column < int(PART_COLUMNS); column++)
        if (column >= first && column < end)
            NARROW_COLUMN(best, column) = max(NARROW_COLUMN(best, column), NARROW_COLUMN(keys, column));
}

Key key_of(Part part, uint column) { return NARROW_COLUMN(part, column) >> TOP_SHIFT; }

uint rank_in_split(Part part, uint column) {
    uint low = NARROW_COLUMN(part, column) & RANK_MASK;
    return RANK_OF_LOW(low);
}

bool is_empty(Part part, uint column) { return (NARROW_COLUMN(part, column) & RANK_MASK) == 0u; }

void settle_first(inout Part best, uint rank) {}

void put_part(uint word, Part part) {
    [[unroll]] for (uint column = 0u; column < PART_COLUMNS; column++)
        shared_parts[word + column * SHARED_STEP] = NARROW_COLUMN(part, column);
}

Part part_at(uint word) {
    Part part;
    [[unroll]] for (uint column = 0u; column < PART_COLUMNS; column++)
        NARROW_COLUMN(part, column) = shared_parts[word + column * SHARED_STEP];
    return part;
}
