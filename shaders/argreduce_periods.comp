// Reduces memory in which the same coordinates return after each period: an invocation loads one aligned vector of
// each period, so that an element of the vector has the same coordinates in all of them but for the repeated dimension.
// Each element is a column of its own; what columns have in common is left to `argreduce_combine`.
//
// A stretch is a part of memory, of a whole number of repetitions; what lies in gaps has columns of its own, which nobody asks
// for. It may start anywhere in a vector, so columns before its start take part from the second period on. A period is a
// multiple of a vector: one repetition or several. Where loads may start at any element, a period is one repetition, and the
// columns of its last vector that lie beyond it are left out.
//
// Where only a part of each period takes part, a stretch has the columns of this part. Other elements of its first and last
// vectors are left out. Elsewhere `width` is `run`, but is not read: with it, float32 takes up to 1.17 times as long (H100).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#define SUBGROUPS 0
// Compile-time: LOADS: aligned vectors of 16 bytes, or vectors that start at any element.
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "period_candidates.glsl"
#include "loads.glsl"
#include "parts.glsl"

#define COLUMNS (uint(PARTS) * PART_COLUMNS)

layout(std430, binding = BINDING_WORKSPACE) writeonly buffer Candidates { uint candidate_words[]; };

struct Best {
    Part parts[PARTS];
};

#define REST_IN_PAIRS 0
#include "columns_fold.glsl"
#include "columns_members.glsl"

// Folds elements [first, end) of the vector at `offset`.
void fold_part_of_vector(inout Best best, uint offset, uint rank, int first, int end) {
    Vector v = unpacked(load_until(offset, offset + uint(end) - 1u));
#define FOLD_SOME(i, bits) \
    fold_some(best.parts[i], bits, rank, first - i * int(PART_COLUMNS), end - i * int(PART_COLUMNS));
    FOR_EACH_PART(FOLD_SOME, v)
}

// Folds the caller's share of periods [first, end), one split, in the stretch of elements [start, limit) after `base`;
// ranks count from `first`.
void fold_split(inout Best best, uint base, uint column, uint start, uint limit, uint first, uint end, uint member) {
    uint first_whole = !READS_PARTS && column < start ? 1u : 0u;
    uint past_whole = (limit - column - COLUMNS) / run + 1u;
    uint mine = max(first, first_whole) + member, last = min(end, past_whole);
    if (mine < last) {
        uint count = (last - mine - 1u) / lanes + 1u;
        fold_positions(best, mine - first, lanes, base + column + mine * run, lanes * run, count);
        if (!TAKE_LAST)
            [[unroll]] for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(mine - first));
    }
    if (member != 0u) return;
    if (first_whole == 1u && first == 0u)
        fold_part_of_vector(best, base + column, rank_of(0u), int(start - column), int(COLUMNS));
    uint at = past_whole * run + column;
    if (past_whole >= first && past_whole < end && at < limit)
        fold_part_of_vector(best, base + at, rank_of(past_whole - first), 0, int(limit - at));
}

// Stores the candidates of a split. Columns are numbered from the start of the stretch.
void store_candidates(Best best, uint stretch_number, uint column, uint start, uint split, uint first) {
    [[unroll]] for (uint i = 0u; i < PARTS; i++) {
        [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j++) {
            uint at = column + i * PART_COLUMNS + j;
            if (READS_PARTS ? at - start >= width : LOADS == LOADS_UNALIGNED && at >= run) continue;
            uint late = !READS_PARTS && at < start ? 1u : 0u;
            uint number = stretch_number * (READS_PARTS ? width : run) + at - start + late * run;
#if ELEMENT_BYTES < 4
            // A position that is not late counts one more; then all do.
            uint next = late != 0u ? 0u : TAKE_LAST ? 1u : 0xffffffffu;
            uint ranked = NARROW_COLUMN(best.parts[i], j) + next;
            candidate_words[scratch_base + split * outputs + number] = is_empty(best.parts[i], j) ? 0u : ranked;
#else
            uint rank = rank_of(first + position_of(rank_in_split(best.parts[i], j)) - late);
            uint word = scratch_base + (split * outputs + number) * CANDIDATE_WORDS;
            STORE_KEY(candidate_words, word, key_of(best.parts[i], j));
            candidate_words[word + KEY_WORDS] = is_empty(best.parts[i], j) ? 0u : rank;
#endif
        }
    }
}

// Loads a word of each line of what this workgroup and the next ones fold of periods [first, end), in the order of memory.
// Returns what it found, so that nobody leaves the loads out.
uint read_ahead(uint first_group, uint end_group, uint groups_per_stretch, uint first, uint end) {
    uint stretch_number = first_group / groups_per_stretch, first_ahead = first_group - stretch_number * groups_per_stretch;
    first_ahead = (first_ahead + groups_ahead - 1u) / groups_ahead * groups_ahead;
    if (first_ahead >= groups_per_stretch) {
        stretch_number++;
        first_ahead = 0u;
    }
    if (stretch_number * groups_per_stretch + first_ahead >= end_group) return 0u; // another workgroup has done it
    uint vectors = min(groups_ahead, groups_per_stretch - first_ahead), pieces = end - first;
    uint base = offsets_of_output(stretch_number).x, last = (base + stretch - 1u) / COLUMNS, found = 0u;
    if (!READS_PARTS && vectors == groups_per_stretch) { // one piece of memory
        vectors = pieces * run / COLUMNS;
        pieces = 1u;
    }
    uint offset = base + first * run + first_ahead * COLUMNS;
    for (uint piece = 0u; piece < pieces; piece++, offset += run)
        for (uint i = gl_LocalInvocationIndex * VECTORS_PER_LINE; i < vectors; i += WORKGROUP * VECTORS_PER_LINE)
            found |= input_vectors[min(offset / COLUMNS + i, last)].x;
    return found;
}

void main() {
    // A part may begin with the last element of a vector.
    uint widest = READS_PARTS ? width + (LOADS == LOADS_UNALIGNED ? 0u : COLUMNS - 1u) : run;
    uint groups_per_stretch = (widest + COLUMNS - 1u) / COLUMNS;
    uint groups = outputs / COLUMNS;
    if (READS_PARTS || LOADS == LOADS_UNALIGNED) groups = outputs / (READS_PARTS ? width : run) * groups_per_stretch;
    // Neighbouring invocations read neighbouring memory: of a period, then of the next ones, then of other stretches.
    uint side_by_side = min(groups_per_block, groups_per_stretch), in_stretch = lanes * side_by_side;
    uint stretch_of_block = gl_LocalInvocationIndex / in_stretch;
    uint within = gl_LocalInvocationIndex - stretch_of_block * in_stretch, member = within / side_by_side;
    uint place = stretch_of_block * side_by_side + within - member * side_by_side;
    if (place >= groups_per_block) member = lanes; // takes no part
    uint blocks = (groups + groups_per_block - 1u) / groups_per_block;
    uint workgroups = blocks * splits;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = workgroup / blocks;
        uint group = (workgroup - split * blocks) * groups_per_block + place;
        bool takes_part = group < groups && member < lanes;
        uint stretch_number = group / groups_per_stretch;
        uint column = (group - stretch_number * groups_per_stretch) * COLUMNS;
        uint first = split * positions_per_split;
        if (READS_AHEAD) {
            uint first_group = (workgroup - split * blocks) * groups_per_block;
            uint end_group = min(first_group + groups_per_block, groups);
            uint end = min(first + positions_per_split, reduce_count);
            uint found = read_ahead(first_group, end_group, groups_per_stretch, first, end);
            if (gl_NumWorkGroups.x == 0u) candidate_words[scratch_base] = found; // never, but no compiler knows
        }
        uint base = offsets_of_output(stretch_number).x;
        uint start = LOADS == LOADS_UNALIGNED ? 0u : base % COLUMNS;
        if (READS_PARTS && column >= start + width) takes_part = false;
        Best best;
        [[unroll]] for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
        if (takes_part)
            fold_split(best, base - start, column, start, start + stretch, first,
                       min(first + positions_per_split, reduce_count), member);
        if (lanes > 1u) reduce_members(best, member, place, groups_per_block);
        if (member == 0u && takes_part) store_candidates(best, stretch_number, column, start, split, first);
        if (!IN_ROUNDS) break;
    }
}
