// Shared by the slice1 kernels: bindings, words of the layout, and words of elements.
//
// Compile-time: ELEMENT_BYTES.
layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputWords { uint input_words[]; };
layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputPairs { uvec2 input_pairs[]; };
layout(std430, binding = BINDING_INPUT) readonly restrict buffer InputVectors { uvec4 input_vectors[]; };
layout(std430, binding = BINDING_OUTPUT) restrict buffer OutputWords { uint output_words[]; };
layout(std430, binding = BINDING_OUTPUT) restrict buffer OutputPairs { uvec2 output_pairs[]; };
layout(std430, binding = BINDING_OUTPUT) restrict buffer OutputVectors { uvec4 output_vectors[]; };
layout(std430, binding = BINDING_WORKSPACE) readonly restrict buffer Workspace { uint workspace[]; };

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }

#if ELEMENT_BYTES <= 4
const uint PER_WORD = 4u / ELEMENT_BYTES;
const uint BITS = 8u * ELEMENT_BYTES;
const uint MASK = 0xffffffffu >> (32u - BITS);

// Returns the word that starts `shift` bits (less than 32) into a pair of words.
uint funnel(uint low, uint high, uint shift) { return (low >> shift) | (high << 1u << (31u - shift)); }
uvec4 funnel(uvec4 low, uvec4 high, uint shift) { return (low >> shift) | (high << 1u << (31u - shift)); }

// Stores the bits of `written`; of partial words atomically, because other invocations may write the other bits.
void store_bits(uint word, uint bits, uint written) {
    if (written == 0xffffffffu) {
        output_words[word] = bits;
    } else if (written != 0u) {
        atomicAnd(output_words[word], ~written);
        atomicOr(output_words[word], bits & written);
    }
}
#endif
