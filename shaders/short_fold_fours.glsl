// Short rows of elements of 1 or 2 bytes, one after the other without gaps: an invocation folds four of them, which are
// whole words, and writes their four indices. All loops have fixed counts, so that each element's place is known.
#extension GL_EXT_control_flow_attributes : require

// A key and its rank share a word, so that a fold is one max. No two elements of a row have one rank, so what lies below
// the rank decides nothing.
const uint RANK_SHIFT = ELEMENT_BYTES == 1 ? 16u : 0u;
const uint RANK_MASK = ELEMENT_BYTES == 1 ? 0xffu : 0xffffu;
const uint WORDS_OF_FOUR = 4u * POSITIONS / ELEMENTS_PER_WORD;

uint ranked(uint top, uint position) {
#if KEYS == KEYS_FLOAT
    const uint nans = (2u * NAN_PATTERNS_LOW) << TOP_SHIFT;
    top = OMIT_NAN ? max(top, nans) : min(top, ~nans);
#endif
    return (top & (KEY_MASK << TOP_SHIFT)) | (TAKE_LAST ? position + 1u : RANK_MASK - position) << RANK_SHIFT;
}

// Returns the positions of the winners of the four rows that start with this word.
uvec4 positions_of_four(uint word) {
    uvec4 best = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < WORDS_OF_FOUR; i++) {
        WordKeys tops = top_keys(ordered_word(tile_word(word + i)));
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++) {
            uint element = i * ELEMENTS_PER_WORD + j, row = element / POSITIONS;
            best[row] = max(best[row], ranked(tops[j], element - row * POSITIONS));
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
