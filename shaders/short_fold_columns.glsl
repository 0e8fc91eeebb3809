// Stacks of rows of elements of 1 or 2 bytes: an invocation folds a word of adjacent columns. The positions go through
// shared memory to the invocations that write them, in the order of the outputs.
#include "ranked.glsl"
const uint RANK_MASK = ELEMENT_BYTES == 1 ? 0xffu : 0xffffu;
const uint RANK_STEP = TAKE_LAST ? 1u : 0xffffffffu;
shared uint positions_found[RESULT_WORDS];

WordKeys fold_word(Tile tile, uint at) {
    WordKeys best = WordKeys(0u);
    uint rank = TAKE_LAST ? 1u : RANK_MASK;
    if (WORD_ALIGNED) {
        uint word = at / ELEMENTS_PER_WORD, step = tile.position_stride / ELEMENTS_PER_WORD;
        for (uint position = 0u; position < COUNT; position++) {
            best = max(best, ranked_keys(tile_word(word), WordKeys(rank)));
            word += step;
            rank += RANK_STEP;
        }
    } else {
        // Where in a word a position starts repeats after four. The factor is 0 if the next word is not needed.
#define PHASE(n)                                                                                                \
    uint word##n = (at + uint(n) * tile.position_stride) / ELEMENTS_PER_WORD;                                   \
    uint shift##n = (at + uint(n) * tile.position_stride) % ELEMENTS_PER_WORD * ELEMENT_BITS;                   \
    uint factor##n = shift##n == 0u ? 0u : 1u << (32u - shift##n);
#define FOLD(n)                                                                                                 \
    if (position + uint(n) < COUNT) {                                                                           \
        uint bits = (tile_word(word##n) >> shift##n) + tile_word(word##n + 1u) * factor##n;                     \
        best = max(best, ranked_keys(bits, WordKeys(rank)));                                                    \
        word##n += 4u * tile.position_stride / ELEMENTS_PER_WORD;                                               \
        rank += RANK_STEP;                                                                                      \
    }
        PHASE(0) PHASE(1) PHASE(2) PHASE(3)
        for (uint position = 0u; position < COUNT; position += 4u) {
            FOLD(0) FOLD(1) FOLD(2) FOLD(3)
        }
    }
    WordKeys ranks = best & RANK_MASK;
    return TAKE_LAST ? ranks - 1u : RANK_MASK - ranks;
}

// Of the output's dimensions: in a tile, and the distances of its numbers.
uvec3 box_sizes() { return uvec3(tile_0, tile_1, tile_2); }
uvec3 number_strides() { return uvec3(1u, tile_0, tile_0 * tile_1); }

// The two dimensions beside the columns'.
#define SECOND (NEAR == 0u ? 1u : 0u)
#define THIRD (NEAR == 2u ? 1u : 2u)

void fold_tile(Tile tile) {
    uvec3 sizes = box_sizes(), numbers = number_strides(), outputs = output_strides();
    bool shifted = are_rows_shifted(tile.offsets.y | outputs[SECOND] | outputs[THIRD], ELEMENTS_PER_WORD);
    uint columns = sizes[NEAR], more = shifted ? 2u * ELEMENTS_PER_WORD - 2u : ELEMENTS_PER_WORD - 1u;
    uint across = (columns + more) / ELEMENTS_PER_WORD;
    Divisors divisors = divisors_of(uvec2(across, sizes[SECOND]));
    uint words = across * sizes[SECOND] * sizes[THIRD];
    for (uint i = gl_LocalInvocationIndex; i < words; i += WORKGROUP) {
        uint row = DIMS == 1u ? 0u : quotient(i, divisors.reciprocals.x);
        uint column = (i - row * across) * ELEMENTS_PER_WORD;
        uint at = tile.start + column, number = column * numbers[NEAR];
        uvec3 place = uvec3(0u);
        place[NEAR] = column;
        if (DIMS > 1u) {
            uint third = DIMS == 2u ? 0u : quotient(row, divisors.reciprocals.y), second = row - third * sizes[SECOND];
            at += second * tile.strides[SECOND] + third * tile.strides[THIRD];
            number += second * numbers[SECOND] + third * numbers[THIRD];
            place[SECOND] = second;
            place[THIRD] = third;
        }
        uint target = tile.offsets.y + dot_of(place, outputs);
        if (shifted) {
            uint shift = shift_of_row(target - column, at - column, ELEMENTS_PER_WORD);
            place[NEAR] -= shift;
            target -= shift;
            at -= shift;
        }
        if (DIRECT && any(greaterThanEqual(ivec3(place), ivec3(tile.sizes)))) continue;
        WordKeys found = fold_word(tile, at);
        if (is_vector_of_outputs(tile, place, NEAR, ELEMENTS_PER_WORD, target)) {
            write_word_of_indices(target, found, tile.weight);
        } else if (DIRECT) {
            for (uint i = 0u; i < ELEMENTS_PER_WORD; i++) {
                if (place[NEAR] < tile.sizes[NEAR]) write_output(tile, place, dot_of(place, outputs), found[i]);
                place[NEAR]++;
            }
        } else {
            // Not a loop: not every driver keeps a vector in registers that a loop goes through.
#define PUT(n) if (column + uint(n) < columns) positions_found[number + uint(n) * numbers[NEAR]] = found[n];
            PUT(0) PUT(1)
#if ELEMENT_BYTES == 1
            PUT(2) PUT(3)
#endif
        }
    }
    if (!DIRECT) barrier();
}

uint position_at(Tile tile, uvec3 place, uint output_number) { return positions_found[output_number]; }
