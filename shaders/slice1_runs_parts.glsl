// Runs of elements of less than 16 bytes: of a vector at an end of the run only the run's elements are stored.
//
// The including file defines PER_VECTOR, store_part and, with WHOLE_VECTORS, gather: a vector of elements, of which
// the first `left` begin at `first` and the others at `next`; else collect. Elements beyond the input are arbitrary.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint skipped = bases.y % PER_VECTOR; // elements of the first vector before the run's start
    uint begin = vector == 0u ? skipped : 0u;
    uint number = vector * PER_VECTOR + begin - skipped;
    uint end = min(begin + run - min(run, number), PER_VECTOR);
    uint target = bases.y / PER_VECTOR + vector;
    Place place = place_in_run(number, bases.x);
#if WHOLE_VECTORS
    // Rows are longer than vectors, so no run's first vector crosses to the next row. It is gathered from before the run.
    uint next = 0u;
    if (place.left < end) next = place_in_run(number + place.left, bases.x).source;
    uvec4 elements = gather(place.source - begin * input_stride, next, place.left, input_stride);
#else
    uvec4 elements = collect(place, number, begin, bases.x, input_stride);
#endif
    if (end - begin == PER_VECTOR)
        output_vectors[target] = elements;
    else if (begin < end)
        store_part(target, elements, begin, end);
}
