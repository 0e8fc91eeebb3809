// Walks of elements of 1 or 2 bytes, of one output at a time; words of a run that is contiguous.
#include "short_walk_pairs.glsl"
#include "short_walk_ranks.glsl"

#if ELEMENT_BYTES == 1
const WordKeys IN_WORD = WordKeys(0u, 1u, 2u, 3u);
#else
const WordKeys IN_WORD = WordKeys(0u, 1u);
#endif

uint best_of_run(uint best, Run run, uint at, uint position) {
    uint step = run.step * RANK_STEP, rank = rank_at(position);
    if (RUN_APART) {
        for (uint i = 0u; i < run.count; i++) {
            best = max(best, ranked_key(element_at(at), rank));
            at += run.stride;
            rank += step;
        }
        return best;
    }
    uint word = at / ELEMENTS_PER_WORD, shift = at % ELEMENTS_PER_WORD * ELEMENT_BITS;
    uint factor = shift == 0u ? 0u : 1u << (32u - shift), left = run.count;
    WordKeys bests = WordKeys(0u), ranks = rank + step * IN_WORD;
    if (IN_PAIRS) {
        uint pair = word >> 1u;
        uvec2 low = PAIR_ALIGNED ? uvec2(0u) : pair_of_words(pair++);
        for (; left >= 2u * ELEMENTS_PER_WORD; left -= 2u * ELEMENTS_PER_WORD) {
            uvec2 next = pair_of_words(pair++);
            uvec3 words = PAIR_ALIGNED ? uvec3(next, 0u) : words_of_pairs(low, next, word);
            if (!WORD_ALIGNED) words.xy = (words.xy >> shift) + words.yz * factor;
            bests = max(bests, ranked_keys(words.x, ranks));
            ranks += step * ELEMENTS_PER_WORD;
            bests = max(bests, ranked_keys(words.y, ranks));
            ranks += step * ELEMENTS_PER_WORD;
            low = next;
            word += 2u;
        }
    }
    uint raw = WORD_ALIGNED ? 0u : tile_word(word);
    for (; left >= ELEMENTS_PER_WORD; left -= ELEMENTS_PER_WORD) {
        bests = max(bests, ranked_keys(next_word_of_row(word, raw, shift, factor), ranks));
        ranks += step * ELEMENTS_PER_WORD;
    }
    if (left > 0u) {
        uint bits = (WORD_ALIGNED ? tile_word(word) : raw) >> shift;
        if (!WORD_ALIGNED && shift + left * ELEMENT_BITS > 32u) bits += tile_word(word + 1u) * factor;
        bests = max(bests, mix(WordKeys(0u), ranked_keys(bits, ranks), lessThan(IN_WORD, WordKeys(left))));
    }
    return max(best, greatest(bests));
}

void fold_tile(Tile tile) {}

uint position_at(Tile tile, uvec3 place, uint output_number) {
    uint best = 0u;
#define FOLD_RUN(at, position) best = best_of_run(best, run, at, position);
    Run run = run_of(tile.walk);
    FOR_EACH_RUN(FOLD_RUN, tile.start + dot_of(place, tile.strides))
    return position_of(best);
}
