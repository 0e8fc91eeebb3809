// The offsets of the elements of strided arrays. The including file defines layout_word(i).
//
// A layout starts with the copied or kept dimensions in row-major order: size, input stride, output stride. Strides
// wrap at 2^32, so negative ones need no special case.

#ifndef KEPT_WORD
#define KEPT_WORD(dim) dim * COPIED_DIM_WORDS
#endif

// Splits `number`, a position in this and the outer dimensions: returns the coordinate in this one, whose size is at
// `word`, and keeps the position in the outer ones. The outermost dimension needs no division, which is slow.
uint take_coordinate(inout uint number, bool outermost, uint word) {
    uint coordinate = number;
    if (!outermost) {
        uint size = layout_word(word), outer = number / size;
        coordinate -= outer * size;
        number = outer;
    }
    return coordinate;
}

// Returns the offsets of element `number` in the input and in the output; `offsets` are those of element 0.
uvec2 offsets_of(uint number, uint dims, uvec2 offsets) {
    for (uint dim = dims; dim-- > 0u;) {
        uint word = KEPT_WORD(dim);
        uint coordinate = take_coordinate(number, dim == 0u, word);
        offsets += coordinate * uvec2(layout_word(word + 1u), layout_word(word + 2u));
    }
    return offsets;
}
