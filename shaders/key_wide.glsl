// Keys of elements of 8 bytes: two words.
#define KEY_WORDS 2
#define Key uvec2 // low word, high word
#define Bits uvec2
const Key KEY_LEAST = Key(0u);

bool key_less(Key a, Key b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// A key in an array of words.
#define LOAD_KEY(words, at) Key(words[at], words[(at) + 1u])
#define STORE_KEY(words, at, key) words[at] = (key).x; words[(at) + 1u] = (key).y
// The same, with any distance between the words of a key.
#define LOAD_KEY_APART(words, at, step) Key(words[at], words[(at) + (step)])
#define STORE_KEY_APART(words, at, step, key) words[at] = (key).x; words[(at) + (step)] = (key).y

const uint SIGN_BIT = 0x80000000u;
// The bits of an integer that the order flips.
const uint ALL_IF_MIN = TAKE_MIN ? 0xffffffffu : 0u;
const Key FLIP = Key(ALL_IF_MIN, ALL_IF_MIN ^ (SIGNED_ELEMENTS ? SIGN_BIT : 0u));

Key top_key_of_float(uvec2 bits) {
    if (TAKE_MIN) bits.y ^= SIGN_BIT;
    uint negative = uint(int(bits.y) >> 31);
    uint low = bits.x ^ negative;
    uint high = (bits.y ^ negative) & ~SIGN_BIT;
    // Adds 2^63 (1, if the bits were flipped) and the rotation; the low word of the NaN pattern count is all ones.
    uint carry;
    low = uaddCarry(low, OMIT_NAN ? ~negative : negative & 1u, carry);
    uint rotation = OMIT_NAN ? NAN_PATTERNS_HIGH + (negative & 1u) : 0u - (NAN_PATTERNS_HIGH + 1u);
    return Key(low, high + (~negative & SIGN_BIT) + rotation + carry);
}

Key top_key(uvec2 raw) { return KEYS == KEYS_FLOAT ? top_key_of_float(raw) : raw ^ FLIP; }

Key settled_key_of_float(Key top) {
    const Key nans = Key(NAN_PATTERNS_LOW << 1u, (NAN_PATTERNS_HIGH << 1u) | 1u); // patterns of both signs
    if (OMIT_NAN) return key_less(top, nans) ? nans : top;
    return key_less(~nans, top) ? ~nans : top;
}

Key settled_key(Key top) { return KEYS == KEYS_FLOAT ? settled_key_of_float(top) : top; }

Key settled_key_of_bits(Bits raw) { return settled_key(top_key(raw)); }

// Raw bits with the least key of all.
const uvec2 LEAST_NAN = uvec2(0u, (TAKE_MIN ? 0u : SIGN_BIT) | (~SIGN_BIT - NAN_PATTERNS_HIGH));
const uvec2 NEUTRAL_FLOAT = OMIT_NAN ? uvec2(0xffffffffu) : LEAST_NAN;
const uvec2 NEUTRAL = KEYS == KEYS_FLOAT ? NEUTRAL_FLOAT : FLIP;
#define NEUTRAL_VECTOR NEUTRAL.xyxy

Bits load_bits(uint offset) { return input_pairs[offset]; }

// Applies DO to the bits of each element of 16 bytes.
#define FOR_EACH_BITS(DO, v) DO(0, v.xy) DO(1, v.zw)
