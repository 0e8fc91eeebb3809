// Copies into runs, elements side by side in the output: each invocation owns aligned 16-byte vectors of it.
// Vectors that are not one stretch of the innermost dimension are copied element by element.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "slice1_runs.interface.glsl"
#include "slice1.glsl"

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"

// Compile-time: WHOLE_VECTORS, whether any vector is one stretch; STEP, the innermost input stride of narrow elements, or
// 0 for any. No specialization constants: not all drivers drop what those exclude.

const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

// gather: a vector of elements that lie input_stride apart, from `first` on.
#if !WHOLE_VECTORS || ELEMENT_BYTES == 16
#elif ELEMENT_BYTES < 4
uvec4 load_each(uvec4 at) {
    return uvec4(input_words[at.x], input_words[at.y], input_words[at.z], input_words[at.w]);
}

#if STEP == 0
uvec4 gather(uint first, uint input_stride) {
    uvec4 vector = uvec4(0u);
    uvec4 at = first + uvec4(0u, PER_WORD, 2u * PER_WORD, 3u * PER_WORD) * input_stride;
    for (uint shift = 0u; shift < 32u; shift += BITS, at += input_stride)
        vector |= (load_each(at / PER_WORD) >> (at % PER_WORD * BITS) & MASK) << shift;
    return vector;
}
#else
// Words from `word` to `last`, which is 3 to 4 (7 to 8 for STEP 2) further; what follows them is arbitrary.
void load_words(uint word, uint last, out uvec4 low, out uvec4 high, out uint next) {
#if STEP == 2 || STEP == -2
    // Vectors: fewer loads for more arithmetic.
    low = input_vectors[word / 4u];
    high = input_vectors[word / 4u + 1u];
    uvec4 beyond = input_vectors[last / 4u];
    if ((word & 2u) != 0u) {
        low = uvec4(low.zw, high.xy);
        high = uvec4(high.zw, beyond.xy);
        beyond.xy = beyond.zw;
    }
    if ((word & 1u) != 0u) {
        low = uvec4(low.yzw, high.x);
        high = uvec4(high.yzw, beyond.x);
        beyond.x = beyond.y;
    }
    next = beyond.x;
#else
    low = load_each(word + uvec4(0u, 1u, 2u, 3u));
    high = uvec4(0u);
    next = input_words[last];
#endif
}

uvec4 backwards(uvec4 words) {
    words = words.wzyx;
    if (ELEMENT_BYTES == 1) words = (words & 0x00ff00ffu) << 8 | (words >> 8 & 0x00ff00ffu);
    return words << 16 | words >> 16;
}

// Every second element of pairs of words, from the first on.
uvec4 every_second(uvec4 low, uvec4 high) {
    if (ELEMENT_BYTES == 1) {
        low &= 0x00ff00ffu;
        high &= 0x00ff00ffu;
        low |= low >> 8;
        high |= high >> 8;
    }
    return (low & 0xffffu) | high << 16;
}

uvec4 gather(uint first, uint input_stride) {
    uvec4 low, high;
    uint next;
    uint span = (PER_VECTOR - 1u) * uint(abs(STEP));
    if (STEP < 0) first -= span;
    uint shift = first % PER_WORD * BITS;
    load_words(first / PER_WORD, (first + span) / PER_WORD, low, high, next);
    if (STEP == 2 || STEP == -2) {
        uvec4 even = uvec4(low.xz, high.xz);
        uvec4 odd = uvec4(low.yw, high.yw);
        low = every_second(funnel(even, odd, shift), funnel(odd, uvec4(even.yzw, next), shift));
    } else {
        low = funnel(low, uvec4(low.yzw, next), shift);
    }
    return STEP < 0 ? backwards(low) : low;
}
#endif
#elif ELEMENT_BYTES == 4
uvec4 gather(uint first, uint input_stride) {
    return uvec4(input_words[first], input_words[first + input_stride], input_words[first + 2u * input_stride],
                 input_words[first + 3u * input_stride]);
}
#elif ELEMENT_BYTES == 8
uvec4 gather(uint first, uint input_stride) {
    return uvec4(input_pairs[first], input_pairs[first + input_stride]);
}
#endif

// Where element `number` of a run that starts at `offset` lies in the input; from there on, `left` elements lie
// along the innermost dimension.
uint offset_in_run(uint number, uint offset, out uint left) {
    uint dim = dims - 1u;
    uint size = layout_word(dim * COPIED_DIM_WORDS);
    uint coordinate = number;
    if (dim > outer_dims) {
        number /= size;
        coordinate -= number * size;
    }
    left = size - coordinate;
    offset += coordinate * layout_word(dim * COPIED_DIM_WORDS + 1u);
    while (dim > outer_dims) {
        dim--;
        coordinate = number;
        if (dim > outer_dims) {
            size = layout_word(dim * COPIED_DIM_WORDS);
            number /= size;
            coordinate -= number * size;
        }
        offset += coordinate * layout_word(dim * COPIED_DIM_WORDS + 1u);
    }
    return offset;
}

#if ELEMENT_BYTES < 16
// Elements of one run, from `number` on, to the places of a vector from `place` on.
void copy_elements(uint number, uint count, uint offset, uint vector, uint place, uint input_stride) {
    uint source = 0u, left = 0u, bits = 0u, written = 0u;
    for (uint i = 0u; i < count; i++) {
        if (left == 0u) source = offset_in_run(number + i, offset, left);
        uint at = vector * PER_VECTOR + place + i;
#if ELEMENT_BYTES < 4
        uint shift = at % PER_WORD * BITS;
        bits |= (input_words[source / PER_WORD] >> (source % PER_WORD * BITS) & MASK) << shift;
        written |= MASK << shift;
        if (shift == 32u - BITS || i + 1u == count) {
            store_bits(at / PER_WORD, bits, written);
            bits = written = 0u;
        }
#elif ELEMENT_BYTES == 4
        output_words[at] = input_words[source];
#else
        output_pairs[at] = input_pairs[source];
#endif
        source += input_stride;
        left--;
    }
}
#endif

void main() {
    uint input_stride = layout_word((dims - 1u) * COPIED_DIM_WORDS + 1u);
    uint begin = gl_WorkGroupID.x * share;
    uint end = min(begin + share, items);
    for (uint item = begin + gl_LocalInvocationID.x; item < end; item += WORKGROUP) {
        uint vector = item;
        uvec2 bases = uvec2(input_base, output_base);
        if (outer_dims > 0u) {
            uint number = item / vectors_per_run;
            vector -= number * vectors_per_run;
            bases = offsets_of(number, outer_dims, bases);
        }
        uint left;
#if ELEMENT_BYTES == 16
        output_vectors[bases.y + vector] = input_vectors[offset_in_run(vector, bases.x, left)];
#else
        uint skipped = bases.y % PER_VECTOR; // elements of the run's first vector that lie before it
        uint place = vector == 0u ? skipped : 0u;
        uint number = vector * PER_VECTOR + place - skipped;
        uint count = min(PER_VECTOR - place, run - min(run, number));
        uint target = bases.y / PER_VECTOR + vector;
#if WHOLE_VECTORS
        if (count == PER_VECTOR) {
            uint source = offset_in_run(number, bases.x, left);
            if (left >= PER_VECTOR) {
                output_vectors[target] = gather(source, input_stride);
                count = 0u;
            }
        }
#endif
        copy_elements(number, count, bases.x, target, place, input_stride);
#endif
    }
}
