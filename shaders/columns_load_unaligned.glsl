// Loads vectors of 16 bytes, or of half as many, that start at any element. `load_until` reads nothing beyond an element, the
// last that is wanted.
#include "columns_vector.glsl"

#if ELEMENT_BYTES == 8

#define Loaded uvec4
Loaded load(uint offset) { return uvec4(input_pairs[offset], input_pairs[offset + 1u]); }
Loaded load_until(uint offset, uint last) { return uvec4(input_pairs[offset], input_pairs[min(offset + 1u, last)]); }
Vector unpacked(Loaded loaded) { return loaded; }

#elif ELEMENT_BYTES == 4

#define Loaded uvec4
Loaded load(uint offset) {
    return uvec4(input_words[offset], input_words[offset + 1u], input_words[offset + 2u], input_words[offset + 3u]);
}
Loaded load_until(uint offset, uint last) {
    uvec4 words = min(offset + uvec4(0u, 1u, 2u, 3u), uvec4(last));
    return uvec4(input_words[words.x], input_words[words.y], input_words[words.z], input_words[words.w]);
}
Vector unpacked(Loaded loaded) { return loaded; }

#else

struct Loaded { Vector words; uint next, shift; };

Loaded load(uint offset) {
    Loaded loaded;
    uint word = offset / ELEMENTS_PER_WORD, element = offset % ELEMENTS_PER_WORD;
#if VECTOR_WORDS == 2
    loaded.words = uvec2(input_words[word], input_words[word + 1u]);
#else
    loaded.words = uvec4(input_words[word], input_words[word + 1u], input_words[word + 2u], input_words[word + 3u]);
#endif
    // Not beyond the last element of the vector, where the buffer may end.
    loaded.next = input_words[word + (element == 0u ? uint(VECTOR_WORDS - 1) : uint(VECTOR_WORDS))];
    loaded.shift = element * ELEMENT_BITS;
    return loaded;
}

#if VECTOR_WORDS == 4
Loaded load_until(uint offset, uint last) {
    Loaded loaded;
    uvec4 words = min(offset / ELEMENTS_PER_WORD + uvec4(0u, 1u, 2u, 3u), uvec4(last / ELEMENTS_PER_WORD));
    loaded.words = uvec4(input_words[words.x], input_words[words.y], input_words[words.z], input_words[words.w]);
    loaded.next = input_words[min(offset / ELEMENTS_PER_WORD + 4u, last / ELEMENTS_PER_WORD)];
    loaded.shift = offset % ELEMENTS_PER_WORD * ELEMENT_BITS;
    return loaded;
}
#endif

Vector unpacked(Loaded loaded) {
    // GPUs execute this multiplication beside the shift. The factor is 0 if the next word is not needed.
    uint factor = loaded.shift == 0u ? 0u : 1u << (32u - loaded.shift);
#if VECTOR_WORDS == 2
    Vector next = Vector(loaded.words.y, loaded.next);
#else
    Vector next = Vector(loaded.words.yzw, loaded.next);
#endif
    return (loaded.words >> loaded.shift) + next * factor;
}

#endif
