// Reduces across a stride: each invocation walks the positions of a vector of adjacent outputs, or of a single
// output, and keeps the key and position of the best of each. `lanes` invocations share the positions.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#define SUBGROUPS 0
#define LAYOUT_IN_SHARED 0
// Compile-time: LOADS: single elements, aligned vectors, and vectors that start at any element; VECTOR_WORDS: of 16 bytes, or
// of half as many.
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "loads.glsl"
#include "parts.glsl"

// A part is one word of elements, or one element of two words, with the best of its columns.
#define COLUMNS (uint(PARTS) * PART_COLUMNS)
#define NOWHERE 0xffffffffu

struct Best {
    Part parts[PARTS];
};

#if LOADS == LOADS_ELEMENTS
#define AT_ONCE ELEMENT_LOADS_AT_ONCE
#endif
// Of few positions most are what is left over, and none had better be loaded twice.
#define REST_IN_PAIRS (LOADS != LOADS_ELEMENTS)
#include "columns_fold.glsl"

// Returns the distances of adjacent columns: in the input, in the output.
uvec2 column_strides() {
    if (kept_dims == 0u) return uvec2(0u);
    uint word = (kept_dims - 1u) * COPIED_DIM_WORDS;
    return uvec2(layout_word(word + 1u), layout_word(word + 2u));
}

// Whether groups start where their indices do with a vector.
bool leads() {
    return LOADS == LOADS_UNALIGNED && !COLUMNS_APART && run >= uint(LED_GROUPS) * COLUMNS && column_strides().y == 1u;
}

// Returns the offsets of the first column of a run.
uvec2 offsets_of_run(uint number) { return offsets_of(number, kept_dims - 1u, uvec2(input_base, output_base)); }

// Returns the columns of group `number` of a run, the first and the one after the last. Where loads may start at any
// element, groups do so that their indices start with a vector: what lies before, in a long run, is a group of its own.
uvec2 columns_of_group(uint number, uint run_number) {
    if (COLUMNS == 1u) return uvec2(0u, 1u);
    uint lead = leads() ? (0u - (ONE_RUN ? output_base : offsets_of_run(run_number).y)) % COLUMNS : 0u;
    uint end = number * COLUMNS + (lead == 0u ? COLUMNS : lead);
    return min(uvec2(number == 0u ? 0u : end - COLUMNS, end), run);
}

// Sets the columns of a group that the caller writes, [first, end) in its run. Where loads may start anywhere, a group that
// would extend past the end of its run ends there instead; the one before it writes the columns in which the two overlap.
void clip_columns(inout uint first, uint end, out uint first_column, out uint end_column) {
    first_column = LOADS == LOADS_UNALIGNED ? COLUMNS - min(COLUMNS, run - first) : 0u;
    first -= first_column;
    end_column = end - first;
}

uint run_of_group(uint group, uint groups_per_run) {
    if (COLUMNS == 1u) return group;
    return ONE_RUN ? 0u : group / groups_per_run;
}

// Returns the first output of a group.
uint output_of_group(uint group, uint groups_per_run) {
    uint run_number = run_of_group(group, groups_per_run);
    return run_number * run + columns_of_group(group - run_number * groups_per_run, run_number).x;
}

// Returns the offsets of a column of a run.
uvec2 offsets_of_column(uint run_number, uint column) {
    if (COLUMNS == 1u || COLUMNS_APART) return offsets_of_output(run_number * run + column);
    return offsets_of_run(run_number) + column * column_strides();
}

// Folds the caller's share of positions [first, end), one split; ranks count from `first`.
void fold_split(inout Best best, uint base, uint first, uint end, uint member) {
    uint dim = reduced_word(ONE_STRIDE ? 0u : reduced_dims - 1u);
    uint inner = layout_word(dim), stride = layout_word(dim + 1u), first_mine = NOWHERE;
    for (uint position = first; position < end;) {
        // Process to the end of this innermost dimension; if it is shorter than `lanes`, one position per lane. With
        // WHOLE_SEGMENTS each lane goes to the end of one: so its loads are under way together.
        uint segment_end = end, mine = position + member, step_bits = findLSB(lanes);
        if (WHOLE_SEGMENTS) {
            uint begin = (position / inner + member) * inner;
            mine = max(begin, first);
            segment_end = min(begin + inner, end);
            step_bits = 0u;
        } else if (!ONE_STRIDE) {
            segment_end = min(inner < lanes ? position + lanes : (position / inner + 1u) * inner, end);
        }
        if (mine < segment_end) {
            first_mine = min(first_mine, mine);
            uint count = ((segment_end - mine - 1u) >> step_bits) + 1u;
            uint segment = ONE_STRIDE ? 0u : mine / inner, offset = base + (mine - segment * inner) * stride;
            if (!ONE_STRIDE) offset += reduced_offset(segment, reduced_dims - 1u);
            fold_positions(best, mine - first, 1u << step_bits, offset, stride << step_bits, count);
        }
        position = WHOLE_SEGMENTS ? (position / inner + lanes) * inner : segment_end;
        if (ONE_STRIDE) break;
    }
    if (!TAKE_LAST && first_mine != NOWHERE)
        [[unroll]] for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(first_mine - first));
}

#include "columns_members.glsl"

#define EXCHANGES_WIDE (ELEMENT_BYTES < 4 && LOADS != LOADS_ELEMENTS)
#include "columns_splits.glsl"
#include "columns_results.glsl"
#if EXCHANGES_WIDE
#include "columns_exchange.glsl"
#endif

void main() {
    uint groups_per_block = WORKGROUP >> findLSB(lanes);
    bool adjacent = flagged(FLAG_POSITIONS_ADJACENT);
    uint member = adjacent ? gl_LocalInvocationIndex & (lanes - 1u) : gl_LocalInvocationIndex >> findLSB(groups_per_block);
    uint place = adjacent ? gl_LocalInvocationIndex >> findLSB(lanes) : gl_LocalInvocationIndex & (groups_per_block - 1u);
    uint groups_per_run = (run + (leads() ? 2u * COLUMNS - 2u : COLUMNS - 1u)) / COLUMNS;
    uint groups = ONE_RUN ? groups_per_run : outputs / run * groups_per_run;
    uint blocks = (groups + groups_per_block - 1u) >> findLSB(groups_per_block);
    uint workgroups = blocks * splits;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u;
        uint block = workgroup - split * blocks;
        uint group = block * groups_per_block + place;
        uint run_number = run_of_group(group, groups_per_run);
        uvec2 own = columns_of_group(group - run_number * groups_per_run, run_number);
        uint first = split * positions_per_split, first_column, end_column;
        clip_columns(own.x, own.y, first_column, end_column);
        uint number = run_number * run + own.x;
        uvec2 offsets = offsets_of_column(run_number, own.x);
        Best best;
        [[unroll]] for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
        if (group < groups) fold_split(best, offsets.x, first, min(first + positions_per_split, reduce_count), member);
        if (lanes > 1u) reduce_members(best, member, place, groups_per_block);
        bool holds_best = member == 0u && group < groups;
        if (SPLIT) {
            if (holds_best) store_candidates(best, blocks, number, first_column, end_column, split, first);
            uint begin = output_of_group(block * groups_per_block, groups_per_run);
            uint end = output_of_group(min((block + 1u) * groups_per_block, groups), groups_per_run);
            if (last_to_arrive(block)) combine_splits(blocks, begin, end - begin);
        }
#if EXCHANGES_WIDE
        if (!SPLIT && !COLUMNS_APART && flagged(FLAG_WIDE_INDICES))
            write_together(best, holds_best, place, groups_per_block, offsets, first_column, end_column);
        else
#endif
            if (!SPLIT && holds_best) write_results(best, number, offsets, first_column, end_column);
        if (!IN_ROUNDS) break;
    }
}
