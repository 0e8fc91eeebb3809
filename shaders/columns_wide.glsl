// Parts of elements of 4 or 8 bytes: one element, with the best of its column as key and rank.
#define PART_COLUMNS 1u
#define PART_WORDS uint(KEY_WORDS + 1) // in shared memory
#include "columns_shared.glsl"
struct Part { Key key; uint rank; };
const Part NOBODY = Part(KEY_LEAST, 0u);

void keep(inout Part best, Part other) { keep_better(best.key, best.rank, other.key, other.rank); }

void fold(inout Part best, Bits bits, uint rank) {
    Key key = settled_key_of_bits(bits);
    // Positions arrive in ascending order.
    bool better = TAKE_LAST ? !key_less(key, best.key) : key_less(best.key, key);
    best.key = better ? key : best.key;
    best.rank = better ? rank : best.rank;
}

// Folds the part if its number among the columns is in [first, end).
void fold_some(inout Part best, Bits bits, uint rank, int first, int end) {
    if (first <= 0 && end > 0) keep(best, Part(settled_key_of_bits(bits), rank));
}

Key key_of(Part part, uint column) { return part.key; }
uint rank_in_split(Part part, uint column) { return part.rank; }

// Without a key above the least one all keys are equal, so the first position wins.
void settle_first(inout Part best, uint rank) { if (best.rank == 0u) best.rank = rank; }

bool is_empty(Part part, uint column) { return part.rank == 0u; }

void put_part(uint word, Part part) {
    STORE_KEY_APART(shared_parts, word, SHARED_STEP, part.key);
    shared_parts[word + uint(KEY_WORDS) * SHARED_STEP] = part.rank;
}

Part part_at(uint word) {
    Key key = LOAD_KEY_APART(shared_parts, word, SHARED_STEP);
    return Part(key, shared_parts[word + uint(KEY_WORDS) * SHARED_STEP]);
}
