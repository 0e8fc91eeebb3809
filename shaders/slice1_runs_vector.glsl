// Runs of elements of 16 bytes.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    uint left;
    output_vectors[bases.y + vector] = input_vectors[offset_in_run(vector, bases.x, left)];
}
