// Rows that are read as they lie in memory, whatever the order of their positions: an invocation finds the position of
// an element where it may be the winner. Where it keeps its vectors, only the winners do.
//
// The layout begins with the READING_WORDS and with size, input stride and step of the position of the nearest
// READING_NEAR_DIMS reduced dimensions in the order of reading, the innermost first; these are push constants. The kept
// dimensions follow, the other reduced ones in this order, and those in the order of positions.
//
// With ROW_STEP, tiles and vectors count all elements of memory, dimensions and positions only those of the row.

uint reading_dim_word(uint dim) {
    uint place = reduced_dims - 1u - dim, kept_before = place < uint(READING_NEAR_DIMS) ? 0u : kept_dims;
    return uint(READING_WORDS) + (place + kept_before) * COPIED_DIM_WORDS;
}

uint dims_outside_run;

// A dimension that positions in a run are divided by, and its reciprocal: 2^32 - 1 divided by its size.
struct RunDim { uint size, step, reciprocal; };
RunDim innermost, second;

RunDim near_dim(uint place, uint reciprocal) {
    uint word = uint(READING_WORDS) + place * COPIED_DIM_WORDS;
    return RunDim(layout_words[word], layout_words[word + 2u], layout_words[reciprocal]);
}

// Returns how many elements of the row a run has before this one, which it counts with all that lies between.
uint number_in_row(uint element) { return ROW_STEP == 1u ? element : element / ROW_STEP; }

// Returns a dimension of a run, with the number of elements inside of it as its size.
RunDim dim_around(uint dim) {
    uint inside = 1u;
    for (uint inner = dim + 1u; inner < reduced_dims; inner++) inside *= layout_word(reading_dim_word(inner));
    return RunDim(inside, layout_word(reading_dim_word(dim) + 2u), 0xffffffffu / inside);
}

// Returns the least or the most that the dimensions of a run from `dim` on, but for the last ones, add to a position.
uint reach_of_dims(uint dim, uint last_ones, bool most) {
    uint reach = 0u;
    for (; dim + last_ones < reduced_dims; dim++) {
        uint word = reading_dim_word(dim), step = layout_word(word + 2u);
        if ((int(step) > 0) == most) reach += (layout_word(word) - 1u) * step;
    }
    return reach;
}

#if SUBGROUPS
// The outermost dimensions of a run, and what those inside of each add to the position that wins.
const uint MOST_REACHES = 8u;
shared RunDim reach_dims[MOST_REACHES];
shared uint best_inside[MOST_REACHES];

uint reaches() { return min(reduced_dims - dims_outside_run, MOST_REACHES); }

// What it prepares is asked for after a barrier.
void prepare_reach() {
    if (KEPT_VECTORS != 0u) return;
    for (uint place = gl_LocalInvocationIndex; place < reaches(); place += WORKGROUP) {
        reach_dims[place] = dim_around(dims_outside_run + place);
        best_inside[place] = reach_of_dims(dims_outside_run + place + 1u, 0u, TAKE_LAST);
    }
}
#else
RunDim outermost;
uint least_between, most_between; // of the dimensions between it and the second

void prepare_reach() {
    outermost = dim_around(dims_outside_run);
    least_between = reach_of_dims(dims_outside_run + 1u, 2u, false);
    most_between = reach_of_dims(dims_outside_run + 1u, 2u, true);
}
#endif

void prepare() {
    if (LAYOUT_IS_SHARED) {
        uint reduced = layout_words[READING_REDUCED_DIMS];
        share_layout(reduced != 0u ? reduced_word(reduced_dims) : KEPT_WORD(kept_dims + reduced_dims - uint(READING_NEAR_DIMS)));
    }
    dims_outside_run = layout_words[READING_DIMS_OUTSIDE_RUN];
    innermost = near_dim(0u, READING_INNERMOST_RECIPROCAL);
    second = near_dim(1u, READING_SECOND_RECIPROCAL);
    prepare_reach();
}

// Whether of equal elements along a dimension the one with the least coordinate wins.
bool first_is_best(RunDim dim) { return (int(dim.step) > 0) != TAKE_LAST; }

// Divides without the slow instruction; returns the quotient, and the remainder in place of the number.
uint divided(inout uint number, RunDim dim) {
    uint quotient, low;
    umulExtended(number, dim.reciprocal, quotient, low); // exact or 1 too small
    number -= quotient * dim.size;
    if (number >= dim.size) {
        number -= dim.size;
        quotient++;
    }
    return quotient;
}

uvec2 begin_of_run(uint run_number) {
    uvec2 begin = uvec2(layout_words[READING_OFFSET], layout_words[READING_POSITION]);
    if (ONE_RUN) return begin;
    for (uint dim = dims_outside_run; dim-- > 0u;) {
        uint word = reading_dim_word(dim), coordinate = take_coordinate(run_number, dim == 0u, word);
        begin += coordinate * uvec2(layout_word(word + 1u), layout_word(word + 2u));
    }
    return begin;
}

// Where an element of a run is.
struct InRun {
    uint position;
    uint left; // elements from there in the innermost row
};

InRun place_in_run(Tile tile, uint element) {
    uint number = number_in_row(element);
    uint run_dims = reduced_dims - dims_outside_run, outer = divided(number, innermost);
    InRun found = InRun(tile.position + number * innermost.step, innermost.size - number);
    if (run_dims > 1u) {
        if (run_dims > 2u) {
            uint rest = divided(outer, second);
            for (uint dim = reduced_dims - 2u; dim-- > dims_outside_run;) {
                uint word = reading_dim_word(dim), coordinate = take_coordinate(rest, dim == dims_outside_run, word);
                found.position += coordinate * layout_word(word + 2u);
            }
        }
        found.position += outer * second.step;
    }
    return found;
}

#if ELEMENT_BYTES == 8

// Returns a bit for each element of a vector: whether it has this key.
uint equal_in_vector(uvec4 v, Key key) {
    return uint(settled_key(top_key(v.xy)) == key) + 2u * uint(settled_key(top_key(v.zw)) == key);
}

#else

#if ELEMENT_BYTES == 4

uint equal_in_word(uint word, Key key) { return uint(settled_key_of_bits(word) == key); }

#else

// One key stands for all NaNs.
const Key KEY_OF_NANS = OMIT_NAN ? 2u * NAN_PATTERNS_LOW : KEY_MASK - 2u * NAN_PATTERNS_LOW;

// All elements of a word at once: first the top bit of each that is equal, then these bits side by side.
uint equal_in_word(uint word, Key key) {
    uint equal;
    if (KEYS == KEYS_FLOAT && key == KEY_OF_NANS) {
        equal = (word & ~SIGN_BITS) + NAN_PATTERNS_LOW * LOWEST_BITS;
    } else {
        uint differ = ordered_word(word) ^ ((key - (ROTATION >> TOP_SHIFT)) & KEY_MASK) * LOWEST_BITS;
        equal = ~(((differ & ~SIGN_BITS) + ~SIGN_BITS) | differ);
    }
    equal &= SIGN_BITS;
    return ELEMENT_BYTES == 1 ? ((equal >> 7) * 0x10204080u) >> 28 : (equal >> 15 | equal >> 30) & 3u;
}

#endif

uint equal_in_vector(uvec4 v, Key key) {
    return equal_in_word(v.x, key) | equal_in_word(v.y, key) << ELEMENTS_PER_WORD |
        equal_in_word(v.z, key) << (2u * ELEMENTS_PER_WORD) | equal_in_word(v.w, key) << (3u * ELEMENTS_PER_WORD);
}

#endif

// What an invocation compares with the best of all that share its output, as far as they told each other: a key's
// highest word or, of narrow keys, the key above the highest bits that ranks differ in.
#if ELEMENT_BYTES == 8
uint bound_word(Key key, uint rank) { return key.y; }
#elif ELEMENT_BYTES == 4
uint bound_word(Key key, uint rank) { return key; }
#else
uint bound_word(Key key, uint rank) {
    if (rank == 0u) return key << TOP_SHIFT; // of no position
    uint place = TAKE_LAST ? rank - 1u : rank + reduce_count; // less than reduce_count, but for ranks that no position has
    int left_out = max(findMSB(reduce_count) + 1 - TOP_SHIFT, 0);
    return key << TOP_SHIFT | min(place >> left_out, (1u << TOP_SHIFT) - 1u);
}
#endif

shared uint shared_bounds[WORKGROUP];

// A word has no room for a key of four bytes and a rank: there, one of the invocations that share an output leads, and the
// others know its best, if they are so many that this is worth its time.
#define HAS_LEADERS (SUBGROUPS && ELEMENT_BYTES == 4)
#if HAS_LEADERS
shared uint shared_leaders[WORKGROUP]; // by the place of the output
#endif

struct Best {
    Key key;
    uint rank, place;
#if SUBGROUPS
    uint vector, hits; // with KEPT_VECTORS: the first vector, and which of them have the key
    Tile tile;
#endif
};

#if SUBGROUPS
// Returns the best rank that elements [from, until] of a run could have, or more. They share their coordinates in the
// dimensions outside of the first one along which they extend; inside of that one they may be anywhere.
uint most_rank(Tile tile, uint from, uint until) {
    uint first = number_in_row(from), last = number_in_row(until), position = tile.position, inside = 0u;
    if (RUNS_ARE_PLANES) {
        uint column = first, row = divided(column, innermost), end = column + (last - first);
        if (end >= innermost.size) {
            if (!first_is_best(second)) row += divided(end, innermost);
            column = 0u;
            end = innermost.size - 1u;
        }
        return rank_of(position + row * second.step + (first_is_best(innermost) ? column : end) * innermost.step);
    }
    for (uint place = 0u; place < reaches(); place++) {
        RunDim dim = reach_dims[place];
        uint begin = divided(first, dim), end = divided(last, dim);
        position += (first_is_best(dim) ? begin : end) * dim.step;
        inside = best_inside[place];
        if (begin != end) break;
    }
    return rank_of(position + inside);
}

// The same for vectors [first, last].
uint most_rank_of_vectors(Tile tile, uint first, uint last) {
    uint begin = max(first * ELEMENTS_PER_VECTOR, tile.begin), end = min((last + 1u) * ELEMENTS_PER_VECTOR, tile.end);
    return most_rank(tile, begin - tile.begin, end - 1u - tile.begin);
}
#endif

#if MAY_HAVE_STEPS
// Returns a bit for each element of a vector: whether it is the row's. The vector starts with `first`.
uint row_of_vector(Tile tile, uint first) {
    uint every = 0u;
    [[unroll]] for (uint element = 0u; element < ELEMENTS_PER_VECTOR; element += ROW_STEP) every |= 1u << element;
    uint before = (first % ROW_STEP + ROW_STEP - tile.begin % ROW_STEP) % ROW_STEP; // elements of a step
    return every << (ROW_FIRST + ROW_STEP - before) % ROW_STEP;
}
#endif

// Returns this rank, or that of the best element of a vector with this key where that is better and no other
// invocation knows a better one.
uint better_rank(Tile tile, uint vector, Key key, uint rank, uint bound) {
    // Where vectors are kept, few are asked for. Software drivers divide slowly, and few of wide elements are refused.
    const bool refuses = SUBGROUPS != 0 ? KEPT_VECTORS == 0u : ELEMENT_BYTES < 4;
    bool first_wins = first_is_best(innermost);
    uint first = vector * ELEMENTS_PER_VECTOR, element = !ALIGNED && first < tile.begin ? tile.begin - first : 0u;
    InRun found = InRun(0u, 0u);
    bool in_row = false;
    if (refuses) {
        uint most;
#if SUBGROUPS
        if (!RUNS_ARE_PLANES) {
            most = most_rank_of_vectors(tile, vector, vector);
            if (most < rank || bound_word(key, most) < bound) return rank;
        } else
#endif
        {
            found = place_in_run(tile, first + element - tile.begin);
            in_row = found.left >= ELEMENTS_PER_VECTOR;
            most = rank_of(found.position + (first_wins ? 0u : (ELEMENTS_PER_VECTOR - 1u) * innermost.step));
            if (in_row && (most < rank || bound_word(key, most) < bound)) return rank;
        }
    }
    uint equal = equal_in_vector(input_vectors[vector], key);
#if MAY_HAVE_STEPS
    if (ROW_STEP > 1u) equal &= row_of_vector(tile, first);
#endif
    if (!ALIGNED) {
        equal &= 0xffffffffu << element;
        if (tile.end - first < ELEMENTS_PER_VECTOR) equal &= (1u << (tile.end - first)) - 1u;
    }
    while (equal != 0u) {
        // Of the elements in one row of the innermost dimension, only the first or the last can win.
        if (!in_row) {
            element = findLSB(equal);
            found = place_in_run(tile, first + element - tile.begin);
        }
        uint left = found.left * ROW_STEP, row = left < ELEMENTS_PER_VECTOR ? ((1u << left) - 1u) << element : 0xffffffffu;
        uint winner = first_wins ? findLSB(equal & row) : findMSB(equal & row);
        uint place = first + element - tile.begin, further = number_in_row(place + (winner - element)) - number_in_row(place);
        rank = max(rank, rank_of(found.position + further * innermost.step));
        equal &= ~row;
    }
    return rank;
}

// Which of a batch's vectors have an element of this key: a bit for each.
uint hits_of(Batch batch, Key key) {
    uint hits = uint(settled_key(batch.top0) == key) | uint(settled_key(batch.top1) == key) << 1 |
        uint(settled_key(batch.top2) == key) << 2 | uint(settled_key(batch.top3) == key) << 3;
    return hits & ((1u << batch.count) - 1u);
}

// The same for vectors `lanes` apart, a bit of `hits` for each: vectors are loaded again, since few are asked for.
uint best_of_hits(Tile tile, uint vector, uint hits, Key key, uint rank, uint bound) {
    while (hits != 0u) {
        rank = better_rank(tile, min(vector + findLSB(hits) * lanes, tile.last), key, rank, bound);
        hits &= hits - 1u;
    }
    return rank;
}

Best nobody(uint place) {
    Best best;
    best.key = KEY_LEAST;
    best.rank = 0u;
    best.place = place;
#if SUBGROUPS
    best.hits = 0u;
#endif
    if (KEPT_VECTORS != 0u) return best;
    workgroup_barrier(); // until all have read what was there before
    shared_bounds[gl_LocalInvocationIndex] = 0u;
    shared_keys[gl_LocalInvocationIndex] = KEY_LEAST;
    shared_ranks[gl_LocalInvocationIndex] = 0u;
#if HAS_LEADERS
    if ((invocation() & (lanes - 1u)) == 0u) shared_leaders[place] = gl_LocalInvocationIndex; // one of the same output
#endif
    workgroup_barrier();
    return best;
}

#if HAS_LEADERS || !SUBGROUPS
// Tells the others. Whoever reads the old key with the new rank has what the new key beats; never may it be the new key with
// the old rank.
void publish(Best best) {
    uint self = gl_LocalInvocationIndex;
    shared_ranks[self] = 0u;
    shared_barrier();
    shared_keys[self] = best.key;
    shared_barrier();
    shared_ranks[self] = best.rank;
    shared_barrier();
}
#endif

#if HAS_LEADERS
// Returns the rank that the leader of an output knows for this key, or 0.
uint known_rank(uint place, Key key) {
    shared_barrier();
    uint leader = shared_leaders[place];
    Key known_key = shared_keys[leader];
    shared_barrier(); // the rank is read after the key: a later one is that of a greater key or the same
    uint rank = shared_ranks[leader];
    return known_key == key ? rank : 0u;
}

void lead(Best best) {
    publish(best);
    shared_leaders[best.place] = gl_LocalInvocationIndex;
}
#endif

void consider(inout Best best, Batch batch, Tile tile, uint step) {
    Key key = greatest_of(batch);
    if (key_less(key, best.key)) return;
    uint bound = shared_bounds[best.place];
    if (bound_word(key, 0xffffffffu) < bound) return;
#if SUBGROUPS
    uint most = most_rank_of_vectors(tile, batch.vector, batch.vector + 3u * lanes);
    if (bound_word(key, most) < bound || (key == best.key && most < best.rank)) return;
#endif
    if (key_less(best.key, key)) {
        best.key = key;
        best.rank = 0u;
    }
#if HAS_LEADERS
    uint known = WHOLE_SUBGROUPS ? known_rank(best.place, key) : 0u;
    best.rank = max(best.rank, known);
    if (most < best.rank) return;
#endif
    best.rank = best_of_hits(tile, batch.vector, hits_of(batch, key), key, best.rank, bound);
    bound = max(bound, bound_word(best.key, best.rank));
    if (bound != shared_bounds[best.place]) atomicMax(shared_bounds[best.place], bound);
#if HAS_LEADERS
    if (WHOLE_SUBGROUPS && best.rank > known) lead(best);
#endif
}

#if !SUBGROUPS
// Where elements [first, last] of a dimension are, from the least to the most.
uvec2 reach_of(uint first, uint last, uint step) {
    return int(step) > 0 ? uvec2(first, last) * step : uvec2(last, first) * step;
}

// Whether a batch may have the winner: it has a greater key than this candidate, or the same at a place that may be better.
bool may_win(Key best_key, uint best_rank, Batch batch, Tile tile) {
    Key key = greatest_of(batch);
    uint first = max(batch.vector * ELEMENTS_PER_VECTOR, tile.begin) - tile.begin;
    uint last = min((batch.vector + 3u * lanes + 1u) * ELEMENTS_PER_VECTOR, tile.end) - 1u - tile.begin;
    uint run_dims = reduced_dims - dims_outside_run, first_place = first, last_place = last;
    // Along a dimension the batch extends from place to place if it is at one place outside of it, else anywhere.
    uint first_row = divided(first_place, innermost), last_row = divided(last_place, innermost);
    bool in_row = first_row == last_row;
    uvec2 reach = tile.position + uvec2(least_between, most_between);
    reach += reach_of(in_row ? first_place : 0u, in_row ? last_place : innermost.size - 1u, innermost.step);
    if (run_dims > 1u) {
        uint first_plane = divided(first_row, second), last_plane = divided(last_row, second);
        bool in_plane = first_plane == last_plane;
        reach += reach_of(in_plane ? first_row : 0u, in_plane ? last_row : second.size - 1u, second.step);
    }
    if (run_dims > 2u) reach += reach_of(divided(first, outermost), divided(last, outermost), outermost.step);
    return key_less(best_key, key) || (key == best_key && rank_of(TAKE_LAST ? reach.y : reach.x) > best_rank);
}

// Gives the best that is known of all invocations that share the output. Only workgroups of one subgroup tell each other:
// lavapipe takes a barrier of memory for one of execution, which the subgroups of others would reach at different times.
void share(Best best, inout Key key, inout uint rank) {
    if (!ONE_SUBGROUP) {
        key = best.key;
        rank = best.rank;
        return;
    }
    publish(best);
    uint first = gl_LocalInvocationIndex & ~(lanes - 1u);
    for (uint i = first; i < first + lanes; i++) {
        Key other = shared_keys[i];
        shared_barrier();
        keep_better(key, rank, other, shared_ranks[i]);
    }
}
#endif

#if SUBGROUPS
void consider_kept(inout Best best, Kept kept, Tile tile) {
    best.key = greatest_of(kept);
    best.hits = hits_of(kept.first, best.key) | hits_of(kept.second, best.key) << BATCH_VECTORS |
        hits_of(kept.third, best.key) << (2 * BATCH_VECTORS);
    best.vector = kept.first.vector;
    best.tile = tile;
}
#endif

// Gives all invocations that share the output the best key and its rank.
void settle(Best best, uint first_tile, uint base, uint lane, uint steps_per_tile, out Key key, out uint rank) {
    key = exchange_near(lanes, best.key);
    rank = best.key == key ? best.rank : 0u;
#if SUBGROUPS
    // Only winners find positions.
    if (KEPT_VECTORS != 0u && best.key == key) {
        rank = best_of_hits(best.tile, best.vector, best.hits, key, 0u, 0u);
    }
#endif
    exchange_best(lanes, key, rank);
}
