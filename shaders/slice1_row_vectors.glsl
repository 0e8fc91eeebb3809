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
    return span;
}

uint stored_word(RowSpan span, uint row, int word) {
    uint bits = kept_word(row, word);
    return OUTPUT_UNALIGNED
        ? bits << (span.place * BITS) | kept_word(row, word - 1) >> 1u >> (31u - span.place * BITS)
        : bits;
}

// Returns the vectors of the output that lie within what is stored of a row: the first, and the one after the last.
uvec2 vectors_within(RowSpan span) {
    uint first = span.word * PER_WORD + span.place;
    uint limit = min(first + span.elements, (span.word + uint(span.end)) * PER_WORD) / PER_VECTOR;
    first = (first + PER_VECTOR - 1u) / PER_VECTOR;
    return uvec2(first, max(first, limit));
}

// Stores vector `number` of those within a row, if there are so many.
void store_vector_of_row(RowSpan span, uint row, uint number) {
    uvec2 within = vectors_within(span);
    uint vector = within.x + number;
    if (vector >= within.y) return;
    uint element = vector * PER_VECTOR - (span.word * PER_WORD + span.place); // of the row
    int first = int(element / PER_WORD);
    uvec4 words =
        uvec4(kept_word(row, first), kept_word(row, first + 1), kept_word(row, first + 2), kept_word(row, first + 3));
    if (OUTPUT_UNALIGNED) words = funnel(words, uvec4(words.yzw, kept_word(row, first + 4)), element % PER_WORD * BITS);
    output_vectors[vector] = words;
}

const uint ENDS = 2u * uint(END_WORDS);

// Stores one of the words before the vectors within a row, or of those after them: END_WORDS each at most. Neighbouring
// invocations store neighbouring words.
void store_end_of_row(RowSpan span, uint row, uint number) {
    ivec2 within = ivec2(vectors_within(span)) * 4 - int(span.word);
    bool after = number >= uint(END_WORDS);
    int word = after ? within.y + int(number) - END_WORDS : span.begin + int(number);
    if (word >= (after ? span.end : min(within.x, span.end))) return;
    uint count = min(span.place + span.elements - uint(word) * PER_WORD, PER_WORD);
    uint written = (2u << (count * BITS - 1u)) - 1u;
    if (word == 0) written &= ~((1u << (span.place * BITS)) - 1u);
    store_bits(span.word + uint(word), stored_word(span, row, word), written);
}
