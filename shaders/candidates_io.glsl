// Candidates in the workspace, one per output and split: the key's words, then the rank.
#define CANDIDATE_WORDS (KEY_WORDS + 1)

uint candidate_word(uint number, uint split) {
    return candidates_base + (number * splits + split) * CANDIDATE_WORDS;
}

void store_candidate(uint number, uint split, Key key, uint rank) {
    uint word = candidate_word(number, split);
#if KEY_WORDS == 2
    workspace[word] = key.x;
    workspace[word + 1u] = key.y;
#else
    workspace[word] = key;
#endif
    workspace[word + KEY_WORDS] = rank;
}

void load_candidate(uint number, uint split, out Key key, out uint rank) {
    uint word = candidate_word(number, split);
#if KEY_WORDS == 2
    key = Key(workspace[word], workspace[word + 1u]);
#else
    key = workspace[word];
#endif
    rank = workspace[word + KEY_WORDS];
}

void finish_candidate(uint number, uint split, Key key, uint rank) {
    if (splits == 1u) write_result(number, position_of(rank));
    else store_candidate(number, split, key, rank);
}
