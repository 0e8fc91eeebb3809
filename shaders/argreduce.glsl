// Shared by all argreduce kernels: bindings, access to the layout, and writing of results.
//
// Values that vary between calls are push constants, not specialization constants: pipelines are slow to build.
layout(std430, binding = BINDING_INPUT) readonly buffer InputWords { uint input_words[]; };
layout(std430, binding = BINDING_INPUT) readonly buffer InputPairs { uvec2 input_pairs[]; };
layout(std430, binding = BINDING_INPUT) readonly buffer InputVectors { uvec4 input_vectors[]; };
layout(std430, binding = BINDING_INDICES) writeonly buffer Indices { uint indices[]; };
layout(std430, binding = BINDING_INDICES) writeonly buffer IndexPairs { uvec2 index_pairs[]; };
layout(std430, binding = BINDING_INDICES) writeonly buffer IndexVectors { uvec4 index_vectors[]; };
layout(std430, binding = BINDING_VALUES) buffer Values { uint values[]; };
layout(std430, binding = BINDING_WORKSPACE) readonly buffer Workspace { uint workspace[]; }; // written by the host

// Some drivers execute what a flag excludes, with all invocations masked: there, flags are compiled in.
bool flagged(uint flag) { return ((FIXED_FLAGS != 0u ? FIXED_FLAGS : flags) & flag) != 0u; }

// Compile-time: LAYOUT_IS_SIMPLE: it has one kept and one reduced dimension. Where a constant says so, no index of a push
// constant varies, for which NVIDIA's driver makes each dispatch take 0.3 us longer.
#ifndef LAYOUT_IS_SIMPLE
#define LAYOUT_IS_SIMPLE false
#endif
#define KEPT_DIMS (LAYOUT_IS_SIMPLE ? 1u : kept_dims)
#define REDUCED_DIMS (LAYOUT_IS_SIMPLE ? 1u : reduced_dims)

uint stored_layout_word(uint i) {
#if MEMORY_ORDER // the first words are push constants, even if there are more
    return i < uint(layout_words.length()) ? layout_words[i] : workspace[i];
#else
    return LAYOUT_IS_SIMPLE || flagged(FLAG_LAYOUT_IN_PUSH) ? layout_words[i] : workspace[i];
#endif
}

// Compile-time: LAYOUT_IN_SHARED, and LAYOUT_IS_SHARED where a constant decides. All workgroups read the layout from the
// same line of the workspace: a kernel that often does so copies it to shared memory first.
#if LAYOUT_IN_SHARED
shared uint shared_layout[SHARED_LAYOUT_WORDS];

// All invocations of the workgroup must call it.
void share_layout(uint words) {
    for (uint i = gl_LocalInvocationIndex; i < min(words, uint(SHARED_LAYOUT_WORDS)); i += WORKGROUP)
        shared_layout[i] = stored_layout_word(i);
    workgroup_barrier();
}

uint layout_word(uint i) {
    if (!(LAYOUT_IS_SHARED)) return stored_layout_word(i);
    return i < uint(SHARED_LAYOUT_WORDS) ? shared_layout[i] : workspace[i]; // push constants are fewer
}
#else
uint layout_word(uint i) { return stored_layout_word(i); }
#endif
#if MEMORY_ORDER // what each vector needs comes before the kept dimensions
#define KEPT_WORD(dim) (uint(READING_WORDS) + (uint(READING_NEAR_DIMS) + dim) * COPIED_DIM_WORDS)
#endif
#include "layout.glsl"

// The layout continues with the reduced dimensions: size, input stride, step of the index (two words).
uint reduced_word(uint dim) {
#if MEMORY_ORDER
    uint first = layout_words[READING_REDUCED_DIMS];
#else
    uint first = KEPT_DIMS * COPIED_DIM_WORDS;
#endif
    return first + dim * REDUCED_DIM_WORDS;
}

// Returns the offset of the first input element of output `number`, and the offset of that output.
uvec2 offsets_of_output(uint number) { return offsets_of(number, KEPT_DIMS, uvec2(input_base, output_base)); }

// Returns the input offset of a position in the outermost `dims` reduced dimensions.
uint reduced_offset(uint position, uint dims) {
    uint offset = 0u;
    for (uint dim = dims; dim-- > 0u;) {
        uint word = reduced_word(dim);
        uint coordinate = take_coordinate(position, dim == 0u, word);
        offset += coordinate * layout_word(word + 1u);
    }
    return offset;
}

// Returns the index of a position, or its low word where high ones are 0.
uvec2 index_of_position(uint position) {
    uvec2 index = uvec2(index_base_low, index_base_high);
#if MEMORY_ORDER
    if (reduced_word(0u) == 0u) { // positions are indices
        index.x += position;
        return index + uvec2(0u, index.x < position);
    }
#endif
    bool high_words = flagged(FLAG_HIGH_WORDS);
    for (uint dim = REDUCED_DIMS; dim-- > 0u;) {
        uint word = reduced_word(dim);
        uint coordinate = take_coordinate(position, dim == 0u, word), weight = layout_word(word + 2u);
        if (high_words) {
            uint high, low;
            umulExtended(coordinate, weight, high, low);
            high += coordinate * layout_word(word + 3u);
            index.x += low;
            index.y += high + uint(index.x < low);
        } else {
            index.x += coordinate * weight;
        }
    }
    return high_words ? index : uvec2(index.x, 0u);
}

// Copies one element bit for bit. Narrow elements share a word with elements that other invocations write.
void write_value(uint source, uint target) {
#if ELEMENT_BYTES == 8
    values[2u * target] = input_words[2u * source];
    values[2u * target + 1u] = input_words[2u * source + 1u];
#elif ELEMENT_BYTES == 4
    values[target] = input_words[source];
#else
    const uint per_word = 4u / ELEMENT_BYTES, bits = 8u * ELEMENT_BYTES, mask = (1u << bits) - 1u;
    uint element = (input_words[source / per_word] >> (source % per_word * bits)) & mask;
    uint shift = target % per_word * bits;
    atomicAnd(values[target / per_word], ~(mask << shift));
    atomicOr(values[target / per_word], element << shift);
#endif
}

// Writes the result of the output with these `offsets` (see offsets_of_output).
void write_result(uvec2 offsets, uint position) {
    uvec2 index = index_of_position(position);
    if (flagged(FLAG_WIDE_INDICES))
        index_pairs[offsets.y] = index;
    else
        indices[offsets.y] = index.x;
    if (flagged(FLAG_WITH_VALUES)) write_value(offsets.x + reduced_offset(position, REDUCED_DIMS), offsets.y);
}
