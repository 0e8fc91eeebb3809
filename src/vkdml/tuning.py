"""All tuning numbers, one plain struct per device class. They change speed, never results."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tuning:
    """Sizes that the planner and the runtime take from here and from nowhere else."""

    workgroup_size: int
    """Invocations per workgroup, a power of two; the device's limit may lower it."""
    rows_batch: int
    """16-byte loads of one invocation between two updates of its candidate."""
    vectors_per_lane: int
    """16-byte vectors of a row that one invocation takes while there are rows enough to fill the device."""
    columns_batch: int
    """Positions of one invocation between two updates of its candidate."""
    positions_per_lane: int
    """The same along a stride: positions that one invocation takes."""
    tile_bytes: int
    """Bytes of a contiguous run that one workgroup takes at a time."""
    target_workgroups: int
    """Workgroups that fill the device: fewer outputs than that are split."""
    shortest_row_bytes: int
    """Contiguous runs shorter than this are read element by element."""
    positions_per_split: int
    """A split along a stride has at least so many positions for each invocation."""
    spin_microseconds: float
    """How long a wait polls before it blocks."""
    cached_execution_bytes: int
    """Recorded plans with buffers of at most this size are kept for the next call."""
    execution_cache_bytes: int
    """Bytes that all recorded plans of a device may keep."""
    execution_cache_count: int
    """How many of them may be kept: drivers limit the number of allocations."""


_MIB = 1 << 20

DISCRETE = Tuning(
    workgroup_size=256,
    rows_batch=4,
    vectors_per_lane=4,
    columns_batch=8,
    positions_per_lane=8,
    tile_bytes=64 * 1024,
    target_workgroups=2048,
    shortest_row_bytes=64,
    positions_per_split=64,
    spin_microseconds=1000.0,
    cached_execution_bytes=64 * _MIB,
    execution_cache_bytes=256 * _MIB,
    execution_cache_count=256,
)
TUNING = {
    "discrete": DISCRETE,
    "integrated": replace(DISCRETE, tile_bytes=32 * 1024, target_workgroups=256),
    # A barrier costs a processor more than a load.
    "software": replace(
        DISCRETE,
        workgroup_size=128,
        rows_batch=8,
        vectors_per_lane=512,
        positions_per_lane=1024,
        target_workgroups=32,
    ),
}


def tuning_for(device_type: str) -> Tuning:
    """Return the struct of a device class; classes without one of their own are taken for discrete.

    >>> tuning_for("software").workgroup_size
    128
    """
    return TUNING.get(device_type, DISCRETE)
