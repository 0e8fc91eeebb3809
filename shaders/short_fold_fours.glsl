// Short rows of elements of 1 or 2 bytes, one after the other without gaps: an invocation folds four of them, which are
// whole words, and writes their four indices; or two of them, where indices are of two words. All loops have fixed counts,
// so that each element's place is known.
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

// The same of the two rows from element `first` on, which start with a word or, single bytes, with half of one.
uvec2 positions_of_two(uint first) {
    uvec2 best = uvec2(0u);
    uint word = first / ELEMENTS_PER_WORD;
    bool from_half = ELEMENT_BYTES == 1 && POSITIONS % 2u != 0u && first % ELEMENTS_PER_WORD != 0u;
    [[unroll]] for (uint i = 0u; i < 2u * POSITIONS; i += ELEMENTS_PER_WORD) {
        uint raw = tile_word(word++);
        if (from_half) raw = raw >> 16u | (i + 2u < 2u * POSITIONS ? tile_word(word) << 16u : 0u);
        WordKeys ranks;
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++) ranks[j] = rank_at((i + j) % POSITIONS);
        WordKeys keys = ranked_keys(raw, ranks);
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++)
            if (i + j < 2u * POSITIONS) best[(i + j) / POSITIONS] = max(best[(i + j) / POSITIONS], keys[j]);
    }
    uvec2 ranks = (best >> RANK_SHIFT) & RANK_MASK;
    return TAKE_LAST ? ranks - 1u : RANK_MASK - ranks;
}

// Copies the elements at these places of the tile, those of four rows one after the other: they are whole words.
void write_values_of_four(uint target, uvec4 found) {
    [[unroll]] for (uint i = 0u; i < 4u; i += ELEMENTS_PER_WORD) {
        uint word = 0u;
        [[unroll]] for (uint j = 0u; j < ELEMENTS_PER_WORD; j++) {
            uint bits = element_at(found[i + j] + (i + j) * POSITIONS) & ((1u << ELEMENT_BITS) - 1u);
            word |= bits << (j * ELEMENT_BITS);
        }
        values[(target + i) / ELEMENTS_PER_WORD] = word;
    }
}

// Two indices of two words are a vector: so neighbouring invocations write neighbouring vectors.
void fold_in_twos(Tile tile) {
    for (uint output_number = 2u * gl_LocalInvocationIndex; output_number < tile.sizes.x; output_number += 2u * WORKGROUP) {
        uvec2 found = positions_of_two(tile.start + output_number * POSITIONS);
        uint target = tile.offsets.y + output_number;
        bool are_two = output_number + 1u < tile.sizes.x;
        if (are_two && target % 2u == 0u) {
            index_vectors[target / 2u] = uvec4(index_of(found.x, tile.weight), index_of(found.y, tile.weight));
        } else {
            write_index(target, found.x, tile.weight);
            if (are_two) write_index(target + 1u, found.y, tile.weight);
        }
    }
}

void fold_tile(Tile tile) {
    if (!DIRECT && flagged(FLAG_WIDE_INDICES) && !flagged(FLAG_WITH_VALUES)) {
        fold_in_twos(tile);
        return;
    }
    for (uint output_number = 4u * gl_LocalInvocationIndex; output_number < tile.sizes.x; output_number += 4u * WORKGROUP) {
        uint first = tile.start + output_number * POSITIONS;
        uvec4 found = positions_of_four(first / ELEMENTS_PER_WORD);
        uint target = tile.offsets.y + output_number, count = min(tile.sizes.x - output_number, 4u);
        if (count == 4u && target % 4u == 0u) {
            write_indices(target, found, tile.weight);
            if (flagged(FLAG_WITH_VALUES)) write_values_of_four(target, first + found);
        } else {
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                if (i < count) write_output(tile, uvec3(output_number + i, 0u, 0u), output_number + i, found[i]);
        }
    }
}

uint position_at(Tile tile, uvec3 place, uint output_number) { return 0u; }
