"""Whether the driver that DRIVER names in the environment of `./run` is the one that is found."""

from __future__ import annotations

import vkdml

# What the drivers call themselves.
NAMES = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader driver"}


def fault(asked: str) -> str | None:
    """Say what was found instead of the driver asked for; None where nothing is asked, or all is well."""
    if asked not in NAMES:
        return None
    try:
        found = {info.driver_name for info in vkdml.devices()}
    except vkdml.DeviceError as error:
        return f"DRIVER={asked} was asked for, and there is no device: {error}"
    if found == {NAMES[asked]}:
        return None
    return f"DRIVER={asked} was asked for ({NAMES[asked]}), and what was found is {', '.join(sorted(found))}"
