// Loads single elements with any strides: one part; of a word of narrow elements only the first column is used.
#define PARTS 1
#define FOR_EACH_PART(DO, v) DO(0, v)
#define NarrowPart uint
#define NARROW_COLUMNS 1u
#define NARROW_RANKED(raw, rank) ranked_key(raw, rank)
#define NARROW_COLUMN(part, column) part

#define Vector Bits
#define Loaded Bits
Loaded load(uint offset) { return load_bits(offset); }
Vector unpacked(Loaded loaded) { return loaded; }
