// Keys of elements of 1, 2 and 4 bytes: one word each; all elements of a word are ordered at once.
#define KEY_WORDS 1
#define Key uint
#define Bits uint
#define ELEMENT_BITS (8 * ELEMENT_BYTES)
#define ELEMENTS_PER_WORD (4 / ELEMENT_BYTES)
#define TOP_SHIFT (32 - ELEMENT_BITS)
const Key KEY_LEAST = 0u;
const uint KEY_MASK = 0xffffffffu >> TOP_SHIFT;

bool key_less(Key a, Key b) { return a < b; }

// A key in an array of words.
#define LOAD_KEY(words, at) words[at]
#define STORE_KEY(words, at, key) words[at] = key
// The same, with any distance between the words of a key.
#define LOAD_KEY_APART(words, at, step) words[at]
#define STORE_KEY_APART(words, at, step, key) words[at] = key

// These bits of each element of a word.
const uint LOWEST_BITS = ELEMENT_BYTES == 1 ? 0x01010101u : ELEMENT_BYTES == 2 ? 0x00010001u : 1u;
const uint SIGN_BITS = LOWEST_BITS << (ELEMENT_BITS - 1);
const uint BELOW_SIGN = KEY_MASK >> 1;

// The bits of an integer that the order flips.
const uint FLIP = (TAKE_MIN ? 0xffffffffu : 0u) ^ (SIGNED_ELEMENTS ? SIGN_BITS : 0u);

// A variant, not a constant: the test alone makes SwiftShader's code for bytes 6% slower.
uint ordered_bools(uint word) { return ((((word & ~SIGN_BITS) + ~SIGN_BITS) | word) & SIGN_BITS) ^ FLIP; }

// Floats of argmin are those of the opposite sign. To change that first would take one more operation, and ?: in functions
// makes branches, for which SwiftShader's compiler takes all memory.
const uint ALL_IF_MIN = TAKE_MIN ? 0xffffffffu : 0u, ONE_IF_MIN = TAKE_MIN ? 1u : 0xffffffffu;
const uint OFFSET_OF_WIDE = TAKE_MIN ? SIGN_BITS + 1u : SIGN_BITS, OFFSET_OF_NARROW = TAKE_MIN ? LOWEST_BITS : SIGN_BITS;

uint ordered_wide_float(uint word) {
    uint negative = uint(int(word) >> 31); // all ones or none
    return (word ^ (negative & BELOW_SIGN) ^ ALL_IF_MIN) + negative * ONE_IF_MIN + OFFSET_OF_WIDE;
}

uint ordered_narrow_floats(uint word) {
    uint flip = ((word >> (ELEMENT_BITS - 1)) & LOWEST_BITS) * BELOW_SIGN;
    // The sums do not carry into the next element.
    return (((word ^ ALL_IF_MIN) & ~SIGN_BITS) ^ flip) + flip * ONE_IF_MIN + OFFSET_OF_NARROW;
}

uint ordered_floats(uint word) { return ELEMENT_BYTES == 4 ? ordered_wide_float(word) : ordered_narrow_floats(word); }

uint ordered_integers(uint word) { return KEYS == KEYS_BOOL ? ordered_bools(word) : word ^ FLIP; }

// Orders all elements of a word in place.
uint ordered_word(uint raw) { return KEYS == KEYS_FLOAT ? ordered_floats(raw) : ordered_integers(raw); }

const uint ROTATION_OF_FLOAT = (OMIT_NAN ? NAN_PATTERNS_LOW : 0u - (NAN_PATTERNS_LOW + 1u)) << TOP_SHIFT;
const uint ROTATION = KEYS == KEYS_FLOAT ? ROTATION_OF_FLOAT : 0u;

// Raw bits with the least key of all, in each element of a word.
const uint LEAST_NAN = (TAKE_MIN ? 0u : BELOW_SIGN + 1u) | (BELOW_SIGN - NAN_PATTERNS_LOW);
const uint NEUTRAL_FLOATS = (OMIT_NAN ? KEY_MASK : LEAST_NAN) * LOWEST_BITS;
const uint NEUTRAL = KEYS == KEYS_FLOAT ? NEUTRAL_FLOATS : FLIP;
#define NEUTRAL_VECTOR uvec4(NEUTRAL)

uint top_key(uint ordered, uint element) {
    return (ordered << (uint(TOP_SHIFT) - uint(ELEMENT_BITS) * element)) + ROTATION;
}

// Moves each element to the top of its own word. Unrolled by hand: not every driver unrolls loops over arrays.
#if ELEMENT_BYTES == 1
#define WordKeys uvec4
WordKeys at_top(uint ordered) { return uvec4(ordered << 24, ordered << 16, ordered << 8, ordered); }
uint greatest(WordKeys keys) { return max(max(keys.x, keys.y), max(keys.z, keys.w)); }
#elif ELEMENT_BYTES == 2
#define WordKeys uvec2
WordKeys at_top(uint ordered) { return uvec2(ordered << 16, ordered); }
uint greatest(WordKeys keys) { return max(keys.x, keys.y); }
#else
#define WordKeys uint
WordKeys at_top(uint ordered) { return ordered; }
uint greatest(WordKeys keys) { return keys; }
#endif

WordKeys top_keys(uint ordered) { return at_top(ordered) + ROTATION; }

uint nans_settled(Key key) {
    return OMIT_NAN ? max(key, 2u * NAN_PATTERNS_LOW) : min(key, KEY_MASK - 2u * NAN_PATTERNS_LOW);
}

Key settled_key(uint top) { return KEYS == KEYS_FLOAT ? nans_settled(top >> TOP_SHIFT) : top >> TOP_SHIFT; }

// For an element of 4 bytes.
Key settled_key_of_bits(Bits raw) { return settled_key(greatest(top_keys(ordered_word(raw)))); }

// Returns an element in the lowest bits, with its neighbours above it.
Bits load_bits(uint offset) {
    return ELEMENTS_PER_WORD == 1
        ? input_words[offset]
        : input_words[offset / ELEMENTS_PER_WORD] >> (offset % ELEMENTS_PER_WORD * ELEMENT_BITS);
}

// Applies DO to the bits of each element or word of elements in 16 bytes.
#define FOR_EACH_BITS(DO, v) DO(0, v.x) DO(1, v.y) DO(2, v.z) DO(3, v.w)
