// What competes across invocations, tiles and passes: a key and its rank. Ties are part of the order.
//
// The rank of a position is greater the earlier (or, with TAKE_LAST, the later) the position; 0 is nobody.

uint rank_of(uint position) { return TAKE_LAST ? position + 1u : ~position; }
uint position_of(uint rank) { return TAKE_LAST ? rank - 1u : ~rank; }

bool loses(Key key, uint rank, Key other_key, uint other_rank) {
    return key_less(key, other_key) || (key == other_key && rank < other_rank);
}

shared Key shared_keys[WORKGROUP];
shared uint shared_ranks[WORKGROUP];

// The best of the `count` (a power of two) invocations that lie `step` apart, for the first of them. All
// invocations of the workgroup must call it; `member` is the caller's number among its `count`.
void reduce_candidates(uint member, uint count, uint step, inout Key key, inout uint rank) {
    uint self = gl_LocalInvocationIndex;
    shared_keys[self] = key;
    shared_ranks[self] = rank;
    barrier();
    for (uint half_count = count / 2u; half_count > 0u; half_count /= 2u) {
        if (member < half_count) {
            uint other = self + half_count * step;
            Key other_key = shared_keys[other];
            uint other_rank = shared_ranks[other];
            if (loses(key, rank, other_key, other_rank)) {
                key = other_key;
                rank = other_rank;
                shared_keys[self] = key;
                shared_ranks[self] = rank;
            }
        }
        barrier();
    }
}
