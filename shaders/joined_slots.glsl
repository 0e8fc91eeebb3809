// Shared memory for the best of each column of a workgroup: a slot a column. It is that in which invocations exchanged
// their parts.
//
// Invocations store COLUMNS neighbouring slots each. The order of slots within so many words changes from row to row of
// memory banks, so that neighbouring invocations use different banks.
uint spread(uint slot) { return slot ^ (slot / 32u % COLUMNS); }

#if ELEMENT_BYTES < 4

void put_slot(uint slot, Part part, uint column) { shared_parts[spread(slot)] = NARROW_COLUMN(part, column); }

void get_slot(uint slot, out Key key, out uint rank) {
    uint word = shared_parts[spread(slot)], low = word & RANK_MASK;
    key = word >> TOP_SHIFT;
    rank = RANK_OF_LOW(low);
}

#else

#define SLOTS (SHARED_STEP * COLUMNS)

void put_slot(uint slot, Part part, uint column) {
    uint word = spread(slot);
    STORE_KEY_APART(shared_parts, word, SLOTS, part.key);
    shared_parts[word + uint(KEY_WORDS) * SLOTS] = part.rank;
}

void get_slot(uint slot, out Key key, out uint rank) {
    uint word = spread(slot);
    key = LOAD_KEY_APART(shared_parts, word, SLOTS);
    rank = shared_parts[word + uint(KEY_WORDS) * SLOTS];
}

#endif
