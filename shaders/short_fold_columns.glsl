// Stacks of rows of elements of 1 or 2 bytes: an invocation folds a word of adjacent columns. The results, packed like
// the elements, go through shared memory to the invocations that write them.
const uint RANK_MASK = (1u << (16 - 8 * (2 - ELEMENT_BYTES))) - 1u;
shared uint results[RESULT_WORDS];

uint words_per_row() { return ((NEAR == 0u ? tile_0 : NEAR == 1u ? tile_1 : tile_2) + ELEMENTS_PER_WORD - 1u) / ELEMENTS_PER_WORD; }

// The two dimensions beside the columns'.
#define OTHER_1 (NEAR == 0u ? 1u : 0u)
#define OTHER_2 (NEAR == 2u ? 1u : 2u)
uint second_size() { return NEAR == 0u ? tile_1 : tile_0; }
uint third_size() { return NEAR == 2u ? tile_1 : tile_2; }

WordKeys ranked(uint raw, uint rank) {
    WordKeys tops = top_keys(ordered_word(raw));
#if KEYS == KEYS_FLOAT
    const uint nans = (2u * NAN_PATTERNS_LOW) << TOP_SHIFT;
    tops = OMIT_NAN ? max(tops, WordKeys(nans)) : min(tops, WordKeys(~nans));
#endif
    return (tops & (KEY_MASK << TOP_SHIFT)) | rank;
}

uint fold_word(Tile tile, uint at) {
    WordKeys best = WordKeys(0u);
    uint rank = TAKE_LAST ? 1u : RANK_MASK;
    if (WORD_ALIGNED) {
        uint word = at / ELEMENTS_PER_WORD, step = tile.shared_step / ELEMENTS_PER_WORD;
        for (uint position = 0u; position < COUNT; position++) {
            best = max(best, ranked(tile_word(word), rank));
            word += step;
            rank += TAKE_LAST ? 1u : 0xffffffffu;
        }
    } else {
        for (uint position = 0u; position < COUNT; position++) {
            uint word = at / ELEMENTS_PER_WORD, shift = at % ELEMENTS_PER_WORD * ELEMENT_BITS;
            uint factor = shift == 0u ? 0u : 1u << (32u - shift);
            best = max(best, ranked((tile_word(word) >> shift) + tile_word(word + 1u) * factor, rank));
            at += tile.shared_step;
            rank += TAKE_LAST ? 1u : 0xffffffffu;
        }
    }
    WordKeys positions = (best & RANK_MASK);
    positions = TAKE_LAST ? positions - 1u : RANK_MASK - positions;
#if ELEMENT_BYTES == 1
    return positions.x | positions.y << 8u | positions.z << 16u | positions.w << 24u;
#else
    return positions.x | positions.y << 16u;
#endif
}

void fold_tile(Tile tile) {
    uint across = words_per_row(), second = second_size();
    Divisors divisors = divisors_of(uvec2(across, second));
    uint words = across * second * third_size();
    for (uint i = gl_LocalInvocationIndex; i < words; i += WORKGROUP) {
        uint at = tile.start, row = quotient(i, divisors.reciprocals.x);
        at += (i - row * across) * ELEMENTS_PER_WORD;
        if (!ONE_DIM) {
            uint third = quotient(row, divisors.reciprocals.y);
            at += (row - third * second) * tile.strides[OTHER_1] + third * tile.strides[OTHER_2];
        }
        results[i] = fold_word(tile, at);
    }
    barrier();
}

uint position_at(Tile tile, uvec3 place) {
    uint row = place[OTHER_1] + place[OTHER_2] * second_size(), column = place[NEAR];
    uint word = results[row * words_per_row() + column / ELEMENTS_PER_WORD];
    return (word >> (column % ELEMENTS_PER_WORD * ELEMENT_BITS)) & RANK_MASK;
}
