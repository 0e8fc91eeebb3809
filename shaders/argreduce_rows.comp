// Reduces contiguous runs: `lanes` invocations fold the values of one output, four vectors of 16 bytes at a time, and
// then search the chunk that holds the winner for its index.
#version 450
#extension GL_GOOGLE_include_directive : require
#if SUBGROUPS
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "interface.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#if MAY_SPLIT
#include "splits.glsl"
#endif

// Compile-time: SUBGROUPS. Without it (software drivers), ALIGNED, ONE_RUN and ONE_CHUNK gain little.

#if ELEMENT_BYTES == 8

#define ELEMENTS_PER_VECTOR 2u
#define Top Key // has the order of the settled key
Top vector_top(uvec4 v) { return greater(top_key(v.xy), top_key(v.zw)); }

// Returns the first (with TAKE_LAST, the last) element of a vector that has this key.
uint find_in_vector(uvec4 v, Key key) {
    return TAKE_LAST ? uint(settled_key(top_key(v.zw)) == key) : uint(settled_key(top_key(v.xy)) != key);
}

#else

#define ELEMENTS_PER_VECTOR uint(4 * ELEMENTS_PER_WORD)
#define Top uint
// One accumulator per element of a word, without masks: the top bits decide. All elements of narrow floats are
// rotated at once; a NaN may borrow from the element above it, but the word still holds a NaN's key.
WordKeys word_tops_of_narrow_floats(uint ordered) {
    return OMIT_NAN ? top_keys(ordered) : at_top(ordered - (NAN_PATTERNS_LOW + 1u) * LOWEST_BITS);
}

WordKeys word_tops(uint word) {
    const bool narrow_floats = KEYS == KEYS_FLOAT && ELEMENT_BYTES < 4;
    return narrow_floats ? word_tops_of_narrow_floats(ordered_word(word)) : top_keys(ordered_word(word));
}
Top vector_top(uvec4 v) {
    return greatest(max(max(word_tops(v.x), word_tops(v.y)), max(word_tops(v.z), word_tops(v.w))));
}

uint find_in_vector(uvec4 v, Key key) {
    uint word = v.x, place = 0u;
#define CONSIDER(other, at)                                                                                 \
    if (settled_key(greatest(word_tops(other))) == key) {                                                   \
        word = other;                                                                                       \
        place = at;                                                                                         \
    }
    if (TAKE_LAST) {
        CONSIDER(v.y, 1u) CONSIDER(v.z, 2u) CONSIDER(v.w, 3u)
    } else {
        word = v.w;
        place = 3u;
        CONSIDER(v.z, 2u) CONSIDER(v.y, 1u) CONSIDER(v.x, 0u)
    }
    uint ordered = ordered_word(word), element = TAKE_LAST ? 0u : ELEMENTS_PER_WORD - 1u;
    for (uint i = 1u; i < ELEMENTS_PER_WORD; i++) {
        uint at = TAKE_LAST ? i : ELEMENTS_PER_WORD - 1u - i;
        element = settled_key(top_key(ordered, at)) == key ? at : element;
    }
    return place * ELEMENTS_PER_WORD + element;
}

#endif

// The part of a tile inside its run: vectors [first, last]; the run has elements [begin, end).
struct Tile {
    uint begin, end, first, last;
};

uint segment_of_unit(uint unit) {
    if (ONE_RUN) return 0u;
    if (tiles_per_run == 1u) return unit; // avoids a slow division
    return unit / tiles_per_run;
}

Tile tile_of_unit(uint unit, uint base) {
    uint segment = segment_of_unit(unit);
    Tile tile;
    tile.begin = base;
    if (!ONE_RUN) tile.begin += reduced_offset(segment, reduced_dims - 1u);
    tile.end = tile.begin + run;
    tile.first = tile.begin / ELEMENTS_PER_VECTOR + (unit - segment * tiles_per_run) * tile_vectors;
    tile.last = min(tile.first + tile_vectors - 1u, (tile.end - 1u) / ELEMENTS_PER_VECTOR);
    return tile;
}

// Replaces the bits outside the run, those that `inside` lacks, by neutral ones.
uint neutral_outside(uint word, uint neutral, uint inside) { return (word & inside) | (neutral & ~inside); }
uint bits_below(int count) { return count >= 32 ? 0xffffffffu : (1u << max(count, 0)) - 1u; }

uvec4 load_vector(Tile tile, uint vector) {
    uvec4 v = input_vectors[vector];
    if (!ALIGNED) {
        uint element = vector * ELEMENTS_PER_VECTOR;
        if (element < tile.begin || tile.end - element < ELEMENTS_PER_VECTOR) {
            int low = element < tile.begin ? int(tile.begin - element) * 8 * ELEMENT_BYTES : 0;
            int high = int(min(tile.end - element, ELEMENTS_PER_VECTOR)) * 8 * ELEMENT_BYTES;
            uvec4 neutral = NEUTRAL_VECTOR;
            v.x = neutral_outside(v.x, neutral.x, bits_below(high) & ~bits_below(low));
            v.y = neutral_outside(v.y, neutral.y, bits_below(high - 32) & ~bits_below(low - 32));
            v.z = neutral_outside(v.z, neutral.z, bits_below(high - 64) & ~bits_below(low - 64));
            v.w = neutral_outside(v.w, neutral.w, bits_below(high - 96) & ~bits_below(low - 96));
        }
    }
    return v;
}

// Reduces every `splits`-th unit; gives all invocations that share the output the best key and rank.
void reduce_units(uint first_unit, uint units, uint base, uint lane, bool wanted, out Key key, out uint rank) {
    uint chunk_vectors = lanes * uint(CHUNK_VECTORS), chunks_per_tile = (tile_vectors + chunk_vectors - 1u) >> findLSB(chunk_vectors);
    uint next_chunk = 0u, best = 0u, unit = first_unit, vector = 0u;
    Tile tile;
    Top top0, top1, top2, top3;
    key = KEY_LEAST;
    if (wanted) {
        uint tile_chunk = 0u;
        for (uint next = first_unit; next < units; next += splits, tile_chunk += chunks_per_tile) {
            Tile next_tile = tile_of_unit(next, base);
            if (!ALIGNED && next_tile.first > next_tile.last) continue; // possible in unaligned runs only
            tile = next_tile;
            next_chunk = tile_chunk;
            for (vector = tile.first + lane; vector <= tile.last + lane; vector += chunk_vectors) {
                // Loads past the end repeat the last vector.
                uvec4 v0 = load_vector(tile, min(vector, tile.last));
                uvec4 v1 = load_vector(tile, min(vector + lanes, tile.last));
                uvec4 v2 = load_vector(tile, min(vector + 2u * lanes, tile.last));
                uvec4 v3 = load_vector(tile, min(vector + 3u * lanes, tile.last));
                top0 = vector_top(v0);
                top1 = vector_top(v1);
                top2 = vector_top(v2);
                top3 = vector_top(v3);
                Key found = settled_key(greater(greater(top0, top1), greater(top2, top3)));
                // Chunks are in ascending order of positions.
                bool better = TAKE_LAST ? !key_less(found, key) : key_less(key, found);
                key = better ? found : key;
                best = better ? next_chunk : best;
                next_chunk++;
                if (ONE_CHUNK) break;
            }
            if (ONE_CHUNK) break;
        }
    }
    bool holder = next_chunk != 0u;
    Key own = key;
    key = exchange_greatest(lanes, key);
    holder = holder && own == key;
    if (!ONE_CHUNK) {
        rank = holder ? rank_of(best) : 0u;
        holder = exchange_greatest(lanes, rank) == rank && holder;
    }
    rank = 0u;
    if (holder) {
        uint place = TAKE_LAST ? 0u : 3u;
        if (ONE_CHUNK) {
            vector = tile.first + lane;
            if (TAKE_LAST) {
                if (settled_key(top1) == key) place = 1u;
                if (settled_key(top2) == key) place = 2u;
                if (settled_key(top3) == key) place = 3u;
            } else {
                if (settled_key(top2) == key) place = 2u;
                if (settled_key(top1) == key) place = 1u;
                if (settled_key(top0) == key) place = 0u;
            }
        } else {
            uint tile_number = chunks_per_tile == 1u ? best : best / chunks_per_tile;
            unit = first_unit + tile_number * splits;
            tile = tile_of_unit(unit, base);
            vector = tile.first + (best - tile_number * chunks_per_tile) * chunk_vectors + lane;
            for (uint i = 0u; i < 3u; i++) {
                place = TAKE_LAST ? 3u - i : i;
                if (settled_key(vector_top(load_vector(tile, min(vector + place * lanes, tile.last)))) == key) break;
                place = TAKE_LAST ? 2u - i : i + 1u;
            }
        }
        vector = min(vector + place * lanes, tile.last);
        uint element = vector * ELEMENTS_PER_VECTOR + find_in_vector(load_vector(tile, vector), key);
        // A neutral element has this key only if all elements have it.
        if (!ALIGNED) element = clamp(element, tile.begin, tile.end - 1u);
        rank = rank_of(segment_of_unit(unit) * run + (element - tile.begin));
    }
    rank = exchange_greatest(lanes, rank);
}

void main() {
    int lane_bits = findLSB(lanes);
    uint outputs_per_block = WORKGROUP >> lane_bits;
    uint place = invocation() >> lane_bits, lane = invocation() & (lanes - 1u);
    uint blocks = (outputs + outputs_per_block - 1u) >> findLSB(outputs_per_block);
    uint units = tiles_per_run;
    if (!ONE_RUN) units *= reduce_count / run;
    uint workgroups = blocks * splits;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u;
        uint block = workgroup - split * blocks;
        uint number = block * outputs_per_block + place;
        bool wanted = number < outputs;
        uvec2 offsets = offsets_of_output(number);
        Key key;
        uint rank;
        reduce_units(split, units, offsets.x, lane, wanted, key, rank);
#if MAY_SPLIT
        if (SPLIT) {
            if (lane == 0u && wanted) store_candidate(blocks, number, split, key, rank);
            uint first = block * outputs_per_block;
            if (last_to_arrive(block)) combine_splits(blocks, first, min(outputs_per_block, outputs - first));
        }
#endif
#if !MUST_SPLIT
        if (!SPLIT && lane == 0u && wanted) write_result(offsets, position_of(rank));
#endif
    }
}
