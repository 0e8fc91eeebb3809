// Boxes of elements of 1 and 2 bytes. Words of the output's rows, each of which starts with a word, are gathered into
// cells of their own: words of the output may be made of two of them.

// Of the elements that the invocation gathers in a box, where they lie in the cells if the box starts with a word: two of 16
// bits in a word.
#define DECLARE(TURN) uint pair_##TURN, other_pair_##TURN;
EACH_TURN(DECLARE)

// Neighbouring invocations gather words of neighbouring rows, which are mostly side by side in the input.
uint row_of(uint number, out uint word) {
    word = quotient(number, output_row_count_inverse);
    return number - word * output_row_count;
}

uint find_pair(uint first, uint number, uint within_word) {
    uint at = min(number, output_row_length - 1u);
    uint next = min(number + 1u, output_row_length - 1u);
    return ((first + offsets_in_box(at, within_word, within_dims).y) & 0xffffu) |
           (first + offsets_in_box(next, within_word, within_dims).y) << 16;
}

void find_word(uint number, uint rows_word, uint within_word, out uint pair, out uint other_pair) {
    uint word;
    uint row = row_of(number, word);
    uint first = first_cell + offsets_in_box(row, rows_word, output_row_dims).y;
    pair = find_pair(first, word * PER_WORD, within_word);
    other_pair = ELEMENT_BYTES == 1 ? find_pair(first, word * PER_WORD + 2u, within_word) : 0u;
}

void find_places(uint rows_word, uint within_word) {
#define FIND(TURN) find_word(TURN * WORKGROUP + gl_LocalInvocationID.x, rows_word, within_word, pair_##TURN, other_pair_##TURN);
    EACH_TURN(FIND)
}

// Puts an element of the box before those in the upper bits of `bits`.
uint prepended(uint bits, uint element) {
    uint found = cells[element / PER_WORD] >> (element % PER_WORD * BITS);
    return bits >> BITS | found << (32u - BITS);
}

// Gathers a word from a box that starts so many elements into a word of the input.
uint gathered(uint pair, uint other_pair, uint start) {
    pair += start * 0x10001u;
    other_pair += start * 0x10001u;
    uint bits = prepended(prepended(0u, pair & 0xffffu), pair >> 16);
#if ELEMENT_BYTES == 1
    bits = prepended(prepended(bits, other_pair & 0xffffu), other_pair >> 16);
#endif
    return bits;
}

void keep_word(uint number, uint bits) {
    uint word;
    uint row = row_of(number, word);
    cells[first_gathered + row * output_row_pitch + word] = bits;
}

uint kept_word(uint row, int word) {
    return cells[min(first_gathered + row * output_row_pitch + uint(word), CELLS - 1u)];
}

#include "slice1_row_vectors.glsl"

// Returns what a box stores of a row. Words that boxes share are whole in one of them.
RowSpan span_in_box(Origin origin, uint row) {
    uint target = origin.output_base + output_rows[row];
    uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    uint end = (place + output_row_length + (origin.at_end ? PER_WORD - 1u : 0u)) / PER_WORD;
    return span_of_row(target, output_row_length, origin.at_start, int(end));
}

void store_rows(Origin origin) {
    uint count = output_row_count * output_row_words, own = gl_LocalInvocationID.x;
    uint start = INPUT_UNALIGNED ? origin.input_base % PER_WORD : 0u;
#define GATHER(TURN) if (TURN * WORKGROUP + own < count) keep_word(TURN * WORKGROUP + own, gathered(pair_##TURN, other_pair_##TURN, start));
    EACH_TURN(GATHER)
    barrier();
    count = output_row_count * output_vectors_of_row;
    for (uint number = own; number < count; number += WORKGROUP) {
        uint row = quotient(number, output_vectors_of_row_inverse);
        store_vector_of_row(span_in_box(origin, row), row, number - row * output_vectors_of_row);
    }
    for (uint number = own; number < ENDS * output_row_count; number += WORKGROUP) {
        uint row = number / (ENDS);
        store_end_of_row(span_in_box(origin, row), row, number % (ENDS));
    }
}
