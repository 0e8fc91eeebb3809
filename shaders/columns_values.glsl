// Copies the chosen elements of a group's columns, bit for bit: together they are a vector.
layout(std430, binding = BINDING_VALUES) writeonly buffer ValueVectors { uvec4 value_vectors[]; };

#if VECTOR_WORDS == 2
#define NO_WORDS uint[](0u, 0u)
#else
#define NO_WORDS uint[](0u, 0u, 0u, 0u)
#endif

// Adds the element at `offset`, the chosen one of a column, to the words of values.
void add_value(inout uint words[VECTOR_WORDS], uint column, uint offset) {
#if ELEMENT_BYTES == 8
    uvec2 bits = load_bits(offset);
    words[2u * column] = bits.x;
    words[2u * column + 1u] = bits.y;
#elif ELEMENT_BYTES == 4
    words[column] = load_bits(offset);
#else
    uint bits = load_bits(offset) & ((1u << ELEMENT_BITS) - 1u);
    words[column / ELEMENTS_PER_WORD] |= bits << (column % ELEMENTS_PER_WORD * ELEMENT_BITS);
#endif
}

// Writes the values of a whole group to `offsets.y` and from there on, where a word begins; column 0 is at `offsets.x`.
void write_values(Best best, uvec2 offsets) {
    uint step = column_strides().x, words[VECTOR_WORDS] = NO_WORDS;
    if (ONE_STRIDE) {
        uint stride = layout_word(reduced_word(0u) + 1u);
        [[unroll]] for (uint i = 0u; i < COLUMNS; i++) add_value(words, i, offsets.x + i * step + PLACE(i) * stride);
    } else {
        // The code of several dimensions is long: a loop has it once.
        uint places[COLUMNS];
        [[unroll]] for (uint i = 0u; i < COLUMNS; i++) places[i] = PLACE(i);
        for (uint i = 0u; i < COLUMNS; i++)
            add_value(words, i, offsets.x + i * step + reduced_offset(places[i], reduced_dims));
    }
#if VECTOR_WORDS == 2
    [[unroll]] for (uint i = 0u; i < 2u; i++) values[offsets.y * 2u / COLUMNS + i] = words[i];
#else
    if (offsets.y % COLUMNS == 0u) {
        value_vectors[offsets.y / COLUMNS] = uvec4(words[0], words[1], words[2], words[3]);
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; i++) values[offsets.y * 4u / COLUMNS + i] = words[i];
    }
#endif
}

// Writes those of columns [first_column, end_column), wherever they are.
void write_some_values(Best best, uvec2 offsets, uint first_column, uint end_column) {
    uvec2 strides = column_strides();
    uint places[COLUMNS];
    [[unroll]] for (uint i = 0u; i < COLUMNS; i++) places[i] = PLACE(i);
    for (uint column = first_column; column < end_column; column++) {
        uvec2 at = offsets + column * strides;
        write_value(at.x + reduced_offset(places[column], reduced_dims), at.y);
    }
}
