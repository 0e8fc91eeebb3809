// Copies elements of up to 4 bytes into one run, contiguous elements of the output, a word at a time: an invocation gathers
// the elements of a word from where they lie in the input, and neighbouring invocations write neighbouring words.
//
// A workgroup finds once where its first element lies. From there on it counts: within the near dimensions, along the next
// one, and at most once into the plane after that one. So words divide by the sizes of near dimensions only.
//
// Parts of the output may be made of the same sectors of the input: a workgroup then takes its share of each of them, so that
// the sectors are read while they are in a cache.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"

uint size_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS); }
uint inverse_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 1u); }
uint stride_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 2u); }

const uint ALONG = DIMS - 1u - NEAR_DIMS; // the dimension along which the near ones are repeated

// Elements are counted from the start of the near dimensions in which the workgroup's first element lies.
uint first_element; // of the workgroup, in the run
uint first_count;
uint plane_end;    // the count with which the next plane begins
uint plane_source; // where the element of count 0 lies, and where it would lie in the next plane
uint next_plane_source;

void find_plane(uint first) {
    first_element = first;
    uint number = first, near = 1u;
    first_count = 0u;
    for (uint dim = DIMS - 1u; dim > ALONG; dim--) {
        uint coordinate;
        number = divide(number, size_of(dim), inverse_of(dim), coordinate);
        first_count += coordinate * near;
        near *= size_of(dim);
    }
    uint along = number;
    if (ALONG != 0u) number = divide(number, size_of(ALONG), inverse_of(ALONG), along);
    plane_end = (size_of(ALONG) - along) * near;
    plane_source = input_base + along * stride_of(ALONG);
    next_plane_source = plane_source - size_of(ALONG) * stride_of(ALONG);
    bool ends = true;
    for (uint dim = ALONG; dim-- > 0u;) {
        uint coordinate = number;
        if (dim != 0u) number = divide(number, size_of(dim), inverse_of(dim), coordinate);
        plane_source += coordinate * stride_of(dim);
        bool wraps = dim != 0u && ends && coordinate + 1u == size_of(dim);
        next_plane_source += (wraps ? 0u : coordinate + uint(ends)) * stride_of(dim);
        ends = wraps;
    }
}

// Counts times sizes of near dimensions are below 2^32: their quotients are exact.
uint small_quotient(uint number, uint dim) {
    uint quotient, low;
    umulExtended(number, inverse_of(dim) + 1u, quotient, low);
    return quotient;
}

uint source_of(uint count, bool inside) {
    uint source = inside || ALONG == 0u || count < plane_end ? plane_source : next_plane_source;
    source += count * stride_of(DIMS - 1u);
    for (uint dim = DIMS - 1u; dim > ALONG; dim--) {
        count = small_quotient(count, dim);
        source += count * (stride_of(dim - 1u) - size_of(dim) * stride_of(dim));
    }
    return source;
}

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
            uint first = inside ? word * PER_WORD - elements_before() : first_of_word(min(word, end - 1u));
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
        uint begin = gl_WorkGroupID.x * words_per_workgroup;
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
