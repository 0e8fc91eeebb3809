// Brings the candidates of each output's splits together and writes the results.
#version 450
#extension GL_GOOGLE_include_directive : require
#define KIND 0
#define NAN_COUNT 0
#define NAN_COUNT_HIGH 0
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "candidates_io.glsl"

void main() {
    uint items_per_workgroup = WORKGROUP / lanes;
    uint lane = gl_LocalInvocationIndex % lanes;
    uint workgroups = (outputs - 1u) / items_per_workgroup + 1u;
    for (uint workgroup = gl_WorkGroupID.x; workgroup < workgroups; workgroup += gl_NumWorkGroups.x) {
        uint number = workgroup * items_per_workgroup + gl_LocalInvocationIndex / lanes;
        Key key = KEY_LEAST;
        uint rank = 0u;
        if (number < outputs) {
            for (uint split = lane; split < splits; split += lanes) {
                Key other_key;
                uint other_rank;
                load_candidate(number, split, other_key, other_rank);
                if (loses(key, rank, other_key, other_rank)) {
                    key = other_key;
                    rank = other_rank;
                }
            }
        }
        if (lanes > 1u) reduce_candidates(lane, lanes, 1u, key, rank);
        if (lane == 0u && number < outputs) write_result(number, position_of(rank));
    }
}
