// Loads of columns and stores of rows, of elements of 1 and 2 bytes.
#include "slice1_every.glsl"
#include "slice1_shifted_cells.glsl"

// An invocation loads a vector of each of the columns of a word, or of two words of halves.
const uint ROWS_AT_ONCE = PER_VECTOR, WORDS_AT_ONCE = COLUMNS_AT_ONCE / PER_WORD;

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
// choose from, but more loads; these take long where a subgroup's are on many columns, and in the large tiles that store
// whole sectors.
uvec4 load_unaligned(uint first) {
    uint word = first / PER_WORD, next;
    uvec4 words;
    if (DOWN < 8u || WHOLE_SECTORS) {
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

// Loads what an invocation takes at once of columns from `number` on, and keeps it as words of rows from cell `at` on.
void load_columns(uint first, uint number, uint at) {
    uvec4 vectors[TILE_COLUMNS_AT_ONCE];
    Column column = column_at(number);
    for (uint i = 0u; i < COLUMNS_AT_ONCE; i++) {
        vectors[i] = load_column(first + column.offset);
        column = column_after(column);
    }
    for (uint across = 0u; across < WORDS_AT_ONCE; across++) {
        uint column_of_word = across * PER_WORD;
        [[unroll]] for (uint word = 0u; word < 4u; word++) {
            uint row = at + across + word * PER_WORD * ROW_PITCH;
            uint first_column = vectors[column_of_word][word], second_column = vectors[column_of_word + 1u][word];
#if ELEMENT_BYTES == 1
            uvec4 bytes = uvec4(first_column, second_column, vectors[2][word], vectors[3][word]);
            uvec2 even = (bytes.xz & 0x00ff00ffu) | (bytes.yw << 8 & 0xff00ff00u);
            uvec2 odd = (bytes.xz >> 8 & 0x00ff00ffu) | (bytes.yw & 0xff00ff00u);
            cells[row] = (even.x & 0xffffu) | even.y << 16;
            cells[row + ROW_PITCH] = (odd.x & 0xffffu) | odd.y << 16;
            cells[row + 2u * ROW_PITCH] = even.x >> 16 | (even.y & 0xffff0000u);
            cells[row + 3u * ROW_PITCH] = odd.x >> 16 | (odd.y & 0xffff0000u);
#else
            cells[row] = (first_column & 0xffffu) | second_column << 16;
            cells[row + ROW_PITCH] = first_column >> 16 | (second_column & 0xffff0000u);
#endif
        }
    }
}
