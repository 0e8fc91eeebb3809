// Writes indices of two words of narrow elements. Invocations exchange the positions that they found, so that neighbouring
// ones write neighbouring indices: if each wrote its own, neighbours would write 64 or 128 bytes apart, which takes up to
// four times as long.

// In shared memory, a word for the positions of two columns. Neighbouring invocations write to different banks, and read
// from them.
uint found_word(uint place, uint pair) { return pair * WORKGROUP + (place ^ (pair * 4u & (WORKGROUP - 1u))); }

void put_found(Best best, uint place) {
    [[unroll]] for (uint i = 0u; i < PARTS; i++)
        [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j += 2u)
            shared_parts[found_word(place, (i * PART_COLUMNS + j) / 2u)] =
                position_of(rank_in_split(best.parts[i], j)) | position_of(rank_in_split(best.parts[i], j + 1u)) << 16u;
}

uint found_at(uint place, uint column) {
    return (shared_parts[found_word(place, column / 2u)] >> (column % 2u * 16u)) & 0xffffu;
}

// Writes the results of columns [first_column, end_column) of a group, the first of which is at `offsets`, for each invocation
// that holds the best of one: the groups have places below `places`. All invocations of the workgroup must call it.
void write_together(
    Best best, bool holds_best, uint place, uint places, uvec2 offsets, uint first_column, uint end_column) {
    if (gl_LocalInvocationIndex < places) shared_ranks[gl_LocalInvocationIndex] = 0u;
    workgroup_barrier();
    if (holds_best) {
        put_found(best, place);
        shared_keys[place] = offsets.y;
        shared_ranks[place] = first_column | end_column << 16u;
        if (flagged(FLAG_WITH_VALUES)) {
            if (is_whole(offsets, first_column, end_column)) write_values(best, offsets);
            else write_some_values(best, offsets, first_column, end_column);
        }
    }
    workgroup_barrier();
    bool by_words = ONE_STRIDE && !flagged(FLAG_HIGH_WORDS);
    uint weight = layout_word(reduced_word(0u) + 2u), step = column_strides().y;
    for (uint i = gl_LocalInvocationIndex; i < places * COLUMNS; i += WORKGROUP) {
        uint from = i / COLUMNS, column = i % COLUMNS, columns = shared_ranks[from];
        if (column < (columns & 0xffffu) || column >= columns >> 16u) continue;
        uint position = found_at(from, column);
        index_pairs[shared_keys[from] + column * step] =
            by_words ? uvec2(index_base_low + position * weight, 0u) : index_of_position(position);
    }
    workgroup_barrier();
}
