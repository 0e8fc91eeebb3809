// Reduces across a stride: each invocation folds one element, or with PACKED one word of neighbouring narrow
// elements, per position, and recovers the index from the winning batch. `lanes` invocations share the positions.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "candidates_io.glsl"

#if PACKED
#define COLUMNS uint(ELEMENTS_PER_WORD)
#else
#define COLUMNS 1u
#endif
#define NOWHERE 0xffffffffu

#if ELEMENT_BYTES == 8

#define Fold Key
#define Bits uvec2
const Fold FOLD_NOTHING = KEY_LEAST;
Bits load_bits(uint offset) { return uvec2(input_words[2u * offset], input_words[2u * offset + 1u]); }
Bits ordered_bits(Bits bits) { return ordered_key(bits); }
void fold_column(inout Fold fold, Bits ordered, uint column) { if (key_less(fold, ordered)) fold = ordered; }
Key column_key(Bits ordered, uint column) { return settled_key(ordered); }

#else

#define Fold uint
#define Bits uint
const Fold FOLD_NOTHING = 0u;
#if ELEMENT_BYTES == 4
Bits load_bits(uint offset) { return input_words[offset]; }
#else
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
#endif
Bits ordered_bits(Bits bits) { return ordered_word(bits); }
void fold_column(inout Fold fold, Bits ordered, uint column) { fold = max(fold, top_key(ordered, column)); }
Key column_key(Bits ordered, uint column) { return settled_key(top_key(ordered, column)); }

#endif

// Key of a column's fold.
Key folded_key(Fold fold) { return settled_key(fold); }

uint offset_of_position(uint base, uint position) {
    if (reduced_dims == 1u) return base + position * layout_word(reduced_word(0u) + 1u);
    return base + reduced_offset(position, reduced_dims);
}

// The rank of the best position of the batch whose element in `column` has this key.
uint find_in_batch(uint base, uint position, uint end, uint column, Key key) {
    uint best = 0u;
    for (uint i = 0u; i < BATCH && position + i * lanes < end; i++) {
        uint candidate = position + i * lanes;
        Bits ordered = ordered_bits(load_bits(offset_of_position(base, candidate)));
        if (column_key(ordered, column) == key) best = max(best, rank_of(candidate));
    }
    return best;
}

void main() {
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
        uint end = min(split * share + share, reduce_count);
        Key keys[COLUMNS];
        uint best_positions[COLUMNS];
        for (uint column = 0u; column < COLUMNS; column++) {
            keys[column] = KEY_LEAST;
            best_positions[column] = NOWHERE;
        }
        if (group < groups) {
            base = offsets_of_output(number).x;
            for (uint position = split * share + member; position < end; position += lanes * BATCH) {
                Fold folds[COLUMNS];
                for (uint column = 0u; column < COLUMNS; column++) folds[column] = FOLD_NOTHING;
                for (uint i = 0u; i < BATCH && position + i * lanes < end; i++) {
                    Bits ordered = ordered_bits(load_bits(offset_of_position(base, position + i * lanes)));
                    for (uint column = 0u; column < COLUMNS; column++) fold_column(folds[column], ordered, column);
                }
                // Batches come in the order of their positions.
                for (uint column = 0u; column < COLUMNS; column++) {
                    Key found = folded_key(folds[column]);
                    bool better = TAKE_LAST ? !key_less(found, keys[column]) : key_less(keys[column], found);
                    if (better || best_positions[column] == NOWHERE) {
                        keys[column] = found;
                        best_positions[column] = position;
                    }
                }
            }
        }
        for (uint column = 0u; column < COLUMNS; column++) {
            bool wanted = group < groups && first_column + column < run;
            uint rank = 0u;
            if (wanted && best_positions[column] != NOWHERE)
                rank = find_in_batch(base, best_positions[column], end, column, keys[column]);
            if (lanes > 1u) reduce_candidates(member, lanes, groups_per_block, keys[column], rank);
            if (member == 0u && wanted) finish_candidate(number + column, split, keys[column], rank);
        }
    }
}
