// Loads four narrow elements that start at any element.
#include "columns_fours.glsl"

// Where elements start in a word repeats after so many positions.
#if ELEMENT_BYTES == 1
#define PHASED 4
#else
#define PHASED 2
#endif
struct Phase {
    uint shift, factor; // the factor is 0 if the next word is not needed
    uint next; // where that is, not beyond the last of the four: there the buffer may end
};

Phase phase_of(uint offset) {
    Phase phase;
    uint element = offset % ELEMENTS_PER_WORD;
    phase.shift = element * ELEMENT_BITS;
    phase.factor = element == 0u ? 0u : 1u << (32u - phase.shift);
    phase.next = uint(PARTS) - (element == 0u ? 1u : 0u);
    return phase;
}

struct Loaded { Vector words; uint next; };

Loaded load(uint offset, Phase phase) {
    Loaded loaded;
    uint word = offset / ELEMENTS_PER_WORD;
#if ELEMENT_BYTES == 1
    loaded.words = input_words[word];
#else
    loaded.words = uvec2(input_words[word], input_words[word + 1u]);
#endif
    loaded.next = input_words[word + phase.next];
    return loaded;
}

Vector unpacked(Loaded loaded, Phase phase) {
    // GPUs execute this multiplication beside the shift.
#if ELEMENT_BYTES == 1
    Vector next = loaded.next;
#else
    Vector next = Vector(loaded.words.y, loaded.next);
#endif
    return (loaded.words >> phase.shift) + next * phase.factor;
}
