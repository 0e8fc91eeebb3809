// Copies elements of up to 4 bytes into one run, contiguous elements of the output, a word at a time: an invocation gathers
// the elements of a word from where they lie in the input, and neighbouring invocations write neighbouring words.
//
// Parts of the output may be made of the same sectors of the input: a workgroup then takes its share of each of them, so that
// the sectors are read while they are in a cache.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_turns.glsl"
#include "slice1_divide.glsl"
#include "slice1_counted.glsl"

// Returns a word of the elements from a count on.
uint gathered(uint count, bool inside) {
#if ELEMENT_BYTES == 4
    return input_words[source_of(count, inside)];
#else
    uint bits = 0u, source;
    for (uint i = 0u; i < PER_WORD; i++) {
        source = ROWS_OF_WORDS && i != 0u ? source + stride_of(DIMS - 1u) : source_of(count + i, inside);
        bits = bits >> BITS | input_words[source / PER_WORD] >> (source * BITS & 31u) << (32u - BITS);
    }
    return bits;
#endif
}

uint elements_before() { return output_base % PER_WORD; } // in the run's first word

// Returns the first element of a word; of a word that starts before the run or ends after it, the first of a word within.
uint first_of_word(uint word) {
    return clamp(word * PER_WORD, elements_before(), elements - PER_WORD + elements_before()) - elements_before();
}

// The same among a workgroup's words, which end with `end`; of a word after them, the last one's. Inside, words are whole.
uint first_copied(uint word, uint end, bool inside) {
    return inside ? word * PER_WORD - elements_before() : first_of_word(min(word, end - 1u));
}

void store_word(uint word, uint bits, bool inside) {
    uint target = output_base / PER_WORD + word;
#if ELEMENT_BYTES < 4
    if (!inside && (word == 0u || word == words - 1u)) {
        uint before = word == 0u ? elements_before() : 0u;
        uint after = word * PER_WORD + before - elements_before() - first_of_word(word);
        store_bits(target, bits >> (after * BITS) << (before * BITS), 0xffffffffu >> (after * BITS) << (before * BITS));
        return;
    }
#endif
    output_words[target] = bits;
}

// Copies a workgroup's words. Where it is inside, they are whole and in one plane, which spares a quarter of the instructions.
void copy_words(uint begin, uint end, bool inside) {
    uint bits[AT_ONCE]; // their loads are in flight together
    for (uint first_word = begin; first_word < end; first_word += AT_ONCE * WORKGROUP) {
        for (uint i = 0u; i < AT_ONCE; i++) {
            uint word = first_word + i * WORKGROUP + gl_LocalInvocationID.x;
            uint first = first_copied(word, end, inside);
            bits[i] = gathered(first_count + first - first_element, inside);
        }
        for (uint i = 0u; i < AT_ONCE; i++) {
            uint word = first_word + i * WORKGROUP + gl_LocalInvocationID.x;
            if (inside || word < end) store_word(word, bits[i], inside);
        }
    }
}

void copy_share(uint begin, uint end) {
    find_plane(first_of_word(begin));
    bool whole = begin != 0u && end != words && end - begin == words_per_workgroup;
    if (whole && first_count + words_per_workgroup * PER_WORD <= plane_end)
        copy_words(begin, end, true);
    else
        copy_words(begin, end, false);
}

void main() {
    if (PARTS == 1u) {
        uint begin = share_of_workgroup() * words_per_workgroup;
        copy_share(begin, min(begin + words_per_workgroup, words));
        return;
    }
    uint group = gl_WorkGroupID.x / shares_of_part;
    uint share = (gl_WorkGroupID.x - group * shares_of_part) * words_per_workgroup;
    for (uint part = 0u; part < PARTS; part++) {
        uint first = (group * PARTS + part) * words_of_part, begin = first + share;
        uint end = min(min(begin + words_per_workgroup, first + words_of_part), words);
        if (begin < end) copy_share(begin, end);
    }
}
