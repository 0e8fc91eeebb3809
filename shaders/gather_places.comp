// Turns an array of indices into places: how far from the input's first element lies the one that each index means.
// Several arrays of indices are added up, one dispatch each. The first index that is out of bounds is noted, and counts
// as 0.
//
// Compile-time: ELEMENT_BYTES of an index.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"

layout(std430, binding = BINDING_INPUT) readonly restrict buffer Numbers { uint numbers[]; };
layout(std430, binding = BINDING_PLACES) restrict buffer Places { uint places[]; };
layout(std430, binding = BINDING_FAULTS) restrict buffer Faults { uint faults[]; };
layout(std430, binding = BINDING_WORKSPACE) readonly restrict buffer Workspace { uint workspace[]; };

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

// Returns the index at `at`, counted from the front; `valid` tells whether it is within the size.
uint index_at(uint at, out bool valid) {
#if ELEMENT_BYTES == 8
    uint low = numbers[2u * at], high = numbers[2u * at + 1u];
#else
    uint low = numbers[at], high = SIGNED_ELEMENTS && low >> 31 != 0u ? 0xffffffffu : 0u;
#endif
    bool negative = SIGNED_ELEMENTS && high >> 31 != 0u;
    // What is too far below 0 does not wrap, and stays above the size.
    uint number = negative ? low + size : low;
    valid = high == (negative ? 0xffffffffu : 0u) && number < size;
    return number;
}

void main() {
    uint begin = gl_WorkGroupID.x * items_per_workgroup;
    uint end = min(begin + items_per_workgroup, items);
    for (uint item = begin + gl_LocalInvocationID.x; item < end; item += WORKGROUP) {
        bool valid;
        uint number = index_at(offsets_of(item, dims, uvec2(input_base, 0u)).x, valid);
        if (!valid) {
            atomicMin(faults[fault_word], item);
            number = 0u;
        }
        uint place = number * stride;
        if ((flags & FLAG_ADD) != 0u) place += places[item];
        places[item] = place;
    }
}
