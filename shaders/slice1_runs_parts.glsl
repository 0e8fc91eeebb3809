// Runs of elements of less than 16 bytes: of a vector at an end of the run only the run's elements are stored.
//
// The including file defines PER_VECTOR, store_part and, with WHOLE_VECTORS, gather: a vector of elements, of which
// the first `left` begin at `first` and the others at `next`; else collect. Elements beyond the input are arbitrary.
//
// Some drivers execute what a condition excludes, with all invocations masked. Where WRITTEN says so, a step writes whole
// vectors only, or whole vectors inside a row; another one then writes the vectors in which a row or the run starts or ends.

#if PARTED
// In strips, workgroups go from row to row first, so that memory which rows share is read again while a cache holds it. The
// rows are those of one dimension of the run, with all that is inside of it. A strip has `boundary_step` vectors of each, and
// a workgroup takes as many rows of a strip as make up its size. The layout ends with the groups of rows, their inverse, the
// rows and the elements of one. Returns the vector that is item `item` in this order, and whether it is inside a row.
uint vector_in_strip(uint item, uint skipped, out bool exists) {
    uint word = dims * RUN_DIM_WORDS, lane = item % WORKGROUP, rows = layout_word(word + 2u), row = layout_word(word + 3u);
    uint group, strip;
    uint outer = divide(item / WORKGROUP, layout_word(word), layout_word(word + 1u), group);
    outer = divide(outer, vectors_per_run, vectors_per_run_inverse, strip);
    int width_bits = findLSB(boundary_step);
    uint place = group * (WORKGROUP >> width_bits) + (lane >> width_bits);
    uint begin = skipped + (outer * rows + place) * row;
    uint vector = (begin + PER_VECTOR - 1u) / PER_VECTOR + (strip << width_bits) + (lane & (boundary_step - 1u));
    exists = place < rows && (vector + 1u) * PER_VECTOR <= begin + row;
    return vector;
}
#endif

void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint skipped = bases.y % PER_VECTOR; // elements of the first vector before the run's start
    bool wanted = true;
#if PARTED
    if (WRITTEN == WRITTEN_AT_BOUNDARIES) {
        uint boundary = skipped + vector * boundary_step;
        vector = boundary / PER_VECTOR;
        wanted = boundary % PER_VECTOR != 0u;
    }
    if (WRITTEN == WRITTEN_IN_STRIPS) vector = vector_in_strip(vector, skipped, wanted);
#endif
    uint begin = vector == 0u ? skipped : 0u;
    uint number = vector * PER_VECTOR + begin - skipped;
    uint end = min(begin + run - min(run, number), PER_VECTOR);
    uint target = bases.y / PER_VECTOR + vector;
    Place place = place_in_run(number, bases.x);
#if WHOLE_VECTORS
    // Rows are longer than vectors, so no run's first vector crosses to the next row. It is gathered from before the run.
    uint next = 0u, left = place.left;
    if (WRITTEN == WRITTEN_INSIDE_ROWS) {
        wanted = left >= PER_VECTOR;
        left = PER_VECTOR;
    } else if (left < end) {
        next = place_in_run(number + left, bases.x).source;
    }
    uvec4 elements = gather(place.source - begin * input_stride, next, left, input_stride);
#else
    uvec4 elements = collect(place, number, begin, bases.x, input_stride);
#endif
    if (end - begin == PER_VECTOR && wanted)
        output_vectors[target] = elements;
    else if ((WRITTEN == WRITTEN_ALL || WRITTEN == WRITTEN_AT_BOUNDARIES) && begin < end && wanted)
        store_part(target, elements, begin, end);
}
