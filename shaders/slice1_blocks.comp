// Transposes blocks of elements of 1 or 2 bytes in registers, for processors: an invocation loads a word of each of as many
// columns as make up a word of the output, and stores a word of each row. Words that a row shares with its neighbours are
// left to another step.
//
// A block has `block_columns` columns; an invocation takes the rows of `chunk_groups` words of them, one word after the
// other: what it reads of a line of memory is in a cache when it reads the rest, and the rows are written in order.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "slice1.glsl"
#include "slice1_divide.glsl"

uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }

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
    uint word = at / PER_WORD;
    if (INPUT_ALIGNED) return load_word(word);
    return funnel(load_word(word), load_word(word + 1u), at % PER_WORD * BITS);
}

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
    columns.x = load_column(at + column.offset);
    advance(column);
    columns.y = load_column(at + column.offset);
    advance(column);
#if ELEMENT_BYTES == 1
    columns.z = load_column(at + column.offset);
    advance(column);
    columns.w = load_column(at + column.offset);
    advance(column);
#endif
    return transposed(columns);
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
        uint columns = min(block_columns + PER_WORD - 1u, row - first); // the next block's first ones complete words
        uint first_row = chunk * chunk_groups * PER_WORD, last_row = min(first_row + chunk_groups * PER_WORD, rows) - PER_WORD;
        for (uint next_row = first_row; next_row < last_row + PER_WORD; next_row += PER_WORD) {
            // The last rows are copied twice rather than fewer at once.
            uint row_number = min(next_row, last_row);
            uint at = source + row_number, to = target + row_number * row_output_stride + first;
            Column column = start;
            Words found = load_columns(at, column);
#define ROW(n, axis)                                                                                                     \
    uint to##n = to + uint(n) * row_output_stride, skip##n = OUTPUT_ALIGNED ? 0u : (0u - to##n) % PER_WORD;                                   \
    uint before##n = found.axis; to##n = (to##n + skip##n) / PER_WORD;
            ROW(0, x) ROW(1, y)
#if ELEMENT_BYTES == 1
            ROW(2, z) ROW(3, w)
#endif
            if (OUTPUT_ALIGNED) {
                for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                    output_words[to0++] = found.x;
                    output_words[to1++] = found.y;
#if ELEMENT_BYTES == 1
                    output_words[to2++] = found.z;
                    output_words[to3++] = found.w;
#endif
                    found = load_columns(at, column);
                }
                continue;
            }
            for (uint done = PER_WORD; done <= columns; done += PER_WORD) {
                found = load_columns(at, column);
#define STORE(n, axis)                                                                             \
    if (done + skip##n <= columns) output_words[to##n] = funnel(before##n, found.axis, skip##n * BITS); \
    to##n++;                                                                                       \
    before##n = found.axis;
                STORE(0, x) STORE(1, y)
#if ELEMENT_BYTES == 1
                STORE(2, z) STORE(3, w)
#endif
            }
        }
    }
}
