// Barriers of kernels that software drivers execute, too.
//
// lavapipe executes a subgroup in one thread, each instruction for all of its invocations. At a barrier of execution, and in
// older versions at one of memory whose scope is wider, it suspends the subgroup: a kernel that has one, reached or not,
// keeps its variables in memory, not in registers, and takes twice as long. Where a workgroup is one such subgroup, its
// invocations are never apart, and it takes an order of memory only to keep compilers from changing that of accesses.
#if SUBGROUPS
#define workgroup_barrier barrier
#define scratch_barrier memoryBarrierBuffer
#define shared_barrier memoryBarrierShared
#else
#define shared_barrier subgroupMemoryBarrierShared // for workgroups of one subgroup

void workgroup_barrier() {
    if (ONE_SUBGROUP) subgroupMemoryBarrier();
    else barrier();
}

// Orders accesses to scratch memory, also for other workgroups: lavapipe's atomics order all memory.
void scratch_barrier() {
    if (ONE_SUBGROUP) subgroupMemoryBarrierBuffer();
    else memoryBarrierBuffer();
}

#endif
