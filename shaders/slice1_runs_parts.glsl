// Elements of less than 16 bytes: a vector is gathered if it is one stretch of the innermost dimension, else copied
// element by element.
//
// Whoever includes this has defined gather and copy_elements.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint skipped = bases.y % PER_VECTOR; // elements of the run's first vector that lie before it
    uint place = vector == 0u ? skipped : 0u;
    uint number = vector * PER_VECTOR + place - skipped;
    uint count = min(PER_VECTOR - place, run - min(run, number));
    uint target = bases.y / PER_VECTOR + vector;
#if WHOLE_VECTORS
    if (count == PER_VECTOR) {
        uint left;
        uint source = offset_in_run(number, bases.x, left);
        if (left >= PER_VECTOR) {
            output_vectors[target] = gather(source, input_stride);
            count = 0u;
        }
    }
#endif
    copy_elements(number, count, bases.x, target, place, input_stride);
}
