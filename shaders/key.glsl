// The order of the elements: each element becomes an unsigned key, the greatest key wins.
//
// A key has these states, one after the other:
// - raw: the element's bits, as they lie in memory.
// - ordered: numbers compare as the keys do, as unsigned integers. Integers are complemented for argmin, and the sign bit
//   of signed ones is flipped. Floats are the magnitude above or below the middle, so that both zeros are the middle.
// - top: in the topmost bits and, of floats, rotated by the number of NaNs, so that all of those lie above the numbers
//   ("propagate") or below them ("omit"). Keys of equal elements, and NaNs, may still differ: bits below a narrow key
//   are its neighbours', and NaNs come in any order.
// - settled: in the lowest bits, one key for equal elements and one for all NaNs. Only these are compared with each
//   other beyond one invocation.
// - ranked: a settled key of 1 or 2 bytes in the topmost bits and a rank below it, so that one max compares both.
//
// Compile-time: ELEMENT_BYTES (1, 2, 4, 8) and KEYS. Which integers, and which patterns of floats are NaN, is data.
#include "key_words.glsl"
