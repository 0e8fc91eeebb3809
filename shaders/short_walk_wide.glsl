// Walks of elements of 4 or 8 bytes.
struct Best {
    Key key;
    uint position;
};

Best best_of_run(Best best, Run run, uint at, uint position) {
    for (uint i = 0u; i < run.count; i++) {
        Key key = settled_key_of_bits(element_at(at));
        bool before = TAKE_LAST ? position > best.position : position < best.position;
        bool better = key_less(best.key, key) || (before && !key_less(key, best.key));
        best.key = better ? key : best.key;
        best.position = better ? position : best.position;
        at += run.stride;
        position += run.step;
    }
    return best;
}

void fold_tile(Tile tile) {}

uint position_at(Tile tile, uvec3 place, uint output_number) {
    Best best = Best(KEY_LEAST, TAKE_LAST ? 0u : 0xffffffffu);
#define FOLD_RUN(at, position) best = best_of_run(best, run, at, position);
    Run run = run_of(tile.walk);
    FOR_EACH_RUN(FOLD_RUN, tile.start + dot_of(place, tile.strides))
    return best.position;
}
