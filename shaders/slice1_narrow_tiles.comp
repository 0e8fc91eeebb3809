// Copies of elements of 1 and 2 bytes with the input at equal small distances along some dimensions and the output
// contiguous along others. Tiles pass through shared memory: vectors of columns are loaded, vectors of rows stored.
// Rows come in groups, one for each place along a second dimension, and so do columns.
//
// Compile-time: ELEMENT_BYTES; ROW_STEP, how far apart the elements of a column lie in the input.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"

// Rows are contiguous in the output, columns in the input.
uint layout_word(uint i) { return LAYOUT_IN_PUSH ? layout_words[i] : workspace[i]; }
#include "layout.glsl"
#include "slice1_every.glsl"

const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);
// The last word of a row may need elements of the next tile.
const uint OWNED = OUTPUT_UNALIGNED ? ACROSS - 1u : ACROSS;
// Of a row in a tile, at most.
const uint VECTORS = ACROSS / 4u;

shared uint cells[DOWN * PER_VECTOR * ACROSS];

// Neighbours along a column, and blocks side by side, are in different banks.
uint cell(uint row, uint word) {
    return row * ACROSS + ((word + row / PER_VECTOR * 4u + row % 4u) & (ACROSS - 1u));
}

#include "slice1_divide.glsl"
#include "slice1_tile_order.glsl"

// Returns where a column starts in the input, after the matrix's first.
uint column_offset(uint column) {
    if (!COLUMN_GROUPS) return column * column_input_stride;
    uint in_group, group = divide(column, group_columns, group_columns_inverse, in_group);
    return in_group * column_input_stride + group * column_group_input_stride;
}

uvec4 load_vector(uint vector) { return input_vectors[min(vector, last_vector)]; }

// Returns the four words from word `first`, at most 3, of two vectors.
uvec4 words_from(uint first, uvec4 low, uvec4 high) {
    uvec4 words = (first & 2u) != 0u ? uvec4(low.zw, high.xy) : low;
    uint next = (first & 2u) != 0u ? high.z : high.x;
    return (first & 1u) != 0u ? uvec4(words.yzw, next) : words;
}

uint word_of(uvec4 vector, uint number) {
    uvec2 words = (number & 2u) != 0u ? vector.zw : vector.xy;
    return (number & 1u) != 0u ? words.y : words.x;
}

// Loads a vector of a column's elements, the first of which lies at `first`; those beyond the input are arbitrary.
// Whole vectors are loaded wherever it starts: single words would take the load unit several times as long.
uvec4 load_column(uint first) {
    uint vector = first / PER_VECTOR;
    uvec4 loaded[ROW_STEP + 1];
    [[unroll]] for (uint i = 0u; i < ROW_STEP; i++) loaded[i] = load_vector(vector + i);
    uint next = 0u, shift = 0u;
    if (INPUT_UNALIGNED) {
        uint word = first / PER_WORD % 4u;
        loaded[ROW_STEP] = load_vector(vector + ROW_STEP);
        [[unroll]] for (uint i = 0u; i < ROW_STEP; i++) loaded[i] = words_from(word, loaded[i], loaded[i + 1u]);
        next = word_of(loaded[ROW_STEP], word);
        shift = first % PER_WORD * BITS;
    }
#if ROW_STEP == 1
    if (!INPUT_UNALIGNED) return loaded[0];
    return funnel(loaded[0], uvec4(loaded[0].yzw, next), shift);
#elif ROW_STEP == 2
    uvec4 even = uvec4(loaded[0].xz, loaded[1].xz), odd = uvec4(loaded[0].yw, loaded[1].yw);
    if (!INPUT_UNALIGNED) return every_second(even, odd);
    return every_second(funnel(even, odd, shift), funnel(odd, uvec4(even.yzw, next), shift));
#else
    uvec4 first_words = uvec4(loaded[0].xw, loaded[1].z, loaded[2].y);
    uvec4 second_words = uvec4(loaded[0].y, loaded[1].xw, loaded[2].z);
    uvec4 third_words = uvec4(loaded[0].z, loaded[1].y, loaded[2].xw);
    if (!INPUT_UNALIGNED) return every_third(first_words, second_words, third_words);
    return every_third(
        funnel(first_words, second_words, shift),
        funnel(second_words, third_words, shift),
        funnel(third_words, uvec4(first_words.yzw, next), shift)
    );
#endif
}

// Loads a vector of each column of a word of columns, and keeps them as words of rows.
void load_block(uint first, uint column, uint block, uint across) {
    uvec4 columns_of_word[PER_WORD];
    [[unroll]] for (uint i = 0u; i < PER_WORD; i++)
        columns_of_word[i] = load_column(first + column_offset(min(column + i, columns - 1u)));
    uint row = block * PER_VECTOR;
    [[unroll]] for (uint word = 0u; word < 4u; word++) {
#if ELEMENT_BYTES == 1
        uint even_low = (columns_of_word[0][word] & 0x00ff00ffu) | (columns_of_word[1][word] & 0x00ff00ffu) << 8;
        uint even_high = (columns_of_word[2][word] & 0x00ff00ffu) | (columns_of_word[3][word] & 0x00ff00ffu) << 8;
        uint odd_low = (columns_of_word[0][word] >> 8 & 0x00ff00ffu) | (columns_of_word[1][word] & 0xff00ff00u);
        uint odd_high = (columns_of_word[2][word] >> 8 & 0x00ff00ffu) | (columns_of_word[3][word] & 0xff00ff00u);
        cells[cell(row, across)] = (even_low & 0xffffu) | even_high << 16;
        cells[cell(row + 1u, across)] = (odd_low & 0xffffu) | odd_high << 16;
        cells[cell(row + 2u, across)] = even_low >> 16 | (even_high & 0xffff0000u);
        cells[cell(row + 3u, across)] = odd_low >> 16 | (odd_high & 0xffff0000u);
#else
        cells[cell(row, across)] = (columns_of_word[0][word] & 0xffffu) | columns_of_word[1][word] << 16;
        cells[cell(row + 1u, across)] = columns_of_word[0][word] >> 16 | (columns_of_word[1][word] & 0xffff0000u);
#endif
        row += PER_WORD;
    }
}

uint kept_word(uint row, int word) { return cells[cell(row, uint(word))]; }

const bool ROWS_START_WITH_VECTORS = !OUTPUT_UNALIGNED;
#include "slice1_row_vectors.glsl"

// Returns what this tile stores of a row; the next tile has the word that both share.
RowSpan span_in_tile(uint target, uint columns_left, bool first_tile) {
    uint place = OUTPUT_UNALIGNED ? target % PER_WORD : 0u;
    bool last = columns_left <= OWNED * PER_WORD;
    uint end = last ? (place + columns_left + PER_WORD - 1u) / PER_WORD : OWNED + uint(place != 0u);
    return span_of_row(target, columns_left, first_tile, int(end));
}

// Returns where a row starts in the output, after the first of the matrix; false if it is not copied.
bool row_offset(uint row, out uint offset) {
    offset = row * row_output_stride;
    if (!ROW_GROUPS) return true;
    uint in_group, group = divide(row, group_rows, group_rows_inverse, in_group);
    offset = in_group * row_output_stride + group * row_group_output_stride;
    return in_group < copied_rows; // between groups lie others
}

void main() {
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint tiles_in_matrix = tiles_down * tiles_across;
        uint matrix = tile / tiles_in_matrix;
        uint number = tile - matrix * tiles_in_matrix;
        uvec2 place = place_of_tile(number);
        uint row = place.x * DOWN * PER_VECTOR;
        uint column = place.y * OWNED * PER_WORD;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base + row * ROW_STEP, output_base + column));
        uint rows_left = rows - row;
        uint columns_left = columns - column;

        for (uint i = gl_LocalInvocationID.x; i < DOWN * ACROSS; i += WORKGROUP) {
            uint block = i % DOWN;
            uint across = i / DOWN;
            // Beyond the matrix its last block is loaded again: without branches all loads are in flight at once.
            uint row_in_tile = min(block, (rows_left - 1u) / PER_VECTOR) * PER_VECTOR;
            load_block(bases.x + row_in_tile * ROW_STEP, column + across * PER_WORD, block, across);
        }
        barrier();
        uint rows_in_tile = min(rows_left, DOWN * PER_VECTOR);
        uint offset;
        for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * VECTORS; i += WORKGROUP) {
            uint down = i / VECTORS;
            if (row_offset(row + down, offset))
                store_vector_of_row(span_in_tile(bases.y + offset, columns_left, column == 0u), down, i % VECTORS);
        }
        if (OUTPUT_UNALIGNED || min(columns_left, OWNED * PER_WORD) % PER_VECTOR != 0u) {
            for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * 2u; i += WORKGROUP) {
                uint down = i / 2u;
                if (row_offset(row + down, offset))
                    store_end_of_row(span_in_tile(bases.y + offset, columns_left, column == 0u), down, i % 2u != 0u);
            }
        }
        barrier();
    }
}
