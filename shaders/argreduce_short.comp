// Reduces short rows, or short stacks of rows: a workgroup copies a tile of the input to shared memory, whole vectors
// at a time, and its invocations then take the outputs of the tile in turn, in the order in which they lie in memory.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "interface.glsl"
#include "argreduce.glsl"
#include "key.glsl"
// Compile-time: COLUMNS: a single output at a time, or a word of adjacent outputs (narrow elements).
#include "short_tile.glsl"
#include "fold.glsl"

layout(std430, binding = BINDING_INDICES) writeonly buffer IndexPairs { uvec2 index_pairs[]; };

void write_index(uint target, uint position, uvec2 weight) {
    uint high, low;
    umulExtended(position, weight.x, high, low);
    if (flagged(FLAG_WIDE_INDICES)) {
        uint carry;
        low = uaddCarry(low, index_base_low, carry);
        index_pairs[target] = uvec2(low, high + position * weight.y + index_base_high + carry);
    } else {
        indices[target] = low + index_base_low;
    }
}

void main() {
    uint reduced = reduced_word(0u);
    uvec2 weight = uvec2(layout_word(reduced + 2u), layout_word(reduced + 3u));
    Divisors divisors = divisors_of(uvec2(tile_0, tile_1));
    for (uint number = gl_WorkGroupID.x; number < tiles; number += gl_NumWorkGroups.x) {
        Tile tile = tile_of_number(number);
        load_tile(tile);
        barrier();
        fold_tile(tile);
        // Outputs that are evenly apart are those of the first `outputs` numbers, wherever the tile is clipped.
        uvec3 sizes = EVENLY_APART ? tile.sizes : uvec3(tile_0, tile_1, tile_2);
        uint outputs = sizes.x * sizes.y * sizes.z;
        for (uint output_number = gl_LocalInvocationIndex; output_number < outputs; output_number += WORKGROUP) {
            uvec3 place = place_of(output_number, uvec2(tile_0, tile_1), divisors);
            if (!EVENLY_APART && any(greaterThanEqual(place, tile.sizes))) continue;
            uint position = position_at(tile, place, output_number);
            uint distance = EVENLY_APART ? output_number * output_stride_0 : dot_of(place, output_strides());
            uint target = tile.offsets.y + distance;
            write_index(target, position, weight);
            if (flagged(FLAG_WITH_VALUES))
                write_value(tile.offsets.x + dot_of(place, input_strides()) + position * tile.step, target);
        }
        if (number + gl_NumWorkGroups.x < tiles) barrier();
    }
}
