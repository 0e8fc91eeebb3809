"""How the work of a reduction is divided: what rows and columns share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vkdml.plan.layout import MemoryOrder, ReduceLayout
from vkdml.plan.loop_steps import ReduceLoops
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.schema import Family


class Share(NamedTuple):
    """How many invocations process an output, in how many splits."""

    workgroup_size: int
    lanes: int
    """Invocations that process an output together."""
    splits: int
    """Of each output."""
    parts: int = 1
    """Into which a workgroup divides its split of each output."""


@dataclass(frozen=True)
class WorkDivision:
    """How the work is divided; see the push constants in ``shaders/kernels.json``."""

    family: Family
    variant: dict[str, int | str]
    """Values of the family's axes, and of the constants that remove code which this plan does not need."""
    lanes: int
    blocks: int
    """Workgroups of each split."""
    splits: int
    run: int
    tiles_per_run: int
    tile_vectors: int
    positions_per_split: int
    loop_steps: int
    """Steps that the loops of one invocation make at most."""
    subgroup_size: int = 0
    positions_adjacent: bool = False
    writes_vectors: bool = False
    """Whether invocations write vectors of results."""
    reading: MemoryOrder | None = None
    """In which order the elements are read, if not in that of positions."""


def loops_of(
    layout: ReduceLayout, limits: DeviceLimits, lanes: int, blocks: int, splits: int, subgroup_size: int = 0
) -> ReduceLoops:
    """Return what counts the loops of a kernel that divides the work so."""
    return ReduceLoops(
        limits.workgroup_size,
        subgroup_size,
        lanes,
        len(layout.kept),
        len(layout.reduced),
        blocks,
        splits,
        limits.max_workgroup_count,
    )


def subgroup_size_of(limits: DeviceLimits) -> int:
    """Return the subgroup size that rows require; 0 where invocations exchange by shared memory."""
    size, workgroup_size = limits.subgroup_size, limits.workgroup_size
    if not limits.tuning.subgroups or not size:
        return 0
    are_full = workgroup_size % size == 0 and workgroup_size <= size * limits.max_subgroups
    return size if are_full else 0


def are_multiples(offsets: Iterable[int], step: int) -> bool:
    """Whether all of these are multiples of a step."""
    return all(offset % step == 0 for offset in offsets)
