// Writes the results of reductions that are not split.

// Returns the low words of four indices.
uvec4 low_indices_of_positions(uvec4 positions) {
    uvec4 indices = uvec4(index_base_low);
    for (uint dim = reduced_dims; dim-- > 0u;) {
        uint word = reduced_word(dim), size = layout_word(word);
        uvec4 outer = dim == 0u ? uvec4(0u) : positions / size;
        indices += (positions - outer * size) * layout_word(word + 2u);
        positions = outer;
    }
    return indices;
}

// Stores four indices of two words, of which the high ones are 0, from index `target` on, a multiple of two.
void store_wide(uint target, uvec4 low) {
    index_vectors[target / 2u] = uvec4(low.x, 0u, low.y, 0u);
    index_vectors[target / 2u + 1u] = uvec4(low.z, 0u, low.w, 0u);
}

// Constant places keep what was found in registers: an array that a loop goes through is kept in memory.
#define PLACE(column) position_of(rank_in_split(best.parts[(column) / PART_COLUMNS], (column) % PART_COLUMNS))
#define PLACES(column) uvec4(PLACE(column), PLACE(column + 1u), PLACE(column + 2u), PLACE(column + 3u))

#if LOADS != LOADS_ELEMENTS
#include "columns_values.glsl"

// Whether the outputs of a group are side by side from a word of values on, and all its columns are wanted.
bool is_whole(uvec2 offsets, uint first_column, uint end_column) {
    return !COLUMNS_APART && column_strides().y == 1u && offsets.y % max(COLUMNS / uint(VECTOR_WORDS), 1u) == 0u &&
        end_column - first_column == COLUMNS;
}
#endif

// Writes the results of columns [first_column, end_column) of a group; `number` is the output of its first column.
void write_results(Best best, uint number, uvec2 offsets, uint first_column, uint end_column) {
    uvec2 strides = column_strides();
    bool wide = flagged(FLAG_WIDE_INDICES);
#if LOADS != LOADS_ELEMENTS
    // Contiguous indices are written as whole vectors.
    bool by_vectors =
        is_whole(offsets, first_column, end_column) && offsets.y % (ELEMENT_BYTES == 8 ? 2u : 4u) == 0u;
#if ELEMENT_BYTES == 8
    if (by_vectors && wide) {
        if (flagged(FLAG_WITH_VALUES)) write_values(best, offsets);
        index_vectors[offsets.y / 2u] = uvec4(index_of_position(PLACE(0u)), index_of_position(PLACE(1u)));
        return;
    }
#else
    if (by_vectors && !flagged(FLAG_HIGH_WORDS)) {
        if (flagged(FLAG_WITH_VALUES)) write_values(best, offsets);
        if (ONE_STRIDE) {
            uint weight = layout_word(reduced_word(0u) + 2u);
#if !EXCHANGES_WIDE
            if (wide) {
                [[unroll]] for (uint i = 0u; i < COLUMNS; i += 4u)
                    store_wide(offsets.y + i, index_base_low + weight * PLACES(i));
                return;
            }
#endif
            uvec4 low[COLUMNS / 4u];
            [[unroll]] for (uint i = 0u; i < COLUMNS; i += 4u) low[i / 4u] = index_base_low + weight * PLACES(i);
            [[unroll]] for (uint i = 0u; i < COLUMNS; i += 4u) index_vectors[(offsets.y + i) / 4u] = low[i / 4u];
            return;
        }
        // The code of several dimensions is long: a loop has it once.
        uvec4 places[COLUMNS / 4u];
        [[unroll]] for (uint i = 0u; i < COLUMNS; i += 4u) places[i / 4u] = PLACES(i);
        for (uint i = 0u; i < COLUMNS / 4u; i++) {
            uvec4 low = low_indices_of_positions(places[i]);
            if (!EXCHANGES_WIDE && wide) store_wide(offsets.y + 4u * i, low);
            else index_vectors[offsets.y / 4u + i] = low;
        }
        return;
    }
#endif
#endif
    // What is written is found by unrolled loops; to write it by another keeps the code short.
    uint ranks[COLUMNS];
    [[unroll]] for (uint i = 0u; i < PARTS; i++)
        [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j++) ranks[i * PART_COLUMNS + j] = rank_in_split(best.parts[i], j);
    for (uint column = first_column; column < end_column; column++)
        write_result(
            COLUMNS_APART ? offsets_of_output(number + column) : offsets + column * strides, position_of(ranks[column]));
}
