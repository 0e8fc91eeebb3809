// Writes the positions that were found for outputs of a tile.

// Whether folds write what they find themselves, or the position of each output is asked for in turn.
#define FOLDS_WRITE \
    (COLUMNS == COLUMNS_FOURS || (DIRECT && (COLUMNS == COLUMNS_PACKED || COLUMNS == COLUMNS_WALKED_PACKED)))

uvec2 index_of(uint position, uvec2 weight) {
    if (!flagged(FLAG_HIGH_WORDS)) return uvec2(position * weight.x + index_base_low, 0u);
    uint high, low, carry;
    umulExtended(position, weight.x, high, low);
    low = uaddCarry(low, index_base_low, carry);
    return uvec2(low, high + position * weight.y + index_base_high + carry);
}

void write_index(uint target, uint position, uvec2 weight) {
    if (flagged(FLAG_WIDE_INDICES)) {
        index_pairs[target] = index_of(position, weight);
    } else {
        indices[target] = position * weight.x + index_base_low;
    }
}

// The same for four outputs side by side, the first of which is a multiple of four.
void write_indices(uint target, uvec4 positions, uvec2 weight) {
    if (flagged(FLAG_WIDE_INDICES)) {
        index_vectors[target / 2u] = uvec4(index_of(positions.x, weight), index_of(positions.y, weight));
        index_vectors[target / 2u + 1u] = uvec4(index_of(positions.z, weight), index_of(positions.w, weight));
    } else {
        index_vectors[target / 4u] = positions * weight.x + index_base_low;
    }
}

#if ELEMENT_BYTES < 4
// A driver on a processor stores each invocation's word on its own, but vectors at once. So of rows of outputs that start
// anywhere, an invocation takes columns from a multiple of a vector of outputs on: some are before the row.
bool are_rows_shifted(uint starts, uint outputs) { return OUTPUT_VECTORS && !WORD_ALIGNED && starts % outputs != 0u; }

// How many elements earlier than at `at`, where a row starts, an invocation begins; none where the buffer has no more.
uint shift_of_row(uint target, uint at, uint outputs) {
    uint shift = target % outputs;
    return at < shift ? 0u : shift;
}

// Whether so many outputs along a dimension of the tile are whole vectors.
bool is_vector_of_outputs(Tile tile, uvec3 place, uint axis, uint count, uint target) {
    bool is_inside = place[axis] < tile.sizes[axis] && tile.sizes[axis] - place[axis] >= count;
    return OUTPUT_VECTORS && is_inside && target % min(count, 4u) == 0u;
}

#if ELEMENT_BYTES == 1
void write_word_of_indices(uint target, uvec4 positions, uvec2 weight) { write_indices(target, positions, weight); }
#else
void write_word_of_indices(uint target, uvec2 positions, uvec2 weight) {
    if (flagged(FLAG_WIDE_INDICES)) {
        index_vectors[target / 2u] = uvec4(index_of(positions.x, weight), index_of(positions.y, weight));
    } else {
        index_pairs[target / 2u] = positions * weight.x + index_base_low;
    }
}
#endif
#endif

#if COLUMNS >= COLUMNS_WALKED
#define OFFSET_OF_POSITION reduced_offset(position, reduced_dims)
#else
#define OFFSET_OF_POSITION position * tile.step
#endif

// `distance`: of the output from the tile's first.
void write_output(Tile tile, uvec3 place, uint distance, uint position) {
    uint target = tile.offsets.y + distance;
    write_index(target, position, tile.weight);
    if (flagged(FLAG_WITH_VALUES))
        write_value(tile.offsets.x + dot_of(place, input_strides()) + OFFSET_OF_POSITION, target);
}
