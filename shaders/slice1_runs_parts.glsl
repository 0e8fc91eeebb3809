// Runs of elements of less than 16 bytes: vectors at the ends of a run are copied element by element.
//
// The including file defines gather, collect and copy_elements.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint skipped = bases.y % PER_VECTOR; // elements of the first vector before the run's start
    uint first = vector == 0u ? skipped : 0u;
    uint number = vector * PER_VECTOR + first - skipped;
    uint count = min(PER_VECTOR - first, run - min(run, number));
    uint target = bases.y / PER_VECTOR + vector;
    if (count < PER_VECTOR) {
        copy_elements(number, count, bases.x, target, first, input_stride);
        return;
    }
    Place place = place_in_run(number, bases.x);
#if WHOLE_VECTORS
    if (place.left >= PER_VECTOR) {
        output_vectors[target] = gather(place.source, input_stride);
        return;
    }
#endif
    output_vectors[target] = collect(place, number, bases.x, input_stride);
}
