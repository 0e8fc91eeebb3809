// Rows that are read as they lie in memory, whatever the order of their positions: an invocation finds the position of
// every element that may be the winner when it reads it.
//
// The layout ends with the offset and the position of the first element read, and then, in the order of reading, size,
// input stride and step of the position of each reduced dimension.

uint reading_word(uint dim) { return reduced_word(reduced_dims) + 2u + dim * COPIED_DIM_WORDS; }

uint dims_outside_run;

void prepare() {
    dims_outside_run = reduced_dims;
    for (uint rest = run; rest > 1u; rest /= layout_word(reading_word(dims_outside_run))) dims_outside_run--;
}

uvec2 run_of_segment(uint segment) {
    uint first = reduced_word(reduced_dims);
    uvec2 begin = uvec2(layout_word(first), layout_word(first + 1u));
    if (ONE_RUN) return begin;
    for (uint dim = dims_outside_run; dim-- > 0u;) {
        uint word = reading_word(dim), coordinate = take_coordinate(segment, dim == 0u, word);
        begin += coordinate * uvec2(layout_word(word + 1u), layout_word(word + 2u));
    }
    return begin;
}

// Returns the position of the run's element `number`.
uint position_in_run(Tile tile, uint number) {
    uint position = tile.position;
    for (uint dim = reduced_dims; dim-- > dims_outside_run;) {
        uint word = reading_word(dim), coordinate = take_coordinate(number, dim == dims_outside_run, word);
        position += coordinate * layout_word(word + 2u);
    }
    return position;
}

#if ELEMENT_BYTES == 8

// Returns a bit for each element of a vector: whether it has this key.
uint equal_in_vector(uvec4 v, Key key) {
    return uint(settled_key(top_key(v.xy)) == key) + 2u * uint(settled_key(top_key(v.zw)) == key);
}

#else

uint equal_in_word(uint word, Key key) {
    uint ordered = ordered_word(word);
#if ELEMENT_BYTES == 1
    if (KEYS != KEYS_FLOAT) {
        // The top bit of each byte that is 0, that is equal; then these bits side by side.
        uint differ = ordered ^ (key * LOWEST_BITS);
        uint equal = ~(((differ & ~SIGN_BITS) + ~SIGN_BITS) | differ) & SIGN_BITS;
        return ((equal >> 7) * 0x10204080u) >> 28;
    }
#endif
    uint equal = 0u;
    for (uint i = 0u; i < ELEMENTS_PER_WORD; i++) equal |= uint(settled_key(top_key(ordered, i)) == key) << i;
    return equal;
}

uint equal_in_vector(uvec4 v, Key key) {
    return equal_in_word(v.x, key) | equal_in_word(v.y, key) << ELEMENTS_PER_WORD |
        equal_in_word(v.z, key) << (2u * ELEMENTS_PER_WORD) | equal_in_word(v.w, key) << (3u * ELEMENTS_PER_WORD);
}

#endif

// Returns the best rank of the elements of a vector that have this key.
uint best_rank(Tile tile, uint vector, uvec4 v, Key key) {
    uint first = vector * ELEMENTS_PER_VECTOR, equal = equal_in_vector(v, key);
    if (!ALIGNED) {
        if (first < tile.begin) equal &= 0xffffffffu << (tile.begin - first);
        if (tile.end - first < ELEMENTS_PER_VECTOR) equal &= (1u << (tile.end - first)) - 1u;
    }
    uint innermost = reading_word(reduced_dims - 1u), size = layout_word(innermost), step = layout_word(innermost + 2u);
    bool first_wins = (int(step) > 0) != TAKE_LAST;
    uint rank = 0u;
    while (equal != 0u) {
        // Of the elements in one row of the innermost dimension, only the first or the last can win.
        uint element = findLSB(equal), number = first + element - tile.begin, left = size - number % size;
        uint row = left < ELEMENTS_PER_VECTOR ? ((1u << left) - 1u) << element : 0xffffffffu;
        uint distance = first_wins ? 0u : findMSB(equal & row) - element;
        rank = max(rank, rank_of(position_in_run(tile, number) + distance * step));
        equal &= ~row;
    }
    return rank;
}

struct Best {
    Key key;
    uint rank;
};

Best nobody() { return Best(KEY_LEAST, 0u); }

void consider(inout Best best, Chunk chunk, Tile tile, uint step) {
    Key key = greatest_of(chunk);
    if (key_less(key, best.key)) return;
    if (key_less(best.key, key)) best = Best(key, 0u);
    uint hits = uint(settled_key(chunk.top0) == key) | uint(settled_key(chunk.top1) == key) << 1 |
        uint(settled_key(chunk.top2) == key) << 2 | uint(settled_key(chunk.top3) == key) << 3;
    hits &= (1u << chunk.count) - 1u;
    while (hits != 0u) {
        uint place = findLSB(hits);
        uvec4 v = place < 2u ? (place == 0u ? chunk.v0 : chunk.v1) : (place == 2u ? chunk.v2 : chunk.v3);
        best.rank = max(best.rank, best_rank(tile, min(chunk.vector + place * lanes, tile.last), v, key));
        hits &= hits - 1u;
    }
}

// Gives all invocations that share the output the best key and its rank.
void settle(Best best, uint first_unit, uint base, uint lane, uint steps_per_tile, out Key key, out uint rank) {
    key = exchange_greatest(lanes, best.key);
    rank = exchange_greatest(lanes, best.key == key ? best.rank : 0u);
}
