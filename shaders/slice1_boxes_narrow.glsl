// Boxes of elements of 1 and 2 bytes. Words of the output's rows, each of which starts with a word, are gathered in
// shared memory first; the words of the output may be made of two of them.

// Of the elements that the invocation gathers in a box, where they lie in the cells: two of 16 bits in a word.
uint places[TURNS * PER_WORD / 2u];

// Neighbouring invocations gather words of neighbouring rows, which are mostly side by side in the input.
uint row_of(uint number, out uint word) {
    word = quotient(number, output_row_count_inverse);
    return number - word * output_row_count;
}

void find_places(uint rows_word, uint within_word) {
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
        uint word;
        uint row = row_of(turn * WORKGROUP + gl_LocalInvocationID.x, word);
        uint first = first_cell + offsets_in_box(row, rows_word, output_row_dims).y;
        [[unroll]] for (uint i = 0u; i < PER_WORD; i += 2u) {
            uint at = min(word * PER_WORD + i, output_row_length - 1u);
            uint next = min(at + 1u, output_row_length - 1u);
            places[(turn * PER_WORD + i) / 2u] =
                ((first + offsets_in_box(at, within_word, within_dims).y) & 0xffffu) |
                (first + offsets_in_box(next, within_word, within_dims).y) << 16;
        }
    }
}

// Puts an element of the box before those in the upper bits of `bits`.
uint prepended(uint bits, uint element) {
    uint found = cells[element / PER_WORD] >> (element % PER_WORD * BITS);
    return bits >> BITS | found << (32u - BITS);
}

void store_rows(uint base, bool at_start, bool at_end) {
    uint count = output_row_count * output_row_words;
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
        uint number = turn * WORKGROUP + gl_LocalInvocationID.x;
        if (number >= count) break;
        uint bits = 0u, word;
        [[unroll]] for (uint i = 0u; i < PER_WORD; i += 2u) {
            uint pair = places[(turn * PER_WORD + i) / 2u];
            bits = prepended(prepended(bits, pair & 0xffffu), pair >> 16);
        }
        uint row = row_of(number, word);
        cells[first_gathered + row * output_row_pitch + word] = bits;
    }
    barrier();
    count = output_row_count * output_words_of_row;
    for (uint number = gl_LocalInvocationID.x; number < count; number += WORKGROUP) {
        uint row = quotient(number, output_words_of_row_inverse);
        uint word = number - row * output_words_of_row;
        uint target = base + output_rows[row];
        uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
        uint at = first_gathered + row * output_row_pitch + word;
        uint bits = cells[at] << (place * BITS);
        if (OUTPUT_UNALIGNED) bits |= cells[at - 1u] >> 1u >> (31u - place * BITS);
        // Of this word's elements, the row has those from `begin` on, and `left` after the word's first.
        uint begin = word == 0u ? place : 0u;
        int left = int(output_row_length + place) - int(word * PER_WORD);
        target = target / PER_WORD + word;
        if (begin == 0u && left >= int(PER_WORD)) {
            output_words[target] = bits;
        } else if (left > 0 && (begin == 0u || at_start) && (left >= int(PER_WORD) || at_end)) {
            // In other boxes these words are whole.
            uint written = (2u << (min(uint(left), PER_WORD) * BITS - 1u)) - 1u;
            store_bits(target, bits, written & ~((1u << (begin * BITS)) - 1u));
        }
    }
}
