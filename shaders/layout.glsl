// Where the elements of a strided array lie. Whoever includes this has defined layout_word(i).
//
// A layout starts with its copied or kept dimensions: size, input stride, output stride. Row-major, strides
// modulo 2^32, so negative ones need no care.

// Takes the coordinate along one dimension, whose size is at `word`, off `number`: the position among this and the outer
// dimensions becomes that among the outer ones. The outermost needs no division, which is slow.
uint take_coordinate(inout uint number, bool outermost, uint word) {
    uint coordinate = number;
    if (!outermost) {
        uint size = layout_word(word), outer = number / size;
        coordinate -= outer * size;
        number = outer;
    }
    return coordinate;
}

// Offsets of element number `number` in the input and in the output, from those of number 0.
uvec2 offsets_of(uint number, uint dims, uvec2 offsets) {
    for (uint dim = dims; dim-- > 0u;) {
        uint word = dim * COPIED_DIM_WORDS;
        uint coordinate = take_coordinate(number, dim == 0u, word);
        offsets += coordinate * uvec2(layout_word(word + 1u), layout_word(word + 2u));
    }
    return offsets;
}
