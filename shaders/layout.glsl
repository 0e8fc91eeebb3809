// Where the elements of a strided array lie. Whoever includes this has defined layout_word(i).
//
// A layout starts with its copied or kept dimensions: size, input stride, output stride. Row-major, strides
// modulo 2^32, so negative ones need no care.

// Offsets of element number `number` in the input and in the output, from those of number 0.
uvec2 offsets_of(uint number, uint dims, uvec2 offsets) {
    for (uint dim = dims; dim-- > 0u;) {
        uint word = dim * COPIED_DIM_WORDS;
        uint coordinate = number;
        if (dim > 0u) { // the outermost needs no division, which is slow
            uint size = layout_word(word), outer = number / size;
            coordinate -= outer * size;
            number = outer;
        }
        offsets += coordinate * uvec2(layout_word(word + 1u), layout_word(word + 2u));
    }
    return offsets;
}
