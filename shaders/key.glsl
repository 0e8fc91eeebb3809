// The order of the elements: each element becomes an unsigned key, the greatest key wins.
//
// Compile-time: ELEMENT_BYTES (1, 2, 4, 8), KIND (below), and for floats NAN_COUNT: how many bit patterns of
// each sign are NaN (NAN_COUNT_HIGH: the upper word of a 64-bit count).
#define KIND_UNSIGNED 0
#define KIND_SIGNED 1
#define KIND_FLOAT 2
#define KIND_BOOL 3

layout(constant_id = 1) const bool TAKE_MIN = false;
layout(constant_id = 2) const bool TAKE_LAST = false;
layout(constant_id = 3) const bool OMIT_NAN = false;

#if ELEMENT_BYTES == 8

#define KEY_WORDS 2
#define Key uvec2 // low word, high word
const Key KEY_LEAST = Key(0u);
const Key NAN_KEYS = Key(NAN_COUNT, NAN_COUNT_HIGH);

bool key_less(Key a, Key b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }
Key key_add(Key a, Key b) {
    uint low = a.x + b.x;
    return Key(low, a.y + b.y + uint(low < a.x));
}
Key key_negate(Key a) { return key_add(~a, Key(1u, 0u)); }

// Numbers ascending; NaNs at the top ("propagate") or at the bottom ("omit"), in any order.
Key ordered_key(uvec2 bits) {
#if KIND == KIND_FLOAT
    uint flip = uint(int(bits.y) >> 31);
    bits ^= uvec2(flip, flip | 0x80000000u);
#elif KIND == KIND_SIGNED
    bits.y ^= 0x80000000u;
#endif
    Key key = TAKE_MIN ? ~bits : bits;
#if KIND == KIND_FLOAT
    key = key_add(key, OMIT_NAN ? NAN_KEYS : key_negate(NAN_KEYS));
#endif
    return key;
}

// One key for all NaNs, one for both zeros.
Key settled_key(Key key) {
#if KIND == KIND_FLOAT
    Key rotation = OMIT_NAN ? NAN_KEYS : key_negate(NAN_KEYS);
    Key lower_zero = key_add(Key(0xffffffffu, 0x7fffffffu), rotation);
    if (key == lower_zero) key = key_add(key, Key(1u, 0u));
    Key all_nans = key_add(NAN_KEYS, NAN_KEYS);
    if (OMIT_NAN) {
        if (key_less(key, all_nans)) key = KEY_LEAST;
    } else {
        if (!key_less(key, key_negate(all_nans))) key = Key(0xffffffffu);
    }
#endif
    return key;
}

#else

#define KEY_WORDS 1
#define Key uint
#define ELEMENT_BITS (8 * ELEMENT_BYTES)
#define ELEMENTS_PER_WORD (4 / ELEMENT_BYTES)
#define TOP_SHIFT (32 - ELEMENT_BITS)
const Key KEY_LEAST = 0u;

#if ELEMENT_BYTES == 1
const uint SIGN_BITS = 0x80808080u, BELOW_SIGN = 0x7fu, LANE_ONES = 0x01010101u;
#elif ELEMENT_BYTES == 2
const uint SIGN_BITS = 0x80008000u, BELOW_SIGN = 0x7fffu, LANE_ONES = 0x00010001u;
#else
const uint SIGN_BITS = 0x80000000u, BELOW_SIGN = 0x7fffffffu, LANE_ONES = 1u;
#endif

bool key_less(Key a, Key b) { return a < b; }

// All elements of a word at once, in place. The rotation that puts NaNs last or first is top_key's.
uint ordered_word(uint word) {
#if KIND == KIND_FLOAT
    uint negative = (word >> (ELEMENT_BITS - 1)) & LANE_ONES;
    word ^= (negative * BELOW_SIGN) ^ SIGN_BITS;
#elif KIND == KIND_SIGNED
    word ^= SIGN_BITS;
#elif KIND == KIND_BOOL
    word = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & SIGN_BITS;
#endif
    return TAKE_MIN ? ~word : word;
}

#if KIND == KIND_FLOAT
const uint ROTATION = OMIT_NAN ? uint(NAN_COUNT) << TOP_SHIFT : 0u - (uint(NAN_COUNT) << TOP_SHIFT);
#else
const uint ROTATION = 0u;
#endif

// Elements' keys in the top bits; the bits below are their neighbours and only break ties among equals.
// Numbers ascending; NaNs at the top ("propagate") or at the bottom ("omit"), in any order.
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

// From the top bits down; one key for all NaNs, one for both zeros.
Key settled_key(uint top) {
    Key key = top >> TOP_SHIFT;
#if KIND == KIND_FLOAT
    const Key key_mask = 0xffffffffu >> TOP_SHIFT;
    const Key lower_zero = (BELOW_SIGN + (ROTATION >> TOP_SHIFT)) & key_mask;
    if (key == lower_zero) key++;
    if (OMIT_NAN) {
        if (key < 2u * NAN_COUNT) key = KEY_LEAST;
    } else {
        if (key > key_mask - 2u * NAN_COUNT) key = key_mask;
    }
#endif
    return key;
}

#if ELEMENT_BYTES == 1
WordKeys settled_keys(WordKeys top) {
    return uvec4(settled_key(top.x), settled_key(top.y), settled_key(top.z), settled_key(top.w));
}
#elif ELEMENT_BYTES == 2
WordKeys settled_keys(WordKeys top) { return uvec2(settled_key(top.x), settled_key(top.y)); }
#endif

#endif
