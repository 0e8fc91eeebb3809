// Reduces contiguous runs: `lanes` invocations fold the values of one output, four vectors of 16 bytes at a time, and
// then find the index of the winner.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#if SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#define LAYOUT_IS_SIMPLE SIMPLE_LAYOUT
#define LAYOUT_IN_SHARED MEMORY_ORDER
#define LAYOUT_IS_SHARED (KEPT_VECTORS == 0u) // otherwise it is read rarely
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "splits.glsl"
#include "rows_vector.glsl"

// Compile-time: SUBGROUPS. Without it (software drivers), ALIGNED, ONE_RUN and KEPT_VECTORS gain little. MEMORY_ORDER:
// elements are read as they lie in memory, and not in the order of their positions.
//
// With ROW_STEP, only every so many elements of a run are the row's; the others are replaced by ones with the least key.

#define MAY_HAVE_STEPS SUBGROUPS

// The part of a tile inside its run: vectors [first, last]; the run has elements [begin, end).
struct Tile {
    uint begin, end, first, last;
    uint position; // of the run's first element
#if MAY_HAVE_STEPS
    uvec4 bits;    // of the row's elements in a vector, where steps are whole
#endif
};

#if MAY_HAVE_STEPS
// Where vectors have whole steps, the number of the row's first element is the same in all of them.
#define STEPS_ARE_WHOLE (ELEMENTS_PER_VECTOR % ROW_STEP == 0u)
shared uvec4 bits_of_row[ROW_STEP]; // those of the row's elements in a vector, by the number of the first
uvec4 bits_of_aligned_row;          // a constant, which is computed in one place
#endif

// Returns how many positions a run has.
uint positions_of_run() { return ROW_STEP == 1u ? run : (run + ROW_STEP - 1u) / ROW_STEP; }

uint run_of_tile(uint number) {
    if (ONE_RUN) return 0u;
    if (tiles_per_run == 1u) return number; // avoids a slow division
    return number / tiles_per_run;
}

uvec2 begin_of_run(uint run_number); // returns the offset of its first element, and the position of that

Tile tile_of_number(uint number, uint base) {
    uint run_number = run_of_tile(number);
    uvec2 begin = begin_of_run(run_number);
    Tile tile;
    tile.begin = base + begin.x - ROW_FIRST;
    tile.position = begin.y;
    tile.end = tile.begin + run;
    tile.first = tile.begin / ELEMENTS_PER_VECTOR + (number - run_number * tiles_per_run) * tile_vectors;
    tile.last = min(tile.first + tile_vectors - 1u, (tile.end - 1u) / ELEMENTS_PER_VECTOR);
#if MAY_HAVE_STEPS
    if (ROW_STEP > 1u && !ALIGNED && STEPS_ARE_WHOLE) tile.bits = bits_of_row[tile.begin % ROW_STEP];
#endif
    return tile;
}

// Whether no vector of a tile lies across an end of its run.
bool is_within(Tile tile) {
    return tile.first * ELEMENTS_PER_VECTOR >= tile.begin && tile.last < tile.end / ELEMENTS_PER_VECTOR;
}

uint bits_below(int count) { return count >= 32 ? 0xffffffffu : (1u << max(count, 0)) - 1u; }
uvec4 vector_bits_below(int count) {
    return uvec4(bits_below(count), bits_below(count - 32), bits_below(count - 64), bits_below(count - 96));
}

#if SUBGROUPS
// Where rows are kept, masks come from a table, which takes fewer registers; elsewhere to compute them takes less time.
#define MASKS_ARE_SHARED (!ALIGNED && KEPT_VECTORS != 0u)
shared uvec4 bits_below_element[ELEMENTS_PER_VECTOR + 1u]; // of a vector: those of its first elements, by their number

#if MAY_HAVE_STEPS
uvec4 bits_of_every_step(uint first) {
    uvec4 bits = uvec4(0u);
    [[unroll]] for (uint element = 0u; element < ELEMENTS_PER_VECTOR; element++) {
        int bit = int(element) * 8 * ELEMENT_BYTES;
        if (element % ROW_STEP == first) bits |= vector_bits_below(bit + 8 * ELEMENT_BYTES) & ~vector_bits_below(bit);
    }
    return bits;
}

void prepare_row_bits() {
    if (ALIGNED && STEPS_ARE_WHOLE) {
        bits_of_aligned_row = bits_of_every_step(ROW_FIRST);
        return;
    }
    for (uint first = invocation(); first < ROW_STEP; first += WORKGROUP) bits_of_row[first] = bits_of_every_step(first);
    workgroup_barrier();
}

// Returns the bits of the row's elements in a vector that starts with `element`.
uvec4 bits_in_row(Tile tile, uint element) {
    if (STEPS_ARE_WHOLE) return ALIGNED ? bits_of_aligned_row : tile.bits;
    return bits_of_row[((tile.begin + ROW_FIRST) % ROW_STEP + ROW_STEP - element % ROW_STEP) % ROW_STEP];
}

// Replaces the elements of a vector that lie between those of the row.
uvec4 in_row(Tile tile, uint vector, uvec4 v) {
    if (ROW_STEP == 1u) return v;
    uvec4 bits = bits_in_row(tile, vector * ELEMENTS_PER_VECTOR);
    return (v & bits) | (NEUTRAL_VECTOR & ~bits);
}
#endif

void prepare_masks() {
#if MAY_HAVE_STEPS
    if (ROW_STEP > 1u) prepare_row_bits();
#endif
    if (!MASKS_ARE_SHARED) return;
    for (uint count = invocation(); count <= ELEMENTS_PER_VECTOR; count += WORKGROUP)
        bits_below_element[count] = vector_bits_below(int(count) * 8 * ELEMENT_BYTES);
    workgroup_barrier();
}
#else
void prepare_masks() {}
#endif
#if !MAY_HAVE_STEPS
#define in_row(tile, vector, v) v
#endif

// Returns the bits of the first elements of a vector.
uvec4 bits_of_first(uint count) {
#if SUBGROUPS
    if (MASKS_ARE_SHARED) return bits_below_element[count];
#endif
    return vector_bits_below(int(count) * 8 * ELEMENT_BYTES);
}

// Returns the bits of the elements of a vector, from `element` on, that lie inside the run.
uvec4 bits_inside_run(Tile tile, uint element) {
    uint before = element < tile.begin ? tile.begin - element : 0u;
    return bits_of_first(min(tile.end - element, ELEMENTS_PER_VECTOR)) & ~bits_of_first(before);
}

// Replaces the elements of a vector that lie outside the run by ones with the least key.
uvec4 inside_run(Tile tile, uint vector, uvec4 v) {
    uint element = vector * ELEMENTS_PER_VECTOR;
    if (element >= tile.begin && tile.end - element >= ELEMENTS_PER_VECTOR) return v;
    uvec4 inside = bits_inside_run(tile, element);
    return (v & inside) | (NEUTRAL_VECTOR & ~inside);
}

#if SUBGROUPS
// The same for a vector that may only lie across the begin of the run, or its end.
uvec4 from_begin(Tile tile, uint vector, uvec4 v) {
    uint element = vector * ELEMENTS_PER_VECTOR;
    if (element >= tile.begin) return v;
    uvec4 before = bits_of_first(tile.begin - element);
    return (v & ~before) | (NEUTRAL_VECTOR & before);
}

uvec4 until_end(Tile tile, uint vector, uvec4 v) {
    uint left = tile.end - vector * ELEMENTS_PER_VECTOR;
    if (left >= ELEMENTS_PER_VECTOR) return v;
    uvec4 inside = bits_of_first(left);
    return (v & inside) | (NEUTRAL_VECTOR & ~inside);
}
#endif

uvec4 load_vector(Tile tile, uint vector) {
    uvec4 v = in_row(tile, vector, input_vectors[vector]);
    return ALIGNED ? v : inside_run(tile, vector, v);
}

// Up to BATCH_VECTORS vectors of an invocation, `lanes` apart from each other, and the greatest key of each.
struct Batch {
    uint vector, count;
    uvec4 v0, v1, v2, v3;
    Top top0, top1, top2, top3;
};

// Replaces a vector of a batch by what a function makes of it.
#define REPLACE(at, v, function)                                                                            \
    if (at < batch.count) v = function(tile, min(batch.vector + at * lanes, tile.last), v);
#define REPLACE_ALL(function)                                                                               \
    REPLACE(0u, batch.v0, function)                                                                         \
    REPLACE(1u, batch.v1, function)                                                                         \
    REPLACE(2u, batch.v2, function)                                                                         \
    REPLACE(3u, batch.v3, function)

void clear_outside_run(Tile tile, inout Batch batch) { REPLACE_ALL(inside_run) }

void clear_outside_row(Tile tile, inout Batch batch) {
    if (ROW_STEP == 1u) return;
    REPLACE_ALL(in_row)
}

// Loads past the end of the tile repeat its last vector. `inside`: no vector lies across an end of the run.
Batch loaded_batch(Tile tile, uint vector, bool inside) {
    Batch batch;
    batch.vector = vector;
    batch.count = uint(BATCH_VECTORS);
    batch.v0 = input_vectors[vector];
    batch.v1 = input_vectors[vector + lanes];
    batch.v2 = input_vectors[vector + 2u * lanes];
    batch.v3 = input_vectors[min(vector + 3u * lanes, tile.last)];
    if (!ALIGNED && !inside) clear_outside_run(tile, batch);
    clear_outside_row(tile, batch);
    return batch;
}

#if SUBGROUPS
#define LOAD(at) input_vectors[at] // all are under way before the first is looked at
#else
#define LOAD(at) load_vector(tile, at)
#endif

Batch part_of_batch(Tile tile, uint vector, uint count) {
    Batch batch;
    batch.vector = vector;
    batch.count = count;
    if (count > 0u) batch.v0 = LOAD(min(vector, tile.last));
    if (count > 1u) batch.v1 = LOAD(min(vector + lanes, tile.last));
    if (count > 2u) batch.v2 = LOAD(min(vector + 2u * lanes, tile.last));
    if (count > 3u) batch.v3 = LOAD(min(vector + 3u * lanes, tile.last));
    return batch;
}

Batch loaded_part(Tile tile, uint vector, uint count) {
    Batch batch = part_of_batch(tile, vector, count);
#if SUBGROUPS
    if (!ALIGNED) clear_outside_run(tile, batch);
    clear_outside_row(tile, batch);
#endif
    return batch;
}

void fold(inout Batch batch) {
    batch.top0 = vector_top(batch.v0);
    batch.top1 = vector_top(batch.v1);
    batch.top2 = vector_top(batch.v2);
    batch.top3 = vector_top(batch.v3);
}

// The least key stands for a vector that is not there: it is the greatest only where all elements have it.
void fold_part(inout Batch batch) {
    batch.top0 = batch.top1 = batch.top2 = batch.top3 = Top(0u);
    if (batch.count > 0u) batch.top0 = vector_top(batch.v0);
    if (batch.count > 1u) batch.top1 = vector_top(batch.v1);
    if (batch.count > 2u) batch.top2 = vector_top(batch.v2);
    if (batch.count > 3u) batch.top3 = vector_top(batch.v3);
}

Key greatest_of(Batch batch) {
    return settled_key(greater(greater(batch.top0, batch.top1), greater(batch.top2, batch.top3)));
}

#if SUBGROUPS
// The KEPT_VECTORS vectors that an invocation has of a tile, all of which stay in registers.
struct Kept { Batch first, second, third; };

uint kept_from(uint vector) { return min(max(KEPT_VECTORS, vector) - vector, uint(BATCH_VECTORS)); }

// Of a batch that has the vectors from `from` on of an invocation. A run may lie in one vector less than others of the same
// length do, and the last tile of a run may have any number. A run in one vector has it twice, where others have two.
void clear_ends(Tile tile, inout Batch batch, uint from) {
    if (from == 0u) REPLACE(0u, batch.v0, from_begin)
    if (from == 0u && KEPT_VECTORS == 2u) REPLACE(1u, batch.v1, from_begin)
    bool any = tiles_per_run != 1u;
    if (any || from + 2u >= KEPT_VECTORS) REPLACE(0u, batch.v0, until_end)
    if (any || from + 3u >= KEPT_VECTORS) REPLACE(1u, batch.v1, until_end)
    if (any || from + 4u >= KEPT_VECTORS) REPLACE(2u, batch.v2, until_end)
    if (any || from + 5u >= KEPT_VECTORS) REPLACE(3u, batch.v3, until_end)
}

Kept kept_vectors(Tile tile, uint vector) {
    const uint second = uint(BATCH_VECTORS), third = 2u * second;
    Kept kept;
    kept.first = part_of_batch(tile, vector, kept_from(0u));
    kept.second = part_of_batch(tile, vector + second * lanes, kept_from(second));
    kept.third = part_of_batch(tile, vector + third * lanes, kept_from(third));
    if (!ALIGNED) {
        clear_ends(tile, kept.first, 0u);
        clear_ends(tile, kept.second, second);
        clear_ends(tile, kept.third, third);
    }
    clear_outside_row(tile, kept.first);
    clear_outside_row(tile, kept.second);
    clear_outside_row(tile, kept.third);
    fold_part(kept.first);
    fold_part(kept.second);
    fold_part(kept.third);
    return kept;
}

Key greatest_of(Kept kept) {
    return greater(greater(greatest_of(kept.first), greatest_of(kept.second)), greatest_of(kept.third));
}
#endif

// Tiles that come one after the other in an invocation are so far apart.
#define TILES_APART (splits * PARTS_IN_WORKGROUP)

#if MEMORY_ORDER
#include "rows_memory_order.glsl"
#else
#include "rows_position_order.glsl"
#endif

// Reduces every so many tiles; gives all invocations that share the output the best key and rank.
void reduce_tiles(uint first_tile, uint tiles, uint base, uint lane, uint place, bool wanted, out Key key, out uint rank) {
    uint lane_bits = findLSB(lanes), steps_per_tile = (tile_vectors + lanes - 1u) >> lane_bits;
    uint batch_vectors = lanes * uint(BATCH_VECTORS);
    Best best = nobody(place);
#if MEMORY_ORDER && !SUBGROUPS
    Key known_key = KEY_LEAST;
    uint known_rank = 0u;
#endif
    uint last_tile = READS_BACKWARDS ? tiles - 1u - (tiles - 1u - first_tile) % TILES_APART : 0u;
    if (wanted) {
        uint tile_step = 0u;
        for (uint number = first_tile; number < tiles; number += TILES_APART, tile_step += steps_per_tile) {
            Tile tile = tile_of_number(READS_BACKWARDS ? last_tile - (number - first_tile) : number, base);
            if (!ALIGNED && tile.first > tile.last) continue; // possible in unaligned runs only
            bool within = is_within(tile);
            uint steps = ((tile.last - tile.first) >> lane_bits) + 1u, step = 0u, vector = tile.first + lane;
#if SUBGROUPS
            if (KEPT_VECTORS != 0u) {
                consider_kept(best, kept_vectors(tile, vector), tile);
                break;
            }
            if (READS_BACKWARDS) vector += (steps - uint(BATCH_VECTORS)) * lanes;
            for (; step + uint(BATCH_VECTORS) <= steps; step += uint(BATCH_VECTORS)) {
                bool inside = within || (step != 0u && step + uint(BATCH_VECTORS) < steps);
                Batch batch = loaded_batch(tile, vector, inside);
                fold(batch);
                consider(best, batch, tile, tile_step + step);
                vector += READS_BACKWARDS ? 0u - batch_vectors : batch_vectors;
            }
            if (step < steps) {
                if (READS_BACKWARDS) vector = tile.first + lane;
                Batch batch = loaded_part(tile, vector, steps - step);
                fold_part(batch);
                consider(best, batch, tile, tile_step + step);
            }
#elif MEMORY_ORDER
            // Considering a batch takes long for all invocations, even for those that skip it. So each searches on for its
            // next batch that may win. It is loaded again: a driver gives what a loop computed last to all, whenever they
            // left the loop.
            while (step < steps) {
                uint found = steps;
                for (uint at = step; at < steps; at += uint(BATCH_VECTORS)) {
                    Batch batch = loaded_part(tile, vector + at * lanes, min(steps - at, uint(BATCH_VECTORS)));
                    fold_part(batch);
                    if (may_win(known_key, known_rank, batch, tile)) {
                        found = at;
                        break;
                    }
                }
                if (found < steps) {
                    Batch batch = loaded_part(tile, vector + found * lanes, min(steps - found, uint(BATCH_VECTORS)));
                    fold_part(batch);
                    consider(best, batch, tile, 0u);
                }
                share(best, known_key, known_rank);
                step = found + uint(BATCH_VECTORS);
            }
#else
            // Software drivers execute what a branch leaves out, but not what a loop does: so the batches between the first
            // and the last one, which are whole and within the run, have a loop of their own.
            while (step < steps) {
                Batch part = loaded_part(tile, vector, min(steps - step, uint(BATCH_VECTORS)));
                fold_part(part);
                consider(best, part, tile, tile_step + step);
                step += uint(BATCH_VECTORS);
                vector += batch_vectors;
                for (; step + uint(BATCH_VECTORS) < steps; step += uint(BATCH_VECTORS), vector += batch_vectors) {
                    Batch batch = loaded_batch(tile, vector, true);
                    fold(batch);
                    consider(best, batch, tile, tile_step + step);
                }
            }
#endif
        }
    }
    settle(best, first_tile, base, lane, steps_per_tile, key, rank);
}

#if SUBGROUPS
// Gives the first `count` invocations the best candidate of those that are a multiple of `count` apart from each of them.
// All invocations must call it. (reduce_candidates does the same by local indices, which may number them otherwise.)
void keep_best_of_parts(uint count, inout Key key, inout uint rank) {
    shared_keys[invocation()] = key;
    shared_ranks[invocation()] = rank;
    workgroup_barrier();
    for (uint other = invocation() + count; other < WORKGROUP; other += count)
        keep_better(key, rank, shared_keys[other], shared_ranks[other]);
    workgroup_barrier();
}
#endif

void main() {
    int lane_bits = findLSB(lanes);
    uint outputs_per_block = (WORKGROUP / PARTS_IN_WORKGROUP) >> lane_bits;
    uint place = invocation() >> lane_bits, lane = invocation() & (lanes - 1u);
    uint part = PARTS_IN_WORKGROUP == 1u ? 0u : place >> findLSB(outputs_per_block);
    uint blocks = (outputs + outputs_per_block - 1u) >> findLSB(outputs_per_block);
    uint tiles = tiles_per_run;
    if (!ONE_RUN) tiles *= reduce_count / positions_of_run();
    uint workgroups = blocks * splits;
    prepare();
    prepare_masks();
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u;
        uint block = workgroup - split * blocks;
        uint number = block * outputs_per_block + (place - part * outputs_per_block);
        bool wanted = number < outputs;
        uvec2 offsets = offsets_of_output(number);
        Key key;
        uint rank;
        reduce_tiles(split + part * splits, tiles, offsets.x, lane, place, wanted, key, rank);
#if SUBGROUPS
        if (PARTS_IN_WORKGROUP > 1u) keep_best_of_parts(WORKGROUP / PARTS_IN_WORKGROUP, key, rank);
        wanted = wanted && part == 0u;
#endif
        if (SPLIT) {
            if (lane == 0u && wanted) store_candidate(blocks, number, split, key, rank);
            uint first = block * outputs_per_block;
            if (last_to_arrive(block)) combine_splits(blocks, first, min(outputs_per_block, outputs - first));
        }
        if (!SPLIT && lane == 0u && wanted) write_result(offsets, position_of(rank));
        if (!IN_ROUNDS) break;
    }
}
