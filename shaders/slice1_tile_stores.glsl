// Stores the rows of a tile: the units of the output that begin in it, and what lies in a row before its first unit and after
// its last vector.
//
// The including file includes slice1_tile_units.glsl. It defines `columns`, elements of a row, and `tile_vectors`; where cells
// lie: cell(row, across); what they hold: vector_from(cell, within) and store_cell(target, cell, within, begin, end); and which
// rows others continue: CONTINUED and is_outermost(row, after).

// Returns how many elements of a row lie before the first unit of the output that begins in it.
uint before_units(uint target) { return IS_SHIFTED ? (0u - target) % PER_UNIT : 0u; }

// Stores vector `number` of the units that begin in a row at `target` and in the tile whose columns begin with
// `first_column`. The last unit may end with the first columns of the next row.
void store_vector(uint row_in_tile, uint row, uint target, uint first_column, uint number) {
    uint in_tile = before_units(target) + number * PER_VECTOR;
    uint column = first_column + in_tile;
    if (column - number % VECTORS_OF_UNIT * PER_VECTOR >= columns) return;
    if (column + PER_VECTOR > columns && (!CONTINUED || is_outermost(row, true))) return;
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
