// Transposes blocks of elements of 1 or 2 bytes in registers, for processors: an invocation loads a word of each of as many
// columns as make up a word of the output, and stores a word of each row. Words that a row shares with its neighbours are
// left to another step, unless rows are joined: then only words that a matrix shares with the next one are.
//
// A block has `block_columns` columns; an invocation takes the rows of `chunk_groups` words of them, one word after the
// other: what it reads of a line of memory is in a cache when it reads the rest, and the rows are written in order.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"
#include "slice1_every.glsl"

const uint ROWS_APART = EVERY_SECOND_ROW ? 2u : 1u;

#if ELEMENT_BYTES == 1
#define Words uvec4
Words transposed(Words w) {
    const uint even = 0x00ff00ffu;
    uvec2 low = (w.xz & even) | (w.yw & even) << 8, high = (w.xz >> 8 & even) | (w.yw & ~even);
    return Words(
        (low.x & 0xffffu) | low.y << 16, (high.x & 0xffffu) | high.y << 16,
        low.x >> 16 | (low.y & 0xffff0000u), high.x >> 16 | (high.y & 0xffff0000u)
    );
}
#else
#define Words uvec2
Words transposed(Words w) { return Words((w.x & MASK) | w.y << BITS, w.x >> BITS | (w.y & ~MASK)); }
#endif

// Words may be beyond the input where they are not needed.
uint load_word(uint word) { return input_words[min(word, last_vector * 4u + 3u)]; }

// Returns the elements of adjacent rows in a column.
uint load_column(uint at) {
    uint word = at / PER_WORD, shift = at % PER_WORD * BITS, found = load_word(word);
    if (!EVERY_SECOND_ROW) return INPUT_ALIGNED ? found : funnel(found, load_word(word + 1u), shift);
    uint next = load_word(word + 1u);
    if (!INPUT_ALIGNED) {
        found = funnel(found, next, shift);
        next = funnel(next, load_word(word + 2u), shift);
    }
    return every_second(uvec4(found), uvec4(next)).x;
}

// Of rows that are fewer than there are elements in a word, the others are not stored.
#define HAS_ROW(n) (FEW_ROWS == 0u || uint(n) < FEW_ROWS)

struct Column {
    uint offset, left; // in the input; how many columns follow at equal distances, it included
};

void advance(inout Column column) {
    column.offset += column_stride;
    if (!ONE_COLUMN_DIM) {
        bool ends = --column.left == 0u;
        column.offset += ends ? column_jump : 0u;
        column.left = ends ? column_size : column.left;
    }
}

// Returns words of rows: of the next columns, as many as there are elements in a word.
Words load_columns(uint at, inout Column column) {
    Words columns = Words(0u);
#if ELEMENT_BYTES == 1
    if (COLUMNS_OF_THREE) {
        uint begin = at + column.offset, word = begin / PER_WORD, shift = begin % PER_WORD * BITS;
        uvec4 all = uvec4(load_word(word), load_word(word + 1u), load_word(word + 2u), load_word(word + 3u));
        all = funnel(all, uvec4(all.yzw, 0u), shift);
        column.offset += 3u * PER_WORD;
        return transposed(Words(all.x, all.x >> 24 | all.y << 8, all.y >> 16 | all.z << 16, all.z >> 8));
    }
#endif
    columns.x = load_column(at + column.offset);
    advance(column);
    columns.y = load_column(at + column.offset);
    advance(column);
#if ELEMENT_BYTES == 1
    if (SHORT_ROW != 2u) {
        columns.z = load_column(at + column.offset);
        advance(column);
    }
    if (SHORT_ROW == 0u) {
        columns.w = load_column(at + column.offset);
        advance(column);
    }
#endif
    return transposed(columns);
}

#if ELEMENT_BYTES == 1
#define FOR_EACH_ROW(DO) DO(0, x) DO(1, y) DO(2, z) DO(3, w)
#else
#define FOR_EACH_ROW(DO) DO(0, x) DO(1, y)
#endif

// Returns the word of which the first `place` bits are the last ones of a word, and the others the first of the next.
uint joined_words(uint before, uint next, uint place) { return (before >> 1u >> (31u - place)) | next << place; }

#if ELEMENT_BYTES == 1
// Stores the words that lie within four rows of two or three elements.
void store_short_rows(Words found, uint to) {
    uvec3 all = SHORT_ROW == 2u
        ? uvec3((found.x & 0xffffu) | found.y << 16, (found.z & 0xffffu) | found.w << 16, 0u)
        : uvec3((found.x & 0xffffffu) | found.y << 24, (found.y >> 8 & 0xffffu) | found.z << 16, (found.z >> 16 & 0xffu) | found.w << 8);
    uint skip = (0u - to) % PER_WORD, word = (to + skip) / PER_WORD;
    output_words[word] = funnel(all.x, all.y, skip * BITS);
    if (SHORT_ROW == 3u) output_words[word + 1u] = funnel(all.y, all.z, skip * BITS);
    if (skip == 0u) output_words[word + SHORT_ROW - 1u] = all[SHORT_ROW - 1u];
}
#endif

// Copies the rows of a chunk that follow each other in the output, as many at a time as there are elements in a word: the
// first of these starts with a word, and the words that two of them share are whole.
void copy_joined(uint source, uint target, Column start, uint chunk_row) {
    // Rows before the first that starts with a word.
    uint before_first = target % PER_WORD, batches = (row + PER_WORD - 1u) / PER_WORD;
    before_first = row % 2u != 0u ? (0u - before_first * row) % PER_WORD : before_first / 2u;
    // They, and the last ones, are copied with rows that others copy, too.
    int first_row = int(chunk_row + before_first);
    if (chunk_row == 0u && before_first != 0u) first_row -= int(PER_WORD);
    int end_row = int(min(chunk_row + before_first + chunk_groups * PER_WORD, rows));
    for (int next_row = first_row; next_row < end_row; next_row += int(PER_WORD)) {
        uint row_number = uint(clamp(next_row, 0, int(rows - PER_WORD)));
        uint at = source + row_number * ROWS_APART, to = target + row_number * row;
        Column column = start;
        Words found = load_columns(at, column);
#if ELEMENT_BYTES == 1
        if (SHORT_ROW != 0u) {
            store_short_rows(found, to);
            continue;
        }
#endif
#define START_ROW(n, axis)                                                                                \
    uint word##n = (to + uint(n) * row) / PER_WORD, place##n = (to + uint(n) * row) % PER_WORD;           \
    uint words##n = (place##n + row) / PER_WORD, head##n = found.axis, before##n = head##n, last##n = 0u; \
    place##n *= BITS;
        FOR_EACH_ROW(START_ROW)
        for (uint batch = 1u; batch < batches; batch++) {
            found = load_columns(at, column);
#define STORE_WORD(n, axis)                                        \
    last##n = joined_words(before##n, found.axis, place##n);       \
    if (batch < words##n) output_words[word##n + batch] = last##n; \
    before##n = found.axis;
            FOR_EACH_ROW(STORE_WORD)
        }
        // Of the word in which a row ends and the next one starts.
        uint end_of_row = 0u;
#define STORE_HEAD(n, axis)                                                          \
    head##n = (end_of_row & ((1u << place##n) - 1u)) | head##n << place##n;          \
    if (words##n > 0u && (n > 0 || place##n == 0u)) output_words[word##n] = head##n; \
    end_of_row = batches == 1u ? head##n : last##n;                                  \
    end_of_row = words##n == batches ? joined_words(before##n, 0u, place##n) : end_of_row;
        FOR_EACH_ROW(STORE_HEAD)
    }
}

void main() {
    uint begin = gl_WorkGroupID.x * items_per_workgroup, end = min(begin + items_per_workgroup, items);
    for (uint item = begin + gl_LocalInvocationID.x; item < end; item += WORKGROUP) {
        uint block, chunk;
        uint number = divide(item, blocks, blocks_inverse, block);
        number = divide(number, chunks, chunks_inverse, chunk);
        uint source = input_base, target = output_base;
        for (uint dim = outer_dims; dim-- > 0u;) {
            uint word = layout_base + dim * RUN_DIM_WORDS, coordinate;
            number = divide(number, layout_word(word), layout_word(word + 1u), coordinate);
            source += coordinate * layout_word(word + 2u);
            target += coordinate * layout_word(word + 3u);
        }
        uint first = block * block_columns, before;
        Column start = Column(0u, column_size);
        if (ONE_COLUMN_DIM) {
            start.offset = first * column_stride;
        } else {
            uint outer = divide(first, column_size, column_size_inverse, before);
            start.left = column_size - before;
            start.offset = before * column_stride + outer * (column_jump + column_size * column_stride);
        }
        if (JOINED) {
            copy_joined(source, target, start, chunk * chunk_groups * PER_WORD);
            continue;
        }
        uint columns = min(block_columns + PER_WORD - 1u, row - first); // the next block's first ones complete words
        uint first_row = chunk * chunk_groups * PER_WORD;
        uint last_row = max(min(first_row + chunk_groups * PER_WORD, rows), PER_WORD) - PER_WORD;
        for (uint next_row = first_row; next_row < last_row + PER_WORD; next_row += PER_WORD) {
            // The last rows are copied twice rather than fewer at once.
            uint row_number = min(next_row, last_row);
            uint at = source + row_number * ROWS_APART, to = target + row_number * row_output_stride + first;
            Column column = start;
            Words found;
            if (OUTPUT_ALIGNED) {
#define ALIGNED_ROW(n, axis) uint word##n = (to + uint(n) * row_output_stride) / PER_WORD;
#define STORE_ALIGNED(n, axis) if (HAS_ROW(n)) output_words[word##n++] = found.axis;
                FOR_EACH_ROW(ALIGNED_ROW)
                for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                    found = load_columns(at, column);
                    FOR_EACH_ROW(STORE_ALIGNED)
                }
                continue;
            }
            found = load_columns(at, column);
#define ROW(n, axis)                                                                                          \
    uint to##n = to + uint(n) * row_output_stride, skip##n = (0u - to##n) % PER_WORD, before##n = found.axis; \
    to##n = (to##n + skip##n) / PER_WORD;
            FOR_EACH_ROW(ROW)
            for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                found = load_columns(at, column);
#define STORE(n, axis)                                                                             \
    if (HAS_ROW(n) && done + skip##n <= columns) output_words[to##n] = funnel(before##n, found.axis, skip##n * BITS); \
    to##n++;                                                                                       \
    before##n = found.axis;
                FOR_EACH_ROW(STORE)
            }
        }
    }
}
