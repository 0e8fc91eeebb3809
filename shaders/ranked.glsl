// Ranked keys of elements of 1 or 2 bytes: a key is in the highest bits of a word and a rank below it, so that one max
// compares both.
//
// Instructions bound the kernels that fold so. Therefore a key gets its rank, its rotation and the flipped bits of an
// integer by the operation that moves it to the top, and the limit at which NaNs are settled has the rank, too.
const uint KEYS_AT_TOP = KEY_MASK << TOP_SHIFT;

#if KEYS == KEYS_FLOAT
const uint NANS_AT_TOP = (2u * NAN_PATTERNS_LOW) << TOP_SHIFT;
// Only the highest element is rotated here.
uint ordered_for_ranks(uint raw) { return ordered_floats(raw) + ROTATION; }
uint ranked_lowest(uint word, uint rank) { return (word << TOP_SHIFT) + (ROTATION + rank); }
uint ranked_middle(uint shifted, uint rank) { return (shifted & KEYS_AT_TOP) + (ROTATION + rank); }
uint ranked_highest(uint word, uint rank) { return (word & KEYS_AT_TOP) | rank; }
#define SETTLED(keys, ranks) OMIT_NAN ? max(keys, NANS_AT_TOP | (ranks)) : min(keys, (~NANS_AT_TOP & KEYS_AT_TOP) | (ranks))
#else
#if KEYS == KEYS_BOOL
const uint FLIP_AT_TOP = 0u, LOWEST_FACTOR = 1u << TOP_SHIFT;
uint ordered_for_ranks(uint raw) { return ordered_bools(raw); }
#else
const uint FLIP_AT_TOP = FLIP & KEYS_AT_TOP, LOWEST_FACTOR = (TAKE_MIN ? 0xffffffffu : 1u) << TOP_SHIFT;
uint ordered_for_ranks(uint raw) { return raw; }
#endif
// To complement a key is to subtract it from all ones.
uint ranked_lowest(uint word, uint rank) { return word * LOWEST_FACTOR + (FLIP_AT_TOP + rank); }
uint ranked_middle(uint shifted, uint rank) { return (shifted & KEYS_AT_TOP) ^ (FLIP_AT_TOP | rank); }
uint ranked_highest(uint word, uint rank) { return ranked_middle(word, rank); }
#define SETTLED(keys, ranks) keys
#endif

// Of the element in the lowest bits.
uint ranked_key(uint raw, uint rank) {
    uint key = ranked_lowest(ordered_for_ranks(raw), rank);
    return SETTLED(key, rank);
}

// Of all elements of a word.
WordKeys ranked_keys(uint raw, WordKeys ranks) {
    uint word = ordered_for_ranks(raw);
#if ELEMENT_BYTES == 1
    WordKeys keys = uvec4(
        ranked_lowest(word, ranks.x),
        ranked_middle(word << 16, ranks.y),
        ranked_middle(word << 8, ranks.z),
        ranked_highest(word, ranks.w)
    );
#else
    WordKeys keys = uvec2(ranked_lowest(word, ranks.x), ranked_highest(word, ranks.y));
#endif
    return SETTLED(keys, ranks);
}
