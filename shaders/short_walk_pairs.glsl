// Walks of elements of 1 or 2 bytes load words in pairs.

// Two words of the input that are loaded together, for which lavapipe takes as long as for one.
uvec2 pair_of_words(uint pair) { return input_pairs[min(pair, last_input_pair)]; }

// Returns three words of two pairs: those from `word` on.
uvec3 words_of_pairs(uvec2 low, uvec2 high, uint word) {
    return mix(uvec3(low.y, high), uvec3(low, high.x), bvec3((word & 1u) == 0u));
}
