// Loads of columns and stores of rows, of elements of 4, 8 and 16 bytes.
#if ELEMENT_BYTES == 4
#define input_cells input_words
#define output_cells output_words
uvec4 vector_from(uint at, uint within) { return uvec4(cells[at], cells[at + 1u], cells[at + 2u], cells[at + 3u]); }
#elif ELEMENT_BYTES == 8
#define input_cells input_pairs
#define output_cells output_pairs
uvec4 vector_from(uint at, uint within) { return uvec4(cells[at], cells[at + 1u]); }
#else
#define input_cells input_vectors
#define output_cells output_vectors
uvec4 vector_from(uint at, uint within) { return cells[at]; }
#endif

// An invocation loads an element of each of a few columns; its neighbours load their columns' next ones.
const uint ROWS_AT_ONCE = 1u;
const uint MOST_COLUMNS_AT_ONCE = ELEMENT_BYTES == 4 ? uint(TILE_WORDS_AT_ONCE) : uint(TILE_COLUMNS_AT_ONCE);

// Loads what an invocation takes at once of columns from `number` on, and keeps it in a row from cell `at` on.
void load_columns(uint first, uint number, uint at) {
    CELL elements[MOST_COLUMNS_AT_ONCE];
    Column column = column_at(number);
    for (uint i = 0u; i < COLUMNS_AT_ONCE; i++) {
        elements[i] = input_cells[min(first + column.offset, (last_vector + 1u) * PER_VECTOR - 1u)];
        column = column_after(column);
    }
    for (uint i = 0u; i < COLUMNS_AT_ONCE; i++) cells[at + i] = elements[i];
}

void store_cell(uint target, uint at, uint within, uint begin, uint end) { output_cells[target] = cells[at]; }
