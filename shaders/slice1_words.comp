// Copies elements of up to 4 bytes into one run, contiguous elements of the output, a word at a time: an invocation gathers
// the elements of a word from where they lie in the input, and neighbouring invocations write neighbouring words. A word
// has elements of two rows of the innermost dimension at most.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"
#if ELEMENT_BYTES == 4
const uint PER_WORD = 1u;
#else
#include "slice1_row_words.glsl"
#endif

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }

// Splits `number`, a position in this and the outer dimensions, as `divide` does. Nothing is outside of the outermost one.
uint take_coordinate(inout uint number, uint dim) {
    uint coordinate = number, word = dim * RUN_DIM_WORDS;
    if (dim != 0u) number = divide(number, layout_word(word), layout_word(word + 1u), coordinate);
    return coordinate;
}

#if ELEMENT_BYTES == 4

uint word_of_rows(uint source, uint next, uint left, uint stride) { return input_words[source]; }

#else

uint element(uint at) { return input_words[at / PER_WORD] >> (at % PER_WORD * BITS); }

// Returns a word of elements: the first `left` lie from `source` on, the others as if from `next` on.
uint word_of_rows(uint source, uint next, uint left, uint stride) {
#if ELEMENT_BYTES == 1
    if (ROW_WORDS != 0u) {
        uint found = word_of_row(source, ROW_WORDS == 2u), rest = word_of_row(next, ROW_WORDS == 2u);
        uint own = left >= PER_WORD ? 0xffffffffu : (1u << (left * BITS)) - 1u;
        return (found & own) | (rest & ~own);
    }
#endif
    uint bits = 0u;
    for (uint i = 0u; i < PER_WORD; i++)
        bits = bits >> BITS | element((i < left ? source : next) + i * stride) << (32u - BITS);
    return bits;
}

#endif

// Returns a word of the elements from `number` on.
uint gathered(uint number) {
    uint inner_word = (DIMS - 1u) * RUN_DIM_WORDS, stride = layout_word(inner_word + 2u);
    uint within = take_coordinate(number, DIMS - 1u), left = layout_word(inner_word) - within;
    uint source = input_base + within * stride; // of the first element
    uint next = input_base - left * stride;     // of one as far before the next row's first, which the row's end is
    bool ends = true;
    for (uint dim = DIMS - 1u; dim-- > 0u;) {
        uint word = dim * RUN_DIM_WORDS, size = layout_word(word), step = layout_word(word + 2u);
        uint coordinate = take_coordinate(number, dim);
        source += coordinate * step;
        bool wraps = dim != 0u && ends && coordinate + 1u == size;
        next += (wraps ? 0u : coordinate + uint(ends)) * step;
        ends = wraps;
    }
    return word_of_rows(source, next, left, stride);
}

#if ELEMENT_BYTES == 4

uint word_of_run(uint word) { return gathered(word); }
void store_word(uint word, uint bits) { output_words[output_base + word] = bits; }

#else

// The first word may start before the run, and the last one end after it: the elements there are not written.
bool is_at_end(uint word) { return word == 0u || word == words - 1u; }

uint word_of_run(uint word) {
    uint first = word * PER_WORD - output_base % PER_WORD;
    if (is_at_end(word)) first = word == 0u ? 0u : min(first, elements - PER_WORD);
    return gathered(first);
}

void store_word(uint word, uint bits) {
    uint target = output_base / PER_WORD + word;
    if (!is_at_end(word)) {
        output_words[target] = bits;
        return;
    }
    uint skipped = output_base % PER_WORD, before = word == 0u ? skipped : 0u;
    uint first = word * PER_WORD + before - skipped, after = first - min(first, elements - PER_WORD);
    store_bits(target, bits >> (after * BITS) << (before * BITS), 0xffffffffu >> (after * BITS) << (before * BITS));
}

#endif

void main() {
    uint begin = gl_WorkGroupID.x * words_per_workgroup, end = min(begin + words_per_workgroup, words);
    for (uint word = begin + gl_LocalInvocationID.x; word < end; word += 2u * WORKGROUP) {
        // The loads of two words are in flight.
        uint other = min(word + WORKGROUP, end - 1u);
        uint bits = word_of_run(word), other_bits = word_of_run(other);
        store_word(word, bits);
        if (word + WORKGROUP < end) store_word(other, other_bits);
    }
}
