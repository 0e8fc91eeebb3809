"""How large the workgroups of a copy are, and what they take in turn; each kernel's file says of what."""

from __future__ import annotations

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan.plans import DeviceLimits, power_of_two_at_least
from vkdml.plan.tuning import SliceTuning

LEAST_WORKGROUP = 32


def rounds_of_workgroup(items: int, workgroup_size: int, most: int, limits: DeviceLimits) -> int:
    """Return the rounds in which a workgroup has an item for each of its invocations.

    They are as many as leave ``full_workgroups``, but no more than ``most`` unless the device has no room for
    so many workgroups.

    >>> from vkdml.plan.device_classes import SOFTWARE
    >>> limits = DeviceLimits(SOFTWARE, 1 << 30, 65535, 1024, 32768)
    >>> [rounds_of_workgroup(items, 8, 256, limits) for items in (100, 1280, 10**6, 10**9)]
    [1, 10, 256, 1908]
    """
    rounds = min(items // (workgroup_size * limits.tuning.slice1.full_workgroups), most)
    return max(rounds, 1, ceil_div(items, workgroup_size * limits.max_workgroup_count))


def workgroup_of_fewest_rounds(items: int, most: int, least: int = 0) -> int:
    """Return invocations that take the items in the fewest rounds, each of which occupies nearly all of them.

    >>> [workgroup_of_fewest_rounds(items, 256) for items in (20, 256, 300)]
    [32, 256, 160]
    """
    wanted = max(ceil_div(items, ceil_div(items, most)), least)
    return min(round_up(wanted, LEAST_WORKGROUP), most)


def band_of(tiles_down: int, most: int, tuning: SliceTuning) -> int:
    """Return the tiles of a band: all below each other if they are at most so many."""
    return max(power_of_two_at_least(tiles_down) if tiles_down <= most else 0, tuning.tile_band)
