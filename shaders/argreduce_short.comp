// Reduces short rows, or short stacks of rows: a workgroup copies a tile of the input to shared memory, whole vectors
// at a time, and its invocations then take the outputs of the tile in turn, in the order in which they lie in memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "argreduce.glsl"
#include "key.glsl"
// Compile-time: COLUMNS: a single output at a time, a word of adjacent outputs, or four rows (both narrow elements); or a
// single one whose elements lie along several dimensions.
#include "short_tile.glsl"
#include "short_results.glsl"
#include "fold.glsl"

void main() {
    find_end_of_input();
    Divisors divisors = divisors_of(uvec2(tile_0, tile_1));
    for (uint number = gl_WorkGroupID.x; number < tiles; number += gl_NumWorkGroups.x) {
        Tile tile = tile_of_number(number);
#if COLUMNS != COLUMNS_WALKED_PACKED // which are read where they are
        if (!DIRECT) {
            load_tile(tile);
            barrier();
        }
#endif
        fold_tile(tile);
        // Outputs that are evenly apart are those of the first `outputs` numbers, wherever the tile is clipped.
        uvec3 sizes = EVENLY_APART ? tile.sizes : uvec3(tile_0, tile_1, tile_2);
        uint outputs = FOLDS_WRITE ? 0u : sizes.x * sizes.y * sizes.z;
        FOR_EACH_OWN(output_number, outputs) {
            uvec3 place = place_of(output_number, uvec2(tile_0, tile_1), divisors);
            if (!EVENLY_APART && any(greaterThanEqual(place, tile.sizes))) continue;
            uint position = position_at(tile, place, output_number);
            uint distance = EVENLY_APART ? output_number * output_stride_0 : dot_of(place, output_strides());
            write_output(tile, place, distance, position);
        }
        if (!IN_ROUNDS) break;
        if (!DIRECT && number + gl_NumWorkGroups.x < tiles) barrier();
    }
}
