// Narrow elements at equal distances, out of words that lie side by side in memory.

// Returns every second element of pairs of words, beginning with the first.
uvec4 every_second(uvec4 low, uvec4 high) {
    if (ELEMENT_BYTES == 1) {
        low &= 0x00ff00ffu;
        high &= 0x00ff00ffu;
        low |= low >> 8;
        high |= high >> 8;
    }
    return (low & 0xffffu) | high << 16;
}

// Returns every third element of three words, beginning with the first.
uvec4 every_third(uvec4 low, uvec4 middle, uvec4 high) {
    if (ELEMENT_BYTES == 1)
        return (low & 0xffu) | low >> 24 << 8 | (middle & 0xff0000u) | (high & 0xff00u) << 16;
    return (low & 0xffffu) | (middle & 0xffff0000u);
}
