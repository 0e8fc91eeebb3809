// The order of a matrix's tiles: in bands of BAND tiles down, each from top to bottom and then across. Tiles that run at
// the same time then share what lies side by side in the input as well as in the output.

// Returns which tile down, and which across, tile `number` of a matrix is.
uvec2 place_of_tile(uint number) {
    uint rest, band = divide(number, BAND * tiles_across, tiles_in_band_inverse, rest), first = band * BAND;
    uint height = min(BAND, tiles_down - first);
    uint across = height == BAND ? rest / BAND : rest / height; // a constant divides at once
    return uvec2(first + rest - across * height, across);
}
