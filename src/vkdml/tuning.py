"""All tuning numbers, one plain struct per device class. They change speed, never results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Sizes that the planner and the runtime take from here and from nowhere else."""

    workgroup_size: int
    """Invocations per workgroup, a power of two; the device's limit may lower it."""
    rows_batch: int
    """16-byte loads of one invocation between two updates of its candidate."""
    columns_batch: int
    """Positions of one invocation between two updates of its candidate."""
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


_MIB = 1 << 20

TUNING = {
    "discrete": Tuning(256, 4, 8, 64 * 1024, 2048, 64, 64, 1000.0, 64 * _MIB, 256 * _MIB),
    "integrated": Tuning(256, 4, 8, 32 * 1024, 256, 64, 64, 1000.0, 64 * _MIB, 256 * _MIB),
    "software": Tuning(128, 8, 8, 64 * 1024, 32, 64, 64, 1000.0, 64 * _MIB, 256 * _MIB),
}


def tuning_for(device_type: str) -> Tuning:
    """Return the struct of a device class; classes without one of their own are taken for discrete.

    >>> tuning_for("software").workgroup_size
    128
    """
    return TUNING.get(device_type, TUNING["discrete"])
