"""How the work of ``argreduce_combine`` is divided, which finds the best of the columns that periods left."""

from __future__ import annotations

from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.loop_steps import PeriodLoops
from vkdml.plan.plans import DeviceLimits, power_of_two_at_least, power_of_two_up_to
from vkdml.plan.reduce.reductions import settled_splits
from vkdml.plan.reduce.work_division import Share

# Candidates that an invocation loads at once: a batch.
_BATCH = kernels.number("candidates_at_once")
# Measured on 140 reductions in up to 25 divisions each (H200). A GPU's invocations are at most those of
# `split_workgroups` times this: more of them wait longer for each other than fewer load batch after batch.
_BUSY_SHARE = 2 / 3
# Batches of an invocation that take less time than to store the candidates of splits and to load them again.
_UNSPLIT_BATCHES = 3
# Times the usual workgroup, where that had more than one batch: fewer batches for the same candidates.
_WIDE = 2


@dataclass(frozen=True)
class CombineDivision:
    """Workgroups, and what each of them combines."""

    workgroup_size: int
    lanes: int
    blocks: int
    splits: int
    candidates_per_split: int
    loop_steps: int


def combine_division(
    layout: ReduceLayout, candidates: int, candidate_dims: int, limits: DeviceLimits
) -> CombineDivision:
    """Return how the work is divided.

    Args:
        layout: of the reduction.
        candidates: of each output.
        candidate_dims: dimensions that the candidates of an output have.
        limits: of the device.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    share_of = _share_on_processor if limits.tuning.is_processor else _share_on_gpu
    wanted = share_of(layout.outputs, candidates, limits)
    blocks = ceil_div(layout.outputs, wanted.workgroup_size // wanted.lanes)

    def loop_steps(splits: int) -> int:
        loops = PeriodLoops(wanted.workgroup_size, limits.max_workgroup_count)
        counts = (len(layout.kept), len(layout.reduced), candidate_dims)
        return loops.combine(blocks, splits, *counts, ceil_div(candidates, splits), wanted.lanes)

    most = ceil_div(candidates, wanted.lanes * _BATCH)
    splits, share = settled_splits(min(wanted.splits, most), most, candidates, blocks, loop_steps, limits)
    return CombineDivision(wanted.workgroup_size, wanted.lanes, blocks, splits, share, loop_steps(splits))


def _share_on_gpu(outputs: int, candidates: int, limits: DeviceLimits) -> Share:
    usual = limits.workgroup_size
    workgroups = limits.tuning.split_workgroups * _BUSY_SHARE
    busy = power_of_two_up_to(int(workgroups * usual) // outputs)
    wide = limits.with_workgroup_size(_WIDE * usual).workgroup_size
    is_wide = candidates > usual * _BATCH and busy >= wide
    workgroup_size = wide if is_wide else usual
    lanes = min(workgroup_size, busy, power_of_two_at_least(ceil_div(candidates, _BATCH)))
    if lanes < workgroup_size or candidates <= _UNSPLIT_BATCHES * lanes * _BATCH:
        return Share(workgroup_size, lanes, 1)
    return Share(usual, usual, max(int(workgroups) // outputs, 1))


def _share_on_processor(outputs: int, candidates: int, limits: DeviceLimits) -> Share:
    workgroup_size, workgroups = limits.workgroup_size, limits.tuning.target_workgroups
    filling = power_of_two_at_least(ceil_div(workgroups * workgroup_size, outputs))
    lanes = min(workgroup_size, filling, power_of_two_at_least(ceil_div(candidates, _BATCH)))
    blocks = ceil_div(outputs, workgroup_size // lanes)
    return Share(workgroup_size, lanes, ceil_div(workgroups, blocks))
