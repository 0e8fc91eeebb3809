// Walks of adjacent columns of elements of 1 or 2 bytes: an invocation takes two words of them at a time. Of JOINED columns
// the best is one output's.
#include "short_walk_ranks.glsl"

const uint OUTPUTS_AT_ONCE = uint(WALKED_COLUMN_BYTES / ELEMENT_BYTES) / JOINED;

struct Best {
    WordKeys first, second;
};

Best best_of_run(Best best, Run run, uint at, uint position, WordKeys joined_ranks) {
    uint step = run.step * RANK_STEP;
    WordKeys rank = rank_at(position) + joined_ranks;
    for (uint i = 0u; i < run.count; i++) {
        uint word = at / ELEMENTS_PER_WORD, shift = at % ELEMENTS_PER_WORD * ELEMENT_BITS;
        uint factor = shift == 0u ? 0u : 1u << (32u - shift);
        uint first = tile_word(word), second = tile_word(word + 1u);
        if (!WORD_ALIGNED) {
            first = (first >> shift) + second * factor;
            second = (second >> shift) + tile_word(word + 2u) * factor;
        }
        best.first = max(best.first, ranked(first, rank));
        best.second = max(best.second, ranked(second, rank));
        at += run.stride;
        rank += step;
    }
    return best;
}

// The columns are along the first dimension of a tile.
void fold_tile(Tile tile) {
    uvec2 sizes = uvec2((tile_0 + OUTPUTS_AT_ONCE - 1u) / OUTPUTS_AT_ONCE, tile_1);
    Divisors divisors = divisors_of(sizes);
    uint groups = sizes.x * sizes.y * tile_2;
    Run run = run_of(tile.walk);
#if ELEMENT_BYTES == 2
    WordKeys joined_ranks = (WordKeys(0u, 1u) & (JOINED - 1u)) * (tile.walk.joined_step * RANK_STEP);
#else
    WordKeys joined_ranks = (WordKeys(0u, 1u, 2u, 3u) & (JOINED - 1u)) * (tile.walk.joined_step * RANK_STEP);
#endif
    FOR_EACH_OWN(i, groups) {
        uvec3 place = place_of(i, sizes, divisors);
        place.x *= OUTPUTS_AT_ONCE;
        if (any(greaterThanEqual(place, tile.sizes))) continue;
        Best best;
        best.first = best.second = WordKeys(0u);
#define FOLD_RUN(at, position) best = best_of_run(best, run, at, position, joined_ranks);
        FOR_EACH_RUN(FOLD_RUN, tile.start + dot_of(place, tile.strides))
#define WRITE(key)                                                                    \
    if (place.x < tile.sizes.x) {                                                     \
        write_output(tile, place, dot_of(place, output_strides()), position_of(key)); \
        place.x++;                                                                    \
    }
        if (JOINED == ELEMENTS_PER_WORD) {
            WRITE(greatest(best.first)) WRITE(greatest(best.second))
            continue;
        }
#if ELEMENT_BYTES == 2
        WRITE(best.first.x) WRITE(best.first.y) WRITE(best.second.x) WRITE(best.second.y)
#else
        if (JOINED == 2u) {
            WRITE(max(best.first.x, best.first.y)) WRITE(max(best.first.z, best.first.w))
            WRITE(max(best.second.x, best.second.y)) WRITE(max(best.second.z, best.second.w))
            continue;
        }
        WRITE(best.first.x) WRITE(best.first.y) WRITE(best.first.z) WRITE(best.first.w)
        WRITE(best.second.x) WRITE(best.second.y) WRITE(best.second.z) WRITE(best.second.w)
#endif
    }
}

uint position_at(Tile tile, uvec3 place, uint output_number) { return 0u; }
