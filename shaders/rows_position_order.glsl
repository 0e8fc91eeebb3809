// Rows that are read in the order of their positions: an invocation remembers at which vector its value last grew, and
// the winner's vector is searched at the end. Of keys of two words it remembers the batch, and searches that, too: to
// find the vector each time takes more time in long rows. (SwiftShader takes 47 s to compile a second load of a batch.)

void prepare() {}

uvec2 begin_of_run(uint run_number) {
    return uvec2(ONE_RUN ? 0u : reduced_offset(run_number, REDUCED_DIMS - 1u), run_number * positions_of_run());
}

struct Best {
    Key key;
    uint step;           // of the vector or batch that has it
    bool found;          // the invocation read at least one vector
#if SUBGROUPS
    Kept kept;           // with KEPT_VECTORS
    Tile tile;
#endif
};

Best nobody(uint place) {
    Best best;
    best.key = KEY_LEAST;
    best.step = 0u;
    best.found = false;
    return best;
}

#if KEY_WORDS == 1
// Returns which vector of a batch is the first (with TAKE_LAST, the last) with this key, its greatest.
uint place_in_batch(Batch batch, Key key) {
    if (TAKE_LAST) {
        if (batch.count > 3u && settled_key(batch.top3) == key) return 3u;
        if (batch.count > 2u && settled_key(batch.top2) == key) return 2u;
        return uint(batch.count > 1u && settled_key(batch.top1) == key);
    }
    if (settled_key(batch.top0) == key) return 0u;
    if (settled_key(batch.top1) == key) return 1u;
    return settled_key(batch.top2) == key ? 2u : 3u;
}
#endif

// Steps arrive in ascending order of positions.
void consider(inout Best best, Batch batch, Tile tile, uint step) {
    Key key = greatest_of(batch);
    bool better = TAKE_LAST ? !key_less(key, best.key) : key_less(best.key, key);
#if KEY_WORDS == 1
    if (better) {
        best.key = key;
        best.step = step + place_in_batch(batch, key);
    }
#else
    best.key = better ? key : best.key;
    best.step = better ? step : best.step;
#endif
    best.found = true;
}

#if SUBGROUPS

void consider_kept(inout Best best, Kept kept, Tile tile) {
    best.key = greatest_of(kept);
    best.found = true;
    best.kept = kept;
    best.tile = tile;
}

// Returns which of the vectors kept, `lanes` apart, is the first (with TAKE_LAST, the last) with this key.
uint place_of(Kept kept, Key key) {
    uint place = TAKE_LAST ? 0u : KEPT_VECTORS - 1u;
#define IS_AT(top, at) if (at < KEPT_VECTORS && settled_key(top) == key) place = at;
    if (TAKE_LAST) {
        IS_AT(kept.first.top1, 1u) IS_AT(kept.first.top2, 2u) IS_AT(kept.first.top3, 3u)
        IS_AT(kept.second.top0, 4u) IS_AT(kept.second.top1, 5u) IS_AT(kept.second.top2, 6u) IS_AT(kept.second.top3, 7u)
        IS_AT(kept.third.top0, 8u) IS_AT(kept.third.top1, 9u) IS_AT(kept.third.top2, 10u) IS_AT(kept.third.top3, 11u)
    } else {
        IS_AT(kept.third.top3, 11u) IS_AT(kept.third.top2, 10u) IS_AT(kept.third.top1, 9u) IS_AT(kept.third.top0, 8u)
        IS_AT(kept.second.top3, 7u) IS_AT(kept.second.top2, 6u) IS_AT(kept.second.top1, 5u) IS_AT(kept.second.top0, 4u)
        IS_AT(kept.first.top3, 3u) IS_AT(kept.first.top2, 2u) IS_AT(kept.first.top1, 1u) IS_AT(kept.first.top0, 0u)
    }
    return place;
}

#endif

// Gives all invocations that share the output the best key and its rank.
void settle(Best best, uint first_tile, uint base, uint lane, uint steps_per_tile, out Key key, out uint rank) {
    key = exchange_near(lanes, best.key);
    bool holder = best.found && best.key == key;
    if (KEPT_VECTORS == 0u) {
        rank = holder ? rank_of(best.step) : 0u;
        holder = exchange_near(lanes, rank) == rank && holder;
    }
    rank = 0u;
    if (holder) {
        uint vector;
        Tile tile;
#if SUBGROUPS
        if (KEPT_VECTORS != 0u) {
            tile = best.tile;
            vector = best.kept.first.vector + place_of(best.kept, key) * lanes;
        } else
#endif
        {
            uint tile_number = steps_per_tile == 1u ? best.step : best.step / steps_per_tile;
            tile = tile_of_number(first_tile + tile_number * TILES_APART, base);
            vector = tile.first + (best.step - tile_number * steps_per_tile) * lanes + lane;
#if KEY_WORDS > 1
            uint place;
            for (uint i = 0u; i < 3u; i++) {
                place = TAKE_LAST ? 3u - i : i;
                if (settled_key(vector_top(load_vector(tile, min(vector + place * lanes, tile.last)))) == key) break;
                place = TAKE_LAST ? 2u - i : i + 1u;
            }
            vector += place * lanes;
#endif
        }
        vector = min(vector, tile.last);
        uint element = vector * ELEMENTS_PER_VECTOR + find_in_vector(load_vector(tile, vector), key);
        // A neutral element has this key only if all elements have it.
        if (!ALIGNED) element = clamp(element, tile.begin, tile.end - 1u);
        // What lies between the elements of the row may then be found too: the nearest of the row is meant.
        const uint up = (TAKE_LAST ? 0u : ROW_STEP - 1u) - ROW_FIRST;
        rank = rank_of(tile.position + (element - tile.begin + up) / ROW_STEP);
    }
    exchange_best(lanes, key, rank);
}
