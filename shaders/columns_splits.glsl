// Stores the candidates of one split for the workgroup that combines all splits.
#include "splits.glsl"

void store_candidates(Best best, uint blocks, uint number, uint first_column, uint end_column, uint split, uint first) {
    [[unroll]] for (uint i = 0u; i < PARTS; i++) {
        [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j++) {
            uint column = i * PART_COLUMNS + j;
            uint rank = rank_of(first + position_of(rank_in_split(best.parts[i], j)));
            if (column >= first_column && column < end_column)
                store_candidate(blocks, number + column, split, key_of(best.parts[i], j), rank);
        }
    }
}
