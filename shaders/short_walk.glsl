// Outputs whose elements lie along up to three dimensions, and are read in the order of memory: a run along the innermost of
// these, and runs along the others.
struct Walk {
    uvec3 sizes, strides; // of the dimensions, the innermost first
    uvec3 steps; // of the position
    uint offset, position; // of the first element that is read
    uint joined_step; // of the position, from a column to the next one of the same output
};

struct Run { uint count, stride, step; };
Run run_of(Walk walk) { return Run(POSITIONS != 0u ? POSITIONS : walk.sizes.x, walk.strides.x, walk.steps.x); }

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
    walk.joined_step = JOINED > 1u ? layout_word(word + 11u) : 0u;
    return walk;
}

// Applies FOLD to the place of each run and the position of its first element, in one loop.
#define FOR_EACH_RUN(FOLD, start)                                                                     \
    uint far_stride = POSITIONS_APART ? tile.position_stride : tile.walk.strides.z;                   \
    uint run_at = (start), run_position = tile.walk.position, runs = 0u;           \
    for (uint left = tile.walk.sizes.y * tile.walk.sizes.z; left > 0u; left--) {                      \
        FOLD(run_at, run_position)                                                                    \
        run_at += tile.walk.strides.y;                                                                \
        run_position += tile.walk.steps.y;                                                            \
        bool ends = ++runs == tile.walk.sizes.y;                                                      \
        run_at += ends ? far_stride - tile.walk.sizes.y * tile.walk.strides.y : 0u;          \
        run_position += ends ? tile.walk.steps.z - tile.walk.sizes.y * tile.walk.steps.y : 0u;        \
        runs = ends ? 0u : runs;                                                                      \
    }
