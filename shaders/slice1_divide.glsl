// Divides by a size, given 2^32 divided by it: a division takes as long as all else. Returns the quotient.
uint divide(uint number, uint size, uint inverse, out uint remainder) {
    uint quotient, low;
    umulExtended(number, inverse, quotient, low);
    remainder = number - quotient * size;
    bool more = remainder >= size;
    remainder -= more ? size : 0u;
    return quotient + uint(more);
}
