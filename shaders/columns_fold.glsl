// Folds the positions of one invocation into its best, with several loads in flight to hide their latency.
// Macros unroll the loads: not every driver unrolls loops over arrays.
#define FOLD_PART(i, bits) fold(best.parts[i], bits, rank);
void fold_vector(inout Best best, Vector v, uint rank) { FOR_EACH_PART(FOLD_PART, v) }

#if AT_ONCE == 8
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#elif AT_ONCE == 4
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3)
#else
#define FOR_EACH(DO) DO(0)
#endif

// With PHASED, where a load starts in a word repeats after PHASED positions, and is found once.
#ifdef PHASED
#define PHASE_0 phase0
#define PHASE_1 phase1
#if PHASED == 4
#define PHASE_2 phase2
#define PHASE_3 phase3
#else
#define PHASE_2 phase0
#define PHASE_3 phase1
#endif
#define PHASE_4 PHASE_0
#define PHASE_5 PHASE_1
#define PHASE_6 PHASE_2
#define PHASE_7 PHASE_3
#define LOADED(i, offset) load(offset, PHASE_##i)
#define UNPACKED(i) unpacked(v##i, PHASE_##i)
#else
#define LOADED(i, offset) load(offset)
#define UNPACKED(i) unpacked(v##i)
#endif

// Folds `count` positions from `position` on, `step` apart, whose offsets are `stride` apart.
void fold_positions(inout Best best, uint position, uint step, uint offset, uint stride, uint count) {
    uint rank = rank_of(position), rank_step = TAKE_LAST ? step : 0u - step;
#ifdef PHASED
    Phase phase0 = phase_of(offset), phase1 = phase_of(offset + stride);
#if PHASED == 4
    Phase phase2 = phase_of(offset + 2u * stride), phase3 = phase_of(offset + 3u * stride);
#endif
#endif
    for (; count >= uint(AT_ONCE); count -= uint(AT_ONCE)) {
#define LOAD(i) Loaded v##i = LOADED(i, offset); offset += stride;
#define FOLD(i) fold_vector(best, UNPACKED(i), rank); rank += rank_step;
        FOR_EACH(LOAD)
        FOR_EACH(FOLD)
    }
#if AT_ONCE > 1
    if (count != 0u) {
#ifdef REST_GUARDED
#define LOAD_REST(i) Loaded v##i; if (uint(i) < count) v##i = LOADED(i, offset + uint(i) * stride);
#else
        // Loads past the end repeat the last position.
#define LOAD_REST(i) Loaded v##i = LOADED(i, offset + min(uint(i), count - 1u) * stride);
#endif
#define FOLD_REST(i) if (uint(i) < count) fold_vector(best, UNPACKED(i), rank + uint(i) * rank_step);
        FOR_EACH(LOAD_REST)
        FOR_EACH(FOLD_REST)
    }
#endif
}
