// Shared by the loads of vectors of 16 bytes: the parts are the vector's words, and all their columns are used.
#define PARTS (4 / KEY_WORDS)
#define FOR_EACH_PART(DO, v) FOR_EACH_BITS(DO, v)
#define NarrowPart WordKeys
#define NARROW_COLUMNS uint(ELEMENTS_PER_WORD)
#define NARROW_RANKED(raw, rank) ranked_keys(raw, WordKeys(rank))
#define NARROW_COLUMN(part, column) part[column]
#define Vector uvec4
