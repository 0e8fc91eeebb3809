// The order of the elements: each element becomes an unsigned key, the greatest key wins.
//
// Compile-time: ELEMENT_BYTES (1, 2, 4, 8) and KEYS. Which integers, and which patterns of floats are NaN, is data.

// Floats: the magnitude above or below the middle, so that both zeros are the middle. Rotated by the number of
// NaNs, all of those lie above the numbers ("propagate") or below them ("omit"), in any order until settled.

#if ELEMENT_BYTES == 8

#define KEY_WORDS 2
#define Key uvec2 // low word, high word
const Key KEY_LEAST = Key(0u);

bool key_less(Key a, Key b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

#if KEYS == KEYS_INTEGER
// Complemented for argmin; the sign bit of signed integers the other way round.
const Key FLIP = Key(TAKE_MIN ? 0xffffffffu : 0u, (TAKE_MIN ? 0xffffffffu : 0u) ^ (SIGNED_ELEMENTS ? 0x80000000u : 0u));
#endif

Key raw_key(uvec2 bits) {
#if KEYS == KEYS_FLOAT
    if (TAKE_MIN) bits.y ^= 0x80000000u;
    uint negative = uint(int(bits.y) >> 31);
    uint low = bits.x ^ negative;
    uint high = (bits.y ^ negative) & 0x7fffffffu;
    // Added is 2^63 or, after the flip, 1; and the rotation, where the low word of NAN_PATTERNS_LOW is all ones.
    uint carry;
    low = uaddCarry(low, OMIT_NAN ? ~negative : negative & 1u, carry);
    uint rotation = OMIT_NAN ? NAN_PATTERNS_HIGH + (negative & 1u) : 0u - (NAN_PATTERNS_HIGH + 1u);
    return Key(low, high + (~negative & 0x80000000u) + rotation + carry);
#else
    return bits ^ FLIP;
#endif
}

// One key for all NaNs.
Key settled_key(Key key) {
#if KEYS == KEYS_FLOAT
    const Key twice = Key(NAN_PATTERNS_LOW << 1u, (NAN_PATTERNS_HIGH << 1u) | 1u); // 2 * NAN_PATTERNS_LOW
    if (OMIT_NAN) return key_less(key, twice) ? twice : key;
    return key_less(~twice, key) ? ~twice : key;
#else
    return key;
#endif
}

// Bits whose key no other element's is below.
#if KEYS == KEYS_FLOAT
const uvec2 NEUTRAL = OMIT_NAN ? uvec2(0xffffffffu) : uvec2(0u, (TAKE_MIN ? 0u : 0x80000000u) | (0x7fffffffu - NAN_PATTERNS_HIGH));
#else
const uvec2 NEUTRAL = FLIP;
#endif

#else

#define KEY_WORDS 1
#define Key uint
#define ELEMENT_BITS (8 * ELEMENT_BYTES)
#define ELEMENTS_PER_WORD (4 / ELEMENT_BYTES)
#define TOP_SHIFT (32 - ELEMENT_BITS)
const Key KEY_LEAST = 0u;
const uint KEY_MASK = 0xffffffffu >> TOP_SHIFT;

#if ELEMENT_BYTES == 1
const uint SIGN_BITS = 0x80808080u, BELOW_SIGN = 0x7fu, LANE_ONES = 0x01010101u;
#elif ELEMENT_BYTES == 2
const uint SIGN_BITS = 0x80008000u, BELOW_SIGN = 0x7fffu, LANE_ONES = 0x00010001u;
#else
const uint SIGN_BITS = 0x80000000u, BELOW_SIGN = 0x7fffffffu, LANE_ONES = 1u;
#endif

bool key_less(Key a, Key b) { return a < b; }

// Integers are complemented for argmin; the sign bit of signed ones is turned round.
const uint FLIP = (TAKE_MIN ? 0xffffffffu : 0u) ^ (SIGNED_ELEMENTS ? SIGN_BITS : 0u);

// All elements of a word at once, in place. The rotation is top_key's.
uint ordered_word(uint word) {
#if KEYS == KEYS_FLOAT
    if (TAKE_MIN) word ^= SIGN_BITS;
#if ELEMENT_BYTES == 4
    uint negative = uint(int(word) >> 31); // all ones or none
    return (word ^ (negative & BELOW_SIGN)) - negative + SIGN_BITS;
#endif
    uint flip = ((word >> (ELEMENT_BITS - 1)) & LANE_ONES) * BELOW_SIGN;
    // No element's sum leaves its bits, so none disturbs its neighbour.
    return ((word & ~SIGN_BITS) ^ flip) + (SIGN_BITS - flip);
#else
#if ELEMENT_BYTES == 1
    if (BOOL_ELEMENTS) word = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & SIGN_BITS;
#endif
    return word ^ FLIP;
#endif
}

#if KEYS == KEYS_FLOAT
const uint ROTATION = (OMIT_NAN ? NAN_PATTERNS_LOW : 0u - (NAN_PATTERNS_LOW + 1u)) << TOP_SHIFT;
const uint NEUTRAL = (OMIT_NAN ? KEY_MASK : (TAKE_MIN ? 0u : BELOW_SIGN + 1u) | (BELOW_SIGN - NAN_PATTERNS_LOW)) * LANE_ONES;
#else
const uint ROTATION = 0u;
const uint NEUTRAL = FLIP;
#endif

// Elements' keys in the top bits; the bits below are their neighbours and only break ties among equals.
uint top_key(uint ordered, uint element) {
    return (ordered << (uint(TOP_SHIFT) - uint(ELEMENT_BITS) * element)) + ROTATION;
}

// The same for all elements of a word. Written out, since not every driver unrolls loops over arrays.
#if ELEMENT_BYTES == 1
#define WordKeys uvec4
WordKeys top_keys(uint ordered) { return uvec4(ordered << 24, ordered << 16, ordered << 8, ordered) + ROTATION; }
uint greatest(WordKeys keys) { return max(max(keys.x, keys.y), max(keys.z, keys.w)); }
#elif ELEMENT_BYTES == 2
#define WordKeys uvec2
WordKeys top_keys(uint ordered) { return uvec2(ordered << 16, ordered) + ROTATION; }
uint greatest(WordKeys keys) { return max(keys.x, keys.y); }
#else
#define WordKeys uint
WordKeys top_keys(uint ordered) { return ordered + ROTATION; }
uint greatest(WordKeys keys) { return keys; }
#endif

// From the top bits down, one key for all NaNs.
Key settled_key(uint top) {
    Key key = top >> TOP_SHIFT;
#if KEYS == KEYS_FLOAT
    key = OMIT_NAN ? max(key, 2u * NAN_PATTERNS_LOW) : min(key, KEY_MASK - 2u * NAN_PATTERNS_LOW);
#endif
    return key;
}

#if ELEMENT_BYTES < 4
// The same in the top bits, with a rank of up to TOP_SHIFT bits below it.
#define RANKED_KEYS(Keys)                                                                                   \
    Keys ranked_keys(Keys top, uint rank) {                                                                 \
        const uint nans = KEYS == KEYS_FLOAT ? (2u * NAN_PATTERNS_LOW) << TOP_SHIFT : 0u;                          \
        if (KEYS == KEYS_FLOAT) top = OMIT_NAN ? max(top, Keys(nans)) : min(top, Keys(~nans));              \
        return (top & (KEY_MASK << TOP_SHIFT)) | rank;                                                      \
    }
RANKED_KEYS(uint)
RANKED_KEYS(WordKeys)
#endif

#endif
