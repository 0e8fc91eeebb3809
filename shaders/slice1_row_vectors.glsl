// Stores rows of narrow elements, which are kept as words in shared memory, as vectors of the output.
//
// The including file defines kept_word(row, word), which may be asked for words before and after a row, whose bits are
// arbitrary.

// Stores vector `number` of those that a row touches. The row's kept elements, `length` of them, go to `target` and
// after it; of the output's words that they touch, those before `end` are stored, the first if it starts with the row
// or the row starts in it.
void store_vector(uint target, uint row, uint number, uint length, bool at_start, uint end) {
    uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    uint word = target / PER_WORD;
    int first = int(number * 4u) - int(word % 4u); // of the words that the row touches
    uvec4 words = uvec4(
        kept_word(row, first), kept_word(row, first + 1), kept_word(row, first + 2), kept_word(row, first + 3)
    );
    if (OUTPUT_UNALIGNED) {
        uvec4 before = uvec4(kept_word(row, first - 1), words.xyz);
        words = words << (place * BITS) | before >> 1u >> (31u - place * BITS);
    }
    int last = int(min(end, (place + length) / PER_WORD)); // of the whole words
    if (first >= (place == 0u ? 0 : 1) && first + 4 <= last) {
        output_vectors[word / 4u + number] = words;
        return;
    }
    int begin = place == 0u || at_start ? 0 : 1;
    for (int i = max(begin - first, 0); i < min(int(end) - first, 4); i++) {
        uint at = uint(first + i);
        uint written = (2u << (min(place + length - at * PER_WORD, PER_WORD) * BITS - 1u)) - 1u;
        if (at == 0u) written &= ~((1u << (place * BITS)) - 1u);
        store_bits(word + at, words[i], written);
    }
}
