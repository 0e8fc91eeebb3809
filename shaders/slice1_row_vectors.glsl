// Stores rows of narrow elements, which are kept as words in shared memory: first the vectors of the output that lie
// within them, then the words before and after these.
//
// The including file defines kept_word(row, word), which may be asked for the words beside a row: their bits are
// arbitrary.

// What is stored of a row. Words are counted from the one in which the row starts.
struct RowSpan {
    uint word;    // of the output, in which the row starts
    uint place;   // of the row's first element in it
    uint elements;  // of the row
    int begin;    // the words that are stored
    int end;
    int vectors_begin; // and those of them that are stored as vectors
    int vectors_end;
};

// Returns what is stored of the row that starts at `target`: all words from the first that is wholly its own, or in
// which it starts if `at_start`, to before `end`.
RowSpan span_of_row(uint target, uint length, bool at_start, int end) {
    RowSpan span;
    span.word = target / PER_WORD;
    span.place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    span.elements = length;
    int whole = span.place == 0u ? 0 : 1;
    span.begin = at_start ? 0 : whole;
    span.end = end;
    int before = -int(span.word % 4u); // the first vector's first word
    int whole_end = min(end, int((span.place + length) / PER_WORD));
    span.vectors_begin = before + (whole - before + 3) / 4 * 4;
    span.vectors_end = max(before + (whole_end - before) / 4 * 4, span.vectors_begin);
    return span;
}

uint stored_word(RowSpan span, uint row, int word) {
    uint bits = kept_word(row, word);
    return OUTPUT_UNALIGNED
        ? bits << (span.place * BITS) | kept_word(row, word - 1) >> 1u >> (31u - span.place * BITS)
        : bits;
}

// Stores vector `number` of those within a row, if there are so many.
void store_vector_of_row(RowSpan span, uint row, uint number) {
    int first = span.vectors_begin + int(number * 4u);
    if (first >= span.vectors_end) return;
    uvec4 words =
        uvec4(kept_word(row, first), kept_word(row, first + 1), kept_word(row, first + 2), kept_word(row, first + 3));
    if (OUTPUT_UNALIGNED) {
        uvec4 before = uvec4(kept_word(row, first - 1), words.xyz);
        words = words << (span.place * BITS) | before >> 1u >> (31u - span.place * BITS);
    }
    output_vectors[(span.word + uint(first)) / 4u] = words;
}

// Stores the words before the vectors within a row, or those after them: at most four.
void store_end_of_row(RowSpan span, uint row, bool after) {
    int word = after ? span.vectors_end : span.begin;
    int end = after ? span.end : min(span.vectors_begin, span.end);
    for (; word < end; word++) {
        uint count = min(span.place + span.elements - uint(word) * PER_WORD, PER_WORD);
        uint written = (2u << (count * BITS - 1u)) - 1u;
        if (word == 0) written &= ~((1u << (span.place * BITS)) - 1u);
        store_bits(span.word + uint(word), stored_word(span, row, word), written);
    }
}
