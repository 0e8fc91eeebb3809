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

// Of shared memory, from row to row and from block to block: neighbours along a column, and blocks below each other,
// are in different banks.
const uint ROW_PITCH = ACROSS + 1u, BLOCK_BANKS = 32u / DOWN;
const uint BLOCK_PITCH =
    PER_VECTOR * ROW_PITCH + ((BLOCK_BANKS - PER_VECTOR * ROW_PITCH) & (2u * BLOCK_BANKS - 1u));
const uint CELLS = DOWN * BLOCK_PITCH;
shared uint cells[CELLS];

uint cell(uint row, uint word) { return row / PER_VECTOR * BLOCK_PITCH + row % PER_VECTOR * ROW_PITCH + word; }

#include "slice1_divide.glsl"
#include "slice1_tile_order.glsl"

// Returns where a column starts in the input, after the matrix's first. Columns after the last are the first of the
// next row of the output.
uint column_offset(uint column) {
    uint offset = 0u;
    if (CONTINUED) {
        bool next = column >= columns;
        column -= next ? columns : 0u;
        offset = next ? next_row_input_offset : 0u;
    } else {
        column = min(column, columns - 1u);
    }
    if (!COLUMN_GROUPS) return offset + column * column_input_stride;
    uint in_group, group = divide(column, group_columns, group_columns_inverse, in_group);
    return offset + in_group * column_input_stride + group * column_group_input_stride;
}

// As funnel(): a multiplication that adds is one instruction.
uvec4 spliced(uvec4 low, uvec4 high, uint shift) { return high * (2u << (31u - shift)) + (low >> shift); }

// Offsets wrap where the next row, beside the first of the input, begins before it.
uvec4 load_vector(uint vector) {
    if (CONTINUED) vector &= ~0u / PER_VECTOR;
    return input_vectors[min(vector, last_vector)];
}

uvec2 load_pair(uint pair) {
    if (CONTINUED) pair &= ~0u / (PER_VECTOR / 2u);
    return input_pairs[min(pair, last_vector * 2u + 1u)];
}

// Returns the four words from word `first` (modulo 4) of two vectors.
uvec4 words_from(uint first, uvec4 low, uvec4 high) {
    uvec4 words = (first & 2u) != 0u ? uvec4(low.zw, high.xy) : low;
    uint next = (first & 2u) != 0u ? high.z : high.x;
    return (first & 1u) != 0u ? uvec4(words.yzw, next) : words;
}

uint word_of(uvec4 vector, uint number) {
    uvec2 words = (number & 2u) != 0u ? vector.zw : vector.xy;
    return (number & 1u) != 0u ? words.y : words.x;
}

#if ROW_STEP == 1
// Loads a vector of a column's elements that starts anywhere in a vector of the input. By pairs there are fewer words to
// choose from, but more loads; these take long where a subgroup's are on many columns.
uvec4 load_unaligned(uint first) {
    uint word = first / PER_WORD, next;
    uvec4 words;
    if (DOWN < 8u) {
        uvec4 low = load_vector(word / 4u), high = load_vector(word / 4u + 1u);
        words = words_from(word, low, high);
        next = word_of(high, word);
    } else {
        uvec2 low = load_pair(word / 2u), middle = load_pair(word / 2u + 1u), high = load_pair(word / 2u + 2u);
        bool odd = (word & 1u) != 0u;
        words = odd ? uvec4(low.y, middle, high.x) : uvec4(low, middle);
        next = odd ? high.y : high.x;
    }
    return spliced(words, uvec4(words.yzw, next), first % PER_WORD * BITS);
}
#endif

// Loads a vector of a column's elements, the first of which lies at `first`; those beyond the input are arbitrary.
// Whole vectors are loaded wherever it starts: single words would take the load unit several times as long.
uvec4 load_column(uint first) {
#if ROW_STEP == 1
    return INPUT_UNALIGNED ? load_unaligned(first) : load_vector(first / PER_VECTOR);
#else
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
#if ROW_STEP == 2
    uvec4 even = uvec4(loaded[0].xz, loaded[1].xz), odd = uvec4(loaded[0].yw, loaded[1].yw);
    if (!INPUT_UNALIGNED) return every_second(even, odd);
    return every_second(spliced(even, odd, shift), spliced(odd, uvec4(even.yzw, next), shift));
#else
    uvec4 first_words = uvec4(loaded[0].xw, loaded[1].z, loaded[2].y);
    uvec4 second_words = uvec4(loaded[0].y, loaded[1].xw, loaded[2].z);
    uvec4 third_words = uvec4(loaded[0].z, loaded[1].y, loaded[2].xw);
    if (!INPUT_UNALIGNED) return every_third(first_words, second_words, third_words);
    return every_third(
        spliced(first_words, second_words, shift),
        spliced(second_words, third_words, shift),
        spliced(third_words, uvec4(first_words.yzw, next), shift)
    );
#endif
#endif
}

// Loads a vector of each column of a word of columns, and keeps them as words of rows.
void load_block(uint first, uint column, uint block, uint across) {
    uvec4 columns_of_word[PER_WORD];
    [[unroll]] for (uint i = 0u; i < PER_WORD; i++)
        columns_of_word[i] = load_column(first + column_offset(column + i));
    uint first_cell = cell(block * PER_VECTOR, across);
    [[unroll]] for (uint word = 0u; word < 4u; word++) {
        uint row = first_cell + word * PER_WORD * ROW_PITCH;
#if ELEMENT_BYTES == 1
        uvec4 bytes = uvec4(
            columns_of_word[0][word], columns_of_word[1][word], columns_of_word[2][word], columns_of_word[3][word]
        );
        uvec2 even = (bytes.xz & 0x00ff00ffu) | (bytes.yw << 8 & 0xff00ff00u);
        uvec2 odd = (bytes.xz >> 8 & 0x00ff00ffu) | (bytes.yw & 0xff00ff00u);
        cells[row] = (even.x & 0xffffu) | even.y << 16;
        cells[row + ROW_PITCH] = (odd.x & 0xffffu) | odd.y << 16;
        cells[row + 2u * ROW_PITCH] = even.x >> 16 | (even.y & 0xffff0000u);
        cells[row + 3u * ROW_PITCH] = odd.x >> 16 | (odd.y & 0xffff0000u);
#else
        cells[row] = (columns_of_word[0][word] & 0xffffu) | columns_of_word[1][word] << 16;
        cells[row + ROW_PITCH] = columns_of_word[0][word] >> 16 | (columns_of_word[1][word] & 0xffff0000u);
#endif
    }
}

// Returns how many elements of a row lie before the first vector of the output that begins in it.
uint before_vectors(uint target) { return OUTPUT_UNALIGNED ? (0u - target) % PER_VECTOR : 0u; }

// Stores vector `number` of those that begin in a row at `target` and in the tile whose columns begin with `first_column`.
// The last may end with the first columns of the next row.
void store_vector(uint row_in_tile, bool last_row, uint target, uint first_column, uint number) {
    uint in_tile = before_vectors(target) + number * PER_VECTOR;
    uint column = first_column + in_tile;
    if (column >= columns || (column + PER_VECTOR > columns && (!CONTINUED || last_row))) return;
    uint word = cell(row_in_tile, in_tile / PER_WORD);
    uvec4 words = uvec4(cells[word], cells[word + 1u], cells[word + 2u], cells[word + 3u]);
    if (OUTPUT_UNALIGNED)
        words = spliced(words, uvec4(words.yzw, cells[word + 4u]), in_tile % PER_WORD * BITS);
    output_vectors[(target + column) / PER_VECTOR] = words;
}

// Stores word `number` of what lies in a row before its first vector, or after its last one if that is the tile's.
void store_end(uint row_in_tile, uint target, uint first_column, bool after, uint number) {
    int before = int(before_vectors(target)), length = int(columns), begin = 0, end = min(before, length);
    int column = before - int(PER_VECTOR);
    if (after) {
        if (before >= length) return;
        begin = column = before + (length - before) / int(PER_VECTOR) * int(PER_VECTOR);
        end = length;
        if (uint(column - before) - first_column >= tile_vectors * PER_VECTOR) return;
    }
    column += int(number * PER_WORD);
    begin = max(begin - column, 0);
    end = min(end - column, int(PER_WORD));
    if (end <= begin) return;
    // A row may begin within the word: its other elements are then arbitrary.
    uint in_tile = uint(column) + PER_VECTOR - first_column;
    uint word = cell(row_in_tile, in_tile / PER_WORD) - 4u;
    uint bits = funnel(cells[min(word, CELLS - 1u)], cells[min(word + 1u, CELLS - 1u)], in_tile % PER_WORD * BITS);
    uint written = (2u << (uint(end) * BITS - 1u)) - (1u << (uint(begin) * BITS));
    store_bits((target + uint(column)) / PER_WORD, bits, written);
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
    uint number, down_first = divide(gl_LocalInvocationID.x, tile_vectors, tile_vectors_inverse, number);
    uint none, rows_at_once = divide(WORKGROUP, tile_vectors, tile_vectors_inverse, none);
    if (down_first >= rows_at_once) down_first = DOWN * PER_VECTOR;
    bool descending = CONTINUED && int(row_output_stride) < 0;
    uint first_row = descending ? rows - 1u : 0u, last_row = rows - 1u - first_row;

    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint tiles_in_matrix = tiles_down * tiles_across;
        uint number_in_matrix, matrix = divide(tile, tiles_in_matrix, tiles_in_matrix_inverse, number_in_matrix);
        uvec2 place = place_of_tile(number_in_matrix);
        uint row = place.x * DOWN * PER_VECTOR;
        uint column = place.y * tile_vectors * PER_VECTOR;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base + row * ROW_STEP, output_base));
        uint rows_left = rows - row;
        uint columns_left = columns - column;

        // The last vector of a row may end beyond the tile.
        uint loaded = (tile_vectors + uint(OUTPUT_UNALIGNED)) * PER_VECTOR;
        loaded = min(loaded, columns_left + (CONTINUED ? PER_VECTOR - 1u : 0u));
        loaded = (loaded + PER_WORD - 1u) / PER_WORD;
        for (uint i = gl_LocalInvocationID.x; i < DOWN * loaded; i += WORKGROUP) {
            uint block = i % DOWN;
            uint across = i / DOWN;
            // Beyond the matrix its last block is loaded again: without branches all loads are in flight at once.
            uint row_in_tile = min(block, (rows_left - 1u) / PER_VECTOR) * PER_VECTOR;
            load_block(bases.x + row_in_tile * ROW_STEP, column + across * PER_WORD, block, across);
        }
        barrier();
        uint rows_in_tile = min(rows_left, DOWN * PER_VECTOR);
        uint offset;
        for (uint down = down_first; down < rows_in_tile; down += rows_at_once) {
            if (row_offset(row + down, offset))
                store_vector(down, row + down == last_row, bases.y + offset, column, number);
        }
        bool before = OUTPUT_UNALIGNED && column == 0u;
        bool after = columns_left < tile_vectors * PER_VECTOR + PER_VECTOR;
        if ((before || after) && (!CONTINUED || row == 0u || rows_left == rows_in_tile)) {
            uint ends = before && after ? 2u * END_WORDS : END_WORDS;
            for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * ends; i += WORKGROUP) {
                uint down = i / ends, word = i - down * ends;
                bool is_after = !before || word >= END_WORDS;
                if (CONTINUED && row + down != (is_after ? last_row : first_row)) continue;
                if (row_offset(row + down, offset))
                    store_end(down, bases.y + offset, column, is_after, word % END_WORDS);
            }
        }
        barrier();
    }
}
