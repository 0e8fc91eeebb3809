"""How many rounds the workgroups of a copy make; each kernel's file says of what."""

from __future__ import annotations

from vkdml.common.rounding import ceil_div
from vkdml.plan.plans import DeviceLimits


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
