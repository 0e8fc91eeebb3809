// Which share of the output a workgroup has. Parts of the output may be made of the same memory. Workgroups that follow each
// other run at the same time, so each of them then has a share of another part, and a cache holds what these have in common.
// Shares at the end, which fill no turn, stay as they are.
uint share_of_workgroup() {
    uint workgroup = gl_WorkGroupID.x;
    if (PARTS_IN_TURN == 1u) return workgroup;
    uint turn = workgroup / PARTS_IN_TURN, part = workgroup - turn * PARTS_IN_TURN, group = turn / shares_in_turn;
    uint shares = PARTS_IN_TURN * shares_in_turn;
    if ((group + 1u) * shares > gl_NumWorkGroups.x) return workgroup;
    return group * shares + part * shares_in_turn + (turn - group * shares_in_turn);
}
