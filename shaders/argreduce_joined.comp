// Reduces across a stride, several columns to one output: each invocation walks the positions of a vector of adjacent
// columns and keeps the best of each, as in `argreduce_columns`; `lanes` invocations share the positions. Then the
// workgroup compares the columns that belong to one output.
//
// Columns that are side by side in memory make a run. It consists of `copies` blocks, along a part of a reduced dimension;
// within a block, `joined` columns belong to an output, `joined_apart` from each other. A workgroup takes pieces of
// runs, of whole outputs. Positions are walked in the folded dimensions, which follow the layout: the reduced ones without
// the joined one, and with as many steps of that of the copies as there are runs.
//
// With TWO_JOINED the columns of an output lie along two reduced dimensions, and not in the order of their positions. The
// layout continues after the folded dimensions with the size of the inner one, and the positions within the outer one
// without the inner one's.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#define SUBGROUPS 0
#define LAYOUT_IN_SHARED 0
// Compile-time: LOADS: aligned vectors of 16 bytes, or vectors that start at any element.
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "loads.glsl"
#include "parts.glsl"

#define COLUMNS (uint(PARTS) * PART_COLUMNS)
#define NOWHERE 0xffffffffu

struct Best {
    Part parts[PARTS];
};

#define REST_IN_PAIRS 0
#include "columns_fold.glsl"
#include "columns_members.glsl"
#include "joined_slots.glsl"
#include "splits.glsl"

uint folded_word(uint dim) { return reduced_word(reduced_dims) + dim * uint(FOLDED_DIM_WORDS); }

// Returns the input offset of a position in the outermost `dims` folded dimensions.
uint folded_offset(uint position, uint dims) {
    uint offset = 0u;
    for (uint dim = dims; dim-- > 0u;) {
        uint word = folded_word(dim);
        uint coordinate = take_coordinate(position, dim == 0u, word);
        offset += coordinate * layout_word(word + 1u);
    }
    return offset;
}

// Folds the caller's share of folded positions [first, end), one split; ranks count from `first`.
void fold_split(inout Best best, uint base, uint first, uint end, uint member) {
    uint word = folded_word(folded_dims - 1u), inner = layout_word(word), stride = layout_word(word + 1u);
    uint first_mine = NOWHERE;
    for (uint position = first; position < end;) {
        // Process to the end of this innermost dimension; if it is shorter than `lanes`, one position per lane.
        uint mine = position + member;
        uint segment_end = end;
        if (!ONE_FOLDED) segment_end = min(inner < lanes ? position + lanes : (position / inner + 1u) * inner, end);
        if (mine < segment_end) {
            first_mine = min(first_mine, mine);
            uint count = ((segment_end - mine - 1u) >> findLSB(lanes)) + 1u, last = mine + (count - 1u) * lanes;
            uint segment = ONE_FOLDED ? 0u : mine / inner, start = base;
            if (!ONE_FOLDED) start += folded_offset(segment, folded_dims - 1u);
            // Where copies do not divide a dimension, the last position begins before the end of the one before.
            bool overlaps = overlap != 0u && (ONE_FOLDED ? last + 1u == inner : (last + 1u) % inner == 0u);
            fold_positions(best, mine - first, lanes, start + (mine - segment * inner) * stride, lanes * stride,
                           count - uint(overlaps));
            if (overlaps)
                fold_positions(best, last - first, lanes, start + (inner - 1u) * stride - overlap * (run / copies), 0u, 1u);
        }
        position = segment_end;
        if (ONE_FOLDED) break;
    }
    if (!TAKE_LAST && first_mine != NOWHERE)
        [[unroll]] for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(first_mine - first));
}

// Returns a position among more: a dimension of this `size` joins the others, of which the inner ones have `inner` positions.
uint with_coordinate(uint position, uint coordinate, uint size, uint inner) {
    uint outer = inner == 1u ? position : position / inner;
    return (outer * size + coordinate) * inner + position - outer * inner;
}

// Returns the position among all that compete for an output, from a folded one and the coordinates of the column.
uint whole_position(uint folded, uint copy, uint column) {
    uint position = folded;
    if (copies != 1u) position = with_coordinate(folded, copy, copies, copies_step);
    if (overlap != 0u) {
        uint size = layout_word(folded_word(folded_dims - 1u));
        position -= ONE_FOLDED ? (folded + 1u == size ? overlap : 0u) : (folded + 1u) / size * overlap;
    }
    if (joined == 1u) return position;
    uint inner = joined;
    if (TWO_JOINED) {
        uint word = folded_word(folded_dims), outer = column / layout_word(word);
        inner = layout_word(word);
        position = with_coordinate(position, outer, joined / inner, layout_word(word + 1u));
        column -= outer * inner;
    }
    return with_coordinate(position, column, inner, joined_step);
}

// Returns the number of the first output of a piece.
uint output_of_piece(uint piece) {
    uint run_number = piece / pieces_per_run, within = piece - run_number * pieces_per_run;
    return run_number * outputs_per_run + within * outputs_per_piece;
}

// Finds the best of the columns of output `number` of a piece, whose slots begin at `slot`: the `first_column`th, and every
// `joiners`th after it.
void join(uint slot, uint number, uint first, uint first_column, inout Key key, inout uint rank) {
    uint unit = joined_apart == 1u ? number : number / joined_apart, block = run / copies;
    slot += unit * (joined_apart * joined) + (number - unit * joined_apart);
    for (uint i = first_column; i < joined * copies; i += joiners) {
        uint copy = joined == 1u ? i : copies == 1u ? 0u : i / joined, column = i - copy * joined, folded_rank;
        Key other;
        get_slot(slot + column * joined_apart + copy * block, other, folded_rank);
        keep_better(key, rank, other, rank_of(whole_position(first + position_of(folded_rank), copy, column)));
    }
}

void main() {
    uint groups_per_piece = (piece_columns + COLUMNS - 1u) / COLUMNS;
    uint rest = gl_LocalInvocationIndex / groups_per_piece, group = gl_LocalInvocationIndex - rest * groups_per_piece;
    uint own_piece = rest >> findLSB(lanes), member = own_piece < pieces_per_block ? rest & (lanes - 1u) : lanes;
    uint joiner = gl_LocalInvocationIndex & (joiners - 1u), joined_at_once = WORKGROUP >> findLSB(joiners);
    uint blocks = (pieces + pieces_per_block - 1u) / pieces_per_block;
    uint workgroups = blocks * splits;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u;
        uint block = workgroup - split * blocks, first_piece = block * pieces_per_block, piece = first_piece + own_piece;
        uint first = split * positions_per_split, end = min(first + positions_per_split, positions);
        uint run_number = piece / pieces_per_run, begin = (piece - run_number * pieces_per_run) * piece_columns;
        uint own = begin + group * COLUMNS, past = min(begin + piece_columns, run);
        bool takes_part = member < lanes && piece < pieces && own < past;
        // A vector that would extend past the end of its run ends there instead.
        uint column = min(own, run - COLUMNS);
        Best best;
        [[unroll]] for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
        if (takes_part) fold_split(best, offsets_of_output(run_number * outputs_per_run).x + column, first, end, member);
        reduce_members(best, member, own_piece * groups_per_piece + group, pieces_per_block * groups_per_piece);
        if (takes_part && member == 0u)
            [[unroll]] for (uint i = 0u; i < PARTS; i++)
                [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j++) {
                    uint at = column + i * PART_COLUMNS + j;
                    if (at >= own && at < past) put_slot(own_piece * piece_columns + at - begin, best.parts[i], j);
                }
        workgroup_barrier();

        uint first_output = output_of_piece(first_piece);
        uint end_output = output_of_piece(min(first_piece + pieces_per_block, pieces));
        for (uint joined_first = first_output; joined_first < end_output; joined_first += joined_at_once) {
            uint number = joined_first + gl_LocalInvocationIndex / joiners;
            Key key = KEY_LEAST;
            uint rank = 0u;
            if (number < end_output) {
                uint numbered = number - first_output, at_piece = numbered / outputs_per_piece;
                join(at_piece * piece_columns, numbered - at_piece * outputs_per_piece, first, joiner, key, rank);
            }
            if (joiners > 1u) reduce_candidates(joiner, joiners, 1u, key, rank);
            if (joiner != 0u || number >= end_output) continue;
            if (SPLIT) store_candidate(blocks, number, split, key, rank);
            else write_result(offsets_of_output(number), position_of(rank));
        }
        if (SPLIT && last_to_arrive(block)) combine_splits(blocks, first_output, end_output - first_output);
        if (!IN_ROUNDS) break;
        workgroup_barrier();
    }
}
