// Boxes of words.

// Of each word that the invocation stores in a box: its cell, and its offset in the output.
uint places[TURNS], targets[TURNS];

void find_places(uint rows_word, uint within_word) {
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
        uint number = turn * WORKGROUP + gl_LocalInvocationID.x;
        uint row = quotient(number, output_row_words_inverse);
        uint within = number - row * output_row_words;
        places[turn] = first_cell + offsets_in_box(row, rows_word, output_row_dims).y +
                       offsets_in_box(within, within_word, within_dims).y;
        targets[turn] = output_rows[min(row, output_row_count - 1u)] + within;
    }
}

void store_rows(uint base, bool at_start, bool at_end) {
    uint count = output_row_count * output_row_words;
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++)
        if (turn * WORKGROUP + gl_LocalInvocationID.x < count)
            output_words[base + targets[turn]] = cells[places[turn]];
    barrier();
}
