// Gathers a vector of narrow elements, STEP apart, from `first` on; loads whole words. Elements beyond the input are
// arbitrary.

#include "slice1_every.glsl"

// Loads the words from `word` to `last`, 3 or 4 (for STEP 2: 7 or 8) words on. Bits after them are arbitrary.
void load_row(uint word, uint last, out uvec4 low, out uvec4 high, out uint next) {
#if STEP == 2 || STEP == -2
    // Whole vectors need fewer loads, at the cost of arithmetic.
    low = input_vectors[min(word / 4u, last_vector)];
    high = input_vectors[min((word + 4u & MOST_WORD) / 4u, last_vector)];
    uvec4 beyond = input_vectors[min(last / 4u, last_vector)];
    if ((word & 2u) != 0u) {
        low = uvec4(low.zw, high.xy);
        high = uvec4(high.zw, beyond.xy);
        beyond.xy = beyond.zw;
    }
    if ((word & 1u) != 0u) {
        low = uvec4(low.yzw, high.x);
        high = uvec4(high.yzw, beyond.x);
        beyond.x = beyond.y;
    }
    next = beyond.x;
#else
    low = load_words(word + uvec4(0u, 1u, 2u, 3u));
    high = uvec4(0u);
    next = load_word(last);
#endif
}

uvec4 backwards(uvec4 words) {
    words = words.wzyx;
    if (ELEMENT_BYTES == 1) words = (words & 0x00ff00ffu) << 8 | (words >> 8 & 0x00ff00ffu);
    return words << 16 | words >> 16;
}

uvec4 gather_row(uint first) {
    uvec4 low, high;
    uint next;
    uint span = (PER_VECTOR - 1u) * uint(abs(STEP));
    if (STEP < 0) first -= span;
    uint shift = first % PER_WORD * BITS;
    load_row(first / PER_WORD, (first + span) / PER_WORD, low, high, next);
    if (STEP == 2 || STEP == -2) {
        uvec4 even = uvec4(low.xz, high.xz);
        uvec4 odd = uvec4(low.yw, high.yw);
        low = every_second(funnel(even, odd, shift), funnel(odd, uvec4(even.yzw, next), shift));
    } else {
        low = funnel(low, uvec4(low.yzw, next), shift);
    }
    return STEP < 0 ? backwards(low) : low;
}
