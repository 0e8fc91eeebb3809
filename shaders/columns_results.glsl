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

// Writes the results of columns [first_column, end_column) of a group; `number` is the output of its first column.
void write_results(Best best, uint number, uvec2 offsets, uint first_column, uint end_column) {
    uvec2 strides = column_strides();
#if LOADS != LOADS_ELEMENTS
    // Contiguous indices are written as whole vectors.
    bool adjacent = !COLUMNS_APART && strides.y == 1u && offsets.y % (ELEMENT_BYTES == 8 ? 2u : 4u) == 0u;
    if (adjacent && end_column - first_column == COLUMNS && !flagged(FLAG_WITH_VALUES)) {
        uint places[COLUMNS];
        UNROLLED for (uint i = 0u; i < PARTS; i++)
            UNROLLED for (uint j = 0u; j < PART_COLUMNS; j++)
                places[i * PART_COLUMNS + j] = position_of(rank_in_split(best.parts[i], j));
        // The code of several dimensions is long: a loop has it once.
#define STORE_PAIRS                            \
    for (uint i = 0u; i < COLUMNS; i += 2u)    \
        index_vectors[(offsets.y + i) / 2u] = uvec4(index_of_position(places[i]), index_of_position(places[i + 1u]));
        if (flagged(FLAG_WIDE_INDICES)) {
            if (ONE_STRIDE) {
                UNROLLED STORE_PAIRS
            } else {
                STORE_PAIRS
            }
            return;
        }
#if ELEMENT_BYTES < 8
#define PLACES(i) uvec4(places[i], places[i + 1u], places[i + 2u], places[i + 3u])
        if (ONE_STRIDE) {
            uint weight = layout_word(reduced_word(0u) + 2u);
            UNROLLED for (uint i = 0u; i < COLUMNS; i += 4u)
                index_vectors[(offsets.y + i) / 4u] = index_base_low + weight * PLACES(i);
        } else {
            for (uint i = 0u; i < COLUMNS; i += 4u)
                index_vectors[(offsets.y + i) / 4u] = low_indices_of_positions(PLACES(i));
        }
        return;
#endif
    }
#endif
    // What is written is found by unrolled loops; to write it by another keeps the code short.
    uint ranks[COLUMNS];
    UNROLLED for (uint i = 0u; i < PARTS; i++)
        UNROLLED for (uint j = 0u; j < PART_COLUMNS; j++) ranks[i * PART_COLUMNS + j] = rank_in_split(best.parts[i], j);
    for (uint column = first_column; column < end_column; column++)
        write_result(
            COLUMNS_APART ? offsets_of_output(number + column) : offsets + column * strides, position_of(ranks[column]));
}
