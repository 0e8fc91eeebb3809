// Shared by the loads of four narrow elements, one or two words: an invocation has so few columns that its indices are
// one vector, and neighbouring invocations read neighbouring words.
#define PARTS ELEMENT_BYTES
#define REST_GUARDED // there are few positions, and so many of them are in the rest
#define NarrowPart WordKeys
#define NARROW_COLUMNS uint(ELEMENTS_PER_WORD)
#define NARROW_RANKED(raw, rank) ranked_keys(raw, WordKeys(rank))
#define NARROW_COLUMN(part, column) part[column]
#if ELEMENT_BYTES == 1
#define Vector uint
#define FOR_EACH_PART(DO, v) DO(0, v)
#else
#define Vector uvec2
#define FOR_EACH_PART(DO, v) DO(0, v.x) DO(1, v.y)
#endif
