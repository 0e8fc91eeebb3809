// Outputs of elements of 4 or 8 bytes, one at a time.
void fold_tile(Tile tile) {}

uint position_at(Tile tile, uvec3 place, uint output_number) {
    uint at = tile.start + dot_of(place, tile.strides), best = 0u;
    Key key = settled_key_of_bits(element_at(at));
    for (uint position = 1u; position < COUNT; position++) {
        at += tile.position_stride;
        Key other = settled_key_of_bits(element_at(at));
        bool better = TAKE_LAST ? !key_less(other, key) : key_less(key, other);
        key = better ? other : key;
        best = better ? position : best;
    }
    return best;
}
