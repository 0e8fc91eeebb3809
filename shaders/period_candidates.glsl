// The best of a column, as argreduce_periods leaves it for argreduce_combine: of wide elements key and rank of the position,
// of narrow ones a word, as in columns_narrow.glsl, whose rank is that of the position within the split, plus 1.
#if ELEMENT_BYTES < 4
#define COLUMN_CANDIDATE_WORDS 1u
const uint COLUMN_RANK_MASK = (1u << NARROW_RANK_BITS) - 1u;
#else
#define COLUMN_CANDIDATE_WORDS uint(CANDIDATE_WORDS)
#endif
