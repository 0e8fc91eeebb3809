// The elements of a vector of 16 bytes that lies along a row: their greatest key, and which of them have a key.

#if ELEMENT_BYTES == 8

#define ELEMENTS_PER_VECTOR 2u
#define Top Key // has the order of the settled key
Top vector_top(uvec4 v) { return greater(top_key(v.xy), top_key(v.zw)); }

// Returns the first (with TAKE_LAST, the last) element of a vector that has this key.
uint find_in_vector(uvec4 v, Key key) {
    return TAKE_LAST ? uint(settled_key(top_key(v.zw)) == key) : uint(settled_key(top_key(v.xy)) != key);
}

#else

#define ELEMENTS_PER_VECTOR uint(4 * ELEMENTS_PER_WORD)
#define Top uint
// One accumulator per element of a word, without masks: the top bits decide. All elements of narrow floats are
// rotated at once; a NaN may borrow from the element above it, but the word still holds a NaN's key.
WordKeys word_tops_of_narrow_floats(uint ordered) {
    return OMIT_NAN ? top_keys(ordered) : at_top(ordered - (NAN_PATTERNS_LOW + 1u) * LOWEST_BITS);
}

WordKeys word_tops(uint word) {
    const bool narrow_floats = KEYS == KEYS_FLOAT && ELEMENT_BYTES < 4;
    return narrow_floats ? word_tops_of_narrow_floats(ordered_word(word)) : top_keys(ordered_word(word));
}
Top vector_top(uvec4 v) {
    return greatest(max(max(word_tops(v.x), word_tops(v.y)), max(word_tops(v.z), word_tops(v.w))));
}

uint find_in_vector(uvec4 v, Key key) {
    uint word = v.x, place = 0u;
#define CONSIDER(other, at)                                                                                 \
    if (settled_key(greatest(word_tops(other))) == key) {                                                   \
        word = other;                                                                                       \
        place = at;                                                                                         \
    }
    if (TAKE_LAST) {
        CONSIDER(v.y, 1u) CONSIDER(v.z, 2u) CONSIDER(v.w, 3u)
    } else {
        word = v.w;
        place = 3u;
        CONSIDER(v.z, 2u) CONSIDER(v.y, 1u) CONSIDER(v.x, 0u)
    }
    uint ordered = ordered_word(word), element = TAKE_LAST ? 0u : ELEMENTS_PER_WORD - 1u;
    for (uint i = 1u; i < ELEMENTS_PER_WORD; i++) {
        uint at = TAKE_LAST ? i : ELEMENTS_PER_WORD - 1u - i;
        element = settled_key(top_key(ordered, at)) == key ? at : element;
    }
    return place * ELEMENTS_PER_WORD + element;
}

#endif
