// Runs of elements of 16 bytes.
void copy_vector(uint vector, uvec2 bases, uint input_stride) {
    output_vectors[bases.y + vector] = input_vectors[place_in_run(vector, bases.x).source];
}
