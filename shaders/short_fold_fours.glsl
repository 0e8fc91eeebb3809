// Short rows of elements of 1 or 2 bytes, one after the other without gaps: an invocation folds four of them, which are
// whole words, and writes their four indices. All loops have fixed counts, so that each element's place is known.
#extension GL_EXT_control_flow_attributes : require

// No two elements of a row have one rank, so what lies below the rank decides nothing.
#include "ranked.glsl"
const uint RANK_SHIFT = ELEMENT_BYTES == 1 ? 16u : 0u;
const uint RANK_MASK = ELEMENT_BYTES == 1 ? 0xffu : 0xffffu;
const uint WORDS_OF_FOUR = 4u * POSITIONS / ELEMENTS_PER_WORD;

uint rank_at(uint position) { return (TAKE_LAST ? position + 1u : RANK_MASK - position) << RANK_SHIFT; }

// Returns the positions of the winners of the four rows that start with this word.
uvec4 positions_of_four(uint word) {
    uvec4 best = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < WORDS_OF_FOUR; i++) {
        WordKeys ranks;
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++) ranks[j] = rank_at((i * ELEMENTS_PER_WORD + j) % POSITIONS);
        WordKeys keys = ranked_keys(tile_word(word + i), ranks);
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++) {
            uint row = (i * ELEMENTS_PER_WORD + j) / POSITIONS;
            best[row] = max(best[row], keys[j]);
        }
    }
    uvec4 ranks = (best >> RANK_SHIFT) & RANK_MASK;
    return TAKE_LAST ? ranks - 1u : RANK_MASK - ranks;
}

void fold_tile(Tile tile) {
    for (uint output_number = 4u * gl_LocalInvocationIndex; output_number < tile.sizes.x; output_number += 4u * WORKGROUP) {
        uvec4 found = positions_of_four((tile.start + output_number * POSITIONS) / ELEMENTS_PER_WORD);
        uint target = tile.offsets.y + output_number, count = min(tile.sizes.x - output_number, 4u);
        if (count == 4u && target % 4u == 0u && !flagged(FLAG_WITH_VALUES)) {
            write_indices(target, found, tile.weight);
        } else {
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                if (i < count) write_output(tile, uvec3(output_number + i, 0u, 0u), output_number + i, found[i]);
        }
    }
}

uint position_at(Tile tile, uvec3 place, uint output_number) { return 0u; }
