// Reduces across a stride: each invocation takes a vector of neighbouring outputs, or a single one, from position to
// position, and keeps key and position of the best of each. `lanes` invocations share the positions.
#version 450
#extension GL_GOOGLE_include_directive : require
#define SUBGROUPS 0
// Compile-time: AT_ONCE, loads at once: 4 or 8 hide their latency, 1 is kinder to compilers of drivers on a processor;
// LOADS: single elements, aligned vectors of 16 bytes, or vectors of 16 bytes that start at any element.
#include "argreduce_columns.interface.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#if MAY_SPLIT
#include "splits.glsl"
#endif

#define NOWHERE 0xffffffffu

// A part is one word of elements, or one element of two words, and the best of its columns.

#if ELEMENT_BYTES == 8

#define PART_COLUMNS 1u
#define PART_WORDS 3u // in shared memory
#define Bits uvec2
struct Part { Key key; uint rank; };
const Part NOBODY = Part(KEY_LEAST, 0u);
void keep(inout Part best, Part other) { keep_better(best.key, best.rank, other.key, other.rank); }
void fold(inout Part best, Bits bits, uint rank) {
    Key key = settled_key(raw_key(bits));
    // Positions come in their order.
    bool better = TAKE_LAST ? !key_less(key, best.key) : key_less(best.key, key);
    best.key = better ? key : best.key;
    best.rank = better ? rank : best.rank;
}
Key key_of(Part part, uint column) { return part.key; }
uint rank_in_split(Part part, uint column) { return part.rank; }
// If no key exceeded the least, all are equal.
void settle_first(inout Part best, uint rank) { if (best.rank == 0u) best.rank = rank; }

#elif ELEMENT_BYTES == 4

#define PART_COLUMNS 1u
#define PART_WORDS 2u
#define Bits uint
struct Part { Key key; uint rank; };
const Part NOBODY = Part(KEY_LEAST, 0u);
void keep(inout Part best, Part other) { keep_better(best.key, best.rank, other.key, other.rank); }
void fold(inout Part best, Bits bits, uint rank) {
    Key key = settled_key(top_keys(ordered_word(bits)));
    bool better = TAKE_LAST ? key >= best.key : key > best.key;
    best.key = better ? key : best.key;
    best.rank = better ? rank : best.rank;
}
Key key_of(Part part, uint column) { return part.key; }
uint rank_in_split(Part part, uint column) { return part.rank; }
// If no key exceeded the least, all are equal.
void settle_first(inout Part best, uint rank) { if (best.rank == 0u) best.rank = rank; }

#else

// Key and rank in one word for each column: the greatest is the best.
#define PART_WORDS PART_COLUMNS
#define Bits uint
#define RANK_MASK ((1u << NARROW_RANK_BITS) - 1u)
#if LOADS == LOADS_ELEMENTS
#define PART_COLUMNS 1u
#define Part uint
uint column_of(Part part, uint column) { return part; }
Part part_tops(Bits bits) { return top_key(ordered_word(bits), 0u); }
#else
#define PART_COLUMNS uint(ELEMENTS_PER_WORD)
#define Part WordKeys
uint column_of(Part part, uint column) { return part[column]; }
Part part_tops(Bits bits) { return top_keys(ordered_word(bits)); }
#endif
const Part NOBODY = Part(0u);
void keep(inout Part best, Part other) { best = max(best, other); }
void fold(inout Part best, Bits bits, uint rank) {
    best = max(best, ranked_keys(part_tops(bits), rank & RANK_MASK));
}
Key key_of(Part part, uint column) { return column_of(part, column) >> TOP_SHIFT; }
uint rank_in_split(Part part, uint column) {
    uint low = column_of(part, column) & RANK_MASK;
    return TAKE_LAST ? low : low | ~RANK_MASK;
}
void settle_first(inout Part best, uint rank) {}

#endif

#if LOADS == LOADS_ELEMENTS
#define PARTS 1
#elif ELEMENT_BYTES == 8
#define PARTS 2
#else
#define PARTS 4
#endif
#define COLUMNS (uint(PARTS) * PART_COLUMNS)

#if LOADS == LOADS_VECTORS

#define Vector uvec4
#define Loaded uvec4
Loaded load(uint offset) { return input_vectors[offset / uint(VECTOR_BYTES / ELEMENT_BYTES)]; }
Vector unpacked(Loaded loaded) { return loaded; }

#elif LOADS == LOADS_UNALIGNED && ELEMENT_BYTES == 8

#define Vector uvec4
#define Loaded uvec4
Loaded load(uint offset) { return uvec4(input_pairs[offset], input_pairs[offset + 1u]); }
Vector unpacked(Loaded loaded) { return loaded; }

#elif LOADS == LOADS_UNALIGNED && ELEMENT_BYTES == 4

#define Vector uvec4
#define Loaded uvec4
Loaded load(uint offset) {
    return uvec4(input_words[offset], input_words[offset + 1u], input_words[offset + 2u], input_words[offset + 3u]);
}
Vector unpacked(Loaded loaded) { return loaded; }

#elif LOADS == LOADS_UNALIGNED

#define Vector uvec4
struct Loaded { uvec4 words; uint next, shift; };
Loaded load(uint offset) {
    Loaded loaded;
    uint word = offset / ELEMENTS_PER_WORD, element = offset % ELEMENTS_PER_WORD;
    loaded.words = uvec4(input_words[word], input_words[word + 1u], input_words[word + 2u], input_words[word + 3u]);
    // No further than the last element wanted, behind which the buffer may end.
    loaded.next = input_words[word + (element == 0u ? 3u : 4u)];
    loaded.shift = element * ELEMENT_BITS;
    return loaded;
}
Vector unpacked(Loaded loaded) {
    // By multiplication, which a GPU does beside its shifts; 0 where nothing of the next word is wanted.
    uint factor = loaded.shift == 0u ? 0u : 1u << (32u - loaded.shift);
    uvec4 next = uvec4(loaded.words.yzw, loaded.next);
    return (loaded.words >> loaded.shift) + next * factor;
}

#elif ELEMENT_BYTES == 8

#define Vector uvec2
#define Loaded uvec2
Loaded load(uint offset) { return input_pairs[offset]; }
Vector unpacked(Loaded loaded) { return loaded; }

#elif ELEMENT_BYTES == 4

#define Vector uint
#define Loaded uint
Loaded load(uint offset) { return input_words[offset]; }
Vector unpacked(Loaded loaded) { return loaded; }

#else

#define Vector uint
#define Loaded uint
// The element in the lowest bits.
Loaded load(uint offset) {
    return input_words[offset / ELEMENTS_PER_WORD] >> (offset % ELEMENTS_PER_WORD * ELEMENT_BITS);
}
Vector unpacked(Loaded loaded) { return loaded; }

#endif

struct Best {
    Part parts[PARTS];
};

void fold_vector(inout Best best, Vector v, uint rank) {
#if PARTS == 4
    fold(best.parts[0], v.x, rank);
    fold(best.parts[1], v.y, rank);
    fold(best.parts[2], v.z, rank);
    fold(best.parts[3], v.w, rank);
#elif PARTS == 2
    fold(best.parts[0], v.xy, rank);
    fold(best.parts[1], v.zw, rank);
#else
    fold(best.parts[0], v, rank);
#endif
}

// Written out, since not every driver unrolls loops over arrays.
#if AT_ONCE == 8
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#elif AT_ONCE == 4
#define FOR_EACH(DO) DO(0) DO(1) DO(2) DO(3)
#else
#define FOR_EACH(DO) DO(0)
#endif

// Positions from `position` on, `step` apart, at offsets `stride` apart, `count` of them.
void fold_positions(inout Best best, uint position, uint step, uint offset, uint stride, uint count) {
    uint rank = rank_of(position), rank_step = TAKE_LAST ? step : 0u - step;
    for (; count >= uint(AT_ONCE); count -= uint(AT_ONCE)) {
#define LOAD(i) Loaded v##i = load(offset); offset += stride;
#define FOLD(i) fold_vector(best, unpacked(v##i), rank); rank += rank_step;
        FOR_EACH(LOAD)
        FOR_EACH(FOLD)
    }
#if AT_ONCE > 1
    if (count != 0u) {
        // Past the end the last position comes again.
#define LOAD_REST(i) Loaded v##i = load(offset + min(uint(i), count - 1u) * stride);
#define FOLD_REST(i) if (uint(i) < count) fold_vector(best, unpacked(v##i), rank + uint(i) * rank_step);
        FOR_EACH(LOAD_REST)
        FOR_EACH(FOLD_REST)
    }
#endif
}

// What one step to the next column adds to the offsets.
uvec2 column_strides() {
    if (kept_dims == 0u) return uvec2(0u);
    uint word = (kept_dims - 1u) * COPIED_DIM_WORDS;
    return uvec2(layout_word(word + 1u), layout_word(word + 2u));
}

uint output_of_group(uint group, uint groups_per_run) {
    if (ONE_RUN) return min(group * COLUMNS, outputs);
    if (COLUMNS == 1u) return group;
    uint run_number = group / groups_per_run;
    return run_number * run + (group - run_number * groups_per_run) * COLUMNS;
}

// The positions [first, end) of one split that are the caller's; ranks count from the split's first.
void fold_split(inout Best best, uint base, uint first, uint end, uint member) {
    uint dim = reduced_word(ONE_STRIDE ? 0u : reduced_dims - 1u);
    uint inner = layout_word(dim), stride = layout_word(dim + 1u), first_mine = NOWHERE;
    for (uint position = first; position < end;) {
        // What is as far as the offset grows by the stride; or one position for each, where that is not far.
        uint segment_end = end, mine = position + member;
        if (!ONE_STRIDE) segment_end = min(inner < lanes ? position + lanes : (position / inner + 1u) * inner, end);
        if (mine < segment_end) {
            first_mine = min(first_mine, mine);
            uint count = ((segment_end - mine - 1u) >> findLSB(lanes)) + 1u;
            uint segment = ONE_STRIDE ? 0u : mine / inner, offset = base + (mine - segment * inner) * stride;
            if (!ONE_STRIDE) offset += reduced_offset(segment, reduced_dims - 1u);
            fold_positions(best, mine - first, lanes, offset, lanes * stride, count);
        }
        position = segment_end;
        if (ONE_STRIDE) break;
    }
    if (!TAKE_LAST && first_mine != NOWHERE)
        for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(first_mine - first));
}

shared uint shared_parts[WORKGROUP / 2u * (uint(PARTS) * PART_WORDS)];

void share_part(uint word, Part part) {
#if ELEMENT_BYTES == 8
    shared_parts[word] = part.key.x;
    shared_parts[word + 1u] = part.key.y;
    shared_parts[word + 2u] = part.rank;
#elif ELEMENT_BYTES == 4
    shared_parts[word] = part.key;
    shared_parts[word + 1u] = part.rank;
#else
    for (uint column = 0u; column < PART_COLUMNS; column++) shared_parts[word + column] = column_of(part, column);
#endif
}

Part shared_part(uint word) {
#if ELEMENT_BYTES == 8
    return Part(Key(shared_parts[word], shared_parts[word + 1u]), shared_parts[word + 2u]);
#elif ELEMENT_BYTES == 4
    return Part(shared_parts[word], shared_parts[word + 1u]);
#elif LOADS == LOADS_ELEMENTS
    return shared_parts[word];
#else
    Part part;
    for (uint column = 0u; column < PART_COLUMNS; column++) part[column] = shared_parts[word + column];
    return part;
#endif
}

// The best of all members, for the first of them. All invocations of the workgroup must call it.
void reduce_members(inout Best best, uint member, uint place, uint groups_per_block) {
    for (uint half_count = lanes / 2u; half_count > 0u; half_count /= 2u) {
        uint slot = (member & (half_count - 1u)) * groups_per_block + place;
        if (member >= half_count && member < 2u * half_count)
            for (uint i = 0u; i < PARTS; i++)
                share_part((i * WORKGROUP / 2u + slot) * PART_WORDS, best.parts[i]);
        barrier();
        if (member < half_count)
            for (uint i = 0u; i < PARTS; i++)
                keep(best.parts[i], shared_part((i * WORKGROUP / 2u + slot) * PART_WORDS));
        barrier();
    }
}

#if MAY_SPLIT

void store_candidates(Best best, uint blocks, uint number, uint first_column, uint end_column, uint split, uint first) {
    for (uint i = 0u; i < PARTS; i++) {
        for (uint j = 0u; j < PART_COLUMNS; j++) {
            uint column = i * PART_COLUMNS + j;
            uint rank = rank_of(first + position_of(rank_in_split(best.parts[i], j)));
            if (column >= first_column && column < end_column)
                store_candidate(blocks, number + column, split, key_of(best.parts[i], j), rank);
        }
    }
}

#endif
#if !MUST_SPLIT

// The columns from `first_column` to `end_column`.
void write_results(Best best, uvec2 offsets, uint first_column, uint end_column) {
    uvec2 strides = column_strides();
#if LOADS != LOADS_ELEMENTS
    // Whole vectors of indices, where they are side by side.
    if (ONE_STRIDE && strides.y == 1u && offsets.y % (ELEMENT_BYTES == 8 ? 2u : 4u) == 0u && end_column - first_column == COLUMNS && !flagged(FLAG_WITH_VALUES)) {
        uint word = reduced_word(0u), weight = layout_word(word + 2u);
        uint places[COLUMNS];
        for (uint i = 0u; i < PARTS; i++)
            for (uint j = 0u; j < PART_COLUMNS; j++)
                places[i * PART_COLUMNS + j] = position_of(rank_in_split(best.parts[i], j));
        if (flagged(FLAG_WIDE_INDICES)) {
            for (uint i = 0u; i < COLUMNS; i += 2u)
                index_vectors[(offsets.y + i) / 2u] =
                    uvec4(index_of_position(places[i]), index_of_position(places[i + 1u]));
            return;
        }
#if ELEMENT_BYTES < 8
        for (uint i = 0u; i < COLUMNS; i += 4u)
            index_vectors[(offsets.y + i) / 4u] =
                index_base_low + weight * uvec4(places[i], places[i + 1u], places[i + 2u], places[i + 3u]);
        return;
#endif
    }
#endif
    for (uint i = 0u; i < PARTS; i++) {
        for (uint j = 0u; j < PART_COLUMNS; j++) {
            uint column = i * PART_COLUMNS + j;
            if (column >= first_column && column < end_column)
                write_result(offsets + column * strides, position_of(rank_in_split(best.parts[i], j)));
        }
    }
}

#endif

void main() {
    uint groups_per_block = WORKGROUP >> findLSB(lanes);
    bool adjacent = flagged(FLAG_POSITIONS_ADJACENT);
    uint member = adjacent ? gl_LocalInvocationIndex & (lanes - 1u) : gl_LocalInvocationIndex >> findLSB(groups_per_block);
    uint place = adjacent ? gl_LocalInvocationIndex >> findLSB(lanes) : gl_LocalInvocationIndex & (groups_per_block - 1u);
    uint groups_per_run = (run + COLUMNS - 1u) / COLUMNS;
    uint groups = ONE_RUN ? groups_per_run : outputs / run * groups_per_run;
    uint blocks = (groups + groups_per_block - 1u) >> findLSB(groups_per_block);
    uint items = blocks * splits;
    for (uint item = gl_WorkGroupID.x; item < items; item += gl_NumWorkGroups.x) {
        uint split = SPLIT ? item / blocks : 0u;
        uint block = item - split * blocks;
        uint group = block * groups_per_block + place;
        uint number = output_of_group(group, groups_per_run);
        uint first = split * share, first_column = 0u, end_column = COLUMNS;
#if LOADS != LOADS_ELEMENTS
        uint column = ONE_RUN ? number : number % run;
        end_column = min(COLUMNS, run - column);
#if LOADS == LOADS_UNALIGNED
        // The last group of a run ends with it, and leaves to the group before what both have.
        first_column = COLUMNS - end_column;
        number -= first_column;
        end_column = COLUMNS;
#endif
#endif
        uvec2 offsets = offsets_of_output(number);
        Best best;
        for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
        if (group < groups) fold_split(best, offsets.x, first, min(first + share, reduce_count), member);
        if (lanes > 1u) reduce_members(best, member, place, groups_per_block);
        bool holds_best = member == 0u && group < groups;
#if MAY_SPLIT
        if (SPLIT) {
            if (holds_best) store_candidates(best, blocks, number, first_column, end_column, split, first);
            uint begin = output_of_group(block * groups_per_block, groups_per_run);
            uint end = output_of_group(min((block + 1u) * groups_per_block, groups), groups_per_run);
            if (last_to_arrive(block)) combine_splits(blocks, begin, end - begin);
        }
#endif
#if !MUST_SPLIT
        if (!SPLIT && holds_best) write_results(best, offsets, first_column, end_column);
#endif
    }
}
