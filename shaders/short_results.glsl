// Writes the position that was found for an output of a tile.
layout(std430, binding = BINDING_INDICES) writeonly buffer IndexPairs { uvec2 index_pairs[]; };

// Whether folds write what they find themselves, or the position of each output is asked for in turn.
#define FOLDS_WRITE (DIRECT && (COLUMNS == COLUMNS_PACKED || COLUMNS == COLUMNS_WALKED_PACKED))

void write_index(uint target, uint position, uvec2 weight) {
    uint high, low;
    umulExtended(position, weight.x, high, low);
    if (flagged(FLAG_WIDE_INDICES)) {
        uint carry;
        low = uaddCarry(low, index_base_low, carry);
        index_pairs[target] = uvec2(low, high + position * weight.y + index_base_high + carry);
    } else {
        indices[target] = low + index_base_low;
    }
}

#if COLUMNS >= COLUMNS_WALKED
#define OFFSET_OF_POSITION reduced_offset(position, reduced_dims)
#else
#define OFFSET_OF_POSITION position * tile.step
#endif

// `distance`: of the output from the tile's first.
void write_output(Tile tile, uvec3 place, uint distance, uint position) {
    uint target = tile.offsets.y + distance;
    write_index(target, position, tile.weight);
    if (flagged(FLAG_WITH_VALUES))
        write_value(tile.offsets.x + dot_of(place, input_strides()) + OFFSET_OF_POSITION, target);
}
