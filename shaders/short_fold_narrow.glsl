// Rows of elements of 1 or 2 bytes, one at a time, from contiguous words that may start anywhere in a word.
//
// The rank is just below the key; what lies below the rank decides nothing, as no two elements have one rank.
#include "ranked.glsl"
const uint RANK_SHIFT = ELEMENT_BYTES == 1 ? 16u : 0u;
const uint RANK_MASK = ELEMENT_BYTES == 1 ? 0xffu : 0xffffu;
// Elements whose ranks, which start at 1, have room; whole words.
const uint BLOCK = (RANK_MASK - 1u) / ELEMENTS_PER_WORD * ELEMENTS_PER_WORD;

// The ranks of the elements of a row's first word, each below its key: by twos, whose keys are 16 bits apart.
uint rank_at(uint position) { return TAKE_LAST ? position + 1u : RANK_MASK - position; }

#if KEYS != KEYS_FLOAT && ELEMENT_BYTES == 1
// Four in two words: the upper key of each with its rank, the lower one with its own, which a shift brings to the top.
uint best_of_word(uint raw, uint position) {
    uint ordered = ordered_word(raw), ranks = rank_at(position) * 0x00010001u;
    const uint upper = TAKE_LAST ? 0x00030001u : 0u - 0x00030001u, lower = TAKE_LAST ? 0x00020000u : 0u - 0x00020000u;
    uint odd = (ordered & 0xff00ff00u) | (ranks + upper), even = ((ordered << 8u) & 0xff00ff00u) | (ranks + lower);
    return max(max(odd, odd << 16u), max(even, even << 16u));
}
#else
uint best_of_word(uint raw, uint position) {
#if ELEMENT_BYTES == 1
    uvec4 ranks = uvec4(rank_at(position), rank_at(position + 1u), rank_at(position + 2u), rank_at(position + 3u));
#else
    uvec2 ranks = uvec2(rank_at(position), rank_at(position + 1u));
#endif
    return greatest(ranked_keys(raw, ranks << RANK_SHIFT));
}
#endif

void fold_tile(Tile tile) {}

uint position_at(Tile tile, uvec3 place, uint output_number) {
    uint at = tile.start + dot_of(place, tile.strides), best_key = 0u, best_position = 0u, first = 0u;
    uint word = at / ELEMENTS_PER_WORD, shift = at % ELEMENTS_PER_WORD * ELEMENT_BITS;
    uint factor = shift == 0u ? 0u : 1u << (32u - shift), raw = WORD_ALIGNED ? 0u : tile_word(word);
    for (;;) {
        uint count = LONG_ROWS ? min(COUNT - first, BLOCK) : COUNT, best = 0u;
        for (uint position = 0u; position < count; position += ELEMENTS_PER_WORD) {
            uint bits = next_word_of_row(word, raw, shift, factor);
            uint left = count - position;
            if (left < ELEMENTS_PER_WORD) {
                uint inside = (1u << (left * ELEMENT_BITS)) - 1u;
                bits = (bits & inside) | (NEUTRAL & ~inside);
            }
            best = max(best, best_of_word(bits, position));
        }
        uint rank = (best >> RANK_SHIFT) & RANK_MASK, key = best >> TOP_SHIFT;
        bool better = first == 0u || (TAKE_LAST ? key >= best_key : key > best_key);
        // A neutral element wins only if all elements have the least key.
        if (better) best_position = first + (TAKE_LAST ? min(rank - 1u, count - 1u) : RANK_MASK - rank);
        if (!LONG_ROWS) break;
        best_key = better ? key : best_key;
        first += count;
        if (first == COUNT) break;
    }
    return best_position;
}
