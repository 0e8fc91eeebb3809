// Where the elements of a run lie, for workgroups that copy a stretch of it. A workgroup finds once where its first element
// lies. From there on it counts: within the near dimensions, along the next one, and at most once into the plane after that
// one. So places divide by the sizes of near dimensions only.
uint size_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS); }
uint inverse_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 1u); }
uint stride_of(uint dim) { return layout_word(dim * RUN_DIM_WORDS + 2u); }

const uint ALONG = DIMS - 1u - NEAR_DIMS; // the dimension along which the near ones are repeated

// Elements are counted from the start of the near dimensions in which the workgroup's first element lies.
uint first_element; // of the workgroup, in the run
uint first_count;
uint plane_end;    // the count with which the next plane begins
uint plane_source; // where the element of count 0 lies, and where it would lie in the next plane
uint next_plane_source;

void find_plane(uint first) {
    first_element = first;
    uint number = first, near = 1u;
    first_count = 0u;
    for (uint dim = DIMS - 1u; dim > ALONG; dim--) {
        uint coordinate;
        number = divide(number, size_of(dim), inverse_of(dim), coordinate);
        first_count += coordinate * near;
        near *= size_of(dim);
    }
    uint along = number;
    if (ALONG != 0u) number = divide(number, size_of(ALONG), inverse_of(ALONG), along);
    plane_end = (size_of(ALONG) - along) * near;
    plane_source = input_base + along * stride_of(ALONG);
    next_plane_source = plane_source - size_of(ALONG) * stride_of(ALONG);
    bool ends = true;
    for (uint dim = ALONG; dim-- > 0u;) {
        uint coordinate = number;
        if (dim != 0u) number = divide(number, size_of(dim), inverse_of(dim), coordinate);
        plane_source += coordinate * stride_of(dim);
        bool wraps = dim != 0u && ends && coordinate + 1u == size_of(dim);
        next_plane_source += (wraps ? 0u : coordinate + uint(ends)) * stride_of(dim);
        ends = wraps;
    }
}

// Counts times sizes of near dimensions are below 2^32: their quotients are exact.
uint small_quotient(uint number, uint dim) {
    uint quotient, low;
    umulExtended(number, inverse_of(dim) + 1u, quotient, low);
    return quotient;
}

uint source_of(uint count, bool inside) {
    uint source = inside || ALONG == 0u || count < plane_end ? plane_source : next_plane_source;
    source += count * stride_of(DIMS - 1u);
    for (uint dim = DIMS - 1u; dim > ALONG; dim--) {
        count = small_quotient(count, dim);
        source += count * (stride_of(dim - 1u) - size_of(dim) * stride_of(dim));
    }
    return source;
}
