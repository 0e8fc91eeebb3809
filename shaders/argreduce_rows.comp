// Reduces contiguous runs: `lanes` invocations fold the values of one output's run, 16 bytes at a time, and
// recover the index from the winning batch.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "candidates_io.glsl"

#define NOWHERE 0xffffffffu

#if ELEMENT_BYTES == 8

#define ELEMENTS_PER_VECTOR 2u
#define Fold Key
const Fold FOLD_NOTHING = KEY_LEAST;

Key element_key(uvec4 v, uint element) { return ordered_key(element == 0u ? v.xy : v.zw); }
void fold_key(inout Fold fold, Key key) { if (key_less(fold, key)) fold = key; }
void fold_vector(inout Fold fold, uvec4 v) {
    fold_key(fold, ordered_key(v.xy));
    fold_key(fold, ordered_key(v.zw));
}
void fold_element(inout Fold fold, uvec4 v, uint element) { fold_key(fold, element_key(v, element)); }
Key folded_key(Fold fold) { return settled_key(fold); }
Key settled_element(uvec4 v, uint element) { return settled_key(element_key(v, element)); }

#else

#define ELEMENTS_PER_VECTOR uint(4 * ELEMENTS_PER_WORD)

// One accumulator per place in a word: no masks are needed, since the top bits decide.
#define Fold WordKeys
const Fold FOLD_NOTHING = Fold(0u);

void fold_word(inout Fold fold, uint word) { fold = max(fold, top_keys(ordered_word(word))); }
void fold_vector(inout Fold fold, uvec4 v) {
    fold_word(fold, v.x);
    fold_word(fold, v.y);
    fold_word(fold, v.z);
    fold_word(fold, v.w);
}
uint element_top(uvec4 v, uint element) {
    uint word = element / ELEMENTS_PER_WORD;
    uint bits = word < 2u ? (word == 0u ? v.x : v.y) : (word == 2u ? v.z : v.w);
    return top_key(ordered_word(bits), element % ELEMENTS_PER_WORD);
}
void fold_element(inout Fold fold, uvec4 v, uint element) { fold = max(fold, Fold(element_top(v, element))); }
Key folded_key(Fold fold) { return settled_key(greatest(fold)); }
Key settled_element(uvec4 v, uint element) { return settled_key(element_top(v, element)); }

#endif

// The part of one tile that lies in its run: elements [begin, end), vectors [first, last).
struct Tile {
    uint begin, end, first, last;
};

Tile tile_of_unit(uint unit, uint base) {
    Tile tile;
    uint segment = unit / tiles_per_run;
    tile.begin = base + reduced_offset(segment, reduced_dims - 1u);
    tile.end = tile.begin + run;
    tile.first = tile.begin / ELEMENTS_PER_VECTOR + unit % tiles_per_run * tile_vectors;
    tile.last = min(tile.first + tile_vectors, (tile.end - 1u) / ELEMENTS_PER_VECTOR + 1u);
    return tile;
}

void fold_part(inout Fold fold, Tile tile, uint vector) {
    uvec4 v = input_vectors[vector];
    uint element = vector * ELEMENTS_PER_VECTOR;
    if (element >= tile.begin && tile.end - element >= ELEMENTS_PER_VECTOR) {
        fold_vector(fold, v);
        return;
    }
    for (uint i = 0u; i < ELEMENTS_PER_VECTOR; i++)
        if (element + i >= tile.begin && element + i < tile.end) fold_element(fold, v, i);
}

Key batch_key(Tile tile, uint vector) {
    Fold fold = FOLD_NOTHING;
    uint last_vector = vector + (BATCH - 1u) * lanes;
    bool whole = vector * ELEMENTS_PER_VECTOR >= tile.begin && last_vector < tile.last &&
                 tile.end - last_vector * ELEMENTS_PER_VECTOR >= ELEMENTS_PER_VECTOR;
    if (whole) {
        for (uint i = 0u; i < BATCH; i++) fold_vector(fold, input_vectors[vector + i * lanes]);
    } else {
        for (uint i = 0u; i < BATCH && vector + i * lanes < tile.last; i++)
            fold_part(fold, tile, vector + i * lanes);
    }
    return folded_key(fold);
}

// The rank of the batch's best element that has this key.
uint find_in_batch(Tile tile, uint segment, uint vector, Key key) {
    uint best = 0u;
    for (uint i = 0u; i < BATCH && vector + i * lanes < tile.last; i++) {
        uvec4 v = input_vectors[vector + i * lanes];
        uint element = (vector + i * lanes) * ELEMENTS_PER_VECTOR;
        for (uint j = 0u; j < ELEMENTS_PER_VECTOR; j++)
            if (element + j >= tile.begin && element + j < tile.end && settled_element(v, j) == key)
                best = max(best, rank_of(segment * run + (element + j - tile.begin)));
    }
    return best;
}

void main() {
    uint items_per_workgroup = WORKGROUP / lanes;
    uint items = outputs * splits;
    uint lane = gl_LocalInvocationIndex % lanes;
    uint workgroups = (items - 1u) / items_per_workgroup + 1u;
    uint units = reduce_count / run * tiles_per_run;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint item = workgroup * items_per_workgroup + gl_LocalInvocationIndex / lanes;
        uint number = item / splits, split = item % splits;
        Key key = KEY_LEAST;
        uint rank = 0u;
        if (item < items) {
            uint base = offsets_of_output(number).x;
            uint best_unit = NOWHERE, best_vector = 0u;
            uint unit_end = min(split * share + share, units);
            for (uint unit = split * share; unit < unit_end; unit++) {
                Tile tile = tile_of_unit(unit, base);
                for (uint vector = tile.first + lane; vector < tile.last; vector += lanes * BATCH) {
                    Key found = batch_key(tile, vector);
                    // Batches come in the order of their positions.
                    bool better = TAKE_LAST ? !key_less(found, key) : key_less(key, found);
                    if (better || best_unit == NOWHERE) {
                        key = found;
                        best_unit = unit;
                        best_vector = vector;
                    }
                }
            }
            if (best_unit != NOWHERE)
                rank = find_in_batch(tile_of_unit(best_unit, base), best_unit / tiles_per_run, best_vector, key);
        }
        if (lanes > 1u) reduce_candidates(lane, lanes, 1u, key, rank);
        if (lane == 0u && item < items) finish_candidate(number, split, key, rank);
    }
}
