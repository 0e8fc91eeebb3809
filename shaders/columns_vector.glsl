// Shared by the loads of vectors of 16 bytes, or of half as many: the parts are the vector's words, and all their columns are
// used.
#ifndef VECTOR_WORDS
#define VECTOR_WORDS 4
#endif
#define PARTS (VECTOR_WORDS / KEY_WORDS)
#if VECTOR_WORDS == 2
#define Vector uvec2
#define FOR_EACH_PART(DO, v) DO(0, v.x) DO(1, v.y)
#else
#define Vector uvec4
#define FOR_EACH_PART(DO, v) FOR_EACH_BITS(DO, v)
#endif
#define NarrowPart WordKeys
#define NARROW_COLUMNS uint(ELEMENTS_PER_WORD)
#define NARROW_RANKED(raw, rank) ranked_keys(raw, WordKeys(rank))
#define NARROW_COLUMN(part, column) part[column]
