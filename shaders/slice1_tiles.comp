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

// Tiles store units of the output: vectors, or whole sectors. A GPU takes longer to write a sector in two parts than to
// load a few columns twice.
const uint VECTORS_OF_UNIT = WHOLE_SECTORS ? uint(VECTORS_PER_SECTOR) : 1u;
const uint PER_UNIT = VECTORS_OF_UNIT * PER_VECTOR, CELLS_OF_UNIT = VECTORS_OF_UNIT * CELLS_OF_VECTOR;
const bool IS_SHIFTED = OUTPUT_UNALIGNED || WHOLE_SECTORS;

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
    offset += in_group * column_input_stride + group * column_group_input_stride;
    if (!COLUMN_BLOCKS) return offset;
    uint word = dims * COPIED_DIM_WORDS + (ROW_BLOCKS ? ROW_BLOCK_WORDS : 0u);
    uint of_block, block = divide(group, layout_word(word), layout_word(word + 1u), of_block);
    return offset + block * layout_word(word + 2u);
}

#include "loads.glsl"

// Returns how many elements of a row lie before the first unit of the output that begins in it.
uint before_units(uint target) { return IS_SHIFTED ? (0u - target) % PER_UNIT : 0u; }

// Stores vector `number` of the units that begin in a row at `target` and in the tile whose columns begin with
// `first_column`. The last unit may end with the first columns of the next row.
void store_vector(uint row_in_tile, bool last_row, uint target, uint first_column, uint number) {
    uint in_tile = before_units(target) + number * PER_VECTOR;
    uint column = first_column + in_tile;
    if (column - number % VECTORS_OF_UNIT * PER_VECTOR >= columns) return;
    if (column + PER_VECTOR > columns && (!CONTINUED || last_row)) return;
    output_vectors[(target + column) / PER_VECTOR] = vector_from(cell(row_in_tile, in_tile / PER_CELL), in_tile % PER_CELL);
}

// Stores cell `number` of what lies in a row before its first unit, or after its last vector if that is the tile's.
void store_end(uint row_in_tile, uint target, uint first_column, bool after, uint number) {
    int before = int(before_units(target)), length = int(columns), begin = 0, end = min(before, length);
    int column = before - int(PER_UNIT);
    if (after) {
        if (before >= length) return;
        begin = column = before + (length - before) / int(PER_VECTOR) * int(PER_VECTOR);
        end = length;
        if (uint(column - before) - first_column >= tile_vectors * PER_VECTOR) return;
    }
    column += int(number * PER_CELL);
    begin = max(begin - column, 0);
    end = min(end - column, int(PER_CELL));
    if (end <= begin) return;
    // A row may begin within the cell: its other elements are then arbitrary.
    uint in_tile = uint(column) + PER_UNIT - first_column;
    uint first_cell = cell(row_in_tile, in_tile / PER_CELL) - CELLS_OF_UNIT;
    store_cell(target + uint(column), first_cell, in_tile % PER_CELL, uint(begin), uint(end));
}

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
                store_vector(down, row + down == last_row, bases.y + offset, column, number);
        }
        bool before = IS_SHIFTED && column == 0u;
        bool after = columns_left < tile_vectors * PER_VECTOR + PER_UNIT;
        if (PER_UNIT > 1u && (before || after) && (!CONTINUED || row == 0u || rows_left == rows_in_tile)) {
            uint ends = before && after ? 2u * CELLS_OF_UNIT : CELLS_OF_UNIT;
            for (uint i = gl_LocalInvocationID.x; i < rows_in_tile * ends; i += WORKGROUP) {
                uint down = i / ends, end = i - down * ends;
                bool is_after = !before || end >= CELLS_OF_UNIT;
                if (CONTINUED && row + down != (is_after ? last_row : first_row)) continue;
                if (row_offset(row + down, offset))
                    store_end(down, bases.y + offset, column, is_after, end % CELLS_OF_UNIT);
            }
        }
        if (!IN_ROUNDS) break;
        barrier();
    }
}
