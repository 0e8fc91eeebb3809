// Reductions that are split over workgroups: each split stores a candidate for every output of its block, and the
// last workgroup to finish a block combines them. No workgroup waits for another.
//
// Scratch memory: a counter per block, which is 0 before and after the dispatch; then the candidates.
layout(std430, binding = BINDING_WORKSPACE) coherent buffer Scratch { uint scratch[]; };

// The candidates of one split are contiguous.
uint candidate_word(uint blocks, uint number, uint split) {
    return scratch_base + blocks + (split * outputs + number) * CANDIDATE_WORDS;
}

// All invocations of the workgroup must call scratch_barrier() afterwards, outside of loops that some of them leave
// before others: lavapipe lets a workgroup wait at it as at barrier().
void put_candidate(uint blocks, uint number, uint split, Key key, uint rank) {
    uint word = candidate_word(blocks, number, split);
    STORE_KEY(scratch, word, key);
    scratch[word + KEY_WORDS] = rank;
}

void store_candidate(uint blocks, uint number, uint split, Key key, uint rank) {
    put_candidate(blocks, number, split, key, rank);
    scratch_barrier();
}

void load_candidate(uint blocks, uint number, uint split, out Key key, out uint rank) {
    uint word = candidate_word(blocks, number, split);
    key = LOAD_KEY(scratch, word);
    rank = scratch[word + KEY_WORDS];
}

shared uint shared_arrivals;

// Returns whether all splits of the block are stored. All invocations of the workgroup must call it after they stored
// their candidates.
bool last_to_arrive(uint block) {
    workgroup_barrier();
    if (gl_LocalInvocationIndex == 0u) shared_arrivals = atomicAdd(scratch[scratch_base + block], 1u);
    workgroup_barrier();
    if (shared_arrivals != splits - 1u) return false;
    // After the barrier NVIDIA's compiler makes columns of it that take up to 1.6 of the time.
    if (gl_LocalInvocationIndex == 0u) scratch[scratch_base + block] = 0u;
    scratch_barrier();
    return true;
}

#if SUBGROUPS
// Combines the splits of one output; all invocations of the subgroup must call it. The loop stands in combine_splits, too:
// with one function for both, NVIDIA's compiler made columns that took up to 1.3 of the time.
void combine_in_subgroup(uint blocks, uint number) {
    Key key = KEY_LEAST;
    uint rank = 0u;
    for (uint split = gl_SubgroupInvocationID; split < splits; split += SUBGROUP * uint(CANDIDATES_AT_ONCE)) {
        Key keys[CANDIDATES_AT_ONCE];
        uint ranks[CANDIDATES_AT_ONCE];
        for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++)
            load_candidate(blocks, number, min(split + i * SUBGROUP, splits - 1u), keys[i], ranks[i]);
        for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++) keep_better(key, rank, keys[i], ranks[i]);
    }
    keep_best_of_subgroup(key, rank);
    if (gl_SubgroupInvocationID == 0u) write_result(offsets_of_output(number), position_of(rank));
}
#endif

// Combines the splits of `count` outputs and writes the results. All invocations must call it.
void combine_splits(uint blocks, uint first, uint count) {
#if SUBGROUPS
    // Subgroups take an output each where they load all its candidates at once, or no fewer than all could.
    if (count <= SUBGROUP_COUNT && (splits <= SUBGROUP * uint(CANDIDATES_AT_ONCE) || 2u * count > SUBGROUP_COUNT)) {
        if (gl_SubgroupID < count) combine_in_subgroup(blocks, first + gl_SubgroupID);
        return;
    }
#endif
    uint width = 1u;
    while (width < min(count, WORKGROUP)) width *= 2u;
    uint members = WORKGROUP / width, member = gl_LocalInvocationIndex / width;
    for (uint side = 0u; side < count; side += width) {
        uint number = first + side + gl_LocalInvocationIndex % width;
        Key key = KEY_LEAST;
        uint rank = 0u;
        if (number < first + count) {
            for (uint split = member; split < splits; split += members * uint(CANDIDATES_AT_ONCE)) {
                Key keys[CANDIDATES_AT_ONCE];
                uint ranks[CANDIDATES_AT_ONCE];
                for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++)
                    load_candidate(blocks, number, min(split + i * members, splits - 1u), keys[i], ranks[i]);
                for (uint i = 0u; i < uint(CANDIDATES_AT_ONCE); i++) keep_better(key, rank, keys[i], ranks[i]);
            }
        }
#if SUBGROUPS
        if (WHOLE_SUBGROUPS && width == 1u) { // exchange within subgroups is faster
            keep_best_of_subgroup(key, rank);
            exchange_best(WORKGROUP, key, rank);
        } else
#endif
        if (members > 1u) reduce_candidates(member, members, width, key, rank);
        if (member == 0u && number < first + count) write_result(offsets_of_output(number), position_of(rank));
        if (members > 1u) workgroup_barrier();
    }
}
