// Copies elements of less than 16 bytes into one run, contiguous elements of the output, from rows that are no shorter than
// vectors: an invocation gathers aligned vectors of the output, each from the row in which it starts, and from the next one
// if it ends there.
//
// Compile-time: ELEMENT_BYTES; STEP, the distance of a row's narrow elements in the input, or 0 for any.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_turns.glsl"
#include "slice1_divide.glsl"
#include "slice1_counted.glsl"

#define WRITTEN WRITTEN_ALL
#define WHOLE_VECTORS 1
#include "elements.glsl"

// The elements of a vector that are the run's, and where they lie.
struct Part {
    uint begin; // of the vector's elements, those of the run: less than all in its first and in its last vector
    uint end;
    uint source; // of the vector's first element, as if its row had begun before
    uint left;   // elements of this row, the first included
    uint next;   // where the next row starts
};

Part part_of(uint vector, bool inside) {
    Part part;
    uint before = output_base % PER_VECTOR; // in the run's first vector
    part.begin = !inside && vector == 0u ? before : 0u;
    uint number = vector * PER_VECTOR + part.begin - before;
    part.end = inside ? PER_VECTOR : min(part.begin + elements - number, PER_VECTOR);
    uint count = first_count + number - first_element, row = size_of(DIMS - 1u);
    // Where no dimension is near, a row ends with the plane, and a share of the run has one end at most.
    if (NEAR_DIMS == 0u)
        part.left = count < plane_end ? plane_end - count : row;
    else
        part.left = row - (count - small_quotient(count, DIMS - 1u) * row);
    // The first vector of a run is in its first row.
    part.source = source_of(count, inside) - part.begin * stride_of(DIMS - 1u);
    part.next = source_of(count + part.left, inside);
    return part;
}

// Copies a workgroup's vectors. Where it is inside, they are whole and in one plane.
void copy_vectors(uint begin, uint end, bool inside) {
    for (uint first = begin; first < end; first += WORKGROUP) {
        uint vector = first + gl_LocalInvocationID.x;
        Part part = part_of(inside ? vector : min(vector, end - 1u), inside);
        uvec4 found = gather(part.source, part.next, part.left, stride_of(DIMS - 1u));
        if (!inside && vector >= end) continue;
        uint target = output_base / PER_VECTOR + vector;
        if (part.end - part.begin == PER_VECTOR)
            output_vectors[target] = found;
        else
            store_part(target, found, part.begin, part.end);
    }
}

void main() {
    uint begin = share_of_workgroup() * vectors_per_workgroup, end = min(begin + vectors_per_workgroup, vectors);
    find_plane(max(begin * PER_VECTOR, output_base % PER_VECTOR) - output_base % PER_VECTOR);
    bool whole = begin != 0u && end != vectors && end - begin == vectors_per_workgroup;
    if (whole && first_count + vectors_per_workgroup * PER_VECTOR <= plane_end)
        copy_vectors(begin, end, true);
    else
        copy_vectors(begin, end, false);
}
