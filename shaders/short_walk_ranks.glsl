// Ranks of walks of elements of 1 or 2 bytes. They start at 1: any is better than none.
#include "ranked.glsl"
const uint RANK_MASK = (1u << NARROW_RANK_BITS) - 1u;
const uint RANK_STEP = TAKE_LAST ? 1u : 0xffffffffu;

uint rank_at(uint position) { return TAKE_LAST ? position + 1u : RANK_MASK - position; }

uint position_of(uint ranked_key) {
    uint rank = ranked_key & RANK_MASK;
    return TAKE_LAST ? rank - 1u : RANK_MASK - rank;
}

uvec4 positions_of(uvec4 ranked_keys) {
    uvec4 ranks = ranked_keys & RANK_MASK;
    return TAKE_LAST ? ranks - 1u : RANK_MASK - ranks;
}
