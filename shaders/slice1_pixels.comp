// Copies planes to pixels: each element of a pixel, a short row of the output, comes from another plane of the input, in which
// the elements of neighbouring pixels lie side by side.
//
// An invocation loads a word of pixels from each plane. These are as many words of the output, which it makes in registers;
// through shared memory neighbouring invocations store neighbouring vectors.
//
// Compile-time: ELEMENT_BYTES, at most 4.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"

uint size_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS); }
uint inverse_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 1u); }
uint stride_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 2u); }

const uint WORDS = WORKGROUP * AT_ONCE * CHANNELS; // of the output that a workgroup stores
// Invocations write CHANNELS words apart. If that is even, another word after every 32 lets them write to different banks.
const bool PADDED = CHANNELS % 2u == 0u;
shared uint cells[PADDED ? WORDS + WORDS / 32u : WORDS];

uint loaded[AT_ONCE * CHANNELS]; // by an invocation; their loads are in flight together

uint cell_of(uint word) { return PADDED ? word + word / 32u : word; }

// Returns where a pixel lies in the first plane, and how many there are from it to the end of its row.
uint place_of(uint pixel, out uint left) {
    uint place = input_base;
    for (uint dim = DIMS; dim-- > 0u;) {
        uint coordinate = pixel;
        if (dim != 0u) pixel = divide(pixel, size_of(dim), inverse_of(dim), coordinate);
        if (dim == DIMS - 1u) left = size_of(dim) - coordinate;
        place += coordinate * stride_of(dim);
    }
    return place;
}

// Returns where a channel's plane starts, after the first one's.
uint plane_offset(uint channel) {
    return channel / GROUP_CHANNELS * group_stride + channel % GROUP_CHANNELS * channel_stride;
}

uint element_at(uint place) { return input_words[place / PER_WORD] >> (place * BITS & 31u) & MASK; }

// Loads a word of pixels from each plane; what lies beyond the last pixel is not stored.
void load_planes(uint pixel, uint first) {
    uint left;
    uint place = place_of(min(pixel, pixels - 1u), left);
    if (ELEMENT_BYTES == 4 || (SIDE_BY_SIDE && left >= PER_WORD)) {
        if (BACKWARD) place -= PER_WORD - 1u;
        [[unroll]] for (uint channel = 0u; channel < CHANNELS; channel++) {
            uint start = place + plane_offset(channel), word = start / PER_WORD;
            loaded[first + channel] = input_words[word];
            if (INPUT_UNALIGNED) {
                uint next = input_words[min(word + 1u, last_word)];
                loaded[first + channel] = funnel(loaded[first + channel], next, start * BITS & 31u);
            }
        }
        return;
    }
    uint places[PER_WORD];
    [[unroll]] for (uint i = 0u; i < PER_WORD; i++) {
        uint unused;
        places[BACKWARD ? PER_WORD - 1u - i : i] = left >= PER_WORD ? place + i * stride_of(DIMS - 1u)
                                                                    : place_of(min(pixel + i, pixels - 1u), unused);
    }
    [[unroll]] for (uint channel = 0u; channel < CHANNELS; channel++) {
        uint bits = 0u, offset = plane_offset(channel);
        [[unroll]] for (uint i = 0u; i < PER_WORD; i++) bits |= element_at(places[i] + offset) << (i * BITS);
        loaded[first + channel] = bits;
    }
}

#if ELEMENT_BYTES == 1
// Bytes of the output by twos: two that follow each other in one half of a word, and in the other half those two pixels on.
uint pairs[CHANNELS];

uint pair_of(uint element, uint first) {
    uint low = loaded[first + element % CHANNELS], high = loaded[first + (element + 1u) % CHANNELS];
    bool low_second = (element >= CHANNELS) != BACKWARD, high_second = (element + 1u >= CHANNELS) != BACKWARD;
    return ((low_second ? low >> 8 : low) & 0x00ff00ffu) | ((high_second ? high : high << 8) & 0xff00ff00u);
}

void make_pairs(uint first) {
    [[unroll]] for (uint number = 0u; number < CHANNELS; number++) pairs[number] = pair_of(2u * number, first);
}

// Returns a word of the output: `number` counts those of an invocation's pixels.
uint word_of_pixels(uint number, uint first) {
    uint pair = 2u * number;
    uint low = pairs[pair % CHANNELS], high = pairs[(pair + 1u) % CHANNELS];
    bool low_second = (pair >= CHANNELS) != BACKWARD, high_second = (pair + 1u >= CHANNELS) != BACKWARD;
    return ((low_second ? low >> 16 : low) & 0xffffu) | (high_second ? high & 0xffff0000u : high << 16);
}
#else
void make_pairs(uint first) {}

uint word_of_pixels(uint number, uint first) {
#if ELEMENT_BYTES == 2
    uint element = 2u * number;
    uint low = loaded[first + element % CHANNELS], high = loaded[first + (element + 1u) % CHANNELS];
    bool low_second = (element >= CHANNELS) != BACKWARD, high_second = (element + 1u >= CHANNELS) != BACKWARD;
    return ((low_second ? low >> 16 : low) & 0xffffu) | (high_second ? high & 0xffff0000u : high << 16);
#else
    return loaded[first + number];
#endif
}
#endif

void store_vector(uint word, uvec4 vector) {
    uint elements = pixels * CHANNELS, whole = elements / PER_WORD;
    if (word + 4u <= whole) {
        output_vectors[output_vector + word / 4u] = vector;
        return;
    }
    for (uint i = 0u; i < 4u; i++) {
        uint target = output_vector * 4u + word + i;
        if (word + i < whole) output_words[target] = vector[i];
#if ELEMENT_BYTES < 4
        else if (word + i == whole) store_bits(target, vector[i], (1u << (elements % PER_WORD * BITS)) - 1u);
#endif
    }
}

void main() {
    uint own = gl_LocalInvocationID.x;
    for (uint share = gl_WorkGroupID.x; share < shares; share += gl_NumWorkGroups.x) {
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++)
            load_planes(((share * AT_ONCE + i) * WORKGROUP + own) * PER_WORD, i * CHANNELS);
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            uint first = (i * WORKGROUP + own) * CHANNELS;
            make_pairs(i * CHANNELS);
            [[unroll]] for (uint number = 0u; number < CHANNELS; number++)
                cells[cell_of(first + number)] = word_of_pixels(number, i * CHANNELS);
        }
        barrier();
        for (uint word = own * 4u; word < WORDS; word += WORKGROUP * 4u) {
            // Neighbouring cells: those of a vector are in the same 32.
            uint cell = cell_of(word);
            store_vector(share * WORDS + word, uvec4(cells[cell], cells[cell + 1u], cells[cell + 2u], cells[cell + 3u]));
        }
        barrier();
    }
}
