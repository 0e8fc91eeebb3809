// Boxes of words. Of each word that the invocation stores in a box: its cell, and its offset in the output.
#define DECLARE(TURN) uint place_##TURN, target_##TURN;
EACH_TURN(DECLARE)

void find_place(uint number, uint rows_word, uint within_word, out uint place, out uint target) {
    uint row = quotient(number, output_row_words_inverse);
    uint within = number - row * output_row_words;
    place = first_cell + offsets_in_box(row, rows_word, output_row_dims).y +
            offsets_in_box(within, within_word, within_dims).y;
    target = output_rows[min(row, output_row_count - 1u)] + within;
}

void find_places(uint rows_word, uint within_word) {
#define FIND(TURN) find_place(TURN * WORKGROUP + gl_LocalInvocationID.x, rows_word, within_word, place_##TURN, target_##TURN);
    EACH_TURN(FIND)
}

void store_rows(Origin origin) {
    uint count = output_row_count * output_row_words;
    uint number = gl_LocalInvocationID.x;
#define STORE(TURN) if (TURN * WORKGROUP + number < count) output_words[origin.output_base + target_##TURN] = cells[place_##TURN];
    EACH_TURN(STORE)
    barrier();
}
