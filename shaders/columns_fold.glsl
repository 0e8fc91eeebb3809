// Folds the positions of one invocation into its best, with several loads in flight to hide their latency.
// Macros unroll the loads: not every driver unrolls loops over arrays. The including file defines REST_IN_PAIRS, whether
// what is left over of AT_ONCE loads, then 4, is loaded two and one at a time;
// and AT_ONCE where its loads are not of vectors.
#ifndef AT_ONCE
#define AT_ONCE VECTOR_LOADS_AT_ONCE
#endif

#define FOLD_PART(i, bits) fold(best.parts[i], bits, rank);
void fold_vector(inout Best best, Vector v, uint rank) { FOR_EACH_PART(FOLD_PART, v) }

#if AT_ONCE == 8
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#else
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3)
#endif

// Folds `count` positions from `position` on, `step` apart, whose offsets are `stride` apart.
void fold_positions(inout Best best, uint position, uint step, uint offset, uint stride, uint count) {
    uint rank = rank_of(position), rank_step = TAKE_LAST ? step : 0u - step;
    for (; count >= uint(AT_ONCE); count -= uint(AT_ONCE)) {
#define LOAD(i) Loaded v##i = load(offset); offset += stride;
#define FOLD(i) fold_vector(best, unpacked(v##i), rank); rank += rank_step;
        FOR_EACH(LOAD)
        FOR_EACH(FOLD)
    }
#if REST_IN_PAIRS
    if (count >= 2u) {
        LOAD(0) LOAD(1)
        FOLD(0) FOLD(1)
    }
    if ((count & 1u) != 0u) {
        LOAD(0)
        FOLD(0)
    }
#else
    if (count != 0u) {
        // Loads past the end repeat the last position.
#define LOAD_REST(i) Loaded v##i = load(offset + min(uint(i), count - 1u) * stride);
#define FOLD_REST(i) if (uint(i) < count) fold_vector(best, unpacked(v##i), rank + uint(i) * rank_step);
        FOR_EACH(LOAD_REST)
        FOR_EACH(FOLD_REST)
    }
#endif
}
