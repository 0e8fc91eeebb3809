// Copies with the input at equal small distances along some dimensions and the output contiguous along others. Tiles
// pass through shared memory: vectors of columns are loaded, vectors of rows stored. Rows come in groups, one for each
// place along a second dimension, and so do columns; groups come in blocks, one for each place along a third.
//
// Compile-time: ELEMENT_BYTES; ROW_STEP, how far apart the elements of a column lie in the input.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "interface.glsl"
#include "slice1.glsl"
#include "layout.glsl"

const uint PER_VECTOR = uint(VECTOR_BYTES / ELEMENT_BYTES);

// A cell of shared memory is a word of narrow elements, or one element.
#if ELEMENT_BYTES <= 4
#define CELL uint
const uint PER_CELL = PER_WORD;
#else
const uint PER_CELL = 1u;
#if ELEMENT_BYTES == 8
#define CELL uvec2
#else
#define CELL uvec4
#endif
#endif
const uint CELLS_OF_VECTOR = PER_VECTOR / PER_CELL;

#include "slice1_tile_units.glsl"

// Of shared memory, from row to row and from block to block: neighbours along a column, and blocks below each other,
// are in different banks.
const uint ROW_PITCH = ACROSS + 1u, BLOCK_BANKS = 8u * CELLS_OF_VECTOR / DOWN;
const uint BLOCK_PITCH =
    PER_VECTOR * ROW_PITCH + ((BLOCK_BANKS - PER_VECTOR * ROW_PITCH) & (2u * BLOCK_BANKS - 1u));
const uint CELLS = DOWN * BLOCK_PITCH;
shared CELL cells[CELLS];

uint cell(uint row, uint across) { return row / PER_VECTOR * BLOCK_PITCH + row % PER_VECTOR * ROW_PITCH + across; }

#include "slice1_divide.glsl"
#include "slice1_tile_order.glsl"

// After the matrices, the layout has ROW_BLOCK_WORDS for rows in blocks: rows of a block, their reciprocal, groups that
// are copied of it, from block to block of the output. Then, for columns in blocks: groups of a block, their reciprocal,
// and how much further the first group of the next block lies in the input than one more of this block would.

uint column_block_word() { return dims * COPIED_DIM_WORDS + (ROW_BLOCKS ? ROW_BLOCK_WORDS : 0u); }

// A column of the matrix. Those after the last are the first of the next row of the output, or the last one again.
struct Column {
    uint number;
    uint offset; // where it starts in the input, after the matrix's first
    uint in_group;
    uint group; // in its block
};

Column column_at(uint number) {
    Column column = Column(number, 0u, 0u, 0u);
    if (CONTINUED) {
        bool next = number >= columns;
        number -= next ? columns : 0u;
        column.offset = next ? next_row_input_offset : 0u;
    } else {
        number = min(number, columns - 1u);
    }
    if (COLUMN_GROUPS) {
        column.group = divide(number, group_columns, group_columns_inverse, column.in_group);
        number = column.in_group;
        column.offset += column.group * column_group_input_stride;
    }
    column.offset += number * column_input_stride;
    if (COLUMN_BLOCKS) {
        uint word = column_block_word();
        uint block = divide(column.group, layout_word(word), layout_word(word + 1u), column.group);
        column.offset += block * layout_word(word + 2u);
    }
    return column;
}

// Returns the next column, without a division.
Column column_after(Column column) {
    if (!COLUMN_GROUPS) return column_at(column.number + 1u);
    uint offset = column.offset + column_input_stride;
    column.in_group++;
    if (column.in_group == group_columns) {
        column.in_group = 0u;
        offset += column_group_input_stride - group_columns * column_input_stride;
        if (COLUMN_BLOCKS) {
            uint word = column_block_word();
            column.group++;
            if (column.group == layout_word(word)) {
                column.group = 0u;
                offset += layout_word(word + 2u);
            }
        }
    }
    column.number++;
    if (column.number < columns || CONTINUED) column.offset = offset;
    if (column.number == columns && CONTINUED) column.offset = next_row_input_offset;
    return column;
}

#include "loads.glsl"

// Rows that none comes before in the output, or after it, are the first or the last `outermost_rows` of the matrix.
uint outermost_rows(bool first_ones) {
    if (!ROW_GROUPS) return 1u;
    return first_ones ? group_rows : (copied_rows - 1u) * ROWS_APART + 1u; // the last group may have fewer
}

// Returns whether no row comes before this one in the output, or after it, with which it could share a vector.
bool is_outermost(uint row, bool after) {
    bool descending = int(ROW_GROUPS ? row_group_output_stride : row_output_stride) < 0;
    return after == descending ? row < outermost_rows(true) : row >= rows - outermost_rows(false);
}

#include "slice1_tile_stores.glsl"

// Returns where a row starts in the output, after the first of the matrix; false if it is not copied.
bool row_offset(uint row, out uint offset) {
    offset = row * row_output_stride;
    if (!ROW_GROUPS) return true;
    bool is_copied = true; // between groups lie others, and between copied rows
    uint block_offset = 0u, groups = 0u;
    if (ROW_BLOCKS) {
        uint word = dims * COPIED_DIM_WORDS;
        block_offset = divide(row, layout_word(word), layout_word(word + 1u), row) * layout_word(word + 3u);
        groups = layout_word(word + 2u);
    }
    uint in_group, group = divide(row, group_rows, group_rows_inverse, in_group), number = in_group / ROWS_APART;
    if (ROW_BLOCKS) is_copied = group < groups;
    is_copied = is_copied && number < copied_rows && in_group % ROWS_APART == 0u;
    offset = block_offset + group * row_group_output_stride + number * row_output_stride;
    return is_copied;
}

void main() {
    uint number, down_first = divide(gl_LocalInvocationID.x, tile_vectors, tile_vectors_inverse, number);
    uint none, rows_at_once = divide(WORKGROUP, tile_vectors, tile_vectors_inverse, none);
    if (down_first >= rows_at_once) down_first = DOWN * PER_VECTOR;

    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint tiles_in_matrix = tiles_down * tiles_across;
        uint number_in_matrix, matrix = divide(tile, tiles_in_matrix, tiles_in_matrix_inverse, number_in_matrix);
        uvec2 place = place_of_tile(number_in_matrix);
        uint row = place.x * DOWN * PER_VECTOR;
        uint column = place.y * tile_vectors * PER_VECTOR;
        uvec2 bases = offsets_of(matrix, dims, uvec2(input_base + row * ROW_STEP, output_base));
        uint rows_left = rows - row;
        uint columns_left = columns - column;

        // The last unit of a row may end beyond the tile.
        uint loaded = (tile_vectors + uint(OUTPUT_UNALIGNED) + uint(WHOLE_SECTORS)) * PER_VECTOR;
        loaded = min(loaded, columns_left + (CONTINUED ? PER_UNIT - 1u : 0u));
        loaded = (loaded + COLUMNS_AT_ONCE - 1u) / COLUMNS_AT_ONCE;
        const uint parts_down = DOWN * PER_VECTOR / ROWS_AT_ONCE;
        for (uint i = gl_LocalInvocationID.x; i < parts_down * loaded; i += WORKGROUP) {
            uint across = i / parts_down, part = i % parts_down;
            // Beyond the matrix its last rows are loaded again: without branches all loads are in flight at once.
            uint row_in_tile = min(part, (rows_left - 1u) / ROWS_AT_ONCE) * ROWS_AT_ONCE;
            load_columns(
                bases.x + row_in_tile * ROW_STEP, column + across * COLUMNS_AT_ONCE,
                cell(part * ROWS_AT_ONCE, across * (COLUMNS_AT_ONCE / PER_CELL))
            );
        }
        barrier();
        uint rows_in_tile = min(rows_left, DOWN * PER_VECTOR);
        uint offset;
        for (uint down = down_first; down < rows_in_tile; down += rows_at_once) {
            if (row_offset(row + down, offset))
                store_vector(down, row + down, bases.y + offset, column, number);
        }
        bool before = IS_SHIFTED && column == 0u;
        bool after = columns_left < tile_vectors * PER_VECTOR + PER_UNIT;
        bool has_ends = !CONTINUED || row < outermost_rows(true) || rows_left < rows_in_tile + outermost_rows(false);
        if (PER_UNIT > 1u && (before || after) && has_ends) {
            uint ends = before && after ? 2u * CELLS_OF_UNIT : CELLS_OF_UNIT;
            for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * ends; i += WORKGROUP) {
                uint down = i / ends, end = i - down * ends;
                bool is_after = !before || end >= CELLS_OF_UNIT;
                if (CONTINUED && !is_outermost(row + down, is_after)) continue;
                if (row_offset(row + down, offset))
                    store_end(down, bases.y + offset, column, is_after, end % CELLS_OF_UNIT);
            }
        }
        if (!IN_ROUNDS) break;
        barrier();
    }
}
