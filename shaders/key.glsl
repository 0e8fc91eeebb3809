// The order of the elements: each element is mapped to an unsigned key, and the greatest key wins.
//
// A key passes through these states:
// - raw: the bits of the element in memory.
// - ordered: unsigned comparison gives the order of the numbers. Integers are complemented for argmin, and signed
//   integers have their sign bit flipped. Floats become their magnitude above or below the middle, which is 0.
// - top: moved to the highest bits. Floats are also rotated by the number of NaN patterns, which puts all NaNs above
//   the numbers ("propagate") or below them ("omit"). Equal elements may still have different keys: the bits below a
//   narrow key belong to its neighbours, and NaNs have many patterns.
// - settled: moved to the lowest bits, with one key for equal elements and one for all NaNs. Invocations exchange
//   settled and ranked keys only.
// - ranked: a settled key of 1 or 2 bytes in the highest bits with a rank below it, so that one max compares both.
//
// Compile-time: ELEMENT_BYTES (1, 2, 4, 8) and KEYS. Constants give the kind of integer and the NaN patterns.
#include "key_words.glsl"
