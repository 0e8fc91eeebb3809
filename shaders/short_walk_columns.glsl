// Walks of adjacent columns of elements of 1 or 2 bytes: an invocation takes two words of them at a time. Of JOINED columns
// the best is one output's. Of few columns, several positions make up the words.
#include "short_walk_pairs.glsl"
#include "short_walk_ranks.glsl"

const uint ELEMENTS_AT_ONCE = uint(WALKED_COLUMN_BYTES / ELEMENT_BYTES);
#define POSITIONS_AT_ONCE (FEW_COLUMNS > 0u ? ELEMENTS_AT_ONCE / max(FEW_COLUMNS, 1u) : 1u)
#define OUTPUTS_AT_ONCE (FEW_COLUMNS > 0u ? FEW_COLUMNS : ELEMENTS_AT_ONCE / JOINED)
#if ELEMENT_BYTES == 2
const WordKeys IN_WORD = WordKeys(0u, 1u);
#else
const WordKeys IN_WORD = WordKeys(0u, 1u, 2u, 3u);
#endif

struct Best {
    WordKeys first, second;
};

// How much greater the position of each element of a word is than that of the first one at once.
WordKeys positions_in(WordKeys elements, Walk walk) {
    if (FEW_COLUMNS > 0u) return elements / OUTPUTS_AT_ONCE * walk.steps.x;
    return (elements & (JOINED - 1u)) * walk.joined_step;
}

// Leaves out what lies behind the run, of which so many positions are left.
WordKeys within_run(WordKeys keys, WordKeys elements, uint left) {
    return mix(WordKeys(0u), keys, lessThan(elements, WordKeys(left * OUTPUTS_AT_ONCE)));
}

// Returns three words from `word` on, or two and a 0 if no more are needed.
uvec3 words_from(uint word) {
    if (!DIRECT || (WORD_ALIGNED && !PAIR_ALIGNED))
        return uvec3(tile_word(word), tile_word(word + 1u), WORD_ALIGNED ? 0u : tile_word(word + 2u));
    uvec2 low = pair_of_words(word >> 1u);
    return PAIR_ALIGNED ? uvec3(low, 0u) : words_of_pairs(low, pair_of_words((word >> 1u) + 1u), word);
}

Best best_of_run(Best best, Run run, uint at, uint position, Best positions) {
    uint step = run.step * RANK_STEP * POSITIONS_AT_ONCE, rank = rank_at(position);
    uint pair = at / ELEMENTS_PER_WORD >> 1u;
    uvec2 low = KEEPS_PAIR ? pair_of_words(pair) : uvec2(0u), high = uvec2(0u);
    for (uint i = 0u; i < run.count; i += POSITIONS_AT_ONCE) {
        uint word = at / ELEMENTS_PER_WORD, shift = at % ELEMENTS_PER_WORD * ELEMENT_BITS;
        uint factor = shift == 0u ? 0u : 1u << (32u - shift);
        uvec3 words;
        if (KEEPS_PAIR) {
            low = mix(low, high, bvec2(word >> 1u != pair));
            pair = word >> 1u;
            high = pair_of_words(pair + 1u);
            words = words_of_pairs(low, high, word);
        } else {
            words = words_from(word);
        }
        uint first = words.x, second = words.y;
        if (!WORD_ALIGNED) {
            first = (first >> shift) + second * factor;
            second = (second >> shift) + words.z * factor;
        }
        WordKeys first_keys = ranked_keys(first, rank + positions.first * RANK_STEP);
        WordKeys second_keys = ranked_keys(second, rank + positions.second * RANK_STEP);
        if (FEW_COLUMNS > 0u) {
            first_keys = within_run(first_keys, IN_WORD, run.count - i);
            second_keys = within_run(second_keys, IN_WORD + ELEMENTS_PER_WORD, run.count - i);
        }
        best.first = max(best.first, first_keys);
        best.second = max(best.second, second_keys);
        at += run.stride * POSITIONS_AT_ONCE;
        rank += step;
    }
    return best;
}

// The columns are along the first dimension of a tile.
void fold_tile(Tile tile) {
    bool shifted = are_rows_shifted(tile.offsets.y | output_stride_1 | output_stride_2, 4u);
    uint more = OUTPUTS_AT_ONCE - 1u + (shifted ? 3u : 0u);
    uvec2 sizes = uvec2((tile_0 + more) / OUTPUTS_AT_ONCE, tile_1);
    Divisors divisors = divisors_of(sizes);
    uint groups = sizes.x * sizes.y * tile_2;
    Run run = run_of(tile.walk);
    Best positions = Best(positions_in(IN_WORD, tile.walk), positions_in(IN_WORD + ELEMENTS_PER_WORD, tile.walk));
    FOR_EACH_OWN(i, groups) {
        uvec3 place = place_of(i, sizes, divisors);
        place.x *= OUTPUTS_AT_ONCE;
        if (shifted) {
            uvec3 row = uvec3(0u, place.yz);
            place.x -= shift_of_row(tile.offsets.y + dot_of(row, output_strides()), tile.start + dot_of(row, tile.strides), 4u);
        }
        if (any(greaterThanEqual(ivec3(place), ivec3(tile.sizes)))) continue;
        Best best;
        best.first = best.second = WordKeys(0u);
#define FOLD_RUN(at, position) best = best_of_run(best, run, at, position, positions);
        FOR_EACH_RUN(FOLD_RUN, tile.start + dot_of(place, tile.strides))
#define WRITE(key)                                                                                                  \
    if (place.x < tile.sizes.x) write_output(tile, place, dot_of(place, output_strides()), position_of(key)); \
    place.x++;
        if (FEW_COLUMNS > 0u) {
#if ELEMENT_BYTES == 1
            if (FEW_COLUMNS == 3u) { // of the two words those of numbers 0, 1, 2, 0 and 1, 2, 0, 1
                WRITE(max(max(best.first.x, best.first.w), best.second.z))
                WRITE(max(max(best.first.y, best.second.x), best.second.w))
                WRITE(max(best.first.z, best.second.y))
                continue;
            }
#endif
            best.first = max(best.first, best.second);
#if ELEMENT_BYTES == 1
            if (FEW_COLUMNS == 2u) best.first.xy = max(best.first.xy, best.first.zw);
#endif
            WRITE(best.first.x) WRITE(best.first.y)
#if ELEMENT_BYTES == 1
            if (FEW_COLUMNS == 2u) continue;
            WRITE(best.first.z) WRITE(best.first.w)
#endif
            continue;
        }
        if (JOINED == ELEMENTS_PER_WORD) {
            WRITE(greatest(best.first)) WRITE(greatest(best.second))
            continue;
        }
#if ELEMENT_BYTES == 1
        if (JOINED == 2u) {
            WRITE(max(best.first.x, best.first.y)) WRITE(max(best.first.z, best.first.w))
            WRITE(max(best.second.x, best.second.y)) WRITE(max(best.second.z, best.second.w))
            continue;
        }
#endif
        uint target = tile.offsets.y + dot_of(place, output_strides());
        if (is_vector_of_outputs(tile, place, 0u, OUTPUTS_AT_ONCE, target)) {
#if ELEMENT_BYTES == 1
            write_indices(target, positions_of(best.first), tile.weight);
            write_indices(target + 4u, positions_of(best.second), tile.weight);
#else
            write_indices(target, positions_of(uvec4(best.first, best.second)), tile.weight);
#endif
            continue;
        }
#if ELEMENT_BYTES == 1
        WRITE(best.first.x) WRITE(best.first.y) WRITE(best.first.z) WRITE(best.first.w)
        WRITE(best.second.x) WRITE(best.second.y) WRITE(best.second.z) WRITE(best.second.w)
#else
        WRITE(best.first.x) WRITE(best.first.y) WRITE(best.second.x) WRITE(best.second.y)
#endif
    }
}

uint position_at(Tile tile, uvec3 place, uint output_number) { return 0u; }
