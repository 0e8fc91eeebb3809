// Copies pixels to planes: the elements of a pixel, which lie side by side in the input or a few elements apart, go to as many
// planes of the output, in each of which those of neighbouring pixels lie side by side.
//
// A workgroup copies a segment of a row of pixels. It loads the segment's span of the input as vectors into shared memory. An
// invocation takes as many pixels from there as a word has elements, and makes a word of each plane of them, in registers. If
// planes start within words, it shifts them to the output's words, with what its neighbour has made.
//
// Compile-time: ELEMENT_BYTES, at most 4.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"
#include "layout.glsl"

const uint GROUPS = WORKGROUP * AT_ONCE;     // words of a plane in a segment
const uint SPAN = GROUPS * PIXEL_ELEMENTS;   // words of the input
const uint VECTORS = SPAN / 4u + 2u;         // that hold the span, wherever it starts in a vector
const uint READ = PIXEL_ELEMENTS + uint(INPUT_UNALIGNED); // words of an invocation's pixels
// After every 32 words another, if invocations read an even number of words apart: so they read different banks.
const bool PADDED = PIXEL_ELEMENTS % 2u == 0u;
shared uint cells[4u * VECTORS + (PADDED ? VECTORS / 8u + 1u : 0u)];
uint made[AT_ONCE * CHANNELS]; // words of planes, by an invocation

uint cell_of(uint word) { return PADDED ? word + word / 32u : word; }

// Where a channel's element lies in a pixel.
uint place_of(uint channel) { return channel / GROUP_CHANNELS * GROUP_STEP + channel % GROUP_CHANNELS * CHANNEL_STEP; }

uint plane_of(uint channel) {
    return channel / GROUP_CHANNELS * group_output_stride + channel % GROUP_CHANNELS * channel_output_stride;
}

void load_span(uint first_vector) {
    [[unroll]] for (uint vector = gl_LocalInvocationID.x; vector < VECTORS; vector += WORKGROUP) {
        uvec4 loaded = input_vectors[min(first_vector + vector, last_vector)];
        uint cell = cell_of(vector * 4u); // the four are in the same 32
        cells[cell] = loaded.x;
        cells[cell + 1u] = loaded.y;
        cells[cell + 2u] = loaded.z;
        cells[cell + 3u] = loaded.w;
    }
}

uint words[READ]; // of an invocation's pixels

void read_pixels(uint first, uint shift) {
    [[unroll]] for (uint i = 0u; i < READ; i++) words[i] = cells[cell_of(first + i)];
    if (INPUT_UNALIGNED) {
        [[unroll]] for (uint i = 0u; i < PIXEL_ELEMENTS; i++) words[i] = funnel(words[i], words[i + 1u], shift);
    }
}

uint half_of(uint number) { return number % 2u == 0u ? words[number / 2u] & 0xffffu : words[number / 2u] >> 16; }

#if ELEMENT_BYTES == 1
// Two neighbouring bytes of a pixel, in one half of a word, and in the other those of the second pixel after it.
uint pair_of(uint number) {
    uint first = half_of(BACKWARD ? number + PIXEL_ELEMENTS : number);
    return first | half_of(BACKWARD ? number : number + PIXEL_ELEMENTS) << 16;
}

uint plane_word(uint place) {
    uint next = PIXEL_ELEMENTS + place;
    uint even = BACKWARD ? next : place, odd = BACKWARD ? place : next;
    uint low = pair_of(even / 2u), high = pair_of(odd / 2u);
    return ((even % 2u == 0u ? low : low >> 8) & 0x00ff00ffu) | ((odd % 2u == 0u ? high << 8 : high) & 0xff00ff00u);
}
#elif ELEMENT_BYTES == 2
uint plane_word(uint place) {
    uint next = PIXEL_ELEMENTS + place;
    return half_of(BACKWARD ? next : place) | half_of(BACKWARD ? place : next) << 16;
}
#else
uint plane_word(uint place) { return words[place]; }
#endif

#if ELEMENT_BYTES < 4
// Stores a word of a plane that starts within a word of the output, and at the ends of a row what is left of it.
void store_shifted(uint target, uint group, uint own, uint next, bool at_start, bool at_end) {
    uint before = -target % PER_WORD, shift = before * BITS; // elements to the start of the next word
    uint word = (target + before) / PER_WORD;
    if (before == 0u) {
        output_words[word] = own;
    } else {
        if (group + 1u < GROUPS)
            output_words[word] = funnel(own, next, shift);
        else if (at_end)
            store_bits(word, own >> shift, 0xffffffffu >> shift);
        if (group == 0u && at_start) store_bits(word - 1u, own << (32u - shift), 0xffffffffu << (32u - shift));
    }
}
#endif

void main() {
    uint own = gl_LocalInvocationID.x;
    for (uint share = gl_WorkGroupID.x; share < shares; share += gl_NumWorkGroups.x) {
        uint row = share / segments, segment = share - row * segments;
        uint first = min(segment * segment_step, pixels - GROUPS * PER_WORD);
        uvec2 bases = offsets_of(row, DIMS, uvec2(input_base, output_base));
        // Of the span: in a row that goes backward, its last pixel comes first.
        uint start = bases.x + (BACKWARD ? -(first + GROUPS * PER_WORD - 1u) : first) * PIXEL_ELEMENTS;
        uint first_word = start / PER_WORD;
        load_span(first_word / 4u);
        barrier();
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            uint group = i * WORKGROUP + own;
            uint at = (BACKWARD ? GROUPS - 1u - group : group) * PIXEL_ELEMENTS + first_word % 4u;
            read_pixels(at, start % PER_WORD * BITS);
            [[unroll]] for (uint channel = 0u; channel < CHANNELS; channel++)
                made[i * CHANNELS + channel] = plane_word(place_of(channel));
        }
        barrier();
        if (OUTPUT_UNALIGNED) {
            [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
                [[unroll]] for (uint channel = 0u; channel < CHANNELS; channel++)
                    cells[channel * GROUPS + i * WORKGROUP + own] = made[i * CHANNELS + channel];
            }
            barrier();
        }
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            uint group = i * WORKGROUP + own;
            [[unroll]] for (uint channel = 0u; channel < CHANNELS; channel++) {
                uint target = bases.y + plane_of(channel) + first + group * PER_WORD;
#if ELEMENT_BYTES < 4
                if (OUTPUT_UNALIGNED) {
                    uint next = cells[channel * GROUPS + min(group + 1u, GROUPS - 1u)];
                    bool at_end = segment + 1u == segments;
                    store_shifted(target, group, made[i * CHANNELS + channel], next, segment == 0u, at_end);
                    continue;
                }
#endif
                output_words[target / PER_WORD] = made[i * CHANNELS + channel];
            }
        }
        if (OUTPUT_UNALIGNED) barrier();
    }
}
