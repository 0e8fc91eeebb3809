// Candidates: pairs of key and rank, which invocations, splits and workgroups compare. The rank breaks ties.
//
// An earlier position (with TAKE_LAST, a later one) has a greater rank. Rank 0 marks an empty candidate.
//
// Compile-time: SUBGROUPS, whether invocations of a subgroup exchange registers.

#define CANDIDATE_WORDS (KEY_WORDS + 1) // in scratch memory

uint rank_of(uint position) { return TAKE_LAST ? position + 1u : ~position; }
uint position_of(uint rank) { return TAKE_LAST ? rank - 1u : ~rank; }

bool loses(Key key, uint rank, Key other_key, uint other_rank) {
    return key_less(key, other_key) || (key == other_key && rank < other_rank);
}

void keep_better(inout Key key, inout uint rank, Key other_key, uint other_rank) {
    bool better = loses(key, rank, other_key, other_rank);
    key = better ? other_key : key;
    rank = better ? other_rank : rank;
}

shared Key shared_keys[WORKGROUP];
shared uint shared_ranks[WORKGROUP];

// Gives the first of `count` (a power of two) invocations, `step` apart, their best candidate. All invocations of the
// workgroup must call it; `member` is the caller's number among the `count`.
void reduce_candidates(uint member, uint count, uint step, inout Key key, inout uint rank) {
    uint self = gl_LocalInvocationIndex;
    shared_keys[self] = key;
    shared_ranks[self] = rank;
    workgroup_barrier();
    for (uint half_count = count / 2u; half_count > 0u; half_count /= 2u) {
        if (member < half_count) {
            uint other = self + half_count * step;
            keep_better(key, rank, shared_keys[other], shared_ranks[other]);
            shared_keys[self] = key;
            shared_ranks[self] = rank;
        }
        workgroup_barrier();
    }
}

#if KEY_WORDS == 2
Key greater(Key a, Key b) { return key_less(a, b) ? b : a; }
#endif
uint greater(uint a, uint b) { return max(a, b); }

#if SUBGROUPS

const uint SUBGROUP_COUNT = WORKGROUP / SUBGROUP;
shared Key subgroup_keys[SUBGROUP_COUNT];
shared uint subgroup_ranks[SUBGROUP_COUNT];

// Numbers the invocations such that consecutive ones share a subgroup. Subgroups are full, so there are no gaps.
uint invocation() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }

// In loops over unaligned rows NVIDIA's compiler does worse with the one instruction (1.23 of the time). In rows of several
// runs with steps, which are kept, it makes wrong keys of two words with it.
uint greatest_of_subgroup(uint value) {
    if ((ALIGNED || KEPT_VECTORS != 0u) && (KEY_WORDS == 1 || ROW_STEP == 1u)) return subgroupMax(value);
    for (uint distance = 1u; distance < SUBGROUP; distance *= 2u)
        value = greater(value, subgroupShuffleXor(value, distance));
    return value;
}
#if KEY_WORDS == 2
Key greatest_of_subgroup(Key key) {
    uint high = greatest_of_subgroup(key.y);
    return Key(greatest_of_subgroup(key.y == high ? key.x : 0u), high);
}
#endif

// Gives `count` (a power of two) consecutive invocations, or those of them in one subgroup, their greatest value. All
// invocations must call it.
#define EXCHANGE_NEAR(Value)                                                                                \
    Value exchange_near(uint count, Value value) {                                                          \
        if (WHOLE_SUBGROUPS) return greatest_of_subgroup(value);                                            \
        for (uint distance = 1u; distance < min(count, SUBGROUP); distance *= 2u)                           \
            value = greater(value, subgroupShuffleXor(value, distance));                                    \
        return value;                                                                                       \
    }

EXCHANGE_NEAR(uint)
#if KEY_WORDS == 2
EXCHANGE_NEAR(Key)
#endif

// Gives the invocations of a subgroup their best candidate.
void keep_best_of_subgroup(inout Key key, inout uint rank) {
    Key own = key;
    key = greatest_of_subgroup(key);
    rank = greatest_of_subgroup(own == key ? rank : 0u);
}

// Gives `count` (a power of two) consecutive invocations their best candidate. All invocations must call it. Those in one
// subgroup already have the same key.
void exchange_best(uint count, inout Key key, inout uint rank) {
    rank = exchange_near(count, rank);
    if (!WHOLE_SUBGROUPS || count == SUBGROUP) return;
    if (gl_SubgroupInvocationID == 0u) {
        subgroup_keys[gl_SubgroupID] = key;
        subgroup_ranks[gl_SubgroupID] = rank;
    }
    workgroup_barrier();
    uint subgroups = count / SUBGROUP, first = gl_SubgroupID & ~(subgroups - 1u);
    uint each = min(subgroups, SUBGROUP), own = first + (gl_SubgroupInvocationID & (each - 1u));
    key = subgroup_keys[own];
    rank = subgroup_ranks[own];
    for (own += each; own < first + subgroups; own += each)
        keep_better(key, rank, subgroup_keys[own], subgroup_ranks[own]);
    keep_best_of_subgroup(key, rank); // of fewer subgroups, it holds each several times
    workgroup_barrier();
}

#else

uint invocation() { return gl_LocalInvocationIndex; }

// Gives `count` (a power of two) consecutive invocations their greatest value. All invocations must call it.
#define EXCHANGE_NEAR(Value, COPY_IN, COPY_OUT)                                                                \
    Value exchange_near(uint count, Value value) {                                                          \
        if (count == 1u) return value;                                                                      \
        uint self = invocation(), member = self & (count - 1u);                                             \
        shared_keys[self] COPY_IN = value;                                                                  \
        workgroup_barrier();                                                                                          \
        for (uint half_count = count / 2u; half_count > 0u; half_count /= 2u) {                             \
            if (member < half_count) {                                                                      \
                value = greater(value, shared_keys[self + half_count] COPY_OUT);                            \
                shared_keys[self] COPY_IN = value;                                                          \
            }                                                                                               \
            workgroup_barrier();                                                                                      \
        }                                                                                                   \
        value = shared_keys[self - member] COPY_OUT;                                                        \
        workgroup_barrier();                                                                                          \
        return value;                                                                                       \
    }

#if KEY_WORDS == 2
EXCHANGE_NEAR(Key, , )
EXCHANGE_NEAR(uint, .x, .x)
#else
EXCHANGE_NEAR(uint, , )
#endif

// Gives `count` (a power of two) consecutive invocations their best candidate. All invocations must call it, with the same
// key.
void exchange_best(uint count, inout Key key, inout uint rank) { rank = exchange_near(count, rank); }

#endif
