"""Makes the devices of this process behave as those whose memory the host does not see; for tests only.

Software drivers share their memory with the host, so that nothing is copied to a device and back. With
VKDML_TEST_MEMORY=discrete theirs is taken for a discrete device's: arrays lie in buffers that are not mapped.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from vkdml import _native
from vkdml.runtime import device_info, memory

VARIABLE = "VKDML_TEST_MEMORY"
# Small, and no power of two: what tests transfer goes in several pieces, at starts of all kinds.
STAGING_BYTES = 1000
# Results of tests lie on both sides of it.
HOST_MEMORY_BYTES = 256
# Arrays of tests, too.
MAPPED_BYTES = 512


def wanted() -> bool:
    """Whether the environment asks for it."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "discrete"):
        raise ValueError(f"{VARIABLE}={value} is neither 'discrete' nor empty")
    return value == "discrete"


def force() -> None:
    """From now on, devices that are opened have memory of their own."""
    describe, tuning_for = _native.devices, device_info.tuning_for

    def discrete() -> list[dict[str, Any]]:
        return [{**description, "unified_memory": False} for description in describe()]

    def tuned(*what: str) -> Any:
        return dataclasses.replace(
            tuning_for(*what),
            host_memory_bytes=HOST_MEMORY_BYTES,
            mapped_bytes=MAPPED_BYTES,
        )

    _native.devices = discrete
    device_info.tuning_for = tuned
    memory.STAGING_BYTES = STAGING_BYTES
