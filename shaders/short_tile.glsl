// A tile: a box of outputs in up to three kept dimensions, in the order of the outputs' memory, with all that competes
// for them. Its elements are one segment of memory, or several at a pitch: along one of the box's dimensions, along the
// positions, or both. Shared memory holds the segments at other pitches that are equal modulo 16 bytes, so that an
// element's place there grows linearly with its coordinates. With DIRECT, elements are read where they are: a processor's caches do for tiles.
#define ELEMENTS_PER_VECTOR uint(VECTOR_BYTES / ELEMENT_BYTES)
#define ALONG_BOX (SEGMENTS_ALONG < 3u)
#define WALKED (COLUMNS >= COLUMNS_WALKED)

#if WALKED
#include "short_walk.glsl"
// What may have segments of its own is the last dimension of a walk.
#define APART_COUNT tile.walk.sizes.z
#define APART_STRIDE tile.walk.strides.z
#else
#define COUNT (POSITIONS != 0u ? POSITIONS : tile.count)
#define APART_COUNT COUNT
#define APART_STRIDE tile.step
#endif

struct Tile {
    uvec3 sizes; // of the part inside the dimensions
    uvec2 offsets; // of the first position in the input, and of its output
    uint begin; // offset of the first element that is read
    uvec3 strides; // in shared memory, or wherever elements are read
    uint position_stride, start; // there, too: of the positions, and the place of the element that is read first
    uint count, step; // of the positions: how many, and their stride in the input
    uvec2 weight; // what a position adds to the index
#if WALKED
    Walk walk;
#endif
};

// The numbers that an invocation takes: neighbours, so that the invocations of a subgroup wait for several lines of memory
// at a time, and what else is in these is read while a cache holds it; or every so many.
uint each_of(uint count) { return (count + WORKGROUP - 1u) / WORKGROUP; }
#define FOR_EACH_OWN(i, count)                                                       \
    for (uint i = gl_LocalInvocationIndex * (NEIGHBOURS ? each_of(count) : 1u),      \
         end_of_##i = NEIGHBOURS ? min(i + each_of(count), count) : count;           \
         i < end_of_##i; i += NEIGHBOURS ? 1u : WORKGROUP)

shared uint tile_words[TILE_WORDS];

// Rows of a power of two would otherwise meet in a few banks.
uint bank_of(uint word) { return PADDED ? word + (word >> 5u) : word; }

// With DIRECT, the last ones of the input's buffer. They are found once: SwiftShader divides to know an array's length.
uint last_input_word, last_input_pair;

void find_end_of_input() {
    if (!DIRECT) return;
    last_input_word = uint(input_words.length()) - 1u;
    last_input_pair = (last_input_word - 1u) / 2u;
}

uint tile_word(uint word) {
    // A word that is not needed may lie beyond the buffer.
    if (DIRECT) return input_words[min(word, last_input_word)];
    return tile_words[bank_of(word)];
}

#if ELEMENT_BYTES < 4
// Returns the next word of a row that starts `shift` bits above the lowest one of a word of memory: of `raw`, which was read
// last, and of the one after it. The factor is 0 if nothing of that is needed.
uint next_word_of_row(inout uint word, inout uint raw, uint shift, uint factor) {
    if (WORD_ALIGNED) return tile_word(word++);
    uint next = tile_word(++word), bits = (raw >> shift) + next * factor;
    raw = next;
    return bits;
}

// An element in the lowest bits, with its neighbours above it.
uint element_at(uint at) {
    if (DIRECT) return load_bits(at);
    return tile_word(at / ELEMENTS_PER_WORD) >> (at % ELEMENTS_PER_WORD * ELEMENT_BITS);
}
#else
Bits element_at(uint at) {
    if (DIRECT) return load_bits(at);
#if ELEMENT_BYTES == 8
    uint word = bank_of(2u * at);
    return Bits(tile_words[word], tile_words[word + 1u]);
#else
    return tile_word(at);
#endif
}
#endif

uvec3 input_strides() { return uvec3(input_stride_0, input_stride_1, input_stride_2); }
uvec3 output_strides() { return uvec3(output_stride_0, output_stride_1, output_stride_2); }
uint dot_of(uvec3 place, uvec3 strides) {
    uint sum = place.x * strides.x;
    if (DIMS > 1u) sum += place.y * strides.y;
    if (DIMS > 2u) sum += place.z * strides.z;
    return sum;
}

// Takes a tile's coordinate along one dimension of the box.
#define TAKE_TILE(dim, axis)                                                                                \
    if (tiles_##dim > 1u) {                                                                                 \
        uint outer = last_dim == uint(dim) ? 0u : number / tiles_##dim;                                        \
        uint first = (number - outer * tiles_##dim) * tile_##dim;                                           \
        number = outer;                                                                                     \
        tile.sizes.axis = min(tile_##dim, size_##dim - first);                                              \
        tile.offsets += first * uvec2(input_stride_##dim, output_stride_##dim);                             \
    }

Tile tile_of_number(uint number) {
    Tile tile;
    tile.sizes = uvec3(tile_0, tile_1, tile_2);
    tile.offsets = uvec2(input_base, output_base);
    // Neighbours along the dimension that has fewer tiles come one after the other, while caches hold the sectors that they
    // share: those of outputs along the first dimension, those of the input along the second.
    bool outputs_first = !DIRECT && DIMS > 1u && tiles_0 < tiles_1;
    // The last division is not needed: nothing is left over.
    uint last_dim = kept_dims > 0u ? 3u : outputs_first ? 1u : tiles_0 > 1u ? 0u : tiles_1 > 1u ? 1u : 2u;
    if (outputs_first) TAKE_TILE(0, x)
    if (DIMS > 2u) TAKE_TILE(2, z)
    if (DIMS > 1u) TAKE_TILE(1, y)
    if (!outputs_first) TAKE_TILE(0, x)
    if (DIMS > 1u) tile.offsets = offsets_of(number, kept_dims, tile.offsets);
    tile.begin = tile.offsets.x;
#if WALKED
    uint reduced = reduced_word(reduced_dims - 1u);
    tile.walk = walk_at(reduced_word(reduced_dims));
    tile.begin += tile.walk.offset;
#else
    uint reduced = DIMS == 1u ? 0u : reduced_word(0u); // an index that varies takes longer
#endif
    tile.count = layout_word(reduced);
    tile.step = layout_word(reduced + 1u);
    tile.weight = uvec2(layout_word(reduced + 2u), layout_word(reduced + 3u));
    tile.strides = input_strides();
    tile.position_stride = tile.step;
    if (!DIRECT) {
        if (ALONG_BOX) tile.strides[SEGMENTS_ALONG] = shared_pitch;
        if (POSITIONS_APART) tile.position_stride = position_pitch;
    }
    tile.start = DIRECT ? tile.begin : tile.begin % ELEMENTS_PER_VECTOR;
    return tile;
}

// Exact quotients of numbers and divisors whose product is below 2^32, by multiplication.
struct Divisors { uvec2 reciprocals; };
Divisors divisors_of(uvec2 divisors) { return Divisors(0xffffffffu / divisors + 1u); }
uint quotient(uint number, uint reciprocal) {
    uint high, low;
    umulExtended(number, reciprocal, high, low);
    return reciprocal == 0u ? number : high; // a divisor of 1
}

uvec3 place_of(uint number, uvec2 sizes, Divisors divisors) {
    if (DIMS == 1u) return uvec3(number, 0u, 0u);
    uint rows = quotient(number, divisors.reciprocals.x);
    if (DIMS == 2u) return uvec3(number - rows * sizes.x, rows, 0u);
    uint planes = quotient(rows, divisors.reciprocals.y);
    return uvec3(number - rows * sizes.x, rows - planes * sizes.y, planes);
}

// Elements from an output's first one to its last one in a segment.
uint reach_of_positions(Tile tile) {
#if WALKED
    uvec3 reach = (tile.walk.sizes - 1u) * tile.walk.strides;
    return reach.x + reach.y + (POSITIONS_APART ? 0u : reach.z);
#else
    return POSITIONS_APART ? 0u : (tile.count - 1u) * tile.step;
#endif
}

void store_vector(uint word, uvec4 v) {
    word = bank_of(word); // the four are in one group of 32
    tile_words[word] = v.x;
    tile_words[word + 1u] = v.y;
    tile_words[word + 2u] = v.z;
    tile_words[word + 3u] = v.w;
}

void load_tile(Tile tile) {
    const bool one_segment = !ALONG_BOX && !POSITIONS_APART;
    uint rows = 1u, pitch = 0u; // of the segments along the box
    uvec3 ends = (tile.sizes - 1u) * input_strides();
    if (ALONG_BOX) {
        rows = tile.sizes[SEGMENTS_ALONG];
        pitch = input_strides()[SEGMENTS_ALONG];
        ends[SEGMENTS_ALONG] = 0u;
    }
    uint last = ends.x + ends.y + ends.z + reach_of_positions(tile); // element of a segment
    uint before = one_segment ? tile.start : ELEMENTS_PER_VECTOR - 1u; // elements of a vector, at most
    uint vectors = (before + last) / ELEMENTS_PER_VECTOR + 1u;
    Divisors divisors = divisors_of(uvec2(vectors, rows));
    uint all = rows * vectors * (POSITIONS_APART ? APART_COUNT : 1u);
    uint first_vector = tile.begin / ELEMENTS_PER_VECTOR;
    for (uint i = gl_LocalInvocationIndex; i < all; i += 4u * WORKGROUP) {
        uvec4 v0, v1, v2, v3;
        uint word0, word1, word2, word3;
#define LOAD(n)                                                                                             \
    if (i + uint(n) * WORKGROUP < all) {                                                                       \
        uint vector = i + uint(n) * WORKGROUP;                                                                 \
        word##n = 4u * vector;                                                                              \
        if (one_segment) {                                                                                  \
            vector += first_vector;                                                                         \
        } else {                                                                                            \
            uint segment = quotient(vector, divisors.reciprocals.x), place = vector - segment * vectors;    \
            uint position = 0u;                                                                             \
            if (POSITIONS_APART) position = ALONG_BOX ? quotient(segment, divisors.reciprocals.y) : segment; \
            uint row = segment - position * rows, begin = tile.begin + row * pitch + position * APART_STRIDE;  \
            uint kept_at = tile.start + row * shared_pitch + position * position_pitch;                     \
            /* A segment may have a vector less. */                                                         \
            place = min(place, (begin + last) / ELEMENTS_PER_VECTOR - begin / ELEMENTS_PER_VECTOR);         \
            vector = begin / ELEMENTS_PER_VECTOR + place;                                                   \
            word##n = 4u * (kept_at / ELEMENTS_PER_VECTOR + place);                                         \
        }                                                                                                   \
        v##n = input_vectors[vector];                                                                       \
    }
#define STORE(n) if (i + uint(n) * WORKGROUP < all) store_vector(word##n, v##n);
        LOAD(0) LOAD(1) LOAD(2) LOAD(3)
        STORE(0) STORE(1) STORE(2) STORE(3)
    }
}
