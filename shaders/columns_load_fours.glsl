// Loads four narrow elements that start with a word.
#include "columns_fours.glsl"

#define Loaded Vector
#if ELEMENT_BYTES == 1
Loaded load(uint offset) { return input_words[offset / 4u]; }
#else
Loaded load(uint offset) { return input_pairs[offset / 4u]; }
#endif
Vector unpacked(Loaded loaded) { return loaded; }
