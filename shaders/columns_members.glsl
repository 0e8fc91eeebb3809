// Exchanges the best of the invocations that share the positions of a group.

// Gives the first member the best of all members; `side` groups lie side by side in the workgroup. All invocations of
// the workgroup must call it; those with a member number from `lanes` on take no part.
void reduce_members(inout Best best, uint member, uint place, uint side) {
    for (uint count = lanes; count > 1u;) {
        uint half_count = (count + 1u) / 2u;
        if (member >= half_count && member < count)
            [[unroll]] for (uint i = 0u; i < PARTS; i++)
                put_part(part_word(i, (member - half_count) * side + place), best.parts[i]);
        workgroup_barrier();
        if (member + half_count < count)
            [[unroll]] for (uint i = 0u; i < PARTS; i++)
                keep(best.parts[i], part_at(part_word(i, member * side + place)));
        workgroup_barrier();
        count = half_count;
    }
}
