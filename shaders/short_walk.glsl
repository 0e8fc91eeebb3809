// Outputs whose elements lie along up to three dimensions, and are read in the order of memory: a run along the innermost of
// these, and runs along the others.
struct Walk {
    uvec3 sizes, strides; // of the dimensions, the innermost first
    uvec3 steps; // of the position
    uint offset, position; // of the first element that is read
};

#define RUN_LENGTH (POSITIONS != 0u ? POSITIONS : tile.walk.sizes.x)

// The layout ends with it.
Walk walk_at(uint word) {
    Walk walk;
    walk.offset = layout_word(word);
    walk.position = layout_word(word + 1u);
#define TAKE_WALK(dim, axis)                                \
    walk.sizes.axis = layout_word(word + 2u + 3u * dim);   \
    walk.strides.axis = layout_word(word + 3u + 3u * dim); \
    walk.steps.axis = layout_word(word + 4u + 3u * dim);
    TAKE_WALK(0u, x) TAKE_WALK(1u, y) TAKE_WALK(2u, z)
    return walk;
}

// Applies FOLD to the place of each run and the position of its first element.
#define FOR_EACH_RUN(FOLD, start)                                                    \
    uint plane = (start) + tile.walk.offset, plane_position = tile.walk.position;    \
    for (uint z = 0u; z < tile.walk.sizes.z; z++) {                                  \
        uint run_at = plane, run_position = plane_position;                          \
        for (uint y = 0u; y < tile.walk.sizes.y; y++) {                              \
            FOLD(run_at, run_position)                                               \
            run_at += tile.walk.strides.y;                                           \
            run_position += tile.walk.steps.y;                                       \
        }                                                                            \
        plane += tile.walk.strides.z;                                                \
        plane_position += tile.walk.steps.z;                                         \
    }
