// Combines candidates that another kernel left in scratch memory: a candidate has the key and the step along the walked
// dimension, and its place says the other coordinates. Ranks of positions break ties.
//
// The layout continues after the reduced dimensions with the candidates' stride of each kept dimension, and then with
// the candidate dimensions of one output: size, stride, what a step adds to the position.
#version 450
#extension GL_GOOGLE_include_directive : require
#define SUBGROUPS 0
#include "interface.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
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

// Loads candidate `number` of an output, whose candidates start at `start`, with the rank of its position.
void load_step(uint start, uint number, out Key key, out uint rank) {
    uint candidate = start, position = 0u, dims = reduced_word(reduced_dims) + kept_dims;
    for (uint dim = candidate_dims; dim-- > 0u;) {
        uint word = dims + dim * CANDIDATE_DIM_WORDS;
        uint coordinate = take_coordinate(number, dim == 0u, word);
        candidate += coordinate * layout_word(word + 1u);
        position += coordinate * layout_word(word + 2u);
    }
    uint word = candidates_base + candidate * CANDIDATE_WORDS;
    key = LOAD_KEY(workspace, word);
    uint step_rank = workspace[word + KEY_WORDS];
    rank = step_rank == 0u ? 0u : rank_of(position + position_of(step_rank) * walked_weight);
}

void main() {
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
                for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++)
                    load_step(start, min(candidate + i * lanes, end - 1u), keys[i], ranks[i]);
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
    }
}
