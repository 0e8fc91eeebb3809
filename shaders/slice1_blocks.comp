// Transposes blocks of elements of 1 or 2 bytes in registers, for processors: an invocation loads a word of each of as many
// columns as make up a word of the output, and stores a word of each row. Words that a row shares with its neighbours are
// left to another step, unless rows are joined: then only words that a matrix shares with the next one are.
//
// A block has `block_columns` columns; an invocation takes the rows of `chunk_groups` words of them, AT_ONCE words of each
// column after the other: what it reads of a line of memory is in a cache when it reads the rest, and the rows are written
// in order. Where columns start anywhere in a word, each word more at once takes a load, but the first one takes two.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"
#include "slice1_every.glsl"

const uint ROWS_APART = EVERY_SECOND_ROW ? 2u : 1u;

// Of each of as many rows or columns as there are elements in a word, AT_ONCE words; the others are 0, so that compilers
// drop them.
struct Words {
    uvec4 of[PER_WORD];
};

Words transposed(Words w) {
    Words found;
#if ELEMENT_BYTES == 1
    const uint even = 0x00ff00ffu;
    uvec4 low = (w.of[0] & even) | (w.of[1] & even) << 8, high = (w.of[0] >> 8 & even) | (w.of[1] & ~even);
    uvec4 next_low = (w.of[2] & even) | (w.of[3] & even) << 8, next_high = (w.of[2] >> 8 & even) | (w.of[3] & ~even);
    found.of[0] = (low & 0xffffu) | next_low << 16;
    found.of[1] = (high & 0xffffu) | next_high << 16;
    found.of[2] = low >> 16 | (next_low & 0xffff0000u);
    found.of[3] = high >> 16 | (next_high & 0xffff0000u);
#else
    found.of[0] = (w.of[0] & MASK) | w.of[1] << BITS;
    found.of[1] = w.of[0] >> BITS | (w.of[1] & ~MASK);
#endif
    return found;
}

// Words may be beyond the input where they are not needed.
uint load_word(uint word) { return input_words[min(word, last_vector * 4u + 3u)]; }

// Workgroups have no second dimension, but no compiler knows. LLVM, as lavapipe uses it, would else move what computes a word
// into the loop that stores it for one invocation after the other, and all that it is computed from through memory.
void store_word(uint at, uint word) { output_words[at] = max(word, gl_WorkGroupID.y); }

uvec4 only(uint word) { return uvec4(word, 0u, 0u, 0u); }

// Returns words from `word` on, as many as are at once.
uvec4 load_at_once(uint word) {
    uvec4 found = only(load_word(word));
    if (AT_ONCE > 1u) found.y = load_word(word + 1u);
    if (AT_ONCE > 2u) found.zw = uvec2(load_word(word + 2u), load_word(word + 3u));
    return found;
}

// Returns the words one after those of `found`, the last of which is `next`.
uvec4 followed_by(uvec4 found, uint next) {
    return AT_ONCE == 1u ? only(next) : AT_ONCE == 2u ? uvec4(found.y, next, 0u, 0u) : uvec4(found.yzw, next);
}

// Returns the elements of adjacent rows in a column.
uvec4 load_column(uint at) {
    uint word = at / PER_WORD, shift = at % PER_WORD * BITS;
    uvec4 found = load_at_once(word);
    if (!EVERY_SECOND_ROW)
        return INPUT_ALIGNED ? found : funnel(found, followed_by(found, load_word(word + AT_ONCE)), shift);
    uvec4 more = load_at_once(word + AT_ONCE);
    if (!INPUT_ALIGNED) {
        found = funnel(found, followed_by(found, more.x), shift);
        more = funnel(more, followed_by(more, load_word(word + 2u * AT_ONCE)), shift);
    }
    if (AT_ONCE == 1u) return every_second(found, more);
    if (AT_ONCE == 2u) return every_second(uvec4(found.x, more.x, 0u, 0u), uvec4(found.y, more.y, 0u, 0u));
    return every_second(uvec4(found.xz, more.xz), uvec4(found.yw, more.yw));
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
    Words columns;
#if ELEMENT_BYTES == 1
    if (COLUMNS_OF_THREE) {
        uint begin = at + column.offset, word = begin / PER_WORD, shift = begin % PER_WORD * BITS;
        uvec4 all = uvec4(load_word(word), load_word(word + 1u), load_word(word + 2u), load_word(word + 3u));
        all = funnel(all, uvec4(all.yzw, 0u), shift);
        column.offset += 3u * PER_WORD;
        columns.of[0] = only(all.x);
        columns.of[1] = only(all.x >> 24 | all.y << 8);
        columns.of[2] = only(all.y >> 16 | all.z << 16);
        columns.of[3] = only(all.z >> 8);
        return transposed(columns);
    }
#endif
    columns.of[0] = load_column(at + column.offset);
    advance(column);
    columns.of[1] = load_column(at + column.offset);
    advance(column);
#if ELEMENT_BYTES == 1
    columns.of[2] = columns.of[3] = uvec4(0u);
    if (SHORT_ROW != 2u) {
        columns.of[2] = load_column(at + column.offset);
        advance(column);
    }
    if (SHORT_ROW == 0u) {
        columns.of[3] = load_column(at + column.offset);
        advance(column);
    }
#endif
    return transposed(columns);
}

#if ELEMENT_BYTES == 1
#define FOR_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3)
#else
#define FOR_EACH_ROW(DO) DO(0) DO(1)
#endif

// A word of as many rows as there are elements in a word starts alike in all rows that are so many rows apart.
#define FOR_EACH_AT_ONCE(DO, n)           \
    DO(n, 0u, x)                          \
    if (AT_ONCE > 1u) { DO(n, 1u, y) }    \
    if (AT_ONCE > 2u) { DO(n, 2u, z) DO(n, 3u, w) }

// Returns the word of which the first `place` bits are the last ones of a word, and the others the first of the next.
uint joined_words(uint before, uint next, uint place) { return (before >> 1u >> (31u - place)) | next << place; }

#if ELEMENT_BYTES == 1
// Stores the words that lie within four rows of two or three elements.
void store_short_rows(Words found, uint to) {
    uvec4 rows = uvec4(found.of[0].x, found.of[1].x, found.of[2].x, found.of[3].x);
    uvec3 all = SHORT_ROW == 2u
        ? uvec3((rows.x & 0xffffu) | rows.y << 16, (rows.z & 0xffffu) | rows.w << 16, 0u)
        : uvec3((rows.x & 0xffffffu) | rows.y << 24, (rows.y >> 8 & 0xffffu) | rows.z << 16, (rows.z >> 16 & 0xffu) | rows.w << 8);
    uint skip = (0u - to) % PER_WORD, word = (to + skip) / PER_WORD;
    store_word(word, funnel(all.x, all.y, skip * BITS));
    if (SHORT_ROW == 3u) store_word(word + 1u, funnel(all.y, all.z, skip * BITS));
    if (skip == 0u) store_word(word + SHORT_ROW - 1u, all[SHORT_ROW - 1u]);
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
#define START_ROW(n)                                                                                         \
    uint word##n = (to + uint(n) * row) / PER_WORD, place##n = (to + uint(n) * row) % PER_WORD;              \
    uint words##n = (place##n + row) / PER_WORD, head##n = found.of[n].x, before##n = head##n, last##n = 0u; \
    place##n *= BITS;
        FOR_EACH_ROW(START_ROW)
        for (uint batch = 1u; batch < batches; batch++) {
            found = load_columns(at, column);
#define STORE_WORD(n)                                           \
    last##n = joined_words(before##n, found.of[n].x, place##n); \
    if (batch < words##n) store_word(word##n + batch, last##n); \
    before##n = found.of[n].x;
            FOR_EACH_ROW(STORE_WORD)
        }
        // Of the word in which a row ends and the next one starts.
        uint end_of_row = 0u;
#define STORE_HEAD(n)                                                             \
    head##n = (end_of_row & ((1u << place##n) - 1u)) | head##n << place##n;       \
    if (words##n > 0u && (n > 0 || place##n == 0u)) store_word(word##n, head##n); \
    end_of_row = batches == 1u ? head##n : last##n;                               \
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
        uint first_row = chunk * chunk_groups * PER_WORD, rows_at_once = AT_ONCE * PER_WORD;
        uint last_row = max(min(first_row + chunk_groups * PER_WORD, rows), rows_at_once) - rows_at_once;
        for (uint next_row = first_row; next_row < last_row + rows_at_once; next_row += rows_at_once) {
            // The last rows are copied twice rather than fewer at once.
            uint row_number = min(next_row, last_row);
            uint at = source + row_number * ROWS_APART, to = target + row_number * row_output_stride + first;
            Column column = start;
            Words found;
            if (OUTPUT_ALIGNED) {
#define ALIGNED_ROW(n) uint word##n = (to + uint(n) * row_output_stride) / PER_WORD;
#define STORE_ALIGNED(n, m, axis) if (HAS_ROW(n)) store_word(word##n + m * row_output_stride, found.of[n].axis);
#define STORE_ALL_ALIGNED(n) FOR_EACH_AT_ONCE(STORE_ALIGNED, n) word##n++;
                FOR_EACH_ROW(ALIGNED_ROW)
                for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                    found = load_columns(at, column);
                    FOR_EACH_ROW(STORE_ALL_ALIGNED)
                }
                continue;
            }
            found = load_columns(at, column);
#define ROW(n)                                                                            \
    uint to##n = to + uint(n) * row_output_stride, skip##n = (0u - to##n) % PER_WORD;     \
    uvec4 before##n = found.of[n];                                                        \
    to##n = (to##n + skip##n) / PER_WORD;
            FOR_EACH_ROW(ROW)
            for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                found = load_columns(at, column);
#define STORE(n, m, axis) \
    store_word(to##n + m * row_output_stride, funnel(before##n.axis, found.of[n].axis, skip##n * BITS));
#define STORE_ALL(n)                                                                      \
    if (HAS_ROW(n) && done + skip##n <= columns) { FOR_EACH_AT_ONCE(STORE, n) }           \
    to##n++;                                                                              \
    before##n = found.of[n];
                FOR_EACH_ROW(STORE_ALL)
            }
        }
    }
}
