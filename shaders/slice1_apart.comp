// Copies elements that lie apart in the output, or in short rows with others between them. An invocation writes a word of a
// row, or an element if few words have one of the row; of words that hold other elements, too, only its own bits.
//
// Compile-time: ELEMENT_BYTES, at most 8.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"

// Returns where the row of an item starts in the input and in the output, and the item's number in the row.
uvec2 row_of(uint item, out uint number) {
    uvec2 start = uvec2(input_base, output_base);
    uint row = divide(item, items_of_row, items_of_row_inverse, number);
    for (uint dim = DIMS; dim-- > 0u;) {
        uint word = dim * RUN_DIM_WORDS, coordinate = row;
        if (dim != 0u) row = divide(row, layout_word(word), layout_word(word + 1u), coordinate);
        start += coordinate * uvec2(layout_word(word + 2u), layout_word(word + 3u));
    }
    return start;
}

#if ELEMENT_BYTES < 4
#include "slice1_row_words.glsl"

struct Item {
    uint word; // of the output
    uint bits;
    uint written; // the bits that are the item's own
};

uint element_of(uint source) { return load_word(source / PER_WORD) >> (source % PER_WORD * BITS) & MASK; }

// Returns the bits of the first `count` elements of a word.
uint bits_before(uint count) { return count < PER_WORD ? (1u << (count * BITS)) - 1u : 0xffffffffu; }

Item load(uint number, uvec2 start) {
    Item item = Item(0u, 0u, 0u);
    if (OUTPUT_STEP == 0u) {
        uint target = start.y + number * row_output_stride, shift = target % PER_WORD * BITS;
        item.word = target / PER_WORD;
        item.bits = element_of(start.x + number * row_input_stride) << shift;
        item.written = MASK << shift;
        return item;
    }
    item.word = start.y / PER_WORD + number;
    uint skipped = start.y % PER_WORD;         // elements of the row's first word before the row
    uint first = number * PER_WORD - skipped;  // counted from the row's start; below 0 in its first word
    uint begin = number == 0u ? skipped : 0u;
    if (OUTPUT_STEP == 1u) {
        item.written = bits_before(min(row - min(row, first + begin) + begin, PER_WORD)) & ~bits_before(begin);
        uint source = start.x + first * row_input_stride;
        if (SIDE_BY_SIDE) {
            item.bits = funnel(load_word(source / PER_WORD), load_word((source + PER_WORD) / PER_WORD), source % PER_WORD * BITS);
        } else {
            [[unroll]] for (uint i = 0u; i < PER_WORD; i++, source += row_input_stride) item.bits |= element_of(source) << (i * BITS);
        }
        return item;
    }
    uint element = (first + begin + OUTPUT_STEP - 1u) / max(OUTPUT_STEP, 1u);
    [[unroll]] for (uint i = 0u; i < PER_WORD / 2u; i++, element++) {
        uint place = element * OUTPUT_STEP - first;
        if (place < PER_WORD && element < row) {
            item.bits |= element_of(start.x + element * row_input_stride) << (place * BITS);
            item.written |= MASK << (place * BITS);
        }
    }
    return item;
}

// Bits that differ from those of before are flipped by one atomic operation, where most words are partial. That takes a load
// of each partial word, which is in flight together with the others.
void find_flips(inout Item item) {
    if (!FLIPS_BITS || item.written == 0u || item.written == 0xffffffffu) return;
    item.bits ^= output_words[item.word];
}

void store(Item item) {
    if (FLIPS_BITS && item.written != 0xffffffffu) {
        uint flips = item.bits & item.written;
        if (flips != 0u) atomicXor(output_words[item.word], flips);
    } else {
        store_bits(item.word, item.bits, item.written);
    }
}
#else
#if ELEMENT_BYTES == 4
#define ELEMENT uint
#define INPUT input_words
#define OUTPUT output_words
#else
#define ELEMENT uvec2
#define INPUT input_pairs
#define OUTPUT output_pairs
#endif

struct Item {
    uint target;
    ELEMENT element;
};

Item load(uint number, uvec2 start) {
    return Item(start.y + number * row_output_stride, INPUT[start.x + number * row_input_stride]);
}

void store(Item item) { OUTPUT[item.target] = item.element; }
#endif

void main() {
    uint begin = gl_WorkGroupID.x * items_per_workgroup;
    uint end = min(begin + items_per_workgroup, items);
    for (uint first = begin; first < end; first += AT_ONCE * WORKGROUP) {
        Item loaded[AT_ONCE]; // their loads are in flight together
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            uint number;
            uvec2 start = row_of(min(first + i * WORKGROUP + gl_LocalInvocationID.x, end - 1u), number);
            loaded[i] = load(number, start);
#if ELEMENT_BYTES < 4
            find_flips(loaded[i]);
#endif
        }
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            if (first + i * WORKGROUP + gl_LocalInvocationID.x < end) store(loaded[i]);
        }
    }
}
