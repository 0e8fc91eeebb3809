// Reduces across a stride: each invocation folds one element, or with PACKED one word of neighbouring narrow
// elements, per position, and recovers the index from the winning batch. `lanes` invocations share the positions.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "candidates_io.glsl"

// Keys and folds have one component a column.
#if ELEMENT_BYTES == 8

#define COLUMNS 1u
#define Keys Key
#define Positions uint
#define Bits uvec2
Bits load_bits(uint offset) { return uvec2(input_words[2u * offset], input_words[2u * offset + 1u]); }
Keys fold_keys(Bits bits) { return ordered_key(bits); }
Keys fold_greater(Keys a, Keys b) { return key_less(a, b) ? b : a; }
Keys settled(Keys fold) { return settled_key(fold); }
Key column_of(Keys keys, uint column) { return keys; }
uint column_of(Positions positions, uint column) { return positions; }
void keep_better(inout Keys keys, inout Positions positions, Keys found, uint position) {
    bool better = TAKE_LAST ? !key_less(found, keys) : key_less(keys, found);
    keys = better ? found : keys;
    positions = better ? position : positions;
}

#else

#define Bits uint
// The element at `offset` in the lowest bits, its neighbours above. Where a word ends inside the wanted
// elements, the next one has the rest; past the end of the buffer there is nothing that is wanted.
Bits load_bits(uint offset) {
    uint word = offset / ELEMENTS_PER_WORD, shift = offset % ELEMENTS_PER_WORD * ELEMENT_BITS;
    uint bits = input_words[word] >> shift;
#if PACKED
    if (shift != 0u && word + 1u < uint(input_words.length())) bits |= input_words[word + 1u] << (32u - shift);
#endif
    return bits;
}

#if PACKED

#define COLUMNS uint(ELEMENTS_PER_WORD)
#define Keys WordKeys
#define Positions WordKeys
Keys fold_keys(Bits bits) { return top_keys(ordered_word(bits)); }
Keys settled(Keys fold) { return settled_keys(fold); }
Key column_of(Keys keys, uint column) { return keys[column]; }
void keep_better(inout Keys keys, inout Positions positions, Keys found, uint position) {
#if ELEMENT_BYTES == 1
    bvec4 better = TAKE_LAST ? greaterThanEqual(found, keys) : greaterThan(found, keys);
#else
    bvec2 better = TAKE_LAST ? greaterThanEqual(found, keys) : greaterThan(found, keys);
#endif
    keys = mix(keys, found, better);
    positions = mix(positions, Positions(position), better);
}

#else

#define COLUMNS 1u
#define Keys uint
#define Positions uint
Keys fold_keys(Bits bits) { return top_key(ordered_word(bits), 0u); }
Keys settled(Keys fold) { return settled_key(fold); }
Key column_of(Keys keys, uint column) { return keys; }
void keep_better(inout Keys keys, inout Positions positions, Keys found, uint position) {
    bool better = TAKE_LAST ? found >= keys : found > keys;
    keys = better ? found : keys;
    positions = better ? position : positions;
}

#endif

Keys fold_greater(Keys a, Keys b) { return max(a, b); }

#endif

// Read once: of a single reduced dimension, whose offsets need no division.
uint only_stride;
bool single;

uint offset_of_position(uint base, uint position) {
    if (single) return base + position * only_stride;
    return base + reduced_offset(position, reduced_dims);
}

// The rank of the best position of the batch whose element in `column` has this key.
uint find_in_batch(uint base, uint position, uint end, uint column, Key key) {
    uint best = 0u;
    for (uint i = 0u; i < BATCH && position + i * lanes < end; i++) {
        uint candidate = position + i * lanes;
        Keys found = settled(fold_keys(load_bits(offset_of_position(base, candidate))));
        if (column_of(found, column) == key) best = max(best, rank_of(candidate));
    }
    return best;
}

void main() {
    single = reduced_dims == 1u;
    only_stride = single ? layout_word(reduced_word(0u) + 1u) : 0u;
    uint groups_per_block = WORKGROUP / lanes;
    uint member = gl_LocalInvocationIndex / groups_per_block;
    uint groups_per_run = (run - 1u) / COLUMNS + 1u;
    uint groups = outputs / run * groups_per_run;
    uint blocks = (groups - 1u) / groups_per_block + 1u;
    uint items = blocks * splits;
    for (uint item = gl_WorkGroupID.x; item < items; item += gl_NumWorkGroups.x) {
        uint split = item / blocks;
        uint group = item % blocks * groups_per_block + gl_LocalInvocationIndex % groups_per_block;
        uint first_column = group % groups_per_run * COLUMNS;
        uint number = group / groups_per_run * run + first_column;
        uint base = 0u;
        uint first = split * share + member, end = min(split * share + share, reduce_count);
        Keys keys = Keys(0u);
        // If nothing exceeds the least key, all have it, and the first batch will do.
        Positions positions = Positions(first);
        if (group < groups) {
            base = offsets_of_output(number).x;
            for (uint position = first; position < end; position += lanes * BATCH) {
                Keys fold = Keys(0u);
                for (uint i = 0u; i < BATCH && position + i * lanes < end; i++)
                    fold = fold_greater(fold, fold_keys(load_bits(offset_of_position(base, position + i * lanes))));
                // Batches come in the order of their positions.
                keep_better(keys, positions, settled(fold), position);
            }
        }
        for (uint column = 0u; column < COLUMNS; column++) {
            bool wanted = group < groups && first_column + column < run;
            Key key = KEY_LEAST;
            uint rank = 0u;
            if (wanted && first < end) {
                key = column_of(keys, column);
                rank = find_in_batch(base, column_of(positions, column), end, column, key);
            }
            if (lanes > 1u) reduce_candidates(member, lanes, groups_per_block, key, rank);
            if (member == 0u && wanted) finish_candidate(number + column, split, key, rank);
        }
    }
}
