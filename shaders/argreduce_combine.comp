// Combines candidates that another kernel left in scratch memory: a candidate has the key and the step along the repeated
// dimension, of narrow elements within its split, and its place says the other coordinates. Ranks of positions break ties.
//
// The layout continues after the reduced dimensions with the candidates' stride of each kept dimension, and then with
// the candidate dimensions of one output: size, stride, what a step adds to the position.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#define SUBGROUPS 0
#define LAYOUT_IN_SHARED 1
#define LAYOUT_IS_SHARED (!flagged(FLAG_LAYOUT_IN_PUSH))
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "period_candidates.glsl"
#include "splits.glsl"

// Returns the number of the first candidate of an output.
uint candidate_of_output(uint number) {
    uint candidate = 0u, strides = reduced_word(reduced_dims);
    for (uint dim = kept_dims; dim-- > 0u;) {
        uint coordinate = take_coordinate(number, dim == 0u, dim * COPIED_DIM_WORDS);
        candidate += coordinate * layout_word(strides + dim);
    }
    return candidate;
}

// Loads a candidate: its key, and the step along the repeated dimension. Tells whether there is one. Where positions descend,
// the last step is the first position.
bool load_candidate(uint word, out Key key, out uint step) {
    const bool ascends = TAKE_LAST != STEPS_DESCEND;
#if ELEMENT_BYTES < 4
    uint ranked = workspace[word], rank = ranked & COLUMN_RANK_MASK;
    key = ranked >> TOP_SHIFT;
    step = (ascends ? rank - 1u : ~(rank | ~COLUMN_RANK_MASK)) - 1u;
#else
    uint rank = workspace[word + KEY_WORDS];
    key = LOAD_KEY(workspace, word);
    step = ascends ? rank - 1u : ~rank;
#endif
    return rank != 0u;
}

#define LOAD_STEP(i)                                                                                            \
    {                                                                                                           \
        uint step;                                                                                              \
        bool found = load_candidate(candidates_base + candidates_at[i] * COLUMN_CANDIDATE_WORDS, keys[i], step);  \
        ranks[i] = found ? rank_of(positions[i] + step * repeated_weight) : 0u;                                 \
    }

// Loads candidates of an output, whose candidates start at `start`, with the ranks of their positions: several at once,
// since each waits for its divisions and then for memory.
void load_steps(uint start, uvec4 numbers, out Key keys[CANDIDATES_AT_ONCE], out uint ranks[CANDIDATES_AT_ONCE]) {
    uvec4 candidates_at = uvec4(start), positions = uvec4(first_position);
    uint dims = reduced_word(reduced_dims) + kept_dims;
    for (uint dim = candidate_dims; dim-- > 0u;) {
        uint word = dims + dim * CANDIDATE_DIM_WORDS, size = layout_word(word);
        uvec4 outer = dim == 0u ? uvec4(0u) : numbers / size, coordinates = numbers - outer * size;
        numbers = outer;
        candidates_at += coordinates * layout_word(word + 1u);
        positions += coordinates * layout_word(word + 2u);
    }
    // Not a loop: not every driver keeps a vector in registers that a loop goes through.
    LOAD_STEP(0) LOAD_STEP(1) LOAD_STEP(2) LOAD_STEP(3)
}

void main() {
    if (LAYOUT_IS_SHARED) share_layout(reduced_word(reduced_dims) + kept_dims + candidate_dims * CANDIDATE_DIM_WORDS);
    uint side = WORKGROUP >> findLSB(lanes);
    bool adjacent = flagged(FLAG_POSITIONS_ADJACENT);
    uint member = adjacent ? gl_LocalInvocationIndex & (lanes - 1u) : gl_LocalInvocationIndex >> findLSB(side);
    uint place = adjacent ? gl_LocalInvocationIndex >> findLSB(lanes) : gl_LocalInvocationIndex & (side - 1u);
    uint blocks = (outputs + side - 1u) >> findLSB(side);
    uint workgroups = blocks * splits;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint split = SPLIT ? workgroup / blocks : 0u;
        uint block = workgroup - split * blocks;
        uint number = block * side + place;
        uint end = min((split + 1u) * positions_per_split, candidates);
        Key key = KEY_LEAST;
        uint rank = 0u;
        if (number < outputs) {
            uint start = candidate_of_output(number), step = lanes * uint(CANDIDATES_AT_ONCE);
            for (uint candidate = split * positions_per_split + member; candidate < end; candidate += step) {
                Key keys[CANDIDATES_AT_ONCE];
                uint ranks[CANDIDATES_AT_ONCE];
                load_steps(start, min(candidate + uvec4(0u, 1u, 2u, 3u) * lanes, uvec4(end - 1u)), keys, ranks);
                for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++) keep_better(key, rank, keys[i], ranks[i]);
            }
        }
        reduce_candidates(member, lanes, adjacent ? 1u : side, key, rank);
        bool holds_best = member == 0u && number < outputs;
        if (SPLIT) {
            if (holds_best) store_candidate(blocks, number, split, key, rank);
            if (last_to_arrive(block)) combine_splits(blocks, block * side, min(side, outputs - block * side));
        } else if (holds_best) {
            write_result(offsets_of_output(number), position_of(rank));
        }
        if (!IN_ROUNDS) break;
    }
}
