// Words of the input, and words of bytes that start anywhere in a row.
const uint MOST_WORD = 0xffffffffu / PER_WORD;

// Rows may be continued before the input's start, from where words wrap.
uint load_word(uint word) { return input_words[min(word & MOST_WORD, last_vector * 4u + 3u)]; }

#if ELEMENT_BYTES == 1
// Returns the word that starts at an element and goes on in the direction of rows. Bytes beyond the input are arbitrary.
uint word_of_row(uint source, bool backwards) {
    if (backwards) source -= PER_WORD - 1u;
    uint found = funnel(load_word(source / PER_WORD), load_word((source + PER_WORD) / PER_WORD), source % PER_WORD * BITS);
    if (!backwards) return found;
    found = (found & 0x00ff00ffu) << 8 | (found >> 8 & 0x00ff00ffu);
    return found << 16 | found >> 16;
}
#endif
