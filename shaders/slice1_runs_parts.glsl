// Runs of elements of less than 16 bytes: a vector whose elements all lie along the innermost dimension is gathered;
// any other is copied element by element.
//
// The including file defines gather and copy_elements.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint skipped = bases.y % PER_VECTOR; // elements of the first vector before the run's start
    uint place = vector == 0u ? skipped : 0u;
    uint number = vector * PER_VECTOR + place - skipped;
    uint count = min(PER_VECTOR - place, run - min(run, number));
    uint target = bases.y / PER_VECTOR + vector;
#if WHOLE_VECTORS
    if (count == PER_VECTOR) {
        Place found = place_in_run(number, bases.x);
        if (found.left >= PER_VECTOR) {
            output_vectors[target] = gather(found.source, input_stride);
            count = 0u;
        }
    }
#endif
    copy_elements(number, count, bases.x, target, place, input_stride);
}
