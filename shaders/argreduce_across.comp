// Reduces columns whose outputs lie in another order than the input: neighbouring columns have their outputs far apart,
// and neighbouring rows of columns have theirs side by side. A workgroup takes a tile of a few rows and a piece of each:
// an invocation folds a vector of columns, and what all have found goes through shared memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#define SUBGROUPS 0
#define LAYOUT_IN_SHARED 0
// Compile-time: LOADS: aligned vectors of 16 bytes, or vectors that start at any element.
#include "interface.glsl"
#include "barriers.glsl"
#include "argreduce.glsl"
#include "key.glsl"
#include "candidate.glsl"
#include "loads.glsl"
#include "parts.glsl"

#define COLUMNS (uint(PARTS) * PART_COLUMNS)

struct Best {
    Part parts[PARTS];
};

#define REST_IN_PAIRS 1
#include "columns_fold.glsl"

shared uint positions_found[FOUND_WORDS]; // of the tile's columns, those of a row apart

// Folds all positions of the columns from offset `base` on.
void fold_columns(inout Best best, uint base) {
    uint dim = reduced_word(ONE_STRIDE ? 0u : reduced_dims - 1u), inner = layout_word(dim), stride = layout_word(dim + 1u);
    for (uint position = 0u; position < reduce_count; position += inner) {
        uint offset = base;
        if (!ONE_STRIDE) offset += reduced_offset(position / inner, reduced_dims - 1u);
        fold_positions(best, position, 1u, offset, stride, inner);
        if (ONE_STRIDE) break;
    }
    if (!TAKE_LAST) [[unroll]] for (uint i = 0u; i < PARTS; i++) settle_first(best.parts[i], rank_of(0u));
}

// Returns the offsets of the first column of a row.
uvec2 offsets_of_row(uint row) { return offsets_of(row, kept_dims - 1u, uvec2(input_base, output_base)); }

// Returns which rows, and which piece of them, tile `number` is: bands of pieces side by side, each from row to row.
uvec2 place_of_tile(uint number, uint tiles_down) {
    uint band = number / (BAND * tiles_down), rest = number - band * BAND * tiles_down;
    uint width = min(BAND, tiles_per_run - band * BAND), down = rest / width;
    return uvec2(down, band * BAND + rest - down * width);
}

void main() {
    uint row_in_tile = gl_LocalInvocationIndex / tile_vectors;
    uint vector_in_tile = gl_LocalInvocationIndex - row_in_tile * tile_vectors;
    uint first_written = gl_LocalInvocationIndex / tile_rows, written_at_once = WORKGROUP / tile_rows;
    uint row_written = gl_LocalInvocationIndex - first_written * tile_rows;
    uint pitch = tile_rows + 1u, word = (kept_dims - 1u) * COPIED_DIM_WORDS;
    uvec2 column_strides = uvec2(layout_word(word + 1u), layout_word(word + 2u));
    uint tiles_down = (rows + tile_rows - 1u) / tile_rows, tiles = tiles_per_run * tiles_down;
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uvec2 place = place_of_tile(tile, tiles_down);
        uint first_row = place.x * tile_rows, begin = place.y * tile_vectors * COLUMNS;
        uint column = begin + vector_in_tile * COLUMNS, row = first_row + row_in_tile;
        if (row_in_tile < tile_rows && row < rows && column < run) {
            // A vector that would extend past the end of its row ends there instead.
            uint first_column = min(column, run - COLUMNS);
            Best best;
            [[unroll]] for (uint i = 0u; i < PARTS; i++) best.parts[i] = NOBODY;
            fold_columns(best, offsets_of_row(row).x + first_column);
            uint at = (first_column - begin) * pitch + row_in_tile;
            [[unroll]] for (uint i = 0u; i < PARTS; i++)
                [[unroll]] for (uint j = 0u; j < PART_COLUMNS; j++) {
                    if (first_column + i * PART_COLUMNS + j >= column)
                        positions_found[at] = position_of(rank_in_split(best.parts[i], j));
                    at += pitch;
                }
        }
        workgroup_barrier();
        if (first_written < written_at_once && first_row + row_written < rows) {
            uint end = min(tile_vectors * COLUMNS, run - begin);
            uvec2 offsets = offsets_of_row(first_row + row_written) + (begin + first_written) * column_strides;
            bool by_words = ONE_STRIDE && !flagged(FLAG_HIGH_WORDS) && !flagged(FLAG_WITH_VALUES);
            bool wide = flagged(FLAG_WIDE_INDICES);
            uint weight = layout_word(reduced_word(0u) + 2u);
            for (uint i = first_written; i < end; i += written_at_once) {
                uint position = positions_found[i * pitch + row_written];
                uint low = index_base_low + position * weight;
                if (!by_words) write_result(offsets, position);
                else if (wide) index_pairs[offsets.y] = uvec2(low, 0u);
                else indices[offsets.y] = low;
                offsets += written_at_once * column_strides;
            }
        }
        if (!IN_ROUNDS) break;
        workgroup_barrier();
    }
}
