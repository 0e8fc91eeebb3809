// Reduces columns of unaligned rows, which it reads in aligned vectors.
//
// The phase of a row is how many elements after the start of a vector it begins. Every `lanes` rows the phases repeat, so
// that all rows of an invocation have one phase, and its vectors hold the same columns in each of them. What it found is
// shifted by its phase only once, when the invocations of a workgroup exchange it. The block of a workgroup has a vector of
// columns less than it reads: with a phase of 0 that vector is not needed, with others it has the last columns.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#define SUBGROUPS 0
#define LAYOUT_IN_SHARED 0
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "columns_load_vectors.glsl"
// What is found in single bytes is exchanged in two halves, for which shared memory has room: the columns of each half
// take part of one vector more.
#if ELEMENT_BYTES == 1
#define EXCHANGES 2u
#define SHARED_STEP (WORKGROUP / 2u + WORKGROUP / uint(FEWEST_PHASE_VECTORS))
#else
#define EXCHANGES 1u
#define SHARED_STEP WORKGROUP
#endif
#include "parts.glsl"
#include "splits.glsl"

#define COLUMNS (uint(PARTS) * PART_COLUMNS)

struct Best {
    Part parts[PARTS];
};

#define REST_IN_PAIRS 1
#include "columns_fold.glsl"

// Returns what the invocation of a slot found in one column of its vectors.
#if ELEMENT_BYTES < 4
#define Found uint
const Found NOTHING = 0u;
Found found_at(uint column, uint slot) { return shared_parts[column * SHARED_STEP + slot]; }
void keep_found(inout Found best, Found other) { best = max(best, other); }
Key key_of_found(Found found) { return found >> TOP_SHIFT; }
uint rank_of_found(Found found) {
    uint low = found & RANK_MASK;
    return RANK_OF_LOW(low);
}
#else
#define Found Part
const Found NOTHING = NOBODY;
Found found_at(uint column, uint slot) { return part_at(part_word(column, slot)); }
void keep_found(inout Found best, Found other) { keep(best, other); }
Key key_of_found(Found found) { return found.key; }
uint rank_of_found(Found found) { return found.rank; }
#endif

void main() {
    uint vectors = WORKGROUP >> findLSB(lanes), block_columns = (vectors - 1u) * COLUMNS;
    uint member = gl_LocalInvocationIndex >> findLSB(vectors), place = gl_LocalInvocationIndex & (vectors - 1u);
    uint exchanged = vectors / EXCHANGES, pitch = exchanged + EXCHANGES - 1u;
    uint inner = (kept_dims - 1u) * COPIED_DIM_WORDS, stride = layout_word(reduced_word(0u) + 1u);
    uvec2 column_strides = uvec2(1u, layout_word(inner + 2u));
    uint blocks_per_run = (run + block_columns - 1u) / block_columns, blocks = outputs / run * blocks_per_run;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < blocks * splits; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u, block = workgroup - split * blocks;
        uint run_number = ONE_RUN ? 0u : block / blocks_per_run;
        uint begin = (block - run_number * blocks_per_run) * block_columns, columns = min(block_columns, run - begin);
        uint first = split * positions_per_split, count = min(positions_per_split, reduce_count - first);
        uvec2 offsets = uvec2(input_base, output_base);
        if (!ONE_RUN) offsets = offsets_of(run_number, kept_dims - 1u, offsets);
        offsets += begin * column_strides;

        uint start = offsets.x + first * stride; // of the block's first column in the first row of the split
        uint offset = start + member * stride, phase = offset % COLUMNS;
        Best best;
        [[unroll]] for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
        if (place * COLUMNS < columns + phase && member < count) {
            uint rows = ((count - member - 1u) >> findLSB(lanes)) + 1u;
            offset += place * COLUMNS - phase;
            fold_positions(best, member, lanes, offset, stride << findLSB(lanes), rows);
            if (!TAKE_LAST) [[unroll]] for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(member));
        }
        for (uint exchange = 0u; exchange < EXCHANGES; exchange++) {
            uint first_place = exchange * exchanged, first_column = first_place * COLUMNS;
            if (place - first_place < pitch) // wraps below the first one
                [[unroll]] for (uint i = 0u; i < PARTS; i++)
                    put_part(part_word(i, member * pitch + place - first_place), best.parts[i]);
            workgroup_barrier();
            uint end = min(first_column + exchanged * COLUMNS, columns);
            for (uint column = first_column + gl_LocalInvocationIndex; column < end; column += WORKGROUP) {
                Found found = NOTHING;
                uint shifted = column - first_column, row_start = start;
                for (uint slots = 0u; slots < lanes * pitch; slots += pitch) {
                    uint at = shifted + row_start % COLUMNS;
                    keep_found(found, found_at(at % COLUMNS, slots + at / COLUMNS));
                    row_start += stride;
                }
                uint position = first + position_of(rank_of_found(found));
                uint number = run_number * run + begin + column;
                if (SPLIT) put_candidate(blocks, number, split, key_of_found(found), rank_of(position));
                else write_result(offsets + column * column_strides, position);
            }
            if (EXCHANGES > 1u) workgroup_barrier();
        }
        if (SPLIT) {
            scratch_barrier();
            if (last_to_arrive(block)) combine_splits(blocks, run_number * run + begin, columns);
        }
        if (!IN_ROUNDS) break;
        workgroup_barrier();
    }
}
