// Walks of elements of 1 or 2 bytes: key and rank share a word, so that a fold is one max. Ranks start at 1: any is better
// than none.
const uint RANK_MASK = (1u << NARROW_RANK_BITS) - 1u;
const uint RANK_STEP = TAKE_LAST ? 1u : 0xffffffffu;

uint rank_at(uint position) { return TAKE_LAST ? position + 1u : RANK_MASK - position; }

uint position_of(uint ranked_key) {
    uint rank = ranked_key & RANK_MASK;
    return TAKE_LAST ? rank - 1u : RANK_MASK - rank;
}

WordKeys ranked(uint raw, WordKeys ranks) {
    WordKeys tops = top_keys(ordered_word(raw));
#if KEYS == KEYS_FLOAT
    const uint nans = (2u * NAN_PATTERNS_LOW) << TOP_SHIFT;
    tops = OMIT_NAN ? max(tops, WordKeys(nans)) : min(tops, WordKeys(~nans));
#endif
    return (tops & (KEY_MASK << TOP_SHIFT)) | ranks;
}
